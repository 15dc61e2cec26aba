#!/bin/bash
# What a machine with a device runs from the programs that `./dev cuda` built elsewhere: stages of under nine minutes,
# one summary line each. Exit code 0 if the stage passed. Logs: $OUT, or out/gpu-check.
#   gpu_check.sh STAGE [SEED]
#     1  gpu tests, golden files       2  every op against scalar, random cases
#     3  recipes in lockstep with simd, a long run on both      4  speed, beside PyTorch where python3 has it
#     5  compute-sanitizer             6  all 2^32 inputs of formats, scales and elementary functions against simd
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

STAGE=${1:?usage: gpu_check.sh STAGE [SEED]}
SEED=${2:-1}
CARRY=build/gpu-carry
FP4SIM=$CARRY/fp4sim
LOGS=${OUT:-out/gpu-check}
LIMIT=530 # seconds of a stage
JOBS=$(nproc)
mkdir -p "$LOGS"
LOG=$LOGS/gpu-check-$STAGE.log
: > "$LOG"
STARTED=$SECONDS

# summary TEXT: the line of this stage
summary() { echo "gpu-check $STAGE: $1 ($((SECONDS - STARTED)) s)" | tee -a "$LOG"; }
limited() { timeout "$LIMIT" "$@"; }

device() { "$FP4SIM" devices | tee -a "$LOG"; }

# Every op as `fp4sim fuzz` prints them, heavy ones first so that the last process does not run alone.
ops() { sed -n 's/^FP4SIM_OP(\([a-z0-9_]*\),.*/\1/p' reference/contract/op.def | sort -r; }

# sums of the fuzz tables in files: cases, elements, failures
totals() { awk '$1 == "total" { c += $2; e += $3; f += $4 } END { printf "%d cases, %.3g elements, %d failures", c, e, f }' "$@"; }

# fuzz_ops DIRECTORY COMMAND…: the command with `--op NAME` for every op, several at a time; fails if one fails
fuzz_ops() {
  local directory=$1
  shift
  ops | xargs -P "$JOBS" -I NAME bash -c \
    'name=$1; directory=$2; shift 2; OMP_NUM_THREADS=1 "$@" --op "$name" --out "$directory" > "$directory/$name.txt" 2>&1' \
    _ NAME "$directory" "$@"
}

stage_1() {
  local status=0 golden
  for program in gpu_functions_test gpu_device_test; do
    FP4SIM_REQUIRE_GPU=1 limited "$CARRY/$program" --gtest_brief=1 >> "$LOG" 2>&1 || status=1
  done
  golden=$(limited "$FP4SIM" golden --check --backend cuda 2>> "$LOG" | tee -a "$LOG" | tail -1) || status=1
  summary "$(grep -c '^\[  FAILED  \].*ms)' "$LOG" || true) failed, $(grep -o '^\[  PASSED  \] [0-9]*' "$LOG" |
    awk '{ n += $4 } END { print n + 0 }') passed; golden $golden"
  return $status
}

# The ops in as few rounds of equal time as there are cores for, with a process for each op of a round.
stage_2() {
  local status=0 directory rounds count missed
  directory=$(mktemp -d)
  count=$(ops | wc -l)
  rounds=$((count / JOBS > 0 ? count / JOBS : 1))
  JOBS=$(((count + rounds - 1) / rounds)) fuzz_ops "$directory" "$FP4SIM" fuzz --backend cuda --against scalar \
    --seconds $(((LIMIT - 60) / rounds)) --seed "$SEED" || status=1
  cat "$directory"/*.txt >> "$LOG"
  cp "$directory"/*.case "$LOGS" 2> /dev/null || true
  missed=$(awk -v count="$count" '$1 == "total" { ops++; elements += $3; if ($2 < 1000) few++ }
    END { print (ops < count) + (elements < 1e9), few + 0 }' "$directory"/*.txt)
  [ "$missed" = "0 0" ] || status=1
  summary "fuzz cuda against scalar, seed $SEED: $(totals "$directory"/*.txt) (10^9 elements asked for);\
 ops below 1000 cases: ${missed#* }"
  return $status
}

final() { sed -n "s/^final: .*$1=\([^ ]*\).*/\1/p"; }

# Every recipe with both models in lockstep, several at a time; one log each in a directory
lockstep_runs() {
  local recipe model
  for recipe in cli/train/recipes/*.toml; do
    for model in gpt llama; do echo "$(basename "$recipe" .toml) $model"; done
  done | xargs -P $((JOBS / 2 > 0 ? JOBS / 2 : 1)) -L 1 bash -c '
    fp4sim=$(realpath "$1") && mkdir -p "$2/$3-$4" && cd "$2/$3-$4" &&
    "$fp4sim" train --preset tiny --steps 50 --val-fraction 0 --recipe "$3" --model "$4" --backend lockstep:simd,cuda \
      --threads 2 > log 2>&1' _ "$FP4SIM" "$1"
}

stage_3() {
  local status=0 directory cuda simd run
  directory=$(mktemp -d)
  lockstep_runs "$directory" || status=1
  cat "$directory"/*/log >> "$LOG"
  cp "$directory"/*/*.case "$LOGS" 2> /dev/null || true
  run=(train --recipe fp4-dge-occ --model gpt --layers 4 --heads 4 --width 128 --context 64 --batch 12 --steps 1000
    --corpus-bytes 500000 --val-fraction 0)
  cuda=$(limited "$FP4SIM" "${run[@]}" --backend cuda 2>> "$LOG" | tee -a "$LOG" | final hash) || status=1
  simd=$(limited "$FP4SIM" "${run[@]}" --backend simd 2>> "$LOG" | tee -a "$LOG" | final hash) || status=1
  [ -n "$cuda" ] && [ "$cuda" = "$simd" ] || status=1
  summary "lockstep:simd,cuda, 50 steps: $(grep -l '^final:' "$directory"/*/log | wc -l) of $(ls "$directory" | wc -l) runs equal;\
 1000 steps of fp4-dge-occ: cuda ${cuda:0:16} simd ${simd:0:16}"
  return $status
}

# The peer's figures and the ratios to them: a machine without torch has none.
peer() {
  python3 -c 'import torch' 2> /dev/null || { echo "no torch here: no peer"; return; }
  local left=$((LIMIT - SECONDS + STARTED))
  timeout $((left > 0 ? left : 1)) python3 bench/peers/gpu_peer.py --json "$LOGS/peer.jsonl" >> "$LOG" 2>&1 ||
    { echo "gpu_peer.py failed: $(tail -1 "$LOG")"; return 1; }
  python3 bench/peers/gpu_ratios.py "$LOGS/peer.jsonl" "$LOG" > "$LOGS/ratios.txt" || return 1
  cat "$LOGS/ratios.txt" >> "$LOG"
  grep '^tokens/s' "$LOGS/ratios.txt" | awk '{ printf "%s %s to the peer; ", $2, $5 }'
  tail -1 "$LOGS/ratios.txt"
}

stage_4() {
  local status=0 recipe speed speeds=() nodes="single nodes in $LOG" ratios
  for recipe in bf16 fp4-dge-occ mxfp4-ste; do
    speed=$(limited "$FP4SIM" train --backend cuda --recipe "$recipe" --model gpt --layers 6 --heads 6 --width 384 \
      --context 256 --batch 64 --steps 60 --val-fraction 0 2>> "$LOG" | tee -a "$LOG" | final tokens_per_s) || status=1
    speeds+=("$recipe $speed")
    echo "speed $recipe $speed" >> "$LOG"
    limited "$FP4SIM" train --backend cuda --recipe "$recipe" --model gpt --layers 6 --heads 6 --width 384 --context 256 \
      --batch 64 --steps 5 --val-fraction 0 --profile >> "$LOG" 2>&1 || status=1
  done
  limited "$CARRY/gpu_bench" >> "$LOG" 2>&1 || { status=1 nodes="gpu_bench failed: $(tail -1 "$LOG")"; }
  ratios=$(peer) || status=1
  summary "tokens/s: $(printf '%s; ' "${speeds[@]}")$ratios; $nodes"
  return $status
}

stage_5() {
  local status=0 tool directory verdict=()
  for tool in memcheck racecheck; do
    directory=$(mktemp -d)
    fuzz_ops "$directory" compute-sanitizer --tool "$tool" --error-exitcode 9 "$FP4SIM" fuzz --backend cuda \
      --against scalar --iterations 12 --seconds 200 --seed "$SEED" || status=1
    cat "$directory"/*.txt >> "$LOG"
    verdict+=("$tool: $(totals "$directory"/*.txt), $(grep -L 'ERROR SUMMARY: 0 errors\|(0 errors' "$directory"/*.txt |
      wc -l) ops with reports")
  done
  summary "$(printf '%s; ' "${verdict[@]}")"
  return $status
}

stage_6() {
  local status=0 from
  from=$(wc -l < "$LOG")
  FP4SIM_REQUIRE_GPU=1 limited "$CARRY/gpu_sweep_test" >> "$LOG" 2>&1 || status=1
  summary "all inputs, cuda against simd: $(tail -n +$((from + 1)) "$LOG" | awk '/ inputs, / { n++; bad += $0 !~ /, 0 mismatches$/ }
    / checks, / { groups++ } END { printf "%d checks, %d with differences, %d of 4 groups complete", n, bad, groups }')"
  return $status
}

[[ $STAGE =~ ^[1-6]$ ]] || { echo "gpu_check.sh: stages are 1 to 6, not $STAGE" >&2; exit 2; }
[ -x "$FP4SIM" ] || { echo "gpu_check.sh: $FP4SIM is missing: ./dev cuda builds it" >&2; exit 1; }
device
"stage_$STAGE"
