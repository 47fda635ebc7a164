"""Views, joins and in-place changes of views."""

import torch

from recorder import Recorder


def views(x):
    """Every view of a [2, 3, 4] tensor that the test makes too."""
    return {
        "view": x.view(6, -1),
        "reshape": x.transpose(0, 2).reshape(4, 6),
        "flatten": x.permute(2, 0, 1).flatten(1),
        "transpose": x.transpose(-1, 0),
        "permute": x.permute(2, 0, 1),
        "select": x.select(1, -1),
        "slice": x[:, :, 1:4:2],
        "narrow": x.narrow(2, 1, 2),
        "expand": x.unsqueeze(1).expand(2, 5, 3, 4),
        "squeeze": x[:, :1].squeeze(1),
        "unfold": x.unfold(2, 3, 1),
        "unfold_gaps": x.unfold(1, 1, 2),
        "movedim": torch.movedim(x, (0, 1), (2, 0)),
        "diagonal": torch.diagonal(x, 1, 1, 2),
        "diagonal_below": torch.diagonal(x, -1, 2, 0),
        "repeat": x.repeat(2, 1, 3, 2),
        "tile": torch.tile(x, (2, 2)),
    }


def joins(x, y):
    """Joins of [2, 3, 4] tensors, and of their parts."""
    a, b, c = x.split([1, 0, 3], 2)
    d, e = y.split(2, 1)
    return {
        "cat": torch.cat([x, y, x[:, 1:]], 1),
        "cat_last": torch.cat([x, y], -1),
        "stack": torch.stack([x, y, x]),
        "stack_inner": torch.stack([x, y], -2),
        "split_sizes": c * a + b.sum(),
        "split": d * d + e,
        "chunk": torch.cat(y.chunk(3, -1)[::-1], 2),
        "unbind": torch.stack([x.unbind(1)[2], y.unbind(1)[0]]),
        "unflatten": x.unflatten(2, (2, -1)).transpose(1, 2).reshape(y.shape) * y,
    }


def changed_in_place(x, w):
    """A base of 2x, changed through views of views and by itself."""
    base = x * 2
    view = base.t()[1:]
    column = view[:, 0]
    early = base[1]
    column.mul_(w)
    base.add_(x)
    view.select(0, 0).mul_(x[:, 2])
    early.div_(w[0])
    return base, early, view


with Recorder("views") as r:
    x = torch.randn(2, 3, 4, dtype=torch.float64)
    r.add("input", x=x)
    for name in views(x):
        leaf = x.clone().requires_grad_()
        y = views(leaf)[name]
        weight = torch.linspace(-1, 2, y.numel(), dtype=torch.float64).reshape(y.shape)
        (y * weight).sum().backward()
        r.add(name, out=y, grad=leaf.grad)

    z = torch.randn(2, 3, 4, dtype=torch.float64)
    r.add("other", x=z)
    for name in joins(x, z):
        a, b = x.clone().requires_grad_(), z.clone().requires_grad_()
        y = joins(a, b)[name]
        weight = torch.linspace(-1, 2, y.numel(), dtype=torch.float64).reshape(y.shape)
        (y * weight).sum().backward()
        grads = {n: t.grad for n, t in {"grad_x": a, "grad_y": b}.items() if t.grad is not None}
        r.add(f"join_{name}", out=y, **grads)

    for sizes in (30, 4), (5, 4), (6, 3), (1, 3), (7, 7):
        parts = torch.arange(sizes[0]).chunk(sizes[1])
        r.add(f"chunk_{sizes[0]}_{sizes[1]}", sizes=torch.tensor([len(p) for p in parts]))

    x = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    w = torch.randn(2, dtype=torch.float64, requires_grad=True)
    base, early, view = changed_in_place(x, w)
    loss = (base * base).sum() + (early * 3).sum() + (view * view * view).sum()
    loss.backward()
    r.add("inplace", x=x, w=w, base=base, grad_x=x.grad, grad_w=w.grad)
