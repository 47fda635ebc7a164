"""Options of layers that few networks use, and what overwrites its input: outputs and gradients."""

import torch
from torch import nn

from recorder import Recorder

f64 = dict(dtype=torch.float64)


def leaf(*shape, scale=1):
    return (torch.randn(*shape, **f64) * scale).requires_grad_()


def gradients(r, case, outputs, inputs, module=None):
    """The outputs and, for random gradients of them, those of inputs and parameters."""
    given = {k: torch.randn_like(v) for k, v in outputs.items()}
    sum((v * given[k]).sum() for k, v in outputs.items()).backward()
    r.add(case, **outputs, **{f"d_{k}": v for k, v in given.items()})
    r.add(case, **inputs, **{f"grad_{k}": v.grad for k, v in inputs.items() if v.requires_grad})
    if module is not None:
        r.add(case, **{f"grad.{k}": p.grad for k, p in module.named_parameters()})
        r.add(case, **{f"after.{k}": v for k, v in module.state_dict().items()})


def prepared(r, case, module):
    """The module with random weights, which are recorded before they may change."""
    module = module.double()
    with torch.no_grad():
        for p in module.parameters():
            p.uniform_(-1, 1)
    r.add(case, **{f"state.{k}": v for k, v in module.state_dict().items()})
    return module


def layer(r, case, module, x, *more):
    module = prepared(r, case, module)
    y = module(x, *more)
    gradients(r, case, dict(y=y), dict(x=x, **{f"more{i}": t for i, t in enumerate(more)}), module)


def lstm(r, case, module, x, *state):
    module = prepared(r, case, module.eval())
    output, (h, c) = module(x, state) if state else module(x)
    inputs = dict(x=x, **dict(zip(("h_0", "c_0"), state)))
    gradients(r, case, dict(output=output, h_n=h, c_n=c), inputs, module)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, src, mask=None, src_key_padding_mask=None, is_causal=False):
        return torch.tanh(self.fc(mask @ src if mask is not None else src))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4, bias=False)

    def forward(self, tgt, memory, tgt_mask=None, memory_mask=None, tgt_key_padding_mask=None,
                memory_key_padding_mask=None, tgt_is_causal=False, memory_is_causal=False):
        return self.fc(tgt) * (memory_mask @ memory).mean(0)


with Recorder("layer_options") as r:
    # Tables.
    ids = torch.tensor([[4, 1, 4], [0, 2, 4]])
    layer(r, "Embedding", nn.Embedding(6, 3, max_norm=1.0, scale_grad_by_freq=True), ids)
    layer(r, "Embedding padded",
          nn.Embedding(6, 3, padding_idx=4, max_norm=0.5, norm_type=1.0, scale_grad_by_freq=True), ids)
    layer(r, "Embedding largest", nn.Embedding(6, 3, max_norm=0.4, norm_type=float("inf")), ids)
    flat, offsets = torch.tensor([1, 2, 4, 5, 4, 3, 4, 1]), torch.tensor([0, 3, 3, 5])
    for mode in ("sum", "mean", "max"):
        layer(r, f"EmbeddingBag {mode}",
              nn.EmbeddingBag(6, 3, max_norm=0.7, norm_type=3.0, scale_grad_by_freq=mode != "max", mode=mode),
              flat, offsets)
    layer(r, "EmbeddingBag rows", nn.EmbeddingBag(6, 3, scale_grad_by_freq=True, padding_idx=4), flat.reshape(2, 4))
    layer(r, "EmbeddingBag weighted", nn.EmbeddingBag(6, 3, max_norm=1.0, scale_grad_by_freq=True, mode="sum"),
          flat, offsets, leaf(8))

    # Norms with a weight alone.
    layer(r, "LayerNorm", nn.LayerNorm((2, 3), bias=False), leaf(4, 2, 3))
    layer(r, "GroupNorm", nn.GroupNorm(2, 4, bias=False), leaf(2, 4, 3))
    layer(r, "BatchNorm1d", nn.BatchNorm1d(4, bias=False), leaf(5, 4))
    layer(r, "BatchNorm2d", nn.BatchNorm2d(4, bias=False), leaf(2, 4, 3, 2))
    layer(r, "BatchNorm2d eval", nn.BatchNorm2d(4, bias=False).eval(), leaf(2, 4, 3, 2))
    layer(r, "InstanceNorm1d", nn.InstanceNorm1d(4, affine=True, bias=False), leaf(2, 4, 5))

    # Projected hidden states.
    lstm(r, "LSTM", nn.LSTM(3, 5, proj_size=2), leaf(4, 2, 3))
    lstm(r, "LSTM deep", nn.LSTM(3, 5, 2, bidirectional=True, batch_first=True, dropout=0.3, proj_size=2),
         leaf(2, 4, 3), leaf(4, 2, 2), leaf(4, 2, 5))
    lstm(r, "LSTM bare", nn.LSTM(3, 5, 2, bias=False, proj_size=4), leaf(4, 3), leaf(2, 4), leaf(2, 5))

    # What overwrites its input.
    for module in (nn.ReLU(True), nn.ReLU6(True), nn.LeakyReLU(0.2, True), nn.ELU(0.7, True), nn.SELU(True),
                   nn.CELU(1.3, True), nn.Hardtanh(-0.5, 0.7, True), nn.Hardswish(True), nn.Hardsigmoid(True),
                   nn.SiLU(True), nn.Mish(True), nn.RReLU(0.1, 0.4, True).eval(), nn.Threshold(0.3, 2.5, True)):
        x = leaf(3, 4, scale=3)
        h = x * 1.5
        y = module(h)
        assert y is h
        gradients(r, repr(module), dict(y=y), dict(x=x))

    # A transformer of other parts.
    case = "Transformer"
    net = prepared(r, case, nn.Transformer(4, 2, custom_encoder=Encoder(), custom_decoder=Decoder()))
    src, tgt, mask, memory_mask = leaf(3, 2, 4), leaf(3, 2, 4), leaf(2, 2).detach(), leaf(2, 2).detach()
    gradients(r, case, dict(y=net(src, tgt, src_mask=mask, memory_mask=memory_mask)),
              dict(src=src, tgt=tgt, src_mask=mask, memory_mask=memory_mask), net)
