"""Rates of fake quantization in PyTorch on the CPU: one JSON object a row, Gelem/s by the median.

    python3 bench/peers/quantize_peer.py --threads 2 --elements 67108864

Rows: fake_quant.py's mxfp4 and rows of e2m1, compiled by torch.compile and eager (one pass over memory for each operation,
as emulation libraries in plain PyTorch work). Values in and out are float32.
"""
import argparse
import json
import statistics
import time

import torch

import fake_quant

WIDTH = 1024


def row_e2m1(x):
    scale = fake_quant.row_scale(x, fake_quant.E2M1_MAX)
    return fake_quant.round_e2m1(x / scale) * scale


def rate(function, x, runs):
    function(x), function(x)
    seconds = []
    for _ in range(runs):
        begin = time.perf_counter()
        function(x)
        seconds.append(time.perf_counter() - begin)
    return x.numel() / statistics.median(seconds) * 1e-9


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--elements", type=int, default=1 << 26)
    p.add_argument("--runs", type=int, default=5)
    o = p.parse_args()
    torch.set_num_threads(o.threads)
    x = torch.randn(o.elements // WIDTH, WIDTH)
    for name, function in (("mxfp4", fake_quant.mxfp4), ("e2m1:row:fp32", row_e2m1)):
        for how, f in (("compile", torch.compile(function)), ("eager", function)):
            with torch.no_grad():
                result = {"spec": name, "how": how, "threads": o.threads, "Gelem/s": round(rate(f, x, o.runs), 4)}
            print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
