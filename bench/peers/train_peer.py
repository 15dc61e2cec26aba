"""Trains gpt or llama on the bytes of a file with PyTorch on the CPU and prints tokens/s and losses.

    python3 bench/peers/train_peer.py --data FILE --recipe mxfp4-ste --compile --threads 2 --steps 60

The yardstick for fp4sim's speed: same model, same batch, same optimizer. The last line is one JSON object;
tokens_per_s is the median over the steps after the warm-up steps (compilation happens there).
"""
import argparse
import contextlib
import json
import statistics
import time

import torch

import fake_quant
import model as models


def options():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--data", required=True, help="text file; its bytes are the tokens")
    p.add_argument("--val-fraction", type=float, default=0.1)
    p.add_argument("--model", choices=("gpt", "llama"), default="gpt")
    p.add_argument("--layers", type=int, default=4)
    p.add_argument("--heads", type=int, default=4)
    p.add_argument("--kv-heads", type=int, default=0)
    p.add_argument("--width", type=int, default=128)
    p.add_argument("--hidden", type=int, default=0)
    p.add_argument("--context", type=int, default=64)
    p.add_argument("--batch", type=int, default=12)
    p.add_argument("--steps", type=int, default=60)
    p.add_argument("--warmup-steps", type=int, default=10)
    p.add_argument("--recipe", choices=tuple(fake_quant.LINEARS), default="fp32")
    p.add_argument("--compile", action="store_true")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--beta1", type=float, default=0.9)
    p.add_argument("--beta2", type=float, default=0.99)
    p.add_argument("--weight-decay", type=float, default=0.1)
    p.add_argument("--seed", type=int, default=1)
    return p.parse_args()


def windows(data, starts, context):
    """tokens and targets (batch, context) of the windows beginning at `starts`."""
    rows = torch.stack([data[s : s + context + 1] for s in starts.tolist()])
    return rows[:, :-1], rows[:, 1:]


@torch.no_grad()
def validation_loss(forward, data, args, limit=40):
    """Mean loss over at most `limit` batches of consecutive, non-overlapping windows."""
    starts = torch.arange(0, len(data) - args.context - 1, args.context)
    batches = [b for b in starts.split(args.batch) if len(b) == args.batch][:limit]
    return statistics.fmean(float(forward(*windows(data, b, args.context))) for b in batches)


def main():
    args = options()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    with open(args.data, "rb") as file:
        data = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8).long()
    split = int(len(data) * (1 - args.val_fraction))
    train, held_out = data[:split], data[split:]

    config = models.Config(args.model, args.layers, args.heads, args.kv_heads, args.width, args.hidden, args.context)
    model = models.Model(config, fake_quant.LINEARS[args.recipe])
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": matrices, "weight_decay": args.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=args.lr, betas=(args.beta1, args.beta2), fused=True)

    def precision():
        if args.recipe == "bf16":
            return torch.autocast("cpu", dtype=torch.bfloat16)
        return contextlib.nullcontext()

    def forward(tokens, targets):
        with precision():
            return models.loss_of(model, tokens, targets)

    if args.compile:
        forward = torch.compile(forward)

    begin = time.perf_counter()
    seconds, losses = [], []
    for _ in range(args.steps):
        start = time.perf_counter()
        tokens, targets = windows(train, torch.randint(len(train) - args.context - 1, (args.batch,)), args.context)
        loss = forward(tokens, targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        seconds.append(time.perf_counter() - start)
    elapsed = time.perf_counter() - begin

    measured = seconds[min(args.warmup_steps, len(seconds) - 1) :]
    print(
        json.dumps(
            {
                "recipe": args.recipe,
                "model": args.model,
                "compile": args.compile,
                "threads": args.threads,
                "steps": args.steps,
                "tokens_per_s": round(args.batch * args.context / statistics.median(measured), 1),
                "train_loss": round(statistics.fmean(losses[-10:]), 4),
                "val_loss": round(validation_loss(forward, held_out, args), 4),
                "elapsed_s": round(elapsed, 1),
                "torch": torch.__version__,
            }
        )
    )


if __name__ == "__main__":
    main()
