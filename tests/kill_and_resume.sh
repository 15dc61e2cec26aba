#!/bin/bash
# kill -9 at 20 random moments of a run that saves every step: each time the run resumes and nothing is lost, and the
# end is bit-equal to a run that was never killed. kill_and_resume.sh FP4SIM [SEED]
set -euo pipefail

program=${1:?the fp4sim program}
RANDOM=${2:-20260101}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
options=(--recipe mxfp4-ste --layers 1 --width 32 --heads 2 --context 32 --batch 2 --corpus-bytes 4000 --steps 1500 --quiet)

hash_of() { sed -n 's/.*hash=//p' <<< "$1"; }

whole=$("$program" train "${options[@]}")
kills=0
start=("${options[@]}" --save-every 1 --out "$folder/run")
for _ in $(seq 20); do
  if [ -e "$folder/run/checkpoint.safetensors" ]; then start=(--resume "$folder/run" --quiet); fi
  "$program" train "${start[@]}" > "$folder/log" 2>&1 &
  # The first run is left alone until it has saved once; how long that takes depends on the machine.
  until [ -e "$folder/run/checkpoint.safetensors" ] || ! kill -0 $! 2> /dev/null; do sleep 0.01; done
  sleep "0.$(printf '%03d' $((RANDOM % 300 + 20)))"
  if kill -9 $! 2> /dev/null; then kills=$((kills + 1)); fi
  wait $! 2> /dev/null || true
  if grep -q '^fp4sim:' "$folder/log"; then
    echo "resume failed: $(cat "$folder/log")"
    exit 1
  fi
done
[ -e "$folder/run/checkpoint.safetensors" ] || { echo "no checkpoint was ever written"; exit 1; }
resumed=$("$program" train --resume "$folder/run" --quiet)
steps=$(wc -l < "$folder/run/metrics.jsonl")
echo "killed $kills times; metrics of $steps steps"
[ "$steps" = 1500 ] || { echo "metrics.jsonl has $steps lines instead of 1500"; exit 1; }
[ "$kills" -ge 10 ] || { echo "only $kills of 20 kills hit a running program"; exit 1; }
[ "$(hash_of "$whole")" = "$(hash_of "$resumed")" ] || { echo "hashes differ: $whole / $resumed"; exit 1; }
