"""The gpt and llama models of fp4sim in PyTorch: same shapes, same parameter names, same formulas.

Written to be compared with, so nothing here is faster or smarter than the formulas. `linear` is a parameter of the
model: a function (x, weight, bias) -> y that every projection of a layer goes through, which is where a recipe's
fake quantization is plugged in. Embedding, attention products and head are never quantized.

Shapes: B batch, S context, C width, H heads, D = C/H head width, V vocabulary. Weights are (out, in).
"""
import dataclasses
import math

import torch
import torch.nn.functional as F
from torch import nn

NORM_EPS = 1e-5
ROPE_THETA = 10000.0


@dataclasses.dataclass(frozen=True)
class Config:
    model: str = "gpt"  # gpt | llama
    layers: int = 4
    heads: int = 4
    kv_heads: int = 0  # 0: as many as heads
    width: int = 128
    hidden: int = 0  # 0: 4·width for gpt, llama's 8/3·width rounded up to a multiple of 32
    context: int = 64
    vocab: int = 256

    @property
    def kv(self):
        return self.kv_heads or self.heads

    @property
    def ffn(self):
        if self.hidden:
            return self.hidden
        return 4 * self.width if self.model == "gpt" else ((8 * self.width + 2) // 3 + 31) // 32 * 32


class Linear(nn.Module):
    """y = linear(x, weight, bias) with the model's `linear` function."""

    def __init__(self, linear, inputs, outputs, bias):
        super().__init__()
        self.linear = linear
        self.weight = nn.Parameter(torch.empty(outputs, inputs))
        self.bias = nn.Parameter(torch.zeros(outputs)) if bias else None

    def forward(self, x):
        return self.linear(x, self.weight, self.bias)


class RmsNorm(nn.Module):
    """x / sqrt(mean(x²) + eps) · weight over the last axis."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + NORM_EPS) * self.weight


def norm(config):
    return nn.LayerNorm(config.width, eps=NORM_EPS) if config.model == "gpt" else RmsNorm(config.width)


def rotary_table(context, head_width, dtype):
    """cos and sin of pos · theta^(-2i/D), each (S, D/2), computed in binary64."""
    pos = torch.arange(context, dtype=torch.float64)[:, None]
    rate = ROPE_THETA ** (-torch.arange(0, head_width, 2, dtype=torch.float64) / head_width)
    return torch.cos(pos * rate).to(dtype), torch.sin(pos * rate).to(dtype)


def rotate(x, cos, sin):
    """Rotary position embedding of x (B, H, S, D) on interleaved pairs (2i, 2i+1)."""
    x0, x1 = x[..., 0::2], x[..., 1::2]
    return torch.stack((x0 * cos - x1 * sin, x1 * cos + x0 * sin), dim=-1).flatten(-2)


class Attention(nn.Module):
    """Causal self-attention, scale 1/sqrt(D); llama shares each key and value head among H/kv_heads query heads."""

    def __init__(self, config, linear):
        super().__init__()
        self.config = config
        self.head = config.width // config.heads
        bias = config.model == "gpt"
        self.q = Linear(linear, config.width, config.heads * self.head, bias)
        self.k = Linear(linear, config.width, config.kv * self.head, bias)
        self.v = Linear(linear, config.width, config.kv * self.head, bias)
        self.o = Linear(linear, config.heads * self.head, config.width, bias)

    def forward(self, x, cos, sin):
        b, s, _ = x.shape
        q, k, v = (y.view(b, s, -1, self.head).transpose(1, 2) for y in (self.q(x), self.k(x), self.v(x)))
        if cos is not None:
            q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        repeats = self.config.heads // self.config.kv
        if repeats > 1:
            k, v = k.repeat_interleave(repeats, dim=1), v.repeat_interleave(repeats, dim=1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=1.0 / math.sqrt(self.head))
        return self.o(y.transpose(1, 2).reshape(b, s, -1))


class FeedForward(nn.Module):
    """gpt: down(gelu(up(x))), tanh form of GELU; llama: down(silu(gate(x)) · up(x))."""

    def __init__(self, config, linear):
        super().__init__()
        bias = config.model == "gpt"
        if config.model == "llama":
            self.gate = Linear(linear, config.width, config.ffn, bias)
        self.up = Linear(linear, config.width, config.ffn, bias)
        self.down = Linear(linear, config.ffn, config.width, bias)
        self.gated = config.model == "llama"

    def forward(self, x):
        if self.gated:
            return self.down(F.silu(self.gate(x)) * self.up(x))
        return self.down(F.gelu(self.up(x), approximate="tanh"))


class Layer(nn.Module):
    def __init__(self, config, linear):
        super().__init__()
        self.attn_norm = norm(config)
        self.attn = Attention(config, linear)
        self.ffn_norm = norm(config)
        self.ffn = FeedForward(config, linear)

    def forward(self, x, cos, sin):
        x = x + self.attn(self.attn_norm(x), cos, sin)
        return x + self.ffn(self.ffn_norm(x))


class Model(nn.Module):
    """Logits (B, S, V) of tokens (B, S). gpt ties its head to embedding.weight, llama has head.weight."""

    def __init__(self, config, linear=F.linear):
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab, config.width)
        if config.model == "gpt":
            self.positions = nn.Embedding(config.context, config.width)
        self.layers = nn.ModuleList(Layer(config, linear) for _ in range(config.layers))
        self.final_norm = norm(config)
        if config.model == "llama":
            self.head = Linear(F.linear, config.width, config.vocab, False)
        self.initialize()

    @torch.no_grad()
    def initialize(self):
        """Normal weights, std 0.02; the two residual projections of a layer are scaled by 1/sqrt(2·layers)."""
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                residual = name.endswith(("attn.o.weight", "ffn.down.weight"))
                parameter.normal_(0.0, 0.02 / (math.sqrt(2 * self.config.layers) if residual else 1.0))

    def forward(self, tokens):
        x = self.embedding(tokens)
        cos = sin = None
        if self.config.model == "gpt":
            x = x + self.positions.weight[: tokens.shape[1]]
        else:
            cos, sin = rotary_table(tokens.shape[1], self.config.width // self.config.heads, x.dtype)
        for layer in self.layers:
            x = layer(x, cos, sin)
        x = self.final_norm(x)
        return self.head(x) if self.config.model == "llama" else F.linear(x, self.embedding.weight)


def loss_of(model, tokens, targets):
    """Mean cross-entropy in nats over all positions."""
    return F.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
