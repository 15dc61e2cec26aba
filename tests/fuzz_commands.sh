#!/bin/bash
# fp4sim fuzz and golden from outside: what they print and their exit codes 0, 2 and 3.
#   fuzz_commands.sh FP4SIM GOLDEN_DIR
set -euo pipefail
FP4SIM=$1 GOLDEN=$2
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT

# expect CODE TEXT ARGUMENTS…: runs the program and checks its exit code and that TEXT is printed
expect() {
  local wanted=$1 text=$2 code=0
  shift 2
  "$FP4SIM" "$@" > "$WORK/output" 2>&1 || code=$?
  if [ "$code" -ne "$wanted" ] || ! grep -qF -- "$text" "$WORK/output"; then
    echo "fp4sim $*: exit code $code, expected $wanted and \`$text\`; output:"
    cat "$WORK/output"
    exit 1
  fi
}

expect 0 "total                         74" fuzz --backend simd --against scalar --iterations 2 --seed 1
expect 0 "seed 1" fuzz --op 'rms*' --seconds 0.2 --seed 1
expect 2 "no op matches" fuzz --op nosuch --iterations 1
expect 2 "must be positive" fuzz --iterations -1
expect 2 "must be positive" fuzz --seconds nan
expect 2 "whole number" fuzz --iterations 99999999999999999999
expect 2 "whole number" fuzz --seed 99999999999999999999
expect 2 "unknown backend" fuzz --backend nosuch --iterations 1
expect 2 "excludes" fuzz --replay "$GOLDEN/cases/eps_omitted.case" --seed 1
# Both stop conditions together: the first one met ends the run
expect 0 "silu                           3" fuzz --op silu --seconds 60 --iterations 3 --seed 1

cp "$GOLDEN/cases/eps_omitted.case" "$WORK/changed.case"
expect 0 "simd: gives the stored outputs" fuzz --replay "$GOLDEN/cases/eps_omitted.case"
# the last byte belongs to the expected output
printf '\x41' | dd of="$WORK/changed.case" bs=1 seek=$(($(stat -c %s "$WORK/changed.case") - 1)) conv=notrunc status=none
expect 3 "rmsnorm fuzz/rmsnorm: output 0 data[0]" fuzz --replay "$WORK/changed.case"

cp -r "$GOLDEN/run" "$WORK/run"
expect 2 "either --check or --bless" golden "$WORK/run"
expect 0 "0 differ" golden --check "$WORK/run"
sed -i '3s/ out ../ out zz/' "$WORK/run/ops/mul.txt"
expect 3 "1 golden rows differ" golden --check "$WORK/run"

# The whole folder: its cases are replayed too
mkdir -p "$WORK/golden/cases"
cp -r "$GOLDEN/run" "$WORK/golden/run"
cp "$GOLDEN/cases/eps_omitted.case" "$WORK/golden/cases/good.case"
expect 0 "1 cases, 0 differ" golden --check --backend simd --threads 1 "$WORK/golden"
cp "$WORK/changed.case" "$WORK/golden/cases/wrong.case"
expect 3 "2 cases, 1 differ" golden --check "$WORK/golden"
expect 2 "leave --backend away" golden --bless --backend simd-sse2 "$WORK/golden"
echo "fuzz and golden: all exit codes as documented"
