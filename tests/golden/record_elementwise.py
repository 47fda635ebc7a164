"""Functions of one tensor, activations with gradients, comparisons, powers and remainders."""

import torch
import torch.nn.functional as F
from recorder import Recorder

INF, NAN = float("inf"), float("nan")

UNARY = ["neg", "abs", "sign", "square", "floor", "ceil", "round", "trunc", "exp", "exp2", "expm1",
         "log", "log1p", "log2", "sqrt", "rsqrt", "reciprocal", "sin", "cos", "tan", "erf",
         "isnan", "isinf", "isfinite", "logical_not"]

POSITIVE = ["log", "log1p", "log2", "sqrt", "rsqrt", "reciprocal"]

ACTIVATIONS = {
    "relu": F.relu,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.1),
    "elu": lambda x: F.elu(x, 0.7),
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "softplus": lambda x: F.softplus(x, 2, 5),
    "hardtanh": lambda x: F.hardtanh(x, -0.5, 1.5),
    "clamp": lambda x: torch.clamp(x, -0.5, 1.5),
    "clamp_min": lambda x: torch.clamp(x, min=-0.5),
    "pow3": lambda x: x**3,
    "pow2": lambda x: x**2,
    "pow0": lambda x: x**0,
}

BINARY = ["maximum", "minimum", "remainder", "fmod", "atan2", "pow", "floor_divide", "eq", "ne",
          "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "isclose"]

def one_by_one(f, x):
    """PyTorch's loops over vectors give NaN where gelu is infinite; those over elements do not."""
    return torch.cat([f(element) for element in x.split(1)])


with Recorder("elementwise") as r:
    edge = torch.tensor([0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 3, 100, -100, 1e-30,
                         1e30, -1e30, INF, -INF, NAN])
    x = torch.cat([edge, torch.randn(29) * 3])
    integers = torch.tensor([-3, -1, 0, 1, 2, 7])
    r.add("unary", x=x, integers=integers)
    for name in UNARY:
        r.add(name, out=getattr(torch, name)(x), integers=getattr(torch, name)(integers))

    # Gradients where the functions are smooth; log and roots see |x|.
    smooth = torch.randn(24, dtype=torch.float64) * 1.3
    smooth_grad = torch.randn(24, dtype=torch.float64)
    r.add("smooth", x=smooth, grad=smooth_grad)
    for name in UNARY[:-4]:
        leaf = (smooth.abs() + 0.1 if name in POSITIVE else smooth).clone().requires_grad_()
        getattr(torch, name)(leaf).backward(smooth_grad)
        r.add(name, smooth_grad=leaf.grad)

    finite = torch.cat([torch.tensor([0.0, -0.5, 1.5, 2.5, 30, -30]), torch.randn(34) * 2])
    grad = torch.randn(finite.shape)
    r.add("activation", x=finite, grad=grad, edge=edge)
    for name, f in ACTIVATIONS.items():
        leaf = finite.clone().requires_grad_()
        f(leaf).backward(grad)
        r.add(name, y=f(finite), grad=leaf.grad, edge=one_by_one(f, edge))

    a = torch.cat([torch.tensor([0.0, 1, -1, 5.5, -5.5, 5.5, NAN, INF, 2, 2]), torch.randn(20) * 3])
    b = torch.cat([torch.tensor([0.0, 1, 2, 2.5, 2.5, -2.5, 1, 2, NAN, 2]), torch.randn(20)])
    i = torch.tensor([7, -7, 7, -7, 0, 5, 2, -2])
    j = torch.tensor([2, 2, -2, -2, 3, 5, 3, -3])
    g = torch.randn(20)
    r.add("binary", a=a, b=b, i=i, j=j, grad=g)
    for name in BINARY:
        f = getattr(torch, name)
        r.add(name, binary=f(a, b), **({} if name == "pow" else {"ints": f(i, j)}))
        if name in ["maximum", "minimum", "remainder", "fmod", "atan2"]:
            p, q = a[10:].clone().requires_grad_(), b[10:].clone().requires_grad_()
            if name in ["maximum", "minimum"]:
                with torch.no_grad():
                    p[:4] = q[:4]  # equal operands share the gradient
            f(p, q).backward(g)
            r.add(name, p=p, q=q, p_grad=p.grad, q_grad=q.grad)
    p, q = a[10:].abs().requires_grad_(), b[10:].clone().requires_grad_()
    torch.pow(p, q).backward(g)
    r.add("pow", p=p, q=q, p_grad=p.grad, q_grad=q.grad, ints=torch.pow(i, j.abs()),
          scalar=torch.pow(1.5, q), special=torch.tensor([0.0, 0.0, 2.0]) ** torch.tensor([0.0, 2, 0]))
    condition = torch.rand(5, 1) > 0.5
    p, q = torch.randn(5, 4).requires_grad_(), torch.randn(4).requires_grad_()
    y = torch.where(condition, p, q)
    y.backward(g.reshape(5, 4))
    r.add("where", condition=condition, p=p, q=q, out=y, p_grad=p.grad, q_grad=q.grad)
    r.add("arange", out=torch.arange(-1, 2, 0.3), ints=torch.arange(7, -8, -4),
          linspace=torch.linspace(-2, 5, 9))
