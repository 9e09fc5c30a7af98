#!/usr/bin/env bash
# Runs the steps of action.yml as GitHub does, for a pull request that makes the server beside it slower, and one that changes a comment.
# Needs webstone on the path, cargo and git. usage: try.sh
set -euo pipefail
[ $# -eq 0 ] || { printf 'error: unexpected argument `%s`\n' "$1" >&2; exit 1; }
here=$(cd "$(dirname "$0")" && pwd)
steps=$here/../../.github/duel
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

git init --quiet --initial-branch main "$work/clone"
cd "$work/clone"
git config user.name example
git config user.email example@example.org
cp -r "$here/Cargo.toml" "$here/Cargo.lock" "$here/src" .
echo /target >.gitignore
git add . && git commit --quiet --message "A server that greets"
git switch --quiet --create same && sed -i 's/that greets/that says hello/' src/main.rs && git commit --quiet --all --message "Other words"
git switch --quiet --create slower main && sed -i 's/ROUNDS: u32 = 1;/ROUNDS: u32 = 2_000;/' src/main.rs
git commit --quiet --all --message "Hash more"

# A stand-in for GitHub's client, which shows what would be the comment.
mkdir "$work/bin"
cat >"$work/bin/gh" <<'GH'
#!/bin/sh
echo "gh $*"
GH
chmod +x "$work/bin/gh"
export PATH=$work/bin:$PATH GITHUB_REPOSITORY=example/hello NUMBER=1 GH_TOKEN=none
export BUILD='cargo build --release --quiet' SERVE='./target/release/hello {port}' BASE=main PRECISION=1% AT_MOST=2m FAIL_IF='cpu > +3%'
export OPTIONS='' UNDECIDED=pass

# duel BRANCH EXPECTED-EXIT-CODE
duel() {
  export RUNNER_TEMP=$work/$1 HEAD=$1
  export GITHUB_OUTPUT=$RUNNER_TEMP/output GITHUB_PATH=$RUNNER_TEMP/path GITHUB_STEP_SUMMARY=$RUNNER_TEMP/summary.md
  mkdir "$RUNNER_TEMP"
  REPOSITORY=example/webstone TAG=v0 "$steps/install.sh"
  "$steps/run.sh"
  CODE=$(sed -n 's/^code=//p' "$GITHUB_OUTPUT") REPORT=$(sed -n 's/^report=//p' "$GITHUB_OUTPUT")
  export CODE REPORT
  cat "$REPORT"
  "$steps/comment.sh"
  local status=0
  "$steps/verdict.sh" || status=$?
  echo "== $1: exit code $status, expected $2"
  [ "$status" = "$2" ]
}
duel same 0
duel slower 3
