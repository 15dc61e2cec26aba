#!/bin/bash
# Bad input to every command: one clear line on stderr, the stated exit code, no file left behind.
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
  local before
  before=$(ls -AR)
  "$program" "$@" > stdout 2> stderr
  local got=$?
  if [ "$(ls -AR)" != "$before" ]; then
    failures=$((failures + 1))
    echo "FAIL: fp4sim $*"
    echo "  left files behind:"
    diff <(echo "$before") <(ls -AR)
  fi
  if [ "$got" != "$code" ] || [ "$(wc -l < stderr)" != 1 ] || ! grep -qE -- "$pattern" stderr; then
    failures=$((failures + 1))
    echo "FAIL: fp4sim $*"
    echo "  exit code $got (expected $code), expected one line matching: $pattern"
    sed 's/^/  stderr: /' stderr
  fi
}

# npy NAME DESCR SHAPE BYTES: an .npy file of zero bytes
npy() {
  local header="{'descr': '$2', 'fortran_order': False, 'shape': $3, }"
  { printf '\x93NUMPY\x01\x00'; printf "\\x$(printf %02x $((${#header} + 1)))\\x00%s\n" "$header"; head -c "$4" /dev/zero; } > "$1"
}
# safetensors NAME HEADER BYTES: a file with a JSON header (below 256 characters) and zero bytes
safetensors() {
  { printf "\\x$(printf %02x ${#2})\\x00\\x00\\x00\\x00\\x00\\x00\\x00"; printf '%s' "$2"; head -c "$3" /dev/zero; } > "$1"
}

: > stdout; : > stderr
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

# quantize
npy good.npy '<f4' '(4, 64)' 1024
npy double.npy '<f8' '(4, 64)' 2048
npy short.npy '<f4' '(4, 64)' 1000
npy long.npy '<f4' '(4, 64)' 1028
npy scalar.npy '<f4' '()' 4
npy vector.npy '<f4' '(48,)' 192
npy odd.npy '<f4' '(4, 30)' 480
npy overflow.npy '<f4' '(4294967296, 4294967296)' 64
npy product.npy '<f4' '(3037000500, 3037000500, 3)' 64
npy negative.npy '<f4' '(-1, 4)' 16
head -c 1000 /dev/zero > zeros.npy
head -c 30 good.npy > cut.npy
: > empty.npy
mkdir folder folder.safetensors
safetensors ints.safetensors '{"ids":{"dtype":"I64","shape":[2],"data_offsets":[0,16]}}' 16
safetensors two.safetensors '{"a":{"dtype":"F32","shape":[32],"data_offsets":[0,128]},"b":{"dtype":"F32","shape":[32],"data_offsets":[128,256]}}' 256
safetensors huge.safetensors '{"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,64]}}' 64
safetensors none.safetensors '{}' 0
out=(--spec mxfp4 --out out.safetensors)
expect 2 'input' -- quantize
expect 2 'spec' -- quantize good.npy --out out.safetensors
expect 2 'out' -- quantize good.npy --spec mxfp4
expect 1 'missing.npy' -- quantize missing.npy "${out[@]}"
expect 1 'folder.safetensors.*not a regular' -- quantize folder.safetensors "${out[@]}"
expect 2 'short.txt.*npy or .safetensors' -- quantize short.txt "${out[@]}"
expect 1 'double.npy.*<f8' -- quantize double.npy "${out[@]}"
expect 1 'short.npy.*1000 bytes' -- quantize short.npy "${out[@]}"
expect 1 'long.npy.*1028 bytes' -- quantize long.npy "${out[@]}"
expect 1 'scalar.npy.*scalar' -- quantize scalar.npy "${out[@]}"
expect 1 'overflow.npy.*does not match' -- quantize overflow.npy "${out[@]}"
expect 1 'product.npy.*does not match' -- quantize product.npy "${out[@]}"
expect 1 'negative.npy.*size' -- quantize negative.npy "${out[@]}"
expect 1 'zeros.npy.*magic' -- quantize zeros.npy "${out[@]}"
expect 1 'cut.npy.*truncated' -- quantize cut.npy "${out[@]}"
expect 1 'empty.npy.*magic' -- quantize empty.npy "${out[@]}"
expect 1 'truncated.safetensors' -- quantize truncated.safetensors "${out[@]}"
expect 1 "ints.safetensors.*'ids' is I64" -- quantize ints.safetensors "${out[@]}"
expect 1 'huge.safetensors.*too large' -- quantize huge.safetensors "${out[@]}"
expect 1 'none.safetensors.*no tensors' -- quantize none.safetensors "${out[@]}"
expect 1 "matches 'x" -- quantize two.safetensors "${out[@]}" --tensors 'x*'
expect 2 'column 5' -- quantize good.npy --spec e2m1 --out out.safetensors
expect 2 'column 6' -- quantize good.npy --spec e2m1:b33:e8m0 --out out.safetensors
expect 2 'bf16.*unscaled' -- quantize good.npy --spec bf16:tensor:fp32 --out out.safetensors
expect 2 'axis' -- quantize good.npy "${out[@]}" --axis middle
expect 1 "vector.npy.*'vector'.*axis=first" -- quantize vector.npy "${out[@]}" --axis first
expect 1 "odd.npy.*'odd'.*multiple of 16" -- quantize odd.npy --spec 'mxfp4+had(16,none)' --out out.safetensors
expect 2 'out.npy' -- quantize good.npy --spec mxfp4 --out out.npy
expect 1 'folder.safetensors.*folder' -- quantize good.npy --spec mxfp4 --out folder.safetensors
expect 1 'nowhere/out' -- quantize good.npy --spec mxfp4 --out nowhere/out.safetensors
expect 1 'nowhere' -- quantize good.npy "${out[@]}" --decoded nowhere/x.npy
expect 2 'decoded.*npy' -- quantize good.npy "${out[@]}" --decoded x.safetensors
expect 2 'one tensor' -- quantize two.safetensors "${out[@]}" --decoded x.npy
expect 2 'is the input' -- quantize two.safetensors --spec mxfp4 --out two.safetensors
expect 2 'stats' -- quantize good.npy "${out[@]}" --stats yaml
expect 2 'layout' -- quantize good.npy "${out[@]}" --layout gguf
expect 2 'layout ggml.*mxfp4 and nvfp4' -- quantize good.npy --spec mxfp8e4m3 --out out.safetensors --layout ggml
expect 2 'layout ggml.*last axis' -- quantize good.npy "${out[@]}" --layout ggml --axis first
expect 1 'odd.npy.*blocks of 32' -- quantize odd.npy "${out[@]}" --layout ggml
expect 2 'unknown backend' -- quantize good.npy "${out[@]}" --backend tpu
expect 2 'seed' -- quantize good.npy "${out[@]}" --seed -1
expect 2 'stream' -- quantize good.npy "${out[@]}" --stream 4294967296
expect 2 'piece-bytes' -- quantize good.npy "${out[@]}" --piece-bytes 0

# dequantize
"$program" quantize two.safetensors --spec mxfp4 --out packed.safetensors --stats none || failures=$((failures + 1))
"$program" quantize two.safetensors --spec nvfp4 --out blocks.safetensors --stats none --tensors a > /dev/null || failures=$((failures + 1))
sed 's/\[32\]/[64]/' packed.safetensors > shape.safetensors
sed 's/mxfp4/xxfp4/; s/e2m1:b32/e2m1:b33/' packed.safetensors > badspec.safetensors
sed 's/a\.shape/a.shapf/' packed.safetensors > stranger.safetensors
sed 's/"axis"/"axes"/' packed.safetensors > axis.safetensors
head -c 500 packed.safetensors > packed_cut.safetensors
expect 2 'npy.*one tensor' -- dequantize packed.safetensors --out out.npy
expect 2 'out.txt' -- dequantize packed.safetensors --out out.txt
expect 2 'good.npy' -- dequantize good.npy --out out.npy
expect 2 'is the input' -- dequantize packed.safetensors --out packed.safetensors
expect 1 'missing' -- dequantize missing.safetensors --out out.safetensors
expect 1 'packed_cut.safetensors' -- dequantize packed_cut.safetensors --out out.safetensors
expect 1 'two.safetensors.*lacks' -- dequantize two.safetensors --out out.safetensors
expect 1 'shape.safetensors.*metadata need' -- dequantize shape.safetensors --out out.safetensors
expect 1 'badspec.safetensors.*spec' -- dequantize badspec.safetensors --out out.safetensors
expect 1 "stranger.safetensors.*'a.codes' belongs" -- dequantize stranger.safetensors --out out.safetensors
expect 1 'axis.safetensors.*lacks `axis`' -- dequantize axis.safetensors --out out.safetensors
expect 1 'nowhere' -- dequantize packed.safetensors --out nowhere/out.safetensors
expect 1 'folder' -- dequantize packed.safetensors --out folder.safetensors
# a scale code with its sign bit set
cp blocks.safetensors sign.safetensors
printf '\xff' | dd of=sign.safetensors bs=1 seek=$(($(stat -c %s sign.safetensors) - 1)) conv=notrunc status=none
expect 1 'sign.safetensors.*scale code 0xFF' -- dequantize sign.safetensors --out out.safetensors

# The run that was there before is as it was.
if ! "$program" train --resume run --quiet > /dev/null; then
  echo "FAIL: the good run is no longer whole"
  failures=$((failures + 1))
fi
echo "$failures failures"
[ "$failures" = 0 ]
