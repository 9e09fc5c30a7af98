#!/usr/bin/env bash
# Installs each package of `cargo xtask release` in a clean Debian without a network, runs a benchmark with it, and prints what that
# took. As root. Debian is unpacked once, in `packages-root` of the target directory.
# usage: try.sh
set -euo pipefail
[ $# -eq 0 ] || { printf 'error: unexpected argument `%s`\n' "$1" >&2; exit 1; }
cd "$(dirname "$0")/../.."
build=$(realpath -m "${CARGO_TARGET_DIR:-target}")
packages=$build/packages
base=$build/packages-root
machine=$(uname -m)
fail() { printf 'error: %s\nhint: %s\n' "$1" "$2" >&2; exit 1; }
[ "$(id -u)" = 0 ] || fail "a clean root needs chroot, which root alone may call" "sudo --preserve-env=PATH cargo xtask packages"
[ -f "$packages/SHA256SUMS" ] || fail "$packages/SHA256SUMS does not exist" "cargo xtask release"

if [ ! -f "$base/done" ]; then
  debootstrap --quiet --variant=minbase --include=python3-venv,rpm bookworm "$base"
  touch "$base/done"
fi
# What follows has mounts, processes and a network of its own, which end with it.
if [ -z "${WEBSTONE_PACKAGES_APART:-}" ]; then
  WEBSTONE_PACKAGES_APART=1 exec unshare --mount --net --pid --fork --kill-child --mount-proc "$0"
fi
ip link set lo up
work=$(mktemp -d)
trap 'umount --lazy --recursive "$work" 2>/dev/null; rm -rf "$work"' EXIT
mount -t tmpfs -o mode=755 packages "$work"

cd "$packages"
sha256sum --quiet --check SHA256SUMS
if [ -f SHA256SUMS.sig ]; then
  ssh-keygen -q -Y check-novalidate -n file -s SHA256SUMS.sig <SHA256SUMS
  echo "check sums: match, signed"
else
  echo "check sums: match, not signed"
fi

mount_kernel() {
  mkdir -p "$root/proc" "$root/sys"
  mount -t proc proc "$root/proc"
  mount -t sysfs sys "$root/sys"
}
# A root of its own for one way of installing: Debian's below, what is written above.
clean_root() {
  root=$work/$1
  mkdir -p "$work/$1" "$work/$1.upper" "$work/$1.work"
  mount -t overlay -o "lowerdir=$base,upperdir=$work/$1.upper,workdir=$work/$1.work" overlay "$root"
  mount_kernel
  cp -- "${@:2}" "$root/root/"
}
inside() { chroot "$root" /usr/bin/env -i PATH="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" HOME=/root "$@"; }
now() { date +%s%N; }
seconds() { awk "BEGIN { printf \"%.2f\", ($2 - $1) / 1e9 }"; }
megabytes() { awk "BEGIN { printf \"%.1f\", $(stat -c %s "$1") / 1e6 }"; }
rows=()
# try NAME FILE INSTALL-COMMAND: then the program is on the path and benchmarks.
try() {
  local name=$1 file=$2 start installed reported
  start=$(now)
  inside sh -ec "cd /root && $3" >"$work/log" 2>&1 || { cat "$work/log"; fail "$name: not installed" "read what it says above"; }
  installed=$(now)
  benchmark "$name" inside webstone
  reported=$(now)
  rows+=("$(printf '%-16s %6s %10s %16s' "$name" "$(megabytes "$file")" \
    "$(seconds "$start" "$installed")" "$(seconds "$installed" "$reported")")")
}
# benchmark NAME COMMAND…: its version, and a report of a run of one second. A busy machine may leave nothing to conclude.
benchmark() {
  local name=$1 status=0
  shift
  "$@" --version | grep -q "^webstone $version" || fail "$name: --version does not say $version" "which program is it?"
  "$@" run --clients 2 --duration 1s --runs-dir /tmp/runs >"$work/log" 2>&1 || status=$?
  [ "$status" = 0 ] || [ "$status" = 4 ] || { cat "$work/log"; fail "$name: exit code $status" "read what it says above"; }
  grep -q 'requests/s at 2 clients' "$work/log" || { cat "$work/log"; fail "$name: no report" "read what it says above"; }
  "$@" verify "/tmp/runs/$(ls "$root/tmp/runs" | grep webstone$)" >"$work/log" 2>&1 || { cat "$work/log"; fail "$name: the record is not right" "read what it says above"; }
}

archive=$(echo webstone-*-"$machine"-unknown-linux-musl.tar.gz)
folder=${archive%.tar.gz}
version=${folder#webstone-} version=${version%%-*}
deb=$(echo webstone_*_"$(dpkg --print-architecture)".deb)
rpm=$(echo webstone-*."$machine".rpm)
wheel=$(echo webstone-*"$machine".whl)

clean_root tar "$archive"
try "tar.gz" "$archive" "tar -xzf $archive && cp $folder/webstone /usr/local/bin/"
clean_root deb "$deb"
try ".deb" "$deb" "dpkg --install $deb"
inside test -s /usr/share/man/man1/webstone-run.1.gz || fail ".deb has no manual pages" "see crates/cli/Cargo.toml"
clean_root rpm "$rpm"
# Debian's shell is in no package of rpm's.
try ".rpm" "$rpm" "rpm --install --nodeps $rpm"
inside test -s /usr/share/bash-completion/completions/webstone || fail ".rpm has no completions" "see crates/cli/Cargo.toml"
clean_root wheel "$wheel"
try "wheel" "$wheel" "python3 -m venv /usr/local/venv && /usr/local/venv/bin/pip install --no-index $wheel && ln -s /usr/local/venv/bin/webstone /usr/local/bin/"

# Nothing but the program: it needs neither a shell nor a library.
image=$(echo webstone-*-image.tar)
root=$work/image
mkdir "$work/layout" "$root"
tar -xf "$image" -C "$work/layout"
layer() { # ARCHITECTURE DIRECTORY: unpacks the layers of the image as its index, manifest and digests say.
  python3 - "$work/layout" "$1" "$2" <<'PYTHON'
import hashlib, io, json, os, sys, tarfile
layout, architecture, out = sys.argv[1:]
def blob(item):
    content = open(os.path.join(layout, "blobs", item["digest"].replace(":", "/")), "rb").read()
    assert "sha256:" + hashlib.sha256(content).hexdigest() == item["digest"] and len(content) == item["size"]
    return content
index = json.loads(blob(json.load(open(os.path.join(layout, "index.json")))["manifests"][0]))
manifest = next(m for m in index["manifests"] if m["platform"]["architecture"] == architecture)
for item in json.loads(blob(manifest))["layers"]:
    tarfile.open(fileobj=io.BytesIO(blob(item))).extractall(out)
PYTHON
}
start=$(now)
case $machine in x86_64) layer amd64 "$root" ;; *) layer arm64 "$root" ;; esac
mount_kernel
installed=$(now)
benchmark image chroot "$root" /bin/webstone
rows+=("$(printf '%-16s %6s %10s %16s' "image" "$(megabytes "$image")" "$(seconds "$start" "$installed")" "$(seconds "$installed" "$(now)")")")

# The program for the other architecture, emulated: a server and a load generator, each a process of its own.
other=aarch64 emulator=qemu-aarch64
[ "$machine" = x86_64 ] || other=x86_64 emulator=qemu-x86_64
for archive in webstone-*-"$other"-unknown-linux-musl.tar.gz; do
  [ -f "$archive" ] || break
  tar -xzf "$archive" -C "$work"
  program=$work/${archive%.tar.gz}/webstone
  "$emulator" "$program" --version | grep -q "^webstone $version"
  "$emulator" "$program" serve --listen 127.0.0.1:8088 >"$work/serve" 2>&1 &
  server=$!
  for _ in $(seq 100); do grep -q 8088 "$work/serve" && break; sleep 0.1; done
  "$emulator" "$program" hit -n 100 -c 2 http://127.0.0.1:8088/file500.html >"$work/log" 2>&1 || { cat "$work/log"; fail "$other: no report" "read what it says above"; }
  kill "$server"
  echo "$other under $emulator: version, and 100 requests to its own server"
done

printf '%-16s %6s %10s %16s\n' "installed from" "MB" "install, s" "first report, s"
printf '%s\n' "${rows[@]}"
