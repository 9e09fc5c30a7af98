#!/usr/bin/env bash
# Writes REPORT as a comment on pull request NUMBER, over the comment of the push before. A fork's token may not comment: no failure.
set -uo pipefail
gh pr comment "$NUMBER" --repo "$GITHUB_REPOSITORY" --body-file "$REPORT" --edit-last --create-if-none ||
  echo "::warning::no comment: the token may not write to pull requests; the report is in the job's summary"
