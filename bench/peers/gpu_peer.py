"""What PyTorch reaches on a GPU, the yardstick of backend `cuda`: training with fake quantization under torch.compile,
quantization of large tensors, and products.

    python3 bench/peers/gpu_peer.py [--only train|quantize|product] [--json FILE] [--data FILE] [--lock FILE]

Times are medians from CUDA events; quantizations and products run as one captured graph over several buffers, so that
neither launches nor caches flatter. Prints a table; --json writes one object a line: what, name, shape, value, unit.
Training: gpt on bytes (of --data, or random ones), bfloat16 autocast, fused AdamW; once with every kernel launched by
the host and once with the whole step in a captured graph (name/graph). Needs torch and nothing else.
Several processes with the same --lock FILE, started together, compile at the same time and measure one after the other.
"""
import argparse
import contextlib
import fcntl
import json
import statistics
import sys
import time
import traceback

import torch

import fake_quant as fq
import gpu_fake_quant as gq
import model as models


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--only", choices=("train", "quantize", "product"))
    p.add_argument("--lock", help="file by which processes that run at the same time take turns at measuring")
    p.add_argument("--json", help="file for one JSON object a measurement")
    p.add_argument("--data", help="file whose bytes are the tokens; random bytes without it")
    p.add_argument("--device", default="cuda", help="cpu: only to try the script")
    p.add_argument("--mode", default="default", help="of torch.compile, for training")
    p.add_argument("--recipes", nargs="*", choices=tuple(gq.LINEARS), default=list(gq.LINEARS))
    p.add_argument("--layers", type=int, default=6)
    p.add_argument("--heads", type=int, default=6)
    p.add_argument("--width", type=int, default=384)
    p.add_argument("--context", type=int, default=256)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--steps", type=int, default=40)
    p.add_argument("--warmup-steps", type=int, default=12)
    p.add_argument("--size", type=int, default=16384, help="of quantized tensors; products take half of it")
    p.add_argument("--buffers", type=int, default=4)
    p.add_argument("--runs", type=int, default=15)
    return p.parse_args()


class Report:
    """Collects measurements; a failed one is a line too and makes the exit status 1."""

    def __init__(self, path):
        self.file = open(path, "w", encoding="utf-8") if path else None
        self.failed = 0
        print(f"{'what':<10}{'name':<34}{'shape':<22}{'value':>12}  unit", flush=True)

    def add(self, what, name, shape, value, unit):
        print(f"{what:<10}{name:<34}{shape:<22}{value:>12.1f}  {unit}", flush=True)
        if self.file:
            record = {"what": what, "name": name, "shape": shape, "value": round(value, 3), "unit": unit}
            print(json.dumps(record), file=self.file, flush=True)

    def measure(self, what, name, shape, unit, function):
        try:
            self.add(what, name, shape, function(), unit)
        except Exception:  # one peer that does not run must not hide the others
            self.failed += 1
            print(f"{what:<10}{name:<34}{shape:<22}{'failed':>12}", flush=True)
            traceback.print_exc(limit=-3, file=sys.stderr)


class Turns:
    """A process holds its lock file together with the others while it compiles, and alone while it measures: nobody
    measures before all have compiled what they are at."""

    def __init__(self, path):
        self.file = open(path, "w", encoding="utf-8") if path else None
        self.take(fcntl.LOCK_SH)

    def take(self, kind):
        if self.file:
            fcntl.flock(self.file, fcntl.LOCK_UN)
            fcntl.flock(self.file, kind)

    @contextlib.contextmanager
    def measuring(self):
        self.take(fcntl.LOCK_EX)
        try:
            yield
        finally:
            self.take(fcntl.LOCK_SH)


def median_seconds(calls, args):
    """Median time of one call; `calls` are the same work on buffers of their own."""
    for call in calls + calls:
        call()
    if args.device == "cuda":
        torch.cuda.synchronize()
    with args.turns.measuring():
        return (cpu_median if args.device == "cpu" else gpu_median)(calls, args)


def cpu_median(calls, args):
    seconds = []
    for _ in range(args.runs):
        start = time.perf_counter()
        for call in calls:
            call()
        seconds.append((time.perf_counter() - start) / len(calls))
    return statistics.median(seconds)


def gpu_median(calls, args):
    graph = torch.cuda.CUDAGraph()
    results = []
    with torch.cuda.graph(graph):
        for call in calls:
            results.append(call())
    graph.replay()
    torch.cuda.synchronize()
    milliseconds = []
    for _ in range(args.runs):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        milliseconds.append(start.elapsed_time(end))
    return statistics.median(milliseconds) * 1e-3 / len(calls)


# ---- training ----


class Trainer:
    """A model, its optimizer and its data; step() is one step of training on random windows."""

    def __init__(self, recipe, args):
        torch.manual_seed(1)
        torch.compiler.reset()
        if args.data:
            with open(args.data, "rb") as file:
                data = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)
        else:
            data = torch.randint(256, (1 << 20,), dtype=torch.uint8)
        self.data = data.to(args.device).long()
        self.args = args
        config = models.Config("gpt", args.layers, args.heads, 0, args.width, 0, args.context)
        self.model = models.Model(config, gq.LINEARS[recipe]).to(args.device)
        matrices = [p for p in self.model.parameters() if p.dim() >= 2]
        vectors = [p for p in self.model.parameters() if p.dim() < 2]
        groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(
            groups, lr=1e-3, betas=(0.9, 0.95), fused=True, capturable=args.device == "cuda"
        )
        self.window = torch.arange(args.context + 1, device=args.device)

        @torch.compile(mode=args.mode)
        def forward(tokens, targets):
            with torch.autocast(args.device, dtype=torch.bfloat16):
                return models.loss_of(self.model, tokens, targets)

        self.forward = forward

    def step(self):
        args = self.args
        starts = torch.randint(len(self.data) - args.context - 1, (args.batch, 1), device=args.device)
        rows = self.data[starts + self.window]
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.forward(rows[:, :-1], rows[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0, foreach=True)
        self.optimizer.step()
        return loss.detach()

    def captured_step(self):
        """A function that runs the same step as one graph and returns its loss. Warmed up on a stream of its own first, as
        capturing a backward pass demands."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.step()
        torch.cuda.current_stream().wait_stream(stream)
        self.optimizer.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            loss = self.step()

        def replay():
            graph.replay()
            return loss

        return replay


def tokens_per_second(step, args):
    """From the median over the steps behind the warm-up, in which compilation happens."""
    for _ in range(args.warmup_steps):
        step()
    if args.device == "cuda":
        torch.cuda.synchronize()
    with args.turns.measuring():
        seconds, loss = (cpu_steps if args.device == "cpu" else gpu_steps)(step, args)
    if not torch.isfinite(loss):
        raise RuntimeError(f"the loss is {loss.item()}")
    return args.batch * args.context / statistics.median(seconds)


def gpu_steps(step, args):
    """Seconds between the ends of steps on the device, and the last loss."""
    events = [torch.cuda.Event(enable_timing=True) for _ in range(args.steps + 1)]
    events[0].record()
    for event in events[1:]:
        loss = step()
        event.record()
    torch.cuda.synchronize()
    return [a.elapsed_time(b) * 1e-3 for a, b in zip(events, events[1:])], loss


def cpu_steps(step, args):
    seconds = []
    for _ in range(args.steps):
        start = time.perf_counter()
        loss = step()
        seconds.append(time.perf_counter() - start)
    return seconds, loss


def train(report, args):
    for recipe in args.recipes:
        shape = f"{args.batch * args.context} tokens"
        trainer = Trainer(recipe, args)
        report.measure("train", recipe, shape, "tokens/s", lambda: tokens_per_second(trainer.step, args))
        if args.device == "cuda":
            name = f"{recipe}/graph"
            report.measure(
                "train", name, shape, "tokens/s", lambda: tokens_per_second(trainer.captured_step(), args)
            )


# ---- quantization: float32 in, float32 out, 8 bytes an element ----


def quantize(report, args):
    n = args.size
    xs = [torch.randn(n, n, device=args.device) for _ in range(args.buffers)]
    ys = [torch.empty_like(x) for x in xs]
    functions = {"copy": None, "mxfp4": fq.mxfp4, "nvfp4": gq.nvfp4, "e2m1:row:fp32": gq.row_e2m1}

    def bandwidth(function):
        if function is None:
            calls = [lambda x=x, y=y: y.copy_(x) for x, y in zip(xs, ys)]
        else:
            compiled = torch.compile(function)
            calls = [lambda x=x: compiled(x) for x in xs]
        return 8 * n * n / median_seconds(calls, args) * 1e-9

    for name, function in functions.items():
        report.measure("quantize", name, f"{n}x{n}", "GB/s", lambda: bandwidth(function))


# ---- products: y (m, n) = a (m, k) · b (n, k)ᵀ ----


def packed_mxfp4(rows, k, device):
    codes = torch.randint(256, (rows, k // 2), dtype=torch.uint8, device=device)
    scales = torch.randint(120, 128, (rows, k // fq.MX_BLOCK), dtype=torch.uint8, device=device)
    return codes, scales


def product_calls(kind, m, n, k, args):
    """One call for each buffer."""
    torch.compiler.reset()  # else the second shape makes the kernels generic
    unpack = torch.compile(gq.unpack_mxfp4, dynamic=False)
    calls = []
    for _ in range(args.buffers):
        if kind == "bf16 from packed mxfp4":
            a, b = packed_mxfp4(m, k, args.device), packed_mxfp4(n, k, args.device)
            calls.append(lambda a=a, b=b: unpack(*a) @ unpack(*b).t())
        elif kind == "int8":
            a, b = (torch.randint(-127, 128, (r, k), dtype=torch.int8, device=args.device) for r in (m, n))
            calls.append(lambda a=a, b=b: torch._int_mm(a, b.t()))
        else:
            dtype = torch.bfloat16 if kind == "bf16" else torch.float32
            a, b = (torch.randn(r, k, device=args.device, dtype=dtype) for r in (m, n))
            calls.append(lambda a=a, b=b: a @ b.t())
    return calls


def product(report, args):
    torch.backends.cuda.matmul.allow_tf32 = False
    tokens, width, hidden = args.batch * args.context, args.width, 4 * args.width
    shapes = [(args.size // 2,) * 3, (args.size // 4,) * 3]
    shapes += [(tokens, width, width), (tokens, hidden, width), (tokens, width, hidden), (hidden, width, tokens)]
    for m, n, k in shapes:
        for kind in ("bf16", "bf16 from packed mxfp4", "fp32", "int8"):
            report.measure(
                "product",
                kind,
                f"{m}x{n}x{k}",
                "TFLOP/s",
                lambda: 2.0 * m * n * k / median_seconds(product_calls(kind, m, n, k, args), args) * 1e-12,
            )


def main():
    args = options()
    if args.device == "cuda":
        print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    args.turns = Turns(args.lock)
    report = Report(args.json)
    for measurement in (train, quantize, product):
        if args.only in (None, measurement.__name__):
            measurement(report, args)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
