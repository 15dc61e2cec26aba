#!/bin/bash
# What a machine with a device runs from the programs that `./dev cuda` built elsewhere: stages of under nine minutes,
# one summary line each. Exit code 0 if the stage passed. Logs: $OUT, or out/gpu-check.
#   gpu_check.sh STAGE [SEED]; --list prints the stages
#     1  gpu tests, golden files
#     2  every op against scalar, random cases, 10^9 elements
#     3  every recipe, both models, 50 steps in lockstep with simd
#     4  speed: training, single nodes, PyTorch beside them where python3 has it
#     5  compute-sanitizer: memcheck and racecheck of every op, memcheck of the gpu tests
#     6  all 2^32 inputs against simd: element formats, whole blocks, elementary functions by themselves
#     7  all 2^32 inputs against simd: scale formats and rules
#     8  all 2^32 inputs against simd: activations and losses
#     9  all 2^32 inputs against simd: gradient estimators
#    10  1,000 steps of fp4-dge-occ on cuda and on simd
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ "${1:-}" = --list ]; then
  sed -n 's/^#  *\([0-9][0-9]*  .*\)/\1/p' tests/gpu_check.sh
  exit 0
fi
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

# limited COMMAND…: within what is left of the stage's time
limited() {
  local left=$((LIMIT - SECONDS + STARTED))
  timeout $((left > 0 ? left : 1)) "$@"
}

device() { "$FP4SIM" devices | tee -a "$LOG"; }

# Every op as `fp4sim fuzz` prints them, heavy ones first so that the last process does not run alone.
ops() { sed -n 's/^FP4SIM_OP(\([a-z0-9_]*\),.*/\1/p' reference/contract/op.def | sort -r; }

# sums of the fuzz tables in files: cases, elements, failures
totals() { awk '$1 == "total" { c += $2; e += $3; f += $4 } END { printf "%d cases, %.3g elements, %d failures", c, e, f }' "$@"; }

# fuzz_ops DIRECTORY COMMAND…: the command with `--op NAME` for every op, several at a time; fails if one fails
fuzz_ops() {
  local directory=$1
  shift
  ops | limited xargs -P "$JOBS" -I NAME bash -c \
    'name=$1; directory=$2; shift 2; OMP_NUM_THREADS=1 "$@" --op "$name" --out "$directory" > "$directory/$name.txt" 2>&1' \
    _ NAME "$directory" "$@"
}

# Tests that ask how much memory the device has left.
ALONE='*too_large*'

# sharded_tests COUNT DIRECTORY FILTER [COMMAND…]: the gpu tests of a filter in so many processes, under a command
sharded_tests() {
  local count=$1 directory=$2 filter=$3
  shift 3
  seq 0 $((count - 1)) | limited xargs -P "$count" -I NUMBER bash -c \
    'shard=$1 count=$2 directory=$3 filter=$4; shift 4
     GTEST_TOTAL_SHARDS=$count GTEST_SHARD_INDEX=$shard FP4SIM_REQUIRE_GPU=1 OMP_NUM_THREADS=1 "$@" --gtest_brief=1 \
       "--gtest_filter=$filter" > "$directory/$shard.txt" 2>&1' \
    _ NUMBER "$count" "$directory" "$filter" "$@" "$CARRY/gpu_device_test"
}

stage_1() {
  local status=0 golden directory
  directory=$(mktemp -d)
  FP4SIM_REQUIRE_GPU=1 limited "$CARRY/gpu_functions_test" --gtest_brief=1 > "$directory/functions.txt" 2>&1 || status=1
  sharded_tests 1 "$directory" "$ALONE" || status=1
  mv "$directory/0.txt" "$directory/alone.txt"
  sharded_tests "$JOBS" "$directory" "-$ALONE" || status=1  # most of their time is scalar's
  cat "$directory"/*.txt >> "$LOG"
  golden=$(limited "$FP4SIM" golden --check --backend cuda 2>> "$LOG" | tee -a "$LOG" | tail -1) || status=1
  summary "$(grep -c '^\[  FAILED  \].*ms)' "$LOG" || true) failed, $(grep -o '^\[  PASSED  \] [0-9]*' "$LOG" |
    awk '{ n += $4 } END { print n + 0 }') passed; golden $golden"
  return $status
}

# The ops in as few rounds of equal time as there are cores for, with a process for each op of a round.
OP_SECONDS=68 # 55 s gave 8.9e8 elements on 16 cores in 117 s
stage_2() {
  local status=0 directory rounds count missed seconds
  directory=$(mktemp -d)
  count=$(ops | wc -l)
  rounds=$((count / JOBS > 0 ? count / JOBS : 1))
  seconds=$(((LIMIT - 30) / rounds < OP_SECONDS ? (LIMIT - 30) / rounds : OP_SECONDS))
  JOBS=$(((count + rounds - 1) / rounds)) fuzz_ops "$directory" "$FP4SIM" fuzz --backend cuda --against scalar \
    --seconds "$seconds" --seed "$SEED" || status=1
  cat "$directory"/*.txt >> "$LOG"
  cp "$directory"/*.case "$LOGS" 2> /dev/null || true
  missed=$(awk -v count="$count" '$1 == "total" { ops++; elements += $3; if ($2 < 1000) few++ }
    END { print (ops < count) + (elements < 1e9), few + 0 }' "$directory"/*.txt)
  [ "$missed" = "0 0" ] || status=1
  summary "fuzz cuda against scalar, seed $SEED: $count ops, $(totals "$directory"/*.txt) (10^9 elements asked for);\
 ops below 1000 cases: ${missed#* }"
  return $status
}

# final KEY: its value in the last line of a run
final() { sed -n "s/^final: .*$1=\([^ ]*\).*/\1/p"; }

# Every recipe with both models in lockstep, a core for each run (simd's threads would wait for each other); one log each
# in a directory.
lockstep_runs() {
  local recipe model
  for recipe in cli/train/recipes/*.toml; do
    for model in gpt llama; do echo "$(basename "$recipe" .toml) $model"; done
  done | limited xargs -P "$JOBS" -L 1 bash -c '
    fp4sim=$(realpath "$1") && mkdir -p "$2/$3-$4" && cd "$2/$3-$4" &&
    "$fp4sim" train --preset tiny --steps 50 --val-fraction 0 --recipe "$3" --model "$4" --backend lockstep:simd,cuda \
      --threads 1 > log 2>&1 && echo "$3 $4: equal after $SECONDS s" >> log' _ "$FP4SIM" "$1"
}

stage_3() {
  local status=0 directory
  directory=$(mktemp -d)
  lockstep_runs "$directory" || status=1
  cat "$directory"/*/log >> "$LOG"
  cp "$directory"/*/*.case "$LOGS" 2> /dev/null || true
  summary "lockstep:simd,cuda, 50 steps: $(grep -l '^final:' "$directory"/*/log | wc -l) of $(ls "$directory" | wc -l) runs equal"
  return $status
}

# The peers compile at the same time and measure one after the other (a lock says who).
peer_runs() {
  local recipe what pid status=0 pids=()
  for recipe in bf16 mxfp4-ste fp4-dge-occ fp4-dge-occ/topk; do
    limited python3 bench/peers/gpu_peer.py --lock "$LOGS/peer.lock" --only train --recipes "$recipe" \
      --json "$LOGS/peer-${recipe/\//-}.jsonl" > "$LOGS/peer-${recipe/\//-}.log" 2>&1 &
    pids+=($!)
  done
  for what in quantize product; do
    limited python3 bench/peers/gpu_peer.py --lock "$LOGS/peer.lock" --only $what --json "$LOGS/peer-$what.jsonl" \
      > "$LOGS/peer-$what.log" 2>&1 &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || status=1; done
  cat "$LOGS"/peer-*.log >> "$LOG"
  cat "$LOGS"/peer-*.jsonl > "$LOGS/peer.jsonl"
  rm -f "$LOGS"/peer-* "$LOGS/peer.lock"
  return $status
}

# The peer's figures and the ratios to them: a machine without torch has none.
peer() {
  local status=0
  python3 -c 'import torch' 2> /dev/null || { echo "no torch here: no peer"; return; }
  peer_runs || { status=1; echo -n "a peer failed ($LOG); "; }
  python3 bench/peers/gpu_ratios.py "$LOGS/peer.jsonl" "$LOG" > "$LOGS/ratios.txt" || return 1
  cat "$LOGS/ratios.txt" >> "$LOG"
  grep '^tokens/s' "$LOGS/ratios.txt" | awk '{ printf "%s %s to the peer; ", $2, $5 }'
  tail -1 "$LOGS/ratios.txt"
  return $status
}

stage_4() {
  local status=0 recipe bench speed speeds=() nodes="single nodes in $LOG" ratios run
  for recipe in bf16 fp4-dge-occ mxfp4-ste; do
    run=(train --backend cuda --recipe "$recipe" --model gpt --layers 6 --heads 6 --width 384 --context 256 --batch 64
      --val-fraction 0)
    speed=$(limited "$FP4SIM" "${run[@]}" --steps 100 2>> "$LOG" | tee -a "$LOG" | final tokens_per_s) || status=1
    speeds+=("$recipe $speed")
    echo "speed $recipe $speed" >> "$LOG"
    limited "$FP4SIM" "${run[@]}" --steps 5 --profile >> "$LOG" 2>&1 || status=1
  done
  for bench in gpu_bench gpu_product_bench gpu_lut_bench; do
    limited "$CARRY/$bench" >> "$LOG" 2>&1 || { status=1 nodes="$bench failed: $(tail -1 "$LOG")"; }
  done
  ratios=$(peer) || status=1
  summary "tokens/s: $(printf '%s; ' "${speeds[@]}")$ratios; $nodes"
  return $status
}

# Kernels that racecheck cannot judge, by a part of their names: it does not know that a wait on an mbarrier orders a bulk
# copy's writes before the reads.
UNJUDGED=(product_kernel observe_product multiply_marked)

# checked_ops TOOL: random cases of every op under a tool of compute-sanitizer
checked_ops() {
  local tool=$1 directory kernel options=() status=0
  directory=$(mktemp -d)
  [ "$tool" != racecheck ] ||
    for kernel in "${UNJUDGED[@]}"; do options+=(--kernel-name-exclude "kernel_substring=$kernel"); done
  fuzz_ops "$directory" compute-sanitizer --tool "$tool" "${options[@]}" --error-exitcode 9 "$FP4SIM" fuzz --backend cuda \
    --against scalar --iterations 12 --seconds 60 --seed "$SEED" || status=1
  cat "$directory"/*.txt >> "$LOG"
  echo "$tool: $(totals "$directory"/*.txt), $(grep -L 'ERROR SUMMARY: 0 errors\|SUMMARY: 0 hazards' "$directory"/*.txt | wc -l) of\
 $(ops | wc -l) ops with reports"
  return $status
}

# The gpu tests in as many processes as there are cores; one that asks for too much memory on purpose and those of full
# size stay out.
checked_tests() {
  local directory status=0 shard
  directory=$(mktemp -d)
  sharded_tests "$JOBS" "$directory" "-$ALONE:*without_a_device*:*a_training_step*:*large_products*" \
    compute-sanitizer --tool memcheck --error-exitcode 9 || status=1
  cat "$directory"/*.txt >> "$LOG"
  echo "memcheck of the gpu tests: $(grep -ho '^\[  PASSED  \] [0-9]*' "$directory"/*.txt | awk '{ n += $4 } END { print n + 0 }')\
 passed, $(grep -L 'ERROR SUMMARY: 0 errors' "$directory"/*.txt | wc -l) of $JOBS processes with reports"
  for shard in "$directory"/*.txt; do grep -q 'ERROR SUMMARY: 0 errors' "$shard" || status=1; done
  return $status
}

stage_5() {
  local status=0 verdicts=()
  verdicts+=("$(checked_ops memcheck)") || status=1
  verdicts+=("$(checked_ops racecheck)") || status=1
  verdicts+=("$(checked_tests)") || status=1
  summary "$(printf '%s; ' "${verdicts[@]}")not judged by racecheck: ${UNJUDGED[*]}"
  return $status
}

# sweep GROUP…: groups of gpu_sweep_test on all inputs
sweep() {
  local status=0 group from
  from=$(wc -l < "$LOG")
  for group in "$@"; do
    FP4SIM_REQUIRE_GPU=1 limited "$CARRY/gpu_sweep_test" --group "$group" >> "$LOG" 2>&1 || status=1
  done
  summary "all 2^32 inputs, cuda against simd: $(tail -n +$((from + 1)) "$LOG" | awk -v asked=$# '
    / inputs, / { n++; bad += $0 !~ /, 0 mismatches$/ }
    / checks, / { complete++ }
    END { printf "%d checks, %d with differences, %d of %d groups complete", n, bad, complete, asked }') ($*)"
  return $status
}

stage_6() { sweep element-formats whole-blocks functions; }
stage_7() { sweep scale-formats; }
stage_8() { sweep activations; }
stage_9() { sweep estimators; }

LONG_RUN=(train --recipe fp4-dge-occ --model gpt --layers 4 --heads 4 --width 128 --context 64 --batch 12
  --corpus-bytes 500000 --val-fraction 0)

# The number of threads with which simd trains fastest here: more of them than the machine gives time to only wait. Twice
# as many are tried until that is slower.
fastest_threads() {
  local threads speed best=0 fastest=1
  for threads in 1 2 4 8 16; do
    [ $threads -le "$JOBS" ] || break
    speed=$(limited "$FP4SIM" "${LONG_RUN[@]}" --steps 12 --backend simd --threads $threads 2>> "$LOG" | final tokens_per_s)
    echo "simd with $threads threads: $speed tokens/s" >> "$LOG"
    [ "${speed:-0}" -gt $best ] || break
    best=$speed fastest=$threads
  done
  echo $fastest
}

stage_10() {
  local status=0 cuda simd threads
  threads=$(fastest_threads)
  cuda=$(limited "$FP4SIM" "${LONG_RUN[@]}" --steps 1000 --backend cuda 2>> "$LOG" | tee -a "$LOG" | final hash) || status=1
  simd=$(limited "$FP4SIM" "${LONG_RUN[@]}" --steps 1000 --backend simd --threads "$threads" 2>> "$LOG" | tee -a "$LOG" |
    final hash) || status=1
  [ -n "$cuda" ] && [ "$cuda" = "$simd" ] || status=1
  summary "1000 steps of fp4-dge-occ: cuda ${cuda:0:16} simd ${simd:0:16}; tokens/s $(final tokens_per_s < "$LOG" | xargs)\
 (cuda, simd with $threads threads)"
  return $status
}

[[ $STAGE =~ ^([1-9]|10)$ ]] || { echo "gpu_check.sh: stages are 1 to 10, not $STAGE" >&2; exit 2; }
for packed in "$CARRY"/*.gz; do
  [ -e "$packed" ] && [ ! "${packed%.gz}" -nt "$packed" ] || continue
  gunzip -c "$packed" > "${packed%.gz}" && chmod +x "${packed%.gz}"
done
[ -x "$FP4SIM" ] || { echo "gpu_check.sh: $FP4SIM is missing: ./dev cuda builds it" >&2; exit 1; }
device
"stage_$STAGE"
