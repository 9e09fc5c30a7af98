#!/usr/bin/env bash
# Runs a command with a cluster, and stops the cluster whatever becomes of the command, Ctrl-C included.
# usage: with.sh DIR COMMAND [ARGUMENT…]
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
dir=$1
shift
command=
finish() {
  trap '' INT TERM HUP
  # All of its process group: what it started must not go on without a cluster.
  [ -n "$command" ] && kill -- "-$command" 2>/dev/null && wait "$command"
  "$here/down.sh" "$dir"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
"$here/up.sh" "$dir" || exit 1
# Job control gives the command a process group of its own.
set -m
"$@" </dev/null &
command=$!
wait "$command"
status=$?
command=
exit "$status"
