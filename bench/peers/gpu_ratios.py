"""Our figures beside the peer's of the same run, and the targets that they are measured by.

    python3 bench/peers/gpu_ratios.py PEER.jsonl OUR_LOG

PEER.jsonl is what gpu_peer.py --json wrote. OUR_LOG holds the table of gpu_bench and lines `speed RECIPE TOKENS_PER_S`.
The last line counts the targets reached.
"""
import json
import re
import sys

# name, ratio aimed at: training to the peer, quantization to a device copy, products of 8192³ to cuBLAS
TRAINING = {"bf16": None, "mxfp4-ste": 1.5, "fp4-dge-occ": 0.8}
QUANTIZATION = {"mxfp4": 0.9, "nvfp4": 0.9, "e2m1:row:fp32": 0.9}
PRODUCTS = {
    "mxfp4": ("bf16 from packed mxfp4", 1.1),
    "mxfp4 wide": ("bf16 from packed mxfp4", None),
    "e2m1:row:fp32": ("bf16 from packed mxfp4", 1.7),
    "nvfp4": ("bf16 from packed mxfp4", 0.55),
    "e4m3:row:fp32": ("fp32", 0.8),
    "e5m2:tensor:fp32/pow2,e4m3:tensor:fp32/pow2": ("fp32", None),
    "f32": ("fp32", 0.8),
    "bf16:none": ("fp32", None),
}
TARGET_SHAPE = "8192x8192x8192"
ALONE = {"mxfp4": 1.25, "e2m1:row:fp32": 2.0, "nvfp4": 0.62}  # operands expanded, to cuBLAS bf16


def peer_figures(path):
    """{(what, name, shape): value}."""
    with open(path, encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    return {(r["what"], r["name"], r["shape"]): r["value"] for r in records}


def our_figures(path):
    """({recipe: tokens/s}, {row of gpu_bench: (GB/s, share of its own copy, TFLOP/s or None)})."""
    speeds, nodes = {}, {}
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            if speed := re.match(r"speed (\S+) (\d+)$", line):
                speeds[speed[1]] = float(speed[2])
            elif node := re.match(r"(\S.*?)\s{2,}\d+\.\d\d\s+(\d+)\s+(\d+\.\d\d)(?:\s+(\d+\.\d))?\s*$", line):
                nodes[node[1]] = (float(node[2]), float(node[3]), float(node[4]) if node[4] else None)
    return speeds, nodes


class Table:
    def __init__(self):
        self.reached = self.targets = 0
        print(f"{'ratio':<62}{'ours':>12}{'peer':>12}{'ratio':>8}{'target':>8}")

    def add(self, name, ours, peer, target):
        if ours is None or peer is None:
            print(f"{name:<62}{'missing' if ours is None else f'{ours:.1f}':>12}"
                  f"{'missing' if peer is None else f'{peer:.1f}':>12}")
            self.targets += target is not None
            return
        ratio = ours / peer
        print(f"{name:<62}{ours:>12.1f}{peer:>12.1f}{ratio:>8.2f}{target or '':>8}")
        if target is not None:
            self.targets += 1
            self.reached += ratio >= target


def main():
    peer = peer_figures(sys.argv[1])
    speeds, nodes = our_figures(sys.argv[2])
    table = Table()

    for recipe, target in TRAINING.items():
        theirs = [v for (what, name, _), v in peer.items() if what == "train" and name.split("/")[0] == recipe]
        table.add(f"tokens/s {recipe}", speeds.get(recipe), max(theirs, default=None), target)

    # The peer's copy and ours: the faster one is the device's. Our shares count the bytes really moved.
    theirs = [v for (what, name, _), v in peer.items() if what == "quantize" and name == "copy"]
    ours = max((rate for name, (rate, _, _) in nodes.items() if name.startswith("copy")), default=None)
    copy = max(theirs + ([ours] if ours else []), default=None)
    for (what, name, _), value in peer.items():
        if what == "quantize" and name != "copy":
            table.add(f"GB/s torch.compile {name} to copy", value, copy, None)
    for row, (_, share, _) in nodes.items():
        if part := re.match(r"quantize (\S+) (\w+) \((\d+), (\d+)\)$", row):
            large = part[2] == "last" and int(part[4]) >= 8192
            table.add(f"GB/s {row[9:]} to copy", share * ours if ours else None, copy,
                      QUANTIZATION.get(part[1]) if large else None)

    for row, (_, _, flops) in nodes.items():
        part = re.match(r"matmul (\S+(?: wide)?) (\d+x\d+x\d+)", row)
        if not part or flops is None or part[1] not in PRODUCTS:
            continue
        kind, target = PRODUCTS[part[1]]
        table.add(f"TFLOP/s {part[1]} {part[2]} to {kind}", flops, peer.get(("product", kind, part[2])),
                  target if part[2] == TARGET_SHAPE else None)
    for row, (_, _, flops) in nodes.items():
        if part := re.match(r"product alone (\S+) (\S+)$", row):
            table.add(f"TFLOP/s alone {part[1]} {part[2]} to bf16", flops, peer.get(("product", "bf16", part[2])), ALONE.get(part[1]))
    print(f"{table.reached} of {table.targets} targets reached")


if __name__ == "__main__":
    main()
