"""softmax and the losses: makes loss.safetensors."""

import torch
import torch.nn.functional as F

from recorder import Recorder

REDUCTIONS = ["mean", "sum", "none"]


def record(r, case, f, *inputs):
    """The result, and the gradients of its elements weighted with 1, 2, 3, ..."""
    leaves = [x.detach().clone().requires_grad_() for x in inputs]
    out = f(*leaves)
    weights = torch.arange(1, out.numel() + 1, dtype=out.dtype).reshape(out.shape)
    (out * weights).sum().backward()
    grads = {f"grad{i}": leaf.grad for i, leaf in enumerate(leaves) if leaf.grad is not None}
    r.add(case, out=out, **grads)


with Recorder("loss") as r:
    x = torch.randn(3, 5, 4, dtype=torch.float64) * 3
    r.add("softmax", x=x)
    for dim in range(3):
        record(r, f"softmax{dim}", lambda t: t.softmax(dim), x)
        record(r, f"log_softmax{dim}", lambda t: t.log_softmax(dim), x)

    # [N, C] and [N, C, d1, d2], each with every option.
    weight = torch.rand(5, dtype=torch.float64) + 0.5
    for name, shape in {"2d": (7, 5), "4d": (2, 5, 3, 2)}.items():
        logits = torch.randn(shape, dtype=torch.float64) * 2
        target = torch.randint(5, shape[:1] + shape[2:])
        target.view(-1)[2] = -100
        probabilities = torch.randn(shape, dtype=torch.float64).softmax(1)
        r.add(f"ce_{name}", x=logits, target=target, probabilities=probabilities, weight=weight)
        for reduction in REDUCTIONS:
            for w in [None, weight]:
                for smoothing in [0.0, 0.1]:
                    options = dict(reduction=reduction, weight=w, label_smoothing=smoothing)
                    case = f"ce_{name}_{reduction}_{'w' if w is not None else ''}_{smoothing}"
                    record(r, case, lambda t: F.cross_entropy(t, target, **options), logits)
                    record(
                        r,
                        case + "_p",
                        lambda t, p: F.cross_entropy(t, p, **options),
                        logits,
                        probabilities,
                    )
                record(
                    r,
                    f"nll_{name}_{reduction}_{'w' if w is not None else ''}",
                    lambda t: F.nll_loss(t, target, weight=w, reduction=reduction),
                    logits.log_softmax(1),
                )
    record(r, "ce_1d", lambda t: F.cross_entropy(t, torch.tensor(3), label_smoothing=0.2), logits[0, :, 0, 0])

    a = torch.randn(4, 3, dtype=torch.float64) * 2
    b = torch.randn(4, 3, dtype=torch.float64)
    a[0, 0] = b[0, 0]
    p = torch.rand(4, 3, dtype=torch.float64)
    q = torch.rand(4, 3, dtype=torch.float64)
    p[0, 0], p[1, 1], q[0, 0], q[1, 1], q[2, 2] = 0.0, 1.0, 1.0, 1.0, 0.0
    logits = torch.tensor([[0.0, 50.0, -50.0], [800.0, -800.0, 1.0], [-1.0, 3.0, 0.5], [2, -2, 0]])
    logits = logits.double()
    w = torch.rand(3, dtype=torch.float64)
    pw = torch.rand(3, dtype=torch.float64) * 3
    lq = torch.log(q.clamp(min=0.01))
    # Off the tie, where PyTorch 1.13 gives -1 to both.
    c = a.clone()
    c[0, 0] += 1
    r.add("pair", a=a, b=b, c=c, p=p, q=q, logits=logits, w=w, pos_weight=pw, log_q=lq)
    for red in REDUCTIONS:
        o = dict(reduction=red)
        record(r, f"mse_{red}", lambda s, t: F.mse_loss(s, t, **o), a, b)
        record(r, f"l1_{red}", lambda s, t: F.l1_loss(s, t, **o), a, b)
        record(r, f"smooth_{red}", lambda s, t: F.smooth_l1_loss(s, t, beta=0.7, **o), a, b)
        record(r, f"smooth0_{red}", lambda s, t: F.smooth_l1_loss(s, t, beta=0.0, **o), c, b)
        record(r, f"huber_{red}", lambda s, t: F.huber_loss(s, t, delta=1.3, **o), a, b)
        record(
            r,
            f"bcel_{red}",
            lambda s, t: F.binary_cross_entropy_with_logits(s, t, weight=w, pos_weight=pw, **o),
            logits,
            q,
        )
        record(r, f"bcel_plain_{red}", lambda s: F.binary_cross_entropy_with_logits(s, q, **o), logits)
        record(r, f"bce_{red}", lambda s: F.binary_cross_entropy(s, q, weight=w, **o), p)
        record(r, f"kl_{red}", lambda s: F.kl_div(s, q, **o), a)
        record(r, f"kl_log_{red}", lambda s, t: F.kl_div(s, t, log_target=True, **o), a, lq)
    record(r, "kl_batchmean", lambda s: F.kl_div(s, q, reduction="batchmean"), a)
    record(r, "kl_log_batchmean",
           lambda s, t: F.kl_div(s, t, reduction="batchmean", log_target=True), a, lq)
