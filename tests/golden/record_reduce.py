"""Reductions: makes reduce.safetensors."""

import torch

from recorder import Recorder

nan, inf = float("nan"), float("inf")


def grad_of(f, *inputs):
    """The gradients of sum(f * weights), with weights 1, 2, 3, ... so that positions matter."""
    leaves = [x.detach().clone().requires_grad_() for x in inputs]
    out = f(*leaves)
    weights = torch.arange(1, out.numel() + 1, dtype=out.dtype).reshape(out.shape)
    (out * weights).sum().backward()
    return [torch.zeros_like(x) if x.grad is None else x.grad for x in leaves]


with Recorder("reduce") as r:
    x = torch.randn(3, 4, 5, dtype=torch.float64)
    r.add("input", x=x)
    functions = {
        "sum": lambda t: t.sum((0, 2)),
        "mean": lambda t: t.mean((1, 2), keepdim=True),
        "var": lambda t: t.var((0, 2)),
        "var0": lambda t: t.var((1,), unbiased=False),
        "std": lambda t: t.std((0,)),
        "norm2": lambda t: t.norm(2, dim=(0, 1)),
        "norm1": lambda t: t.norm(1, dim=2),
        "norm3": lambda t: t.norm(3, dim=0),
        "normhalf": lambda t: t.norm(0.5, dim=0),
        "norminf": lambda t: t.norm(inf, dim=1),
        "normninf": lambda t: t.norm(-inf, dim=1),
        "norm0": lambda t: t.norm(0, dim=1),
        "amax": lambda t: t.amax((0, 2)),
        "amin": lambda t: t.amin((1,)),
        "max_dim": lambda t: t.max(1)[0],
        "min_dim": lambda t: t.min(2)[0],
        "max_all": lambda t: t.max(),
        "prod": lambda t: t.prod(1),
        "prod_all": lambda t: t[0].prod(),
        "cumsum": lambda t: t.cumsum(1),
        "topk": lambda t: t.topk(2, 1)[0],
        "sort": lambda t: t.sort(2, descending=True)[0],
    }
    for name, f in functions.items():
        r.add(name, out=f(x), grad=grad_of(f, x)[0])

    # Ties: what each gradient does with them.
    t = torch.tensor([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0], [0.0, -1.0, 0.0]], dtype=torch.float64)
    r.add("ties", x=t)
    for name in ["amax", "amin", "max_all"]:
        f = functions[name] if name == "max_all" else lambda t, n=name: getattr(t, n)((1,))
        r.add(f"ties_{name}", grad=grad_of(f, t)[0])
    r.add("ties_norminf", grad=grad_of(lambda t: t.norm(inf, dim=1), t)[0])

    # Zeros where gradients have poles.
    z = torch.tensor([[0.0, 2.0, 3.0], [0.0, 0.0, 4.0], [0.0, 0.0, 0.0]], dtype=torch.float64)
    r.add("zeros", x=z)
    for name, f in {
        "prod": lambda t: t.prod(1),
        "norm2": lambda t: t.norm(2, dim=1),
        "norm1": lambda t: t.norm(1, dim=1),
        "norm3": lambda t: t.norm(3, dim=1),
        "norminf": lambda t: t.norm(inf, dim=1),
        "std": lambda t: t.std((1,)),
    }.items():
        r.add(f"zeros_{name}", out=f(z), grad=grad_of(f, z)[0])

    # NaN and infinities.
    n = torch.tensor([[1.0, nan, 3.0, nan], [-inf, 2.0, inf, 0.0], [5.0, 4.0, 3.0, 2.0]])
    s = n.sort(dim=1, stable=True)
    d = n.sort(dim=1, descending=True, stable=True)
    k = n.topk(3, 1)
    r.add(
        "nan",
        x=n,
        sum=n.sum(1),
        amax=n.amax(1),
        amin=n.amin(1),
        max=n.max(1)[0],
        max_at=n.max(1)[1],
        min=n.min(1)[0],
        min_at=n.min(1)[1],
        argmax=n.argmax(),
        sort=s[0],
        sort_at=s[1],
        descending=d[0],
        descending_at=d[1],
        topk=k[0],
        any=n.any(1),
        all=n.all(1),
        count=n.count_nonzero(1),
        norminf=n.norm(inf, dim=1),
        prod=n.prod(1),
        cumsum=n.cumsum(1),
    )

    # Integers and bool.
    i = torch.tensor([[250, 3, 0], [7, 255, 1]], dtype=torch.uint8)
    r.add("uint8", x=i, sum=i.sum(1), prod=i.prod(0), cumsum=i.cumsum(1), max=i.max(1)[0])
    b = torch.tensor([[True, False], [True, True]])
    r.add("bool", x=b, sum=b.sum(0), all=b.all(1), any=b.any(0), count=b.count_nonzero())
    h = torch.randn(7, 9).half()
    r.add("half", x=h, sum=h.sum(0), sum32=h.sum(1, dtype=torch.float32), mean=h.mean(), var=h.var())
