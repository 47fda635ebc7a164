"""torchvision's networks, narrow, from weights that a formula gives: outputs and norms of gradients in
training, and outputs in evaluation. Prints the numbers of parameters of the full ones, and hashes of
the names and shapes of their state, which tests/nn/models_test.cpp has.

tests/nn/models_test.cpp makes the same weights and images: keep fill in step with it.
"""

import torch
import torch.nn.functional as F
from torch import nn
from torchvision import models
from torchvision.models import efficientnet, mobilenetv2, resnet, squeezenet, vgg, vision_transformer

from recorder import Recorder, hash32, uniform

F64 = torch.float64
CLASSES = 5


def fill(net):
    """By the number of the name among the sorted names of the state."""
    with torch.no_grad():
        for i, (name, t) in enumerate(sorted(net.state_dict().items())):
            if not t.is_floating_point():
                continue
            t.copy_(uniform(i, t.shape, t[0].numel() if t.dim() > 1 else 100, F64))
            if name.endswith("running_var") or (t.dim() == 1 and name.endswith("weight")):
                t.add_(1)


def record(r, case, net, shape):
    net = net.double().train()
    fill(net)
    x = uniform(1000, shape, 1, F64)
    y = net(x)
    F.cross_entropy(y, hash32(2000, shape[0]) % CLASSES).backward()
    norms = [p.grad.norm() for _, p in sorted(net.named_parameters())]
    net.eval()
    r.add(case, y=y, grads=torch.stack(norms), eval=net(x))


def narrow_vgg(name, batch_norm, width, hidden):
    cfg = [v if v == "M" else v * width // 64 for v in vgg.cfgs[name]]
    net = vgg.VGG(vgg.make_layers(cfg, batch_norm), CLASSES, False)
    sizes = [8 * width * 49, hidden, hidden, CLASSES]
    for i, at in enumerate((0, 3, 6)):
        net.classifier[at] = nn.Linear(sizes[i], sizes[i + 1])
    return net


def narrow_alexnet(w, hidden):
    net = models.AlexNet(CLASSES)
    f = net.features
    f[0] = nn.Conv2d(3, w, 11, 4, 2)
    f[3] = nn.Conv2d(w, 3 * w, 5, padding=2)
    f[6] = nn.Conv2d(3 * w, 6 * w, 3, padding=1)
    f[8] = nn.Conv2d(6 * w, 4 * w, 3, padding=1)
    f[10] = nn.Conv2d(4 * w, 4 * w, 3, padding=1)
    for at, sizes in ((1, (4 * w * 36, hidden)), (4, (hidden, hidden)), (6, (hidden, CLASSES))):
        net.classifier[at] = nn.Linear(*sizes)
    return net


def narrow_resnet(layers, w, groups=1, width_per_group=64):
    """torchvision's, whose layers are made anew with w channels in place of 64."""
    with torch.device("meta"):
        net = resnet.ResNet(resnet.Bottleneck, layers, CLASSES, groups=groups, width_per_group=width_per_group)
    net.conv1, net.bn1 = nn.Conv2d(3, w, 7, 2, 3, bias=False), nn.BatchNorm2d(w)
    net.inplanes = w
    for i, count in enumerate(layers):
        stage = net._make_layer(resnet.Bottleneck, w << i, count, stride=1 if i == 0 else 2)
        setattr(net, f"layer{i + 1}", stage)
    net.fc = nn.Linear(32 * w, CLASSES)
    return net


def narrow_efficientnet():
    settings, last = efficientnet._efficientnet_conf("efficientnet_b0", width_mult=0.25, depth_mult=1)
    return efficientnet.EfficientNet(settings, 0, 0, CLASSES, last_channel=last)


with Recorder("models") as r:
    torch.set_num_threads(1)

    def add(case, net, *shape):
        for m in net.modules():
            if isinstance(m, nn.Dropout):
                m.p = 0
        record(r, case, net, shape)

    add("vgg11", narrow_vgg("A", False, 4, 8), 3, 3, 32, 32)
    add("vgg13_bn", narrow_vgg("B", True, 2, 6), 3, 3, 32, 32)
    add("alexnet", narrow_alexnet(2, 8), 3, 3, 64, 63)
    add("squeezenet1_1", squeezenet.SqueezeNet("1_1", CLASSES), 3, 3, 33, 32)
    add("mobilenet_v2", mobilenetv2.MobileNetV2(CLASSES, 0.25), 3, 3, 33, 32)
    add("efficientnet_b0", narrow_efficientnet(), 3, 3, 33, 32)
    add("vit", vision_transformer.VisionTransformer(12, 4, 2, 2, 8, 12, num_classes=CLASSES), 3, 3, 12, 12)
    shortcut = nn.Sequential(nn.Conv2d(6, 64, 1, 2, bias=False), nn.BatchNorm2d(64))
    block = resnet.Bottleneck(6, 16, 2, shortcut, groups=4, base_width=32)
    add("bottleneck", nn.Sequential(block, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, CLASSES)), 3, 6, 7, 8)
    deep = 2, 3, 64, 64
    add("resnet101", narrow_resnet([3, 4, 23, 3], 2), *deep)
    add("resnet152", narrow_resnet([3, 8, 36, 3], 2), *deep)
    add("resnext50_32x4d", narrow_resnet([3, 4, 6, 3], 16, 32, 4), *deep)
    add("wide_resnet50_2", narrow_resnet([3, 4, 6, 3], 2, width_per_group=128), *deep)


def fnv1a(text):
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


NAMES = """resnet18 resnet34 resnet50 resnet101 resnet152 resnext50_32x4d resnext101_32x8d resnext101_64x4d wide_resnet50_2
wide_resnet101_2 alexnet vgg11 vgg13 vgg16 vgg19 vgg11_bn vgg13_bn vgg16_bn vgg19_bn squeezenet1_1
mobilenet_v2 efficientnet_b0 vit_b_16 vit_b_32"""
for name in NAMES.split():
    with torch.device("meta"):
        net = getattr(models, name)()
    state = sorted(net.state_dict().items())
    names = fnv1a("".join(f"{key}\n" for key, _ in state))
    shapes = fnv1a("".join(f"{key} {list(t.shape)}\n" for key, t in state))
    count = sum(p.numel() for p in net.parameters())
    print(f'{{"{name}", {count}, 0x{names:016x}, 0x{shapes:016x}}},')
