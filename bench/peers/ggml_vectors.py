"""Writes golden/spec/ggml.safetensors: blocks of MXFP4 and NVFP4 by the gguf package, ggml's own Python code.

mxfp4.x (96, 32) F32 and mxfp4.blocks (96, 17) U8: rows of random values, of ties, and with a largest element at or a few
ulps below a power of two. nvfp4.blocks (32, 36) U8 and nvfp4.x (32, 64) F32: random blocks and their values.
scale.x (1024) F32 and scale.code (1024) U8: UE4M3 codes of numbers. Usage: ggml_vectors.py FILE
"""

import sys

import gguf.quants as quants
import numpy as np
from safetensors.numpy import save_file

rng = np.random.default_rng(20261130)


def mxfp4_rows():
    normal = rng.standard_normal((32, 32)) * np.exp2(rng.integers(-30, 30, (32, 1)))
    ties = rng.integers(-24, 25, (32, 32)) / 4 * np.exp2(rng.integers(-20, 20, (32, 1)))
    power = rng.standard_normal((32, 32)) * 0.1
    exponents = rng.integers(-20, 40, 32)
    power = (power * np.exp2(exponents)[:, None]).astype(np.float32)
    below = np.exp2(exponents).astype(np.float32).view(np.int32) - rng.integers(0, 30, 32).astype(np.int32)
    power[:, 5] = below.view(np.float32)
    return np.concatenate([normal, ties, power]).astype(np.float32)


def main():
    x = mxfp4_rows()
    blocks = rng.integers(0, 256, (32, 36)).astype(np.uint8)
    blocks[:, :4] &= 0x7F
    numbers = np.exp2(rng.uniform(-14, 10, 1024)).astype(np.float32)
    tensors = {
        "mxfp4.x": x,
        "mxfp4.blocks": quants.MXFP4.quantize(x),
        "nvfp4.blocks": blocks,
        "nvfp4.x": quants.NVFP4.dequantize(blocks),
        "scale.x": numbers,
        "scale.code": quants.NVFP4.fp32_to_ue4m3(numbers),
    }
    save_file({k: np.ascontiguousarray(v) for k, v in tensors.items()}, sys.argv[1])


main()
