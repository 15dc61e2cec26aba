#!/bin/bash
# Bad input to every command: one clear line on stderr, the stated exit code, no output file left behind.
# bad_input.sh FP4SIM
set -uo pipefail

program=${1:?the fp4sim program}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
failures=0

# expect CODE PATTERN -- arguments…
expect() {
  local code=$1 pattern=$2
  shift 3
  "$program" "$@" > stdout 2> stderr
  local got=$?
  if [ "$got" != "$code" ] || [ "$(wc -l < stderr)" != 1 ] || ! grep -qE -- "$pattern" stderr; then
    failures=$((failures + 1))
    echo "FAIL: fp4sim $*"
    echo "  exit code $got (expected $code), expected one line matching: $pattern"
    sed 's/^/  stderr: /' stderr
  fi
}

tiny=(--recipe fp32 --layers 1 --width 32 --heads 2 --context 32 --batch 2 --steps 2 --quiet)
"$program" train "${tiny[@]}" --corpus-bytes 3000 --out run > /dev/null || { echo "the good run failed"; exit 1; }
head -c 1000 run/checkpoint.safetensors > truncated.safetensors
printf 'abc' > short.txt
: > empty.txt
head -c 100 /dev/zero > zeros.safetensors
printf '[fprop]\nx = "mxfp5"\n' > spec.toml
printf 'speling = 1\n' > key.toml
printf '[fprop\n' > syntax.toml

# data
expect 1 'missing.txt' -- train "${tiny[@]}" --data missing.txt
expect 1 'empty.txt.*empty' -- train "${tiny[@]}" --data empty.txt
expect 1 'short.txt.*context 32 needs at least 33' -- train "${tiny[@]}" --data short.txt
expect 1 'context 100000' -- train "${tiny[@]}" --context 100000 --corpus-bytes 3000
expect 1 '\..*(not a|directory|cannot)' -- train "${tiny[@]}" --data .

# recipes
expect 2 'unknown recipe `nope`.*mxfp4-ste' -- train --recipe nope
expect 1 'nope.toml' -- train --recipe nope.toml
expect 2 'spec.toml:2: fprop.x' -- train --recipe spec.toml
expect 2 'key.toml:1: unknown key `speling`' -- train --recipe key.toml
expect 2 'syntax.toml:1' -- train --recipe syntax.toml

# options
expect 2 'layers' -- train "${tiny[@]}" --layers 0
expect 2 'layers' -- train "${tiny[@]}" --layers four
expect 2 'width 33 is not a multiple of heads 2' -- train "${tiny[@]}" --width 33
expect 2 'batch' -- train "${tiny[@]}" --batch 0
expect 2 'steps' -- train "${tiny[@]}" --steps -1
expect 2 'lr' -- train "${tiny[@]}" --lr nan
expect 2 'beta2' -- train "${tiny[@]}" --beta2 1.5
expect 2 'schedule' -- train "${tiny[@]}" --schedule sometimes
expect 2 'unknown model' -- train "${tiny[@]}" --model rnn
expect 2 'unknown preset' -- train --preset huge
expect 2 'unknown backend' -- train "${tiny[@]}" --backend gpu
expect 2 'lockstep' -- train "${tiny[@]}" --backend lockstep:scalar
expect 2 'threads' -- train "${tiny[@]}" --threads -1
expect 2 'seed' -- train "${tiny[@]}" --seed 99999999999999999999999
expect 2 'frobnicate' -- train --frobnicate
expect 2 'frobnicate' -- frobnicate
expect 2 '[Ss]ubcommand' --
expect 2 'unknown stage' -- graph --stage nowhere

# checkpoints
expect 1 'nowhere' -- train --resume nowhere
expect 2 'lr is 0.001' -- train --resume run --lr 0.5
expect 2 'preset' -- train --resume run --preset tiny
expect 1 'holds another run' -- train "${tiny[@]}" --corpus-bytes 3000 --out run
expect 2 'rope-style belongs to' -- train "${tiny[@]}" --rope-style half
expect 2 'always tied' -- train "${tiny[@]}" --tied-head false
expect 2 'one thread' -- train "${tiny[@]}" --backend scalar --threads 4
expect 2 'eval-every needs validation' -- train "${tiny[@]}" --val-fraction 0 --eval-every 1
expect 2 'resume' -- train --resume run --init run/checkpoint.safetensors
cp -r run broken && cp truncated.safetensors broken/checkpoint.safetensors
expect 1 'broken/checkpoint.safetensors' -- train --resume broken
cp -r run edited && sed -i 's/^lr = .*/lr = 0.5/' edited/config.toml
expect 1 'other settings' -- train --resume edited
cp -r run damaged && printf 'lr = ' > damaged/config.toml
expect 2 'damaged/config.toml:1' -- train --resume damaged
expect 1 'missing.toml' -- train --config missing.toml
head -c 1000 /dev/zero > zeros.bin
expect 1 'zeros.bin' -- generate --checkpoint zeros.bin --ids
expect 1 'truncated.safetensors' -- train "${tiny[@]}" --init truncated.safetensors --corpus-bytes 3000
expect 1 'zeros.safetensors' -- train "${tiny[@]}" --init zeros.safetensors --corpus-bytes 3000
expect 1 'width 32 and 64' -- train "${tiny[@]}" --width 64 --init run/checkpoint.safetensors --corpus-bytes 3000
expect 1 'readonly|cannot|not a' -- train "${tiny[@]}" --corpus-bytes 3000 --out short.txt
expect 1 'missing.safetensors' -- eval --checkpoint missing.safetensors --data short.txt
expect 1 'truncated.safetensors' -- eval --checkpoint truncated.safetensors --data short.txt
expect 1 'zeros.safetensors' -- generate --checkpoint zeros.safetensors
expect 2 'checkpoint' -- eval
expect 2 'checkpoint' -- generate
expect 1 'short.txt' -- eval --checkpoint run/checkpoint.safetensors --data short.txt
expect 2 'temperature' -- generate --checkpoint run/checkpoint.safetensors --temperature -1
expect 2 'tokens' -- generate --checkpoint run/checkpoint.safetensors --tokens -5

# formats, golden, fuzz
expect 2 'e9m9' -- formats e9m9f
expect 2 'unknown backend' -- fuzz --backend scalar --against nothing
expect 1 'missing.case' -- fuzz --backend scalar --against simd --replay missing.case
expect 1 'zeros' -- fuzz --backend scalar --against simd --replay zeros.safetensors
expect 1 'nofolder' -- golden --check nofolder

# The run that was there before is as it was.
if ! "$program" train --resume run --quiet > /dev/null; then
  echo "FAIL: the good run is no longer whole"
  failures=$((failures + 1))
fi
echo "$failures failures"
[ "$failures" = 0 ]
