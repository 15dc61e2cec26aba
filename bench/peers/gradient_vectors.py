"""Writes the loss and every gradient of small models to golden/spec/torch_*.safetensors.

    python3 bench/peers/gradient_vectors.py [--out golden/spec]

Four files: torch_gpt, torch_llama (float32 parameters, forward and backward in float64, rounded to float32 once) and
torch_gpt_mxfp4, torch_llama_mxfp4 (fake_quant.Mxfp4Ste in every projection of the layers; float32 throughout).
Tensors: param/NAME, grad/NAME, tokens and targets (batch, context) i32, loss (1). Metadata says how they were made.
Both files of a model have the same parameters and tokens: the mxfp4 file leaves them out and its metadata `parameters`
names the file that has them.

A quantizer turns a last-bit difference in its input into a whole step when the input lies at a rounding boundary. The
files therefore use the first seed for which the mxfp4 model makes the same decisions with float64 products and under
a noise of the size of float32's rounding errors: then any correct evaluation order agrees to about 1e-6 and a
tolerance means something. Excepted are elements below 1e-5 of their tensor's largest: the query gradient of position 0
is zero in exact arithmetic (its softmax has one entry), so its blocks hold nothing but rounding noise.

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
    "gpt": models.Config("gpt", layers=2, heads=4, width=64, hidden=96, context=32, vocab=64),
    "llama": models.Config("llama", layers=2, heads=4, kv_heads=2, width=64, hidden=96, context=32, vocab=64),
}
BATCH = 4
NOISE = 1.5e-7  # of a row's root mean square: what two float32 evaluation orders of a product differ by
NOISE_TRIALS = 4


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
    """fake_quant.mxfp4 whose decisions are made in float32 for any input dtype; inputs and results are kept."""

    def __init__(self):
        self.inputs, self.values = [], []
        self.quantize = fake_quant.mxfp4

    def __call__(self, x):
        y = self.quantize(x.float())
        self.inputs.append(x.detach().double())
        self.values.append(y)
        return y.to(x.dtype)

    def run(self, config, seed, dtype):
        fake_quant.mxfp4 = self
        try:
            return gradients(config, fake_quant.LINEARS["mxfp4-ste"], seed, dtype)
        finally:
            fake_quant.mxfp4 = self.quantize


def withstands_noise(single, double):
    """True if no decision of the float32 run changes under noise. What both runs computed alike is exact, such as
    weights and the attention output of position 0: it gets none."""
    generator = torch.Generator().manual_seed(0)
    for x, truth, y in zip(single.inputs, double.inputs, single.values, strict=True):
        scale = NOISE * x.square().mean(-1, keepdim=True).sqrt()
        for _ in range(NOISE_TRIALS):
            noise = scale * torch.randn(x.shape, generator=generator, dtype=x.dtype)
            noisy = torch.where(x == truth, x, x + noise)
            if not same_decisions([fake_quant.mxfp4(noisy.float())], [y]):
                return False
    return True


def quantized_gradients(config):
    """(seed, float32 result, float64-product model) of the first seed without a boundary decision."""
    for seed in range(1, 2000):
        single, double = RecordingMxfp4(), RecordingMxfp4()
        result = single.run(config, seed, torch.float32)
        truth = double.run(config, seed, torch.float64)
        if same_decisions(single.values, double.values) and withstands_noise(single, double):
            return seed, result, truth[0]
    raise SystemExit("no seed without a rounding decision at a boundary")


def write(path, config, result, notes):
    model, tokens, targets, loss = result
    tensors = {"loss": loss.float().reshape(1)}
    if "parameters" not in notes:
        tensors |= {"tokens": tokens.int(), "targets": targets.int()}
        tensors |= {f"param/{name}": p.detach().float().contiguous() for name, p in model.named_parameters()}
    tensors |= {f"grad/{name}": p.grad.float().contiguous() for name, p in model.named_parameters()}
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
        seed, quantized, double = quantized_gradients(config)
        truth = gradients(config, fake_quant.LINEARS["fp32"], seed, torch.float64)
        single = gradients(config, fake_quant.LINEARS["fp32"], seed, torch.float32)
        error, where = deviation(single[0], truth[0])
        notes = {
            "recipe": "fp32",
            "seed": str(seed),
            "arithmetic": "float32 parameters, float64 forward and backward, results rounded to float32",
            "float32_deviation": f"{error:.2e} of the tensor's largest gradient, at {where}",
        }
        write(out / f"torch_{name}.safetensors", config, truth, notes)

        error, where = deviation(quantized[0], double)
        notes = {
            "recipe": "mxfp4-ste",
            "parameters": f"torch_{name}.safetensors",
            "seed": str(seed),
            "quantized": "layers.*.attn.{q,k,v,o} and layers.*.ffn.*: e2m1:b32:e8m0/floor:rne in all six operand places",
            "arithmetic": "float32; quantized values feed float32 products; head and embedding not quantized",
            "float32_deviation": f"{error:.2e} of the tensor's largest gradient against float64 products, at {where}",
        }
        write(out / f"torch_{name}_mxfp4.safetensors", config, quantized, notes)


if __name__ == "__main__":
    main()
