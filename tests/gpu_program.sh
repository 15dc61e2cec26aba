#!/bin/bash
# A program with the cuda backend links neither the driver nor the runtime, runs without a device, and then says so in
# one line with exit code 1.
#   gpu_program.sh FP4SIM
set -euo pipefail
FP4SIM=$1

if readelf -d "$FP4SIM" | grep -E 'NEEDED.*(libcuda|libcudart)'; then
  echo "the program does not start where this library is missing"
  exit 1
fi
"$FP4SIM" fuzz --op silu --iterations 1 --seed 1 > /dev/null

# Hiding the devices makes every machine one without.
for arguments in devices "fuzz --backend cuda --op silu --iterations 1"; do
  code=0
  # shellcheck disable=SC2086
  output=$(CUDA_VISIBLE_DEVICES= "$FP4SIM" $arguments 2>&1 > /dev/null) || code=$?
  if [ $code -ne 1 ] || [ "$(wc -l <<< "$output")" -ne 1 ] || [[ $output != "fp4sim: no CUDA device: "* ]]; then
    echo "fp4sim $arguments: exit code $code, output: $output"
    exit 1
  fi
done
