"""The networks of torch_training.py, written like PyTorch's users do."""

import torch
from torch import nn
from torch.nn import functional as F


class LeNet5(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(400, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = torch.flatten(x, 1)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


class D2LLeNet(nn.Module):
    def __init__(self):
        super().__init__()

        def parameter(*shape):
            return nn.Parameter(torch.randn(shape) * 0.01 if len(shape) > 1 else
                                torch.zeros(shape))

        self.W1, self.b1 = parameter(20, 1, 3, 3), parameter(20)
        self.W2, self.b2 = parameter(50, 20, 5, 5), parameter(50)
        self.W3, self.b3 = parameter(800, 128), parameter(128)
        self.W4, self.b4 = parameter(128, 10), parameter(10)

    def forward(self, x):
        x = F.avg_pool2d(F.relu(F.conv2d(x, self.W1, self.b1)), 2)
        x = F.avg_pool2d(F.relu(F.conv2d(x, self.W2, self.b2)), 2)
        x = F.relu(torch.addmm(self.b3, torch.flatten(x, 1), self.W3))
        return torch.addmm(self.b4, x, self.W4)


def conv(inputs, outputs, kernel, stride=1):
    layer = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)
    nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
    return layer


class BasicBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = conv(inputs, outputs, 3, stride)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = conv(outputs, outputs, 3)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(conv(inputs, outputs, 1, stride),
                                            nn.BatchNorm2d(outputs))

    def forward(self, x):
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)


class ResNet18(nn.Module):
    """In torchvision's form, or with the stem for small images."""

    def __init__(self, classes, in_channels, small):
        super().__init__()
        self.conv1 = conv(in_channels, 64, 3) if small else conv(in_channels, 64, 7, 2)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.pool = nn.Identity() if small else nn.MaxPool2d(3, 2, 1)
        inputs = 64
        for i in range(4):
            outputs = 64 << i
            self.add_module(f"layer{i + 1}", nn.Sequential(
                BasicBlock(inputs, outputs, 1 if i == 0 else 2), BasicBlock(outputs, outputs, 1)))
            inputs = outputs
        self.fc = nn.Linear(512, classes)

    def forward(self, x):
        x = self.pool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))


class Block(nn.Module):
    """A layer of GPT-2: norms in front, GELU by tanh, attention that keeps no weights."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.linear1, self.linear2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        n, length, width = x.shape
        q, k, v = (t.view(n, length, self.heads, -1).transpose(1, 2)
                   for t in self.qkv(self.norm1(x)).split(width, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(y.transpose(1, 2).reshape(n, length, width))
        return x + self.linear2(F.gelu(self.linear1(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    """Its output shares the embedding's weights."""

    def __init__(self, tokens, length, width, layers, heads):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(tokens, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.output = nn.Linear(width, tokens, bias=False)
        self.output.weight = self.tokens.weight
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, 0, 0.02)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        return self.output(self.norm(self.blocks(x))).flatten(0, 1)


class LstmText(nn.Module):
    def __init__(self, tokens, width, layers):
        super().__init__()
        self.tokens = nn.Embedding(tokens, width)
        self.lstm = nn.LSTM(width, width, layers, batch_first=True)
        self.output = nn.Linear(width, tokens)

    def forward(self, ids):
        return self.output(self.lstm(self.tokens(ids))[0]).flatten(0, 1)


def make_text(tokens, length, width, layers, heads):
    if heads == 0:
        return LstmText(tokens, width, layers)
    return Gpt(tokens, length, width, layers, heads)


def make(name, channels, size, classes):
    if name == "lenet5":
        return LeNet5()
    if name == "d2l":
        return D2LLeNet()
    return ResNet18(classes, channels, small=size < 100)
