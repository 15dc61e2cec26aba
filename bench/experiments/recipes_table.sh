#!/bin/bash
# Final validation losses of several recipes over several seeds, as a Markdown table (docs/experiments.md).
# recipes_table.sh FP4SIM DATA [STEPS]: the program, a file of bytes, optimizer steps (default 2000).
set -euo pipefail

program=${1:?the fp4sim program}
data=${2:?a file of bytes}
steps=${3:-2000}
recipes=${RECIPES:-bf16 fp4-direct-tensor fp4-direct fp4-dge-occ mxfp4-ste}
seeds=${SEEDS:-1 2 3}
model=${MODEL:-llama}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

for seed in $seeds; do
  for recipe in $recipes; do
    "$program" train --model "$model" --recipe "$recipe" --data "$data" --steps "$steps" --seed "$seed" \
      --lr 1e-3 --schedule constant --warmup 0 --weight-decay 0.1 --beta2 0.99 --json > "$out/$recipe.$seed"
    echo "$recipe seed $seed: $(cat "$out/$recipe.$seed")" >&2
  done
done

python3 - "$out" "$recipes" "$seeds" << 'PY'
import json, pathlib, statistics, sys
out, recipes, seeds = pathlib.Path(sys.argv[1]), sys.argv[2].split(), sys.argv[3].split()
print("| recipe | " + " | ".join(f"seed {s}" for s in seeds) + " | mean | gap to the first | tokens/s |")
print("|---" * (len(seeds) + 4) + "|")
base = None
for recipe in recipes:
    runs = [json.loads((out / f"{recipe}.{s}").read_text()) for s in seeds]
    losses = [r["val_loss"] for r in runs]
    mean = statistics.mean(losses)
    base = mean if base is None else base
    speed = statistics.median(r["tokens_per_s"] for r in runs)
    print(f"| {recipe} | " + " | ".join(f"{v:.4f}" for v in losses) + f" | {mean:.4f} | {mean - base:+.4f} | {speed:.0f} |")
PY
