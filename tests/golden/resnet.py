"""torchvision's residual networks in plain PyTorch: its names, shapes and initialisation, and as in
nn/models/resnet.h a stem for small images and a width of choice."""

import torch
from torch import nn
import torch.nn.functional as F


def conv(inputs, outputs, kernel, stride=1):
    return nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)


class Basic(nn.Module):
    expansion = 1

    def __init__(self, inputs, channels, stride, downsample):
        super().__init__()
        self.conv1 = conv(inputs, channels, 3, stride)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = conv(channels, channels, 3)
        self.bn2 = nn.BatchNorm2d(channels)
        self.downsample = downsample

    def forward(self, x):
        shortcut = x if self.downsample is None else self.downsample(x)
        out = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(out + shortcut)


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, inputs, channels, stride, downsample):
        super().__init__()
        self.conv1 = conv(inputs, channels, 1)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = conv(channels, channels, 3, stride)
        self.bn2 = nn.BatchNorm2d(channels)
        self.conv3 = conv(channels, channels * 4, 1)
        self.bn3 = nn.BatchNorm2d(channels * 4)
        self.downsample = downsample

    def forward(self, x):
        shortcut = x if self.downsample is None else self.downsample(x)
        out = F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))))
        return F.relu(self.bn3(self.conv3(out)) + shortcut)


class ResNet(nn.Module):
    def __init__(self, block, blocks, classes=1000, in_channels=3, small=False, width=64):
        super().__init__()
        self.small = small
        self.conv1 = conv(in_channels, width, 3) if small else conv(in_channels, width, 7, 2)
        self.bn1 = nn.BatchNorm2d(width)
        self.inputs = width
        for i, count in enumerate(blocks):
            stage = self.stage(block, width << i, count, 1 if i == 0 else 2)
            self.add_module(f"layer{i + 1}", stage)
        self.fc = nn.Linear(width * 8 * block.expansion, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def stage(self, block, channels, count, stride):
        blocks, outputs = [], channels * block.expansion
        for i in range(count):
            step, downsample = stride if i == 0 else 1, None
            if step != 1 or self.inputs != outputs:
                downsample = nn.Sequential(conv(self.inputs, outputs, 1, step),
                                           nn.BatchNorm2d(outputs))
            blocks.append(block(self.inputs, channels, step, downsample))
            self.inputs = outputs
        return nn.Sequential(*blocks)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        if not self.small:
            x = F.max_pool2d(x, 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(F.adaptive_avg_pool2d(x, 1), 1))
