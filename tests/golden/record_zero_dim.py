"""Operations of two tensors of all pairs of dtypes, one of them 0-dimensional: dtypes and values.
Beside float16 its value is above 65,504, which products and quotients do not round first."""

import math

import torch

from recorder import Recorder

ORDER = [torch.float32, torch.float16, torch.bfloat16, torch.float64,
         torch.int64, torch.int32, torch.uint8, torch.bool,
         torch.int16, torch.int8]  # ferrite::DType's
ERROR = 255
DIMS = [0.001, 2.5, 3.0, 100.0]
INTEGERS = [1.0, 2.0, 3.0, 100.0]
ZERO = [65536.0, 1000.0, 65536.0, 1e5, 100000, 70000, 200, True, 20000, 100]  # by dtype
OPS = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "pow": torch.pow,
    "atan2": torch.atan2,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "floor_divide": torch.floor_divide,
    "remainder": torch.remainder,
    "fmod": torch.fmod,
    "eq": torch.eq,
    "lt": torch.lt,
    "ge": torch.ge,
    "logical_and": torch.logical_and,
    "where": lambda a, b: torch.where(torch.tensor([True, False, True, False]), a, b),
}
INPLACE = {
    "add_": lambda a, b: a.add_(b),
    "sub_": lambda a, b: a.sub_(b),
    "mul_": lambda a, b: a.mul_(b),
    "div_": lambda a, b: a.div_(b),
    "pow_": lambda a, b: a.pow_(b),
}


def record(r, case, f, left, right):
    dtypes, values = [], []
    for a in left:
        for b in right:
            try:
                out = f(a.clone(), b)
                dtypes.append(ORDER.index(out.dtype))
                values.append(out.to(torch.float64))
            except RuntimeError:
                dtypes.append(ERROR)
                values.append(torch.full((4,), math.nan, dtype=torch.float64))
    r.add(case, dtypes=torch.tensor(dtypes, dtype=torch.uint8), values=torch.stack(values))


with Recorder("zero_dim") as r:
    dims = [torch.tensor(DIMS if d.is_floating_point else INTEGERS).to(d) for d in ORDER]
    zero = [torch.tensor(v, dtype=d) for v, d in zip(ZERO, ORDER)]
    r.add("operands", dims=torch.tensor(DIMS), integers=torch.tensor(INTEGERS), zero=torch.tensor(ZERO, dtype=torch.float64))
    for name, f in (OPS | INPLACE).items():
        record(r, name, f, dims, zero)
    for name, f in OPS.items():
        record(r, f"zero_{name}", f, zero, dims)
    # A gradient through a factor that float16 does not hold.
    for name in ["mul", "div"]:
        x = torch.tensor([0.001, -2.0], dtype=torch.float16, requires_grad=True)
        y = torch.tensor(131072.0, requires_grad=True)
        out = OPS[name](x, y)
        out.backward(torch.tensor([2.0**-10, 2.0], dtype=torch.float16))
        r.add(f"gradient_{name}", out=out, x_grad=x.grad, y_grad=y.grad)
