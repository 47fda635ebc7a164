"""Records norm.safetensors and norm_twice.safetensors."""

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


def twice(r, case, function, *inputs):
    """The gradients of the sum of the squares of the gradients."""
    inputs = [t.double().requires_grad_() for t in inputs]
    out = function(*inputs)
    weight = torch.arange(1, out.numel() + 1).double().reshape(out.shape)
    first = torch.autograd.grad(out, inputs, weight, create_graph=True)
    second = torch.autograd.grad(sum((g * g).sum() for g in first), inputs, allow_unused=True)
    for name, t, d in zip("xwb", inputs, second):
        r.add(case, **{name: t} | ({} if d is None else {"d" + name: d}))


with Recorder("norm_twice", 1) as r:
    x, w, b = torch.randn(3, 4, 2, 2) * 2 + 1, torch.randn(4), torch.randn(4)
    mean, var = torch.linspace(-1, 1, 4).double(), torch.linspace(0.5, 2, 4).double()
    r.add("running", mean=mean, var=var)
    per_row = torch.randn(2, 2), torch.randn(2, 2)
    for training in (True, False):
        name = "train" if training else "eval"
        twice(r, f"batch_{name}", lambda x, w, b: F.batch_norm(
            x, mean.clone(), var.clone(), w, b, training), x, w, b)
        twice(r, f"batch_{name}_plain", lambda x: F.batch_norm(
            x, mean.clone(), var.clone(), training=training), x)
        twice(r, f"instance_{name}", lambda x, w, b: F.instance_norm(
            x, mean.clone(), var.clone(), w, b, training), x, w, b)
        twice(r, f"instance_{name}_plain", lambda x: F.instance_norm(
            x, mean.clone(), var.clone(), use_input_stats=training), x)
    twice(r, "layer", lambda x, w, b: F.layer_norm(x, (2, 2), w, b), x, *per_row)
    twice(r, "layer_plain", lambda x: F.layer_norm(x, (2, 2)), x)
    twice(r, "rms", lambda x, w: F.rms_norm(x, (2, 2), w, 1e-3), x, per_row[0])
    twice(r, "rms_plain", lambda x: F.rms_norm(x, (2, 2), eps=1e-3), x)
    twice(r, "group", lambda x, w, b: F.group_norm(x, 2, w, b), x, w, b)
    twice(r, "group_plain", lambda x: F.group_norm(x, 2), x)
    for zeros in range(4):
        x = torch.randn(3, 4)
        x.view(-1)[torch.tensor([1, 6, 2])[:zeros]] = 0
        twice(r, f"prod_{zeros}", lambda x: x.prod(), x)
        twice(r, f"prod_dim_{zeros}", lambda x: x.prod(1), x)
