"""ResNet-18, whole but narrow, in float32: its weights as a checkpoint with PyTorch's names
(resnet18_weights.safetensors), after some steps so that no norm is at its start, and what it gives
from there: logits, loss, all gradients, and the losses of ten more steps (resnet18.safetensors).

tests/nn/resnet18_test.cpp makes the same images and labels: keep batch in step with it.
"""

import copy

import torch
import torch.nn.functional as F

from recorder import Recorder, hash32, uniform
from resnet import Basic, ResNet

STEPS, BATCH, SIZE, CLASSES, WIDTH = 10, 8, 48, 7, 5


def batch(step, dtype=torch.float32):
    """One of two batches in turn."""
    labels = hash32(2000 + step % 2, BATCH) % CLASSES
    return uniform(1000 + step % 2, (BATCH, 3, SIZE, SIZE), 1, dtype), labels


def train(net, steps):
    """The losses of SGD on the batches from number 0 on."""
    sgd = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9, weight_decay=5e-4)
    losses = []
    net.train()
    for step in range(steps):
        images, labels = batch(step, net.fc.weight.dtype)
        loss = F.cross_entropy(net(images), labels)
        sgd.zero_grad()
        loss.backward()
        sgd.step()
        losses.append(loss.item())
    return torch.tensor(losses, dtype=torch.float64)


def results(net):
    """All that is recorded of a network, which it trains."""
    net.zero_grad(set_to_none=True)
    images, labels = batch(0, net.fc.weight.dtype)
    out = {"eval": net.eval()(images)}
    out["logits"] = net.train()(images)
    out["loss"] = F.cross_entropy(out["logits"], labels)
    out["loss"].backward()
    out |= {f"grad.{name}": p.grad.clone() for name, p in net.named_parameters()}
    out["losses"] = train(net, STEPS)
    out["trained"] = net.eval()(batch(STEPS, net.fc.weight.dtype)[0])
    return {name: t.detach() for name, t in out.items()}


torch.set_num_threads(1)
with Recorder("resnet18_weights") as r:
    net = ResNet(Basic, [2, 2, 2, 2], CLASSES, width=WIDTH)
    train(net, 3)
    r.tensors = {name: t.clone() for name, t in net.state_dict().items()}

with Recorder("resnet18") as r:
    double = results(copy.deepcopy(net).double())
    single = results(net)
    r.add("step", **single)
    # The error of float32 itself: the test's tolerances must be larger.
    for key in ["eval", "logits", "loss", "losses", "trained"]:
        print(key, (single[key] - double[key]).abs().max().item())
    print("gradients", max(((single[k] - double[k]).norm() / double[k].norm()).item()
                           for k in single if k.startswith("grad.")))
    print([round(v, 4) for v in single["losses"].tolist()])
