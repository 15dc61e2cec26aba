#!/bin/bash
# Checks the documents against the code: versions, recipes, packages, links.
#   check_docs.sh ROOT        prints each difference and fails if there is one
#   check_docs.sh --self-test plants faults in a copy of the checked files and fails unless each is caught
set -euo pipefail

report() {
  echo "$1"
  bad=1
}

check() {
  cd "$1"
  bad=0
  local stated coded name package file target
  stated=$(sed -n 's/^numerics_version: //p' docs/numerics.md)
  coded=$(sed -n 's/.*kNumericsVersion = \([0-9]*\);.*/\1/p' reference/contract/numerics_version.h)
  [ -n "$coded" ] && [ "$stated" = "$coded" ] || report "docs/numerics.md: numerics_version '$stated', the code has '$coded'"

  for file in cli/train/recipes/*.toml; do
    name=$(basename "$file" .toml)
    grep -q "^| $name |" docs/recipes.md || report "docs/recipes.md: no row for recipe $name"
  done

  for package in $(tr '\n' ' ' < dev | grep -oE '[A-Z]+_PACKAGES=\([^)]*' | sed 's/.*(//'); do
    grep -qF -- "$package" docs/dependencies.md || report "docs/dependencies.md: nothing about $package"
  done

  for file in *.md docs/*.md bench/peers/*.md; do
    for target in $(grep -oE '\]\([^)#]+' "$file" | sed 's/](//' | grep -v '^https\?:' || true); do
      [ -e "$(dirname "$file")/$target" ] || report "$file: link to $target, which does not exist"
    done
  done
  [ "$bad" = 0 ] && echo "documents agree with the code"
  return "$bad"
}

# Each row: a file and a sed command that makes it wrong.
self_test() {
  local root scratch failures=0 file edit
  root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
  scratch=$(mktemp -d)
  trap "rm -rf '$scratch'" EXIT
  while IFS='|' read -r file edit; do
    rm -rf "$scratch/tree"
    mkdir "$scratch/tree"
    (cd "$root" && tar -cf - --exclude=build --exclude=golden --exclude=out -- *.md docs bench cli gpu reference fuzz tests dev LICENSE) |
      tar -xf - -C "$scratch/tree"
    (check "$scratch/tree") > "$scratch/out" || { echo "the documents as they are fail: $(cat "$scratch/out")"; failures=1; }
    sed -i "$edit" "$scratch/tree/$file"
    if (check "$scratch/tree") > "$scratch/out"; then
      echo "not caught: $file: $edit"
      failures=1
    elif ! grep -q . "$scratch/out"; then
      echo "caught without a message: $file: $edit"
      failures=1
    fi
  done <<'PLANTED'
docs/numerics.md|s/^numerics_version: .*/numerics_version: 0/
docs/recipes.md|s/^. mxfp4-ste /. mxfp4 /
docs/dependencies.md|/libfmt-dev/d
README.md|s,docs/numerics.md,docs/numeric.md,
PLANTED
  [ "$failures" = 0 ] && echo "every planted fault was caught"
  return "$failures"
}

case "${1:-}" in
  --self-test) self_test ;;
  "" | -*) echo "usage: check_docs.sh ROOT | --self-test" >&2; exit 2 ;;
  *) check "$1" ;;
esac
