#!/usr/bin/env bash
# Compares BASE and HEAD. Leaves the exit code and the report to later steps, and the report in the job's summary.
set -uo pipefail
report=$RUNNER_TEMP/duel.md
rm -f "$report"
words=(duel "$BASE" "$HEAD" --build "$BUILD" --serve "$SERVE" --precision "$PRECISION" --at-most "$AT_MOST")
[ -z "$FAIL_IF" ] || words+=(--fail-if "$FAIL_IF")
# Split into words: they are options.
# shellcheck disable=SC2206
words+=($OPTIONS --format markdown -o "$report")
code=0
webstone "${words[@]}" || code=$?
echo "code=$code" >>"$GITHUB_OUTPUT"
if [ -s "$report" ]; then
  echo "report=$report" >>"$GITHUB_OUTPUT"
  cat "$report" >>"$GITHUB_STEP_SUMMARY"
fi
