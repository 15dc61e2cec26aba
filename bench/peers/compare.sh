#!/bin/bash
# Training speed as a ratio to the PyTorch peer, both measured alternately in this one run.
# compare.sh FP4SIM PYTHON DATA [ROUNDS]: the program, a python with torch, a file of bytes, pairs of runs (default 3).
# The task: gpt, 4 layers, 4 heads, width 128, context 64, batch 12, AdamW; 2 threads; tokens/s without warm-up and evaluation.
set -euo pipefail

program=${1:?the fp4sim program}
python=${2:?a python with torch}
data=${3:?a file of bytes}
rounds=${4:-3}
steps=${STEPS:-100}
peer=$(dirname "${BASH_SOURCE[0]}")/train_peer.py

printf '%-12s %14s %14s %8s\n' recipe "fp4sim tok/s" "torch tok/s" ratio
for recipe in fp32 mxfp4-ste; do
  for _ in $(seq "$rounds"); do
    ours=$("$program" train --recipe "$recipe" --data "$data" --steps "$steps" --lr 1e-3 --schedule constant --warmup 0 \
      --beta2 0.99 --val-fraction 0 --threads 2 --quiet | sed -n 's/.*tokens_per_s=\([0-9]*\).*/\1/p')
    theirs=$("$python" "$peer" --data "$data" --recipe "$recipe" --steps "$steps" --compile --threads 2 |
      sed -n 's/.*"tokens_per_s": \([0-9]*\).*/\1/p')
    awk -v r="$recipe" -v o="$ours" -v t="$theirs" 'BEGIN { printf "%-12s %14.0f %14.0f %8.2f\n", r, o, t, o / t }'
  done
done
