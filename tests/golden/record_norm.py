"""Records norm.safetensors."""

import torch
import torch.nn.functional as F

from recorder import Recorder


def batch_norm(r, case, x, w, b, training, momentum=0.1, eps=1e-5):
    x, w, b = (t.clone().requires_grad_() for t in (x, w, b))
    mean = torch.linspace(-1, 1, x.shape[1])
    var = torch.linspace(0.5, 2, x.shape[1])
    r.add(case, x=x, w=w, b=b, mean=mean, var=var)
    out = F.batch_norm(x, mean, var, w, b, training, momentum, eps)
    grad = torch.randn_like(out)
    out.backward(grad)
    r.add(case, out=out, grad=grad, dx=x.grad, dw=w.grad, db=b.grad, mean_after=mean,
          var_after=var)


def others(r, case, function, *inputs):
    inputs = [t.clone().requires_grad_() for t in inputs]
    out = function(*inputs)
    grad = torch.randn_like(out)
    out.backward(grad)
    r.add(case, out=out, grad=grad)
    for name, t in zip("xwb", inputs):
        r.add(case, **{name: t, "d" + name: t.grad})


with Recorder("norm") as r:
    for name, shape in (("2d", (6, 5)), ("3d", (3, 4, 7)), ("4d", (3, 6, 4, 5))):
        c = shape[1]
        x, w, b = torch.randn(shape) * 2 + 1, torch.randn(c), torch.randn(c)
        batch_norm(r, f"batch_{name}_train", x, w, b, True)
        batch_norm(r, f"batch_{name}_eval", x, w, b, False)
        batch_norm(r, f"batch_{name}_options", x, w, b, True, 0.7, 0.1)
    x = torch.randn(2, 3, 4, 5) * 3 - 1
    others(r, "layer1", lambda x, w, b: F.layer_norm(x, (5,), w, b), x, torch.randn(5),
           torch.randn(5))
    others(r, "layer3", lambda x, w, b: F.layer_norm(x, (3, 4, 5), w, b, 0.01), x,
           torch.randn(3, 4, 5), torch.randn(3, 4, 5))
    others(r, "layer_plain", lambda x: F.layer_norm(x, (4, 5)), x)
    x = torch.randn(2, 6, 3, 3) * 3 - 1
    others(r, "group2", lambda x, w, b: F.group_norm(x, 2, w, b), x, torch.randn(6),
           torch.randn(6))
    others(r, "group6", lambda x: F.group_norm(x, 6, eps=0.01), x)
