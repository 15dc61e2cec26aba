#!/bin/bash
# Mean NLL of stories260K's own 256 greedy choices under every recipe, as a Markdown table (docs/experiments.md).
# stories_nll.sh FP4SIM: the program. The model lies in golden/spec/stories260K.
set -euo pipefail

program=${1:?the fp4sim program}
model=$(dirname "${BASH_SOURCE[0]}")/../../golden/spec/stories260K/stories260K.legacy.bin
ids=$(mktemp)
trap 'rm -f "$ids"' EXIT
"$program" generate --checkpoint "$model" --tokens 256 --ids > "$ids"

echo "| recipe | nll |"
echo "|---|---|"
for recipe in fp32 bf16 fp8 fp4-dge-occ-w4a8 fp4-dge-occ-w8a4 fp4-dge-occ fp4-direct fp4-direct-tensor mxfp4-ste; do
  echo "| $recipe | $("$program" eval --checkpoint "$model" --tokens "$ids" --recipe "$recipe" | sed -n 's/nll=\([^ ]*\).*/\1/p') |"
done
