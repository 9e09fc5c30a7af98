#!/usr/bin/env bash
# Ends as the duel has ended; where it could not be decided, as UNDECIDED says.
set -uo pipefail
case ${CODE:-} in
  0) ;;
  3) echo "::error::the change is beyond the limit of fail-if" && exit 3 ;;
  5)
    echo "::warning::the condition of fail-if could not be decided in the time: raise at-most"
    [ "$UNDECIDED" != fail ] || exit 5
    ;;
  *) echo "::error::webstone duel ended with exit code ${CODE:-none}" && exit "${CODE:-1}" ;;
esac
