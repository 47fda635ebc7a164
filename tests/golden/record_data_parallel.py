"""Records data_parallel.safetensors: batch norm under torch.nn.DataParallel, which needs GPUs, from
what that does: every replica runs its chunk of the batch with the parameters and buffers of the
module, gradients are added, and the first replica's running statistics stay."""

import copy

import torch
from torch import nn

from recorder import Recorder


def make_net():
    return nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 4 * 4, 3)
    ).double()


def step(net, sgd, x, y, devices):
    replicas, outputs = [], []
    for chunk in x.chunk(devices):
        # The first replica is the module itself: its buffers are changed for good.
        replica = net if not replicas else copy.deepcopy(net)
        if replicas:
            replica.load_state_dict(before)
        else:
            before = copy.deepcopy(net.state_dict())
        replicas.append(replica)
        outputs.append(replica(chunk))
    out = torch.cat(outputs)
    sgd.zero_grad()
    for replica in replicas[1:]:
        replica.zero_grad()
    nn.functional.cross_entropy(out, y).backward()
    for replica in replicas[1:]:
        for p, q in zip(net.parameters(), replica.parameters()):
            p.grad += q.grad
    sgd.step()
    return out


with Recorder("data_parallel") as r:
    start = make_net()
    r.add("start", **{k.replace(".", "_"): v for k, v in start.state_dict().items()})
    steps = 3
    for devices, batch in [(2, 8), (2, 7), (3, 7), (4, 10), (4, 3)]:
        net = copy.deepcopy(start)
        sgd = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        case = f"{devices} devices, {batch}"
        for i in range(steps):
            x = torch.randn(batch, 2, 6, 6, dtype=torch.float64) * (1 + i) + i
            y = torch.randint(0, 3, (batch,))
            out = step(net, sgd, x, y, devices)
            r.add(f"{case}, step {i}", x=x, y=y, out=out)
            r.add(f"{case}, step {i}, gradients",
                  **{k.replace(".", "_"): p.grad for k, p in net.named_parameters()})
        r.add(f"{case}, end", **{k.replace(".", "_"): v for k, v in net.state_dict().items()})
