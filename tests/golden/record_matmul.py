"""Products of matrices and vectors."""

import torch
import torch.nn.functional as F

from recorder import Recorder

# What is multiplied, and the shapes: tests/ops/matmul_test.cpp has the same functions.
CASES = {
    "mm": (torch.mm, (5, 7), (7, 3)),
    "mm_transposed": (lambda a, b: torch.mm(a.t(), b.t()), (7, 5), (3, 7)),
    "bmm": (torch.bmm, (2, 3, 5), (2, 5, 4)),
    "mv": (torch.mv, (4, 6), (6,)),
    "dot": (torch.dot, (6,), (6,)),
    "outer": (torch.outer, (4,), (6,)),
    "matmul_1_1": (torch.matmul, (6,), (6,)),
    "matmul_1_2": (torch.matmul, (6,), (6, 3)),
    "matmul_2_1": (torch.matmul, (3, 6), (6,)),
    "matmul_3_2": (torch.matmul, (2, 3, 6), (6, 4)),
    "matmul_2_3": (torch.matmul, (3, 6), (2, 6, 4)),
    "matmul_1_3": (torch.matmul, (6,), (2, 6, 4)),
    "matmul_4_3": (torch.matmul, (2, 1, 3, 5), (4, 5, 2)),
    "linear": (F.linear, (2, 3, 5), (4, 5), (4,)),
    "linear_vector": (F.linear, (5,), (4, 5), (4,)),
    "addmm": (torch.addmm, (4,), (3, 5), (5, 4)),
    "addmm_scaled": (lambda x, a, b: torch.addmm(x, a, b, beta=0.5, alpha=-2), (3, 1), (3, 5), (5, 4)),
}

with Recorder("matmul") as r:
    for case, (f, *shapes) in CASES.items():
        leaves = [torch.randn(s, dtype=torch.float64).requires_grad_() for s in shapes]
        y = f(*leaves)
        grad = torch.randn_like(y)
        y.backward(grad)
        r.add(case, out=y, grad=grad)
        for i, t in enumerate(leaves):
            r.add(case, **{f"x{i}": t, f"grad{i}": t.grad})
