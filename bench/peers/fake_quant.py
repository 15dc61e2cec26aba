"""Fake quantization in plain PyTorch: values are rounded to a format's grid and stay float32.

Everything is element-wise arithmetic and reductions, so that torch.compile can fuse it. The functions give the values
of fp4sim's `e2m1:b32:e8m0/floor:rne`, `e2m1:row:fp32:rne` and `e5m2:tensor:fp32:rne` for finite inputs. A block with a
NaN or an infinity is not treated specially: this is a yardstick, not a reference.
"""
import torch
import torch.nn.functional as F

E2M1_MAX = 6.0
E4M3_MAX = 448.0
E5M2_MAX = 57344.0
MX_BLOCK = 32


def round_e2m1(y):
    """y on the grid 0 .5 1 1.5 2 3 4 6 with signs: nearest, ties to the even code, saturating at 6."""
    a = y.abs().clamp(max=E2M1_MAX)
    step = torch.where(a < 2.0, 0.5, torch.where(a < 4.0, 1.0, 2.0))
    return torch.copysign(torch.round(a / step) * step, y)


def power_of_two(exponent):
    """2^exponent in float32 from the bits, exponent an int32 tensor in [-127, 127]."""
    bits = torch.where(exponent > -127, (exponent + 127) << 23, 1 << 22)
    return bits.to(torch.int32).view(torch.float32)


def mxfp4(x):
    """x (rows, k) quantized in blocks of 32 along k with the power-of-two scale floor(log2 amax) - 2; k % 32 == 0."""
    blocks = x.reshape(x.shape[0], -1, MX_BLOCK)
    amax = blocks.abs().amax(-1, keepdim=True)
    exponent = ((amax.view(torch.int32) >> 23) - 127 - 2).clamp(min=-127)
    return (round_e2m1(blocks * power_of_two(-exponent)) * power_of_two(exponent)).reshape(x.shape)


def row_scale(x, largest, dim=-1):
    """amax / largest, at least 2^-149, 1 where amax is 0."""
    amax = x.abs().amax(dim, keepdim=True) if dim is not None else x.abs().amax()
    return torch.where(amax > 0, (amax / largest).clamp(min=2.0**-149), 1.0)


def dge(y, k=5.0, clip=3.0):
    """Derivative of the differentiable gradient estimator (arXiv 2501.17116 Eq. 8) at y, already divided by the scale."""
    a = y.abs()
    step = torch.where(a < 2.0, 0.5, torch.where(a < 4.0, 1.0, 2.0))
    u = (2.0 * (a - torch.floor(a / step) * step) / step - 1.0).abs()
    return torch.where(a <= E2M1_MAX, (u ** (1.0 / k - 1.0) / k).clamp(max=clip), 0.0)


def occ(x, alpha):
    """(clamped, residual) of outlier clamping per row: quantiles by index, without interpolation."""
    n = x.shape[-1]
    ordered = torch.sort(x, dim=-1).values
    lower, upper = int((1.0 - alpha) * n), min(int(alpha * n), n - 1)
    clamped = torch.minimum(torch.maximum(x, ordered[:, lower, None]), ordered[:, upper, None])
    return clamped, x - clamped


def residual_e4m3(r):
    """r rounded to e4m3 with one power-of-two scale for the tensor, the smallest that does not saturate."""
    amax = r.abs().amax()
    exponent = torch.ceil(torch.log2(amax.clamp(min=2.0**-100) / E4M3_MAX))
    scale = torch.exp2(exponent)
    return (r / scale).clamp(-E4M3_MAX, E4M3_MAX).to(torch.float8_e4m3fn).to(r.dtype) * scale


class Mxfp4Ste(torch.autograd.Function):
    """Linear layer with mxfp4 in all six operand places and straight-through gradients.

    Blocks lie along the contraction axis of each product and every operand is quantized from its original value:
    fprop y = Q(x)·Q(w)ᵀ over the inputs, dgrad dx = Q(dy)·Q(w) over the outputs, wgrad dw = Q(dy)ᵀ·Q(x) over the rows.
    """

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return mxfp4(x) @ mxfp4(w).t()

    @staticmethod
    def backward(ctx, dy):
        x, w = ctx.saved_tensors
        dy = dy.contiguous()
        dx = mxfp4(dy) @ mxfp4(w.t().contiguous()).t()
        dw = mxfp4(dy.t().contiguous()) @ mxfp4(x.t().contiguous()).t()
        return dx, dw


class DgeOcc(torch.autograd.Function):
    """Linear layer of arXiv 2501.17116: e2m1 weights per output channel with DGE(5, clip 3), e2m1 activations per row
    with OCC(0.99) and an e4m3 residual, e5m2 output gradients with one scale."""

    @staticmethod
    def forward(ctx, x, w):
        ws = row_scale(w, E2M1_MAX)
        wy = (w / ws).clamp(-E2M1_MAX, E2M1_MAX)
        wq = round_e2m1(wy) * ws
        clamped, residual = occ(x, 0.99)
        xs = row_scale(clamped, E2M1_MAX)
        xq = round_e2m1(clamped / xs) * xs + residual_e4m3(residual)
        ctx.save_for_backward(xq, wq, wy)
        return xq @ wq.t()

    @staticmethod
    def backward(ctx, dy):
        xq, wq, wy = ctx.saved_tensors
        s = row_scale(dy, E5M2_MAX, dim=None)
        dyq = (dy / s).clamp(-E5M2_MAX, E5M2_MAX).to(torch.float8_e5m2).to(dy.dtype) * s
        return dyq @ wq, (dyq.t() @ xq) * dge(wy)


def linear_of(function):
    """A `linear` for model.Model: the quantized product on rows, then the unquantized bias."""

    def linear(x, w, b):
        y = function.apply(x.reshape(-1, x.shape[-1]), w).reshape(*x.shape[:-1], w.shape[0])
        return y if b is None else y + b

    return linear


LINEARS = {
    "fp32": F.linear,
    "bf16": F.linear,  # under autocast, see train_peer.py
    "mxfp4-ste": linear_of(Mxfp4Ste),
    "fp4-dge-occ": linear_of(DgeOcc),
}
