"""Twenty training steps of both LeNets, from weights and images that a formula gives.

tests/nn/training_test.cpp makes the same ones: keep batch in step with it.
"""

import torch
import torch.nn.functional as F

from recorder import Recorder, hash32, uniform

STEPS, BATCH, CLASSES = 20, 16, 10


def batch(step, dtype):
    """Gray images, half a pattern of their class and half noise, and their labels."""
    labels = hash32(1000 + step, BATCH) % CLASSES
    pixels = torch.stack([hash32(2000 + int(label), 784) >> 25 for label in labels])
    pixels += (hash32(3000 + step, BATCH * 784) >> 25).reshape(BATCH, 784)
    return (pixels.reshape(BATCH, 1, 28, 28).to(torch.uint8).to(dtype) - 127) / 32, labels


def lenet5(p, x):
    x = F.max_pool2d(F.relu(F.conv2d(x, p[0], p[1], padding=2)), 2)
    x = F.max_pool2d(F.relu(F.conv2d(x, p[2], p[3])), 2).flatten(1)
    return F.linear(F.relu(F.linear(F.relu(F.linear(x, p[4], p[5])), p[6], p[7])), p[8], p[9])


def d2l(p, x):
    x = F.avg_pool2d(F.relu(F.conv2d(x, p[0], p[1])), 2)
    x = F.avg_pool2d(F.relu(F.conv2d(x, p[2], p[3])), 2)
    return F.relu(x.flatten(1) @ p[4] + p[5]) @ p[6] + p[7]


MODELS = {  # shapes with their fan-in, forward, optimizer
    "lenet5": ([((6, 1, 5, 5), 25), ((6,), 25), ((16, 6, 5, 5), 150), ((16,), 150),
                ((120, 400), 400), ((120,), 400), ((84, 120), 120), ((84,), 120),
                ((10, 84), 84), ((10,), 84)],
               lenet5, lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9)),
    "d2l": ([((20, 1, 3, 3), 9), ((20,), 9), ((50, 20, 5, 5), 500), ((50,), 500),
             ((800, 128), 800), ((128,), 800), ((128, 10), 128), ((10,), 128)],
            d2l, lambda p: torch.optim.SGD(p, lr=0.2)),
}


def sample(t):
    """At most 200 elements, evenly spaced."""
    return t.detach().reshape(-1)[:: max(1, -(-t.numel() // 200))]


def train(name, dtype):
    shapes, forward, optimizer = MODELS[name]
    p = [uniform(i, s, fan, dtype).requires_grad_() for i, (s, fan) in enumerate(shapes)]
    sgd = optimizer(p)
    result = {"losses": []}
    for step in range(STEPS):
        x, y = batch(step, dtype)
        logits = forward(p, x)
        loss = F.cross_entropy(logits, y)
        sgd.zero_grad()
        loss.backward()
        if step == 0:
            result["first_logits"] = logits
            result |= {f"gradient{i}": sample(t.grad).clone() for i, t in enumerate(p)}
        sgd.step()
        result["losses"].append(loss.item())
    result["losses"] = torch.tensor(result["losses"], dtype=torch.float64)
    result["final_logits"] = forward(p, batch(STEPS, dtype)[0])
    result |= {f"weight{i}": sample(t) for i, t in enumerate(p)}
    result |= {f"norm{i}": t.double().norm() for i, t in enumerate(p)}
    return result


with Recorder("training") as r:
    torch.set_num_threads(1)
    for name in MODELS:
        single, double = train(name, torch.float32), train(name, torch.float64)
        r.add(name, **single)
        # The error of float32 itself: the test's tolerances must be larger.
        for key in ["losses", "first_logits", "final_logits"]:
            print(name, key, (single[key] - double[key]).abs().max().item())
        print(name, "weights", max((single[f"weight{i}"] - double[f"weight{i}"]).abs().max().item()
                                   for i in range(len(MODELS[name][0]))))
        print([round(v, 4) for v in single["losses"].tolist()])
