"""Residual networks in torchvision's form, narrow, from weights that a formula gives: outputs, loss,
gradients and running statistics of a training step, and the output in evaluation. Names and shapes
of the full ones.

tests/nn/resnet_test.cpp makes the same weights and images: keep fill and images in step with it.
"""

import torch
from torch import nn
import torch.nn.functional as F

from recorder import Recorder, hash32, uniform
from resnet import Basic, Bottleneck, ResNet

F64 = torch.float64


def fill(net):
    """Weights by their number among the parameters, then buffers by theirs."""
    with torch.no_grad():
        for i, p in enumerate(net.parameters()):
            fan = p[0].numel() if p.dim() > 1 else 100
            p.copy_(uniform(i, p.shape, fan, F64))
        for name, module in net.named_modules():
            if isinstance(module, nn.BatchNorm2d):
                module.weight.add_(1)
        for i, (name, b) in enumerate(net.named_buffers()):
            if b.is_floating_point():
                b.copy_(uniform(500 + i, b.shape, 100, F64))
                if name.endswith("running_var"):
                    b.add_(1)


def images(shape):
    return uniform(1000, shape, 1, F64)


def sample(t, count=24):
    """At most 24 elements, evenly spaced."""
    return t.detach().reshape(-1)[:: max(1, -(-t.numel() // count))]


def record(r, case, net, shape):
    net = net.double().train()
    fill(net)
    x = images(shape).requires_grad_()
    labels = hash32(2000, shape[0]) % net.fc.out_features
    y = net(x)
    loss = F.cross_entropy(y, labels)
    loss.backward()
    r.add(case, y=y, loss=loss, dx=sample(x.grad, 200))
    for name, p in net.named_parameters():
        r.add(case, **{f"grad.{name}": torch.cat([sample(p.grad), p.grad.norm()[None]])})
    for name, b in net.named_buffers():
        if b.is_floating_point():
            r.add(case, **{f"after.{name}": sample(b)})
    net.eval()
    r.add(case, eval=net(x))


with Recorder("resnet") as r:
    torch.set_num_threads(1)
    record(r, "basic", ResNet(Basic, [2, 2, 2, 2], classes=5, width=4), (4, 3, 33, 32))
    record(r, "small", ResNet(Basic, [1, 2, 1, 1], 7, in_channels=1, small=True, width=3),
           (3, 1, 14, 14))
    record(r, "bottleneck", ResNet(Bottleneck, [1, 2, 1, 1], 6, small=True, width=2), (3, 3, 9, 8))
    for case, block, blocks in [("resnet18", Basic, [2, 2, 2, 2]),
                                ("resnet34", Basic, [3, 4, 6, 3]),
                                ("resnet50", Bottleneck, [3, 4, 6, 3])]:
        state = ResNet(block, blocks).state_dict()
        names = "\n".join(f"{k} {list(t.shape)}" for k, t in state.items())
        r.add(case, state=torch.tensor(list(names.encode()), dtype=torch.uint8))
