"""Writes the loss and every gradient of small models to golden/spec/torch_*.safetensors.

    python3 bench/peers/gradient_vectors.py [--out golden/spec]

Four files: torch_gpt, torch_llama (float32 parameters, forward and backward in float64, rounded to float32 once) and
torch_gpt_mxfp4, torch_llama_mxfp4 (fake_quant.Mxfp4Ste in every projection of the layers; float32 throughout).
Tensors: param/NAME, grad/NAME, tokens and targets (batch, context) i32, loss (1). Metadata says how they were made.

A quantizer turns a last-bit difference in its input into a whole step when the input lies at a rounding boundary. The
mxfp4 files therefore use the first seed for which the same model with float64 products makes the same decisions:
then any correct evaluation order agrees to about 1e-6 and a tolerance means something. Excepted are elements below
1e-5 of their tensor's largest: the query gradient of position 0 is zero in exact arithmetic (its softmax has one
entry), so its blocks hold nothing but rounding noise.

The gradient of attn.k.bias is zero in exact arithmetic too (a constant added to a row of scores does not change its
softmax): a comparison has to measure it on the scale of attn.k.weight's gradient, as `deviation` does here.
"""
import argparse
import datetime
import json
import pathlib

import safetensors.torch
import torch

import fake_quant
import model as models

CONFIGS = {
    "gpt": models.Config("gpt", layers=2, heads=4, width=64, hidden=256, context=32),
    "llama": models.Config("llama", layers=2, heads=4, kv_heads=2, width=64, hidden=128, context=32),
}
BATCH = 4


def randomize(model, seed):
    """Parameters for which every gradient is far from zero: norm weights near 1, biases near 0, scores of order 1."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):
            noise = torch.randn(p.shape, generator=generator)
            if name.endswith("norm.weight"):
                p.copy_(1.0 + 0.2 * noise)
            elif p.dim() == 1:
                p.copy_(0.1 * noise)
            else:
                std = 0.1 if name in ("embedding.weight", "positions.weight") else 1.2 / p.shape[1] ** 0.5
                p.copy_(std * noise)
    ids = torch.randint(0, model.config.vocab, (2, BATCH, model.config.context), generator=generator)
    return ids[0], ids[1]


def gradients(config, linear, seed, dtype):
    """Model in `dtype` from float32 parameters, tokens, targets, loss; gradients are in the parameters."""
    model = models.Model(config, linear)
    tokens, targets = randomize(model, seed)
    model = model.to(dtype)
    loss = models.loss_of(model, tokens, targets)
    loss.backward()
    return model, tokens, targets, loss.detach()


def deviation(a, b):
    """Largest max|a-b| / max|b| over the gradients of two models, and the parameter where it occurs."""
    worst = (0.0, "")
    others = {name: p.grad.double() for name, p in b.named_parameters()}
    for name, p in a.named_parameters():
        scale = others[name.replace("attn.k.bias", "attn.k.weight")].abs().max()
        worst = max(worst, (float((p.grad.double() - others[name]).abs().max() / scale), name))
    return worst


def same_decisions(a, b):
    """True if two lists of quantized tensors agree except below 1e-5 of a tensor's largest element."""
    return all(bool(((x - y).abs() <= 1e-5 * x.abs().max()).all()) for x, y in zip(a, b, strict=True))


class RecordingMxfp4:
    """fake_quant.mxfp4 whose decisions are made in float32 for any input dtype and kept for comparison."""

    def __init__(self):
        self.values = []
        self.quantize = fake_quant.mxfp4

    def __call__(self, x):
        y = self.quantize(x.float())
        self.values.append(y)
        return y.to(x.dtype)

    def run(self, config, seed, dtype):
        self.values = []
        fake_quant.mxfp4 = self
        try:
            result = gradients(config, fake_quant.LINEARS["mxfp4-ste"], seed, dtype)
        finally:
            fake_quant.mxfp4 = self.quantize
        return result, self.values


def quantized_gradients(config):
    """(seed, float32 result, float64-product model) of the first seed without a boundary decision."""
    for seed in range(1, 2000):
        single, single_values = RecordingMxfp4().run(config, seed, torch.float32)
        double, double_values = RecordingMxfp4().run(config, seed, torch.float64)
        if same_decisions(single_values, double_values):
            return seed, single, double[0]
    raise SystemExit("no seed without a rounding decision at a boundary")


def write(path, config, result, notes):
    model, tokens, targets, loss = result
    tensors = {"tokens": tokens.int(), "targets": targets.int(), "loss": loss.float().reshape(1)}
    for name, p in model.named_parameters():
        tensors[f"param/{name}"] = p.detach().float().contiguous()
        tensors[f"grad/{name}"] = p.grad.float().contiguous()
    metadata = {
        "provenance": "bench/peers/gradient_vectors.py",
        "torch": torch.__version__,
        "date": datetime.date.today().isoformat(),
        "norm_eps": str(models.NORM_EPS),
        "rope_theta": str(models.ROPE_THETA),
        "batch": str(BATCH),
        "loss_hex": float(loss).hex(),
    }
    metadata |= {key: str(getattr(config, key)) for key in ("model", "layers", "heads", "width", "context", "vocab")}
    metadata |= {"kv_heads": str(config.kv), "hidden": str(config.ffn)} | notes
    safetensors.torch.save_file(tensors, path, metadata)
    print(json.dumps({"file": path.name, "bytes": path.stat().st_size, "loss": float(loss)} | notes))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("golden/spec"))
    out = parser.parse_args().out
    for name, config in CONFIGS.items():
        truth = gradients(config, fake_quant.LINEARS["fp32"], 1, torch.float64)
        single = gradients(config, fake_quant.LINEARS["fp32"], 1, torch.float32)
        error, where = deviation(single[0], truth[0])
        notes = {
            "recipe": "fp32",
            "seed": "1",
            "arithmetic": "float32 parameters, float64 forward and backward, results rounded to float32",
            "float32_deviation": f"{error:.2e} of the tensor's largest gradient, at {where}",
        }
        write(out / f"torch_{name}.safetensors", config, truth, notes)

        seed, single, double = quantized_gradients(config)
        error, where = deviation(single[0], double)
        notes = {
            "recipe": "mxfp4-ste",
            "seed": str(seed),
            "quantized": "layers.*.attn.{q,k,v,o} and layers.*.ffn.*: e2m1:b32:e8m0/floor:rne in all six operand places",
            "arithmetic": "float32; quantized values feed float32 products; head and embedding not quantized",
            "float32_deviation": f"{error:.2e} of the tensor's largest gradient against float64 products, at {where}",
        }
        write(out / f"torch_{name}_mxfp4.safetensors", config, single, notes)


if __name__ == "__main__":
    main()
