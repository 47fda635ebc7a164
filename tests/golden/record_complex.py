"""Complex numbers: values and gradients of arithmetic, and what printing gives."""

import torch
from recorder import Recorder

UNARY = {
    "neg": torch.neg,
    "conj": lambda z: torch.conj(z).resolve_conj(),
    "abs": torch.abs,
    "angle": torch.angle,
    "real": torch.real,
    "imag": torch.imag,
    "view_as_real": torch.view_as_real,
    "sgn": torch.sgn,
    "exp": torch.exp,
    "reciprocal": torch.reciprocal,
    "square": torch.square,
    "sum": torch.sum,
    "sum_dim": lambda z: z.sum(-1, keepdim=True),
    "mean": lambda z: z.mean((0, 1)),
    "scalars": lambda z: ((z + 2) * 3 - (1 - 2j)) / (2 + 1j) + (1j - z) * 0.5 + (2 - 1j) / z,
    "to_real": lambda z: z.to(torch.float64),
    "index": lambda z: z[:, torch.tensor([2, 0, 2])],
    "where": lambda z: torch.where(z.real > 0, z, torch.tensor(1 - 1j, dtype=z.dtype)),
    "matmul": lambda z: z @ z.mT,
    "cat": lambda z: torch.cat([z, 2 * z], 1).flip(0).roll(1, 0),
}

BINARY = {
    "add": lambda a, b: torch.add(a, b, alpha=2 - 1j),
    "sub": lambda a, b: torch.sub(a, b, alpha=3),
    "mul": torch.mul,
    "div": torch.div,
}

with Recorder("complex") as r:
    def leaf(t):
        return t.detach().clone().requires_grad_()

    z = torch.randn(3, 4, dtype=torch.complex128)
    w = torch.randn(4, dtype=torch.complex128)
    x = torch.randn(3, 1, dtype=torch.float64)
    r.add("inputs", z=z, w=w, x=x)

    def record(case, f, **inputs):
        leaves = {name: leaf(t) for name, t in inputs.items()}
        out = f(*leaves.values())
        grad = torch.randn_like(out)
        out.backward(grad)
        r.add(case, out=out, grad=grad, **{f"{name}_grad": t.grad for name, t in leaves.items()})

    for name, f in UNARY.items():
        record(name, f, z=z)
    for name, f in BINARY.items():
        record(f"{name}_complex", f, z=z, w=w)
        record(f"{name}_real", f, z=z, x=x)
        record(f"{name}_mixed", lambda x, w: f(x, w), x=x, w=w)
    record("complex", torch.complex, x=x.abs(), y=torch.arange(4, dtype=torch.float64) + 1)
    record("polar", torch.polar, x=x.abs(), y=torch.arange(4, dtype=torch.float64) + 1)

    # Where divisions lose numbers unless they are scaled, and at zeros.
    big, small = 1e300, 1e-300
    top = torch.tensor([complex(big, big), complex(small, small), 1, 3 - 4j, 1j, complex(big, small)])
    low = torch.tensor([complex(big, big), complex(small, -small), 1e-200j, 2 + 1j, -2, complex(big, big)])
    r.add("quotients", top=top, low=low, out=top / low)
    at_zero = leaf(torch.zeros(2, dtype=torch.complex128))
    (at_zero.abs().sum() + at_zero.angle().sum()).backward()
    r.add("zero", grad=at_zero.grad)
