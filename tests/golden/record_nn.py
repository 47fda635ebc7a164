"""Layers: outputs and gradients from given weights; LeNet."""

import torch
from torch import nn

from recorder import Recorder


def record(r, case, module, x, *more):
    """The module's state, an output and, for a random gradient of it, all gradients."""
    module = module.double()
    with torch.no_grad():
        for p in module.parameters():
            p.uniform_(-1, 1)
    r.add(case, **{f"state.{k}": v for k, v in module.state_dict().items()})
    if x.is_floating_point():
        x.requires_grad_()
    y = module(x, *more)
    dy = torch.randn_like(y)
    y.backward(dy)
    r.add(case, x=x, y=y, dy=dy, **{f"grad.{k}": p.grad for k, p in module.named_parameters()})
    r.add(case, **{f"more{i}": t for i, t in enumerate(more)})
    if x.is_floating_point():
        r.add(case, dx=x.grad)
    r.add(case, **{f"after.{k}": v for k, v in module.named_buffers()})


def ramp(shape, phase):
    """Numbers that the test computes too."""
    n = torch.Size(shape).numel()
    return (0.1 * torch.sin(torch.arange(n, dtype=torch.float64) * 0.37 + phase)).reshape(shape)


class LeNet5(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(400, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x):
        x = nn.functional.max_pool2d(torch.relu(self.conv1(x)), 2)
        x = nn.functional.max_pool2d(torch.relu(self.conv2(x)), 2).flatten(1)
        return self.fc3(torch.relu(self.fc2(torch.relu(self.fc1(x)))))


def d2l_lenet(x, params):
    h1 = nn.functional.avg_pool2d(torch.relu(nn.functional.conv2d(x, params[0], params[1])), 2)
    h2 = nn.functional.avg_pool2d(torch.relu(nn.functional.conv2d(h1, params[2], params[3])), 2)
    h3 = torch.relu(torch.mm(h2.reshape(h2.shape[0], -1), params[4]) + params[5])
    return torch.mm(h3, params[6]) + params[7]


D2L_SHAPES = [(20, 1, 3, 3), (20,), (50, 20, 5, 5), (50,), (800, 128), (128,), (128, 10), (10,)]

with Recorder("nn") as r:
    f64 = dict(dtype=torch.float64)
    record(r, "linear", nn.Linear(5, 3), torch.randn(2, 4, 5, **f64))
    record(r, "linear_nobias", nn.Linear(5, 3, bias=False), torch.randn(4, 5, **f64))
    conv = nn.Conv2d(4, 6, (3, 2), stride=2, padding=(1, 0), groups=2)
    record(r, "conv2d", conv, torch.randn(2, 4, 5, 6, **f64))
    conv = nn.Conv2d(3, 2, 3, dilation=2, padding="same", bias=False)
    record(r, "conv2d_same", conv, torch.randn(1, 3, 7, 6, **f64))
    conv = nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2)
    record(r, "conv_transpose2d", conv, torch.randn(2, 4, 3, 4, **f64))
    record(r, "batch_norm2d", nn.BatchNorm2d(3), torch.randn(4, 3, 2, 3, **f64))
    record(r, "batch_norm2d_cumulative", nn.BatchNorm2d(3, momentum=None), torch.randn(4, 3, 2, 3, **f64))
    record(r, "batch_norm2d_eval", nn.BatchNorm2d(3).eval(), torch.randn(4, 3, 2, 3, **f64))
    norm = nn.BatchNorm2d(3, affine=False, track_running_stats=False).eval()
    record(r, "batch_norm2d_plain", norm, torch.randn(4, 3, 2, 3, **f64))
    record(r, "batch_norm1d", nn.BatchNorm1d(3, eps=1e-3, momentum=0.3), torch.randn(6, 3, **f64))
    record(r, "layer_norm", nn.LayerNorm((3, 4)), torch.randn(2, 3, 4, **f64))
    record(r, "embedding", nn.Embedding(6, 3, padding_idx=2), torch.tensor([[0, 2, 5], [5, 1, 0]]))
    x = torch.randn(2, 2, 5, 6, **f64)
    record(r, "max_pool2d", nn.MaxPool2d(3, stride=2, padding=1), x.clone())
    record(r, "avg_pool2d", nn.AvgPool2d(2), x.clone())
    record(r, "adaptive_avg_pool2d", nn.AdaptiveAvgPool2d((2, 1)), x.clone())
    x = torch.randn(3, 4, **f64)
    for name, module in {
        "relu": nn.ReLU(), "leaky_relu": nn.LeakyReLU(0.2), "sigmoid": nn.Sigmoid(),
        "tanh": nn.Tanh(), "gelu": nn.GELU(), "gelu_tanh": nn.GELU(approximate="tanh"),
        "silu": nn.SiLU(), "softmax": nn.Softmax(dim=1), "log_softmax": nn.LogSoftmax(dim=-1),
        "flatten": nn.Flatten(0), "dropout_eval": nn.Dropout(0.5).eval(),
    }.items():
        record(r, name, module, x.clone())
    mlp = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Sequential(nn.Linear(5, 2), nn.Softmax(1)))
    record(r, "sequential", mlp, x.clone())
    classes, target = torch.tensor([1, 3, 0]), torch.rand(3, 4, **f64)
    weight = torch.rand(4, **f64)
    record(r, "cross_entropy", nn.CrossEntropyLoss(weight, label_smoothing=0.1), x.clone(), classes)
    record(r, "nll", nn.NLLLoss(), x.clone(), classes)
    record(r, "mse", nn.MSELoss(), x.clone(), target)
    record(r, "l1", nn.L1Loss(reduction="sum"), x.clone(), target)
    record(r, "smooth_l1", nn.SmoothL1Loss(beta=0.5), x.clone(), target)
    record(r, "bce", nn.BCEWithLogitsLoss(pos_weight=weight), x.clone(), target)

    net = LeNet5().double()
    with torch.no_grad():
        for i, p in enumerate(net.parameters()):
            p.copy_(ramp(p.shape, i))
    x = ramp((2, 1, 28, 28), 0.5) * 10
    y = net(x)
    nn.functional.cross_entropy(y, torch.tensor([3, 7])).backward()
    r.add("lenet5", y=y, grads=torch.stack([p.grad.norm() for p in net.parameters()]))
    params = [ramp(s, i).requires_grad_() for i, s in enumerate(D2L_SHAPES)]
    y = d2l_lenet(x, params)
    nn.functional.cross_entropy(y, torch.tensor([3, 7])).backward()
    r.add("d2l", y=y, grads=torch.stack([p.grad.norm() for p in params]))

    record(r, "group_norm", nn.GroupNorm(2, 6), torch.randn(3, 6, 2, 3, **f64))
    norm = nn.GroupNorm(3, 6, eps=0.1, affine=False)
    record(r, "group_norm_plain", norm, torch.randn(3, 6, 2, **f64))

