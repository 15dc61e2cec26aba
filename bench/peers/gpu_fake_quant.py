"""Fake quantization for a GPU: the recipes of fake_quant.py with bfloat16 products, NVFP4, and packed E2M1 operands.

Every quantized value is computed in float32 and rounded once to bfloat16, in which the values of e2m1 with a power-of-two
scale are exact; products are cuBLAS bfloat16 products with float32 sums. That is what a researcher runs: the fastest
form, without a specified order of the sums.
"""
import torch
import torch.nn.functional as F

import fake_quant as fq

NV_BLOCK = 16
OCC_ALPHA = 0.99


def nvfp4(x):
    """x (rows, k) in blocks of 16 with an e4m3 scale under one float32 scale of the tensor; k % 16 == 0."""
    blocks = x.reshape(x.shape[0], -1, NV_BLOCK)
    tensor_scale = (x.abs().amax() / (fq.E2M1_MAX * fq.E4M3_MAX)).clamp(min=2.0**-126)
    amax = blocks.abs().amax(-1, keepdim=True)
    stored = (amax / (fq.E2M1_MAX * tensor_scale)).clamp(max=fq.E4M3_MAX).to(torch.float8_e4m3fn).float()
    scale = stored * tensor_scale
    inverse = torch.where(scale > 0, 1.0 / scale, 0.0)
    return (fq.round_e2m1(blocks * inverse) * scale).reshape(x.shape)


def row_e2m1(x):
    """x (rows, k) with one float32 scale a row."""
    scale = fq.row_scale(x, fq.E2M1_MAX)
    return fq.round_e2m1(x / scale) * scale


def tensor_fp8(x, dtype, largest):
    """x in an FP8 format under one power-of-two scale, the smallest that does not saturate."""
    scale = torch.exp2(torch.ceil(torch.log2(x.abs().amax().clamp(min=2.0**-100) / largest)))
    return (x / scale).clamp(-largest, largest).to(dtype).float() * scale


def occ_topk(x, alpha):
    """fake_quant.occ with two selections of the few extreme elements in place of a sort of the row."""
    n = x.shape[-1]
    lower, upper = int((1.0 - alpha) * n), min(int(alpha * n), n - 1)
    least = x.topk(lower + 1, dim=-1, largest=False).values[:, -1:]
    greatest = x.topk(n - upper, dim=-1).values[:, -1:]
    clamped = torch.minimum(torch.maximum(x, least), greatest)
    return clamped, x - clamped


class Mxfp4Ste(torch.autograd.Function):
    """fake_quant.Mxfp4Ste with bfloat16 products."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return fq.mxfp4(x.float()).bfloat16() @ fq.mxfp4(w).bfloat16().t()

    @staticmethod
    def backward(ctx, dy):
        x, w = ctx.saved_tensors
        dy = dy.float()
        dx = fq.mxfp4(dy).bfloat16() @ fq.mxfp4(w.t().contiguous()).bfloat16().t()
        dw = fq.mxfp4(dy.t().contiguous()).bfloat16() @ fq.mxfp4(x.float().t().contiguous()).bfloat16().t()
        return dx.to(x.dtype), dw.to(w.dtype)


def dge_occ(select):
    """The linear layer of recipe fp4-dge-occ: fake_quant.DgeOcc and, as in the recipe, FP8 values in the backward products
    (output gradients e5m2, the forward's weights and activations e4m3). `select` is the outlier clamping."""

    class DgeOcc(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            scale = fq.row_scale(w, fq.E2M1_MAX)
            y = (w / scale).clamp(-fq.E2M1_MAX, fq.E2M1_MAX)
            wq = fq.round_e2m1(y) * scale
            clamped, residual = select(x.float(), OCC_ALPHA)
            xq = row_e2m1(clamped) + fq.residual_e4m3(residual)
            x16, w16 = xq.bfloat16(), wq.bfloat16()
            ctx.save_for_backward(x16, w16, y)
            ctx.x_dtype = x.dtype
            return x16 @ w16.t()

        @staticmethod
        def backward(ctx, dy):
            x16, w16, y = ctx.saved_tensors
            dyq = tensor_fp8(dy.float(), torch.float8_e5m2, fq.E5M2_MAX).bfloat16()
            wb = tensor_fp8(w16.float(), torch.float8_e4m3fn, fq.E4M3_MAX).bfloat16()
            xb = tensor_fp8(x16.float(), torch.float8_e4m3fn, fq.E4M3_MAX).bfloat16()
            return (dyq @ wb).to(ctx.x_dtype), (dyq.t() @ xb).float() * fq.dge(y)

    return DgeOcc


def linear_of(function):
    """A `linear` for model.Model: the quantized product on rows, then the unquantized bias."""

    def linear(x, w, b):
        y = function.apply(x.reshape(-1, x.shape[-1]), w).reshape(*x.shape[:-1], w.shape[0])
        return y if b is None else y + b.to(y.dtype)

    return linear


# The two forms of fp4-dge-occ differ in how the quantiles are found; the faster one is the peer.
LINEARS = {
    "bf16": F.linear,
    "mxfp4-ste": linear_of(Mxfp4Ste),
    "fp4-dge-occ": linear_of(dge_occ(fq.occ)),
    "fp4-dge-occ/topk": linear_of(dge_occ(occ_topk)),
}


def unpack_mxfp4(codes, scales):
    """bfloat16 (rows, k) of packed codes u8 (rows, k/2), low nibble first, and e8m0 scales u8 (rows, k/32).

    The bits of the bfloat16 value are put together from the code: exponent field 126 + e, fraction m; 0.5 is
    the one subnormal.
    """
    c = torch.stack((codes & 15, codes >> 4), dim=-1).to(torch.int16).reshape(codes.shape[0], -1, fq.MX_BLOCK)
    exponent, fraction = (c >> 1) & 3, c & 1
    magnitude = torch.where(exponent > 0, ((126 + exponent) << 7) | (fraction << 6), fraction * (126 << 7))
    values = (magnitude | ((c & 8) << 12)).to(torch.int16).view(torch.bfloat16)
    scale = (scales.to(torch.int16) << 7).view(torch.bfloat16)[..., None]  # code 0 (2^-127) does not occur here
    return (values * scale).reshape(codes.shape[0], -1)
