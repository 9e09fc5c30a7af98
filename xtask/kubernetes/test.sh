#!/usr/bin/env bash
# Tests load generators in pods of a Kubernetes cluster of one node, which is built once with Go, started, and stopped again.
# usage: test.sh [PART OF A TEST'S NAME]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../.."
filter=${1:-}
target=x86_64-unknown-linux-musl # in a container from scratch nothing may be linked dynamically
dir=$PWD/target/kubernetes
program=$PWD/target/$target/release/webstone
fail() { printf 'error: %s\nhint: %s\n' "$1" "$2" >&2; exit 1; }

[[ $filter != -* && $# -le 1 ]] || fail "unexpected argument \`$*\`" "part of a test's name, or nothing for all tests"
[ "$(id -u)" = 0 ] || fail "a cluster's containers and bridge need root" "sudo --preserve-env=PATH cargo xtask kubernetes"
command -v go >/dev/null || fail "Kubernetes is built with Go, which is not installed" "https://go.dev/dl/, 1.23 or later"
"$here/build.sh" "$dir"
rustup target list --installed | grep -qx "$target" || rustup target add "$target"
cargo build --release --target "$target" --package webstone --bin webstone
python3 "$here/image.py" docker.io/library/webstone:test "$program" "$dir/webstone.tar"
# Before the cluster runs, so that it runs only as long as the tests.
cargo test --package webstone --test cli --no-run
export WEBSTONE_CLUSTER=$dir WEBSTONE_CLUSTER_PROGRAM=$program WEBSTONE_CLUSTER_UP=$here/up.sh
# One after another: they share one node, and one of them ends its API server.
"$here/with.sh" "$dir" cargo test --package webstone --test cli -- --ignored --nocapture --test-threads 1 "cluster::$filter" ||
  fail "tests failed" "what the cluster's programs said is in $dir/*.log"
