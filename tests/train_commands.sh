#!/bin/bash
# fp4sim train and graph from outside: the options that other tests do not touch, and what they print.
#   train_commands.sh FP4SIM
set -euo pipefail
FP4SIM=$(realpath "$1")
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
cd "$WORK"

fail() {
  echo "FAIL: $*"
  exit 1
}
# equal WHAT A B
equal() { [ "$2" = "$3" ] || fail "$1: \`$2\` and \`$3\`"; }
hash_of() { sed -n 's/.*hash=//p' <<< "$1"; }

tiny=(--recipe mxfp4-ste --layers 1 --width 32 --heads 2 --context 32 --batch 2 --corpus-bytes 3000)
first=$("$FP4SIM" train "${tiny[@]}" --steps 4 --save-every 2 --quiet --out run)
wanted=$(hash_of "$first")
equal "--quiet prints one line" "$(wc -l <<< "$first")" 1

# --config repeats the run, bit for bit; an option that says otherwise is refused
equal "--config" "$(hash_of "$("$FP4SIM" train --config run/config.toml --quiet)")" "$wanted"
equal "--config with a changed option" "$("$FP4SIM" train --config run/config.toml --lr 1 --quiet 2>&1 | wc -l)" 1

# --json: one object with the same hash
json=$("$FP4SIM" train "${tiny[@]}" --steps 4 --json)
equal "--json prints one line" "$(wc -l <<< "$json")" 1
for key in recipe train_loss val_loss entropy tokens_per_s hash; do
  grep -qF "\"$key\":" <<< "$json" || fail "--json has no $key: $json"
done
grep -qF "\"hash\":\"$wanted\"" <<< "$json" || fail "--json: another hash than $wanted: $json"

# --init takes the parameters: with no step they stay, with one they change
init=(--init run/checkpoint.safetensors --quiet)
equal "--init without a step" "$(hash_of "$("$FP4SIM" train "${tiny[@]}" --steps 0 "${init[@]}")")" "$wanted"
[ "$(hash_of "$("$FP4SIM" train "${tiny[@]}" --steps 1 "${init[@]}")")" != "$wanted" ] || fail "--init and a step"

# --preset gives the sizes, options given beside it win, --profile adds a table of ops, names are printed
talk=$("$FP4SIM" train --preset tiny --recipe mxfp4-ste --layers 1 --steps 1 --corpus-bytes 5000 --profile 2>&1)
grep -qE '^gpt, 1 layers, 4 heads, width 64, context 32' <<< "$talk" || fail "--preset tiny: $talk"
grep -qE '^mxfp4-ste: MXFP4' <<< "$talk" || fail "the recipe's name and description: $talk"
for op in matmul quantize adamw; do
  grep -qE "^$op +[0-9]+ +[0-9.]+ +[0-9.]+%" <<< "$talk" || fail "--profile has no line for $op: $talk"
done

# A relative --data belongs to the folder it was typed in: a run is resumed from anywhere
head -c 2000 /dev/urandom | base64 > text.txt
half=(--recipe fp32 --layers 1 --width 32 --heads 2 --context 32 --batch 2 --steps 2 --quiet)
data=$("$FP4SIM" train "${half[@]}" --data text.txt --out data)
mkdir elsewhere
equal "--resume from another folder" \
  "$(cd elsewhere && hash_of "$("$FP4SIM" train --resume ../data --data ../text.txt --quiet)")" "$(hash_of "$data")"

# graph: every stage as text or DOT
nodes=0
for stage in forward backward qdq estimators packed optimizer; do
  text=$("$FP4SIM" graph --preset tiny --recipe mxfp4-soft --stage $stage)
  count=$(wc -l <<< "$text")
  [ "$stage" = packed ] || [ "$count" -gt "$nodes" ] || fail "graph --stage $stage: $count lines after $nodes"
  nodes=$count
  dot=$("$FP4SIM" graph --preset tiny --recipe mxfp4-soft --stage $stage --dot)
  [[ "$dot" = digraph* && "$dot" = *"}" ]] || fail "graph --stage $stage --dot is no digraph"
done
grep -q 'estimator_grad' <<< "$text" || fail "graph: no estimator after its stage"
equal "graph's default stage" "$("$FP4SIM" graph --preset tiny --recipe mxfp4-soft)" "$text"
echo "train and graph: all options as documented"
