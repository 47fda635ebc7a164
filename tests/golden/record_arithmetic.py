"""Type promotion, in-place rules and values of arithmetic between all pairs of dtypes."""

import math

import torch

from recorder import Recorder

ORDER = [torch.float32, torch.float16, torch.bfloat16, torch.float64,
         torch.int64, torch.int32, torch.uint8, torch.bool,
         torch.int16, torch.int8]  # ferrite::DType's
ERROR = 255
OPS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "gt": lambda a, b: a > b,
}
INPLACE = {
    "add_": lambda a, b: a.add_(b),
    "sub_": lambda a, b: a.sub_(b),
    "mul_": lambda a, b: a.mul_(b),
    "div_": lambda a, b: a.div_(b),
}
A = [[1.0, 2.5, 200.0], [0.0, 77.125, 3.0]]
B = [3.0, 1.0, 131.25]
SCALARS = [True, 3, 2.5]


def attempt(f, *args):
    try:
        return f(*args)
    except RuntimeError:
        return None


def dtype_table(f, left, right):
    rows = []
    for a in left:
        results = [attempt(f, a, b) for b in right]
        rows.append([ERROR if r is None else ORDER.index(r.dtype) for r in results])
    return torch.tensor(rows, dtype=torch.uint8)


def value_table(f, left, right):
    rows = []
    for a in left:
        for b in right:
            r = attempt(f, a.clone(), b)
            rows.append(torch.full((2, 3), math.nan, dtype=torch.float64) if r is None
                        else r.to(torch.float64))
    return torch.stack(rows).reshape(len(left), len(right), 2, 3)


with Recorder("arithmetic") as r:
    dims = [torch.ones(2, dtype=d) for d in ORDER]
    zeros = [torch.tensor(1, dtype=d) for d in ORDER]
    for name, f in OPS.items():
        r.add(name, dims_dims=dtype_table(f, dims, dims), dims_zero=dtype_table(f, dims, zeros),
              zero_dims=dtype_table(f, zeros, dims), zero_zero=dtype_table(f, zeros, zeros),
              dims_scalar=dtype_table(f, dims, SCALARS), zero_scalar=dtype_table(f, zeros, SCALARS),
              scalar_dims=dtype_table(lambda a, b: f(b, a), dims, SCALARS))

    a = [torch.tensor(A).to(d) for d in ORDER]
    b = [torch.tensor(B).to(d) for d in ORDER]
    r.add("values", a=torch.tensor(A), b=torch.tensor(B))
    for name, f in (OPS | INPLACE).items():
        r.add(name, values=value_table(f, a, b), scalar_values=value_table(f, a, SCALARS))
    r.add("add", alpha=value_table(lambda x, y: torch.add(x, y, alpha=3), a, b))
    r.add("sub", alpha=value_table(lambda x, y: torch.sub(x, y, alpha=3), a, b))
    r.add("add_", alpha=value_table(lambda x, y: x.add_(y, alpha=3), a, b))

    # floor_divide and remainder where quotients round up to an integer, for all signs.
    x = torch.tensor([1.0, -1.0, 0.6, 7.0, -7.0, 0.0, -0.0, 1e30, math.inf, 5.0, math.nan])
    y = torch.tensor([0.1, -0.1, 0.2, 2.0, -2.0, 0.0, 3.0, math.inf, math.nan])
    for dtype, name in [(torch.float32, "f32"), (torch.float64, "f64")]:
        p, q = x.to(dtype)[:, None], y.to(dtype)
        r.add(name, x=p, y=q, floor_divide=torch.floor_divide(p, q),
              remainder=torch.remainder(p, q), fmod=torch.fmod(p, q))

    # Gradients, broadcast both ways, and beside scalars.
    p, q = torch.randn(3, 1, 4, dtype=torch.float64), torch.rand(2, 1, dtype=torch.float64) + 0.5
    grad = torch.randn(3, 2, 4, dtype=torch.float64)
    r.add("gradients", p=p, q=q, grad=grad)
    for name, f in {"add": lambda a, b: torch.add(a, b, alpha=2),
                    "sub": lambda a, b: torch.sub(a, b, alpha=-3),
                    "mul": torch.mul, "div": torch.div,
                    "add_scalar": lambda a, b: (a + 2) + (3 + b),
                    "sub_scalar": lambda a, b: (a - 2) + (3 - b),
                    "mul_scalar": lambda a, b: (a * 2) + (3 * b),
                    "div_scalar": lambda a, b: (a / 2) + (3 / b)}.items():
        a, b = p.clone().requires_grad_(), q.clone().requires_grad_()
        y = f(a, b)
        y.backward(grad)
        r.add(f"gradient_{name}", out=y, p_grad=a.grad, q_grad=b.grad)
