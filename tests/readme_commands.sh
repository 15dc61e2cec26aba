#!/bin/bash
# Runs the `fp4sim …` lines of README.md as a newcomer would, in their order and in one folder; only the numbers of
# steps are made small and the models tiny. readme_commands.sh FP4SIM README
set -euo pipefail

program=$(realpath "${1:?the fp4sim program}")
readme=$(realpath "${2:?README.md}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for _ in $(seq 400); do echo "The quick brown fox jumps over the lazy dog; the dog sleeps."; done > book.txt
# w.npy: 64 binary32 numbers, 0x3F800000 and 0x40400000 in turn (1 and 3)
printf '\x93NUMPY\x01\x00\x46\x00%-69s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': (64,), }" > w.npy
for _ in $(seq 32); do printf '\x00\x00\x80\x3f\x00\x00\x40\x40'; done >> w.npy

count=0
while IFS= read -r line; do
  line=${line%%#*}
  line=$(sed -E 's/--steps [0-9]+/--steps 3/; s/--tokens [0-9]+/--tokens 5/' <<< "$line")
  eval "words=($line)"  # with the quotes of the line
  unset 'words[0]'
  if [[ $line == *" train "* && $line != *--resume* ]]; then
    [[ $line == *--preset* ]] || words+=(--preset tiny)
    [[ $line == *--data* ]] || words+=(--corpus-bytes 20000)
  fi
  count=$((count + 1))
  if ! "$program" "${words[@]}" > stdout 2> stderr; then
    echo "FAIL:$line"
    cat stderr
    exit 1
  fi
done < <(grep -E '^    fp4sim ' "$readme")
[ "$count" -ge 8 ] || { echo "only $count command lines found in README.md"; exit 1; }
echo "$count command lines of README.md run"
