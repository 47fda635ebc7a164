"""Records networks as PyTorch's exporters write them, with inputs and outputs of PyTorch:
tests/golden/onnx/NAME.onnx, NAME.input.npy, NAME.output.npy.

    python3 record_onnx.py        # torch, torchvision, onnx and onnxscript are installed

The networks are torchvision's, narrow ones, with weights and running statistics that are drawn.
"""
import pathlib

import numpy
import onnx
import torch
import torchvision
from torchvision.models import resnet

FOLDER = pathlib.Path(__file__).parent / "onnx"


class NarrowResNet(resnet.ResNet):
    """A ResNet of another width, whose forward() is torchvision's."""

    def __init__(self, block, layers, width):
        torch.nn.Module.__init__(self)
        self._norm_layer = torch.nn.BatchNorm2d
        self.inplanes, self.dilation, self.groups, self.base_width = width, 1, 1, 64
        self.conv1 = torch.nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(width)
        self.relu = torch.nn.ReLU(inplace=True)
        self.maxpool = torch.nn.MaxPool2d(3, 2, 1)
        self.layer1 = self._make_layer(block, width, layers[0])
        self.layer2 = self._make_layer(block, 2 * width, layers[1], stride=2)
        self.layer3 = self._make_layer(block, 4 * width, layers[2], stride=2)
        self.layer4 = self._make_layer(block, 8 * width, layers[3], stride=2)
        self.avgpool = torch.nn.AdaptiveAvgPool2d(1)
        self.fc = torch.nn.Linear(8 * width * block.expansion, 5)


def vision_transformer():
    net = torchvision.models.VisionTransformer(
        image_size=32, patch_size=8, num_layers=2, num_heads=2, hidden_dim=16, mlp_dim=24, num_classes=5)
    torch.nn.init.normal_(net.heads.head.weight)
    return net


def mobilenet():
    blocks = [[1, 8, 1, 1], [6, 16, 2, 2], [6, 24, 2, 2]]
    net = torchvision.models.MobileNetV2(num_classes=5, width_mult=0.5, inverted_residual_setting=blocks)
    net.features[-1] = torchvision.ops.Conv2dNormActivation(
        16, 32, kernel_size=1, activation_layer=torch.nn.ReLU6)
    net.classifier[1] = torch.nn.Linear(32, 5)
    return net


class Recurrent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = torch.nn.LSTM(4, 5, num_layers=2, bidirectional=True, batch_first=True)
        self.gru = torch.nn.GRU(10, 4, batch_first=True)
        self.head = torch.nn.Linear(4, 3)

    def forward(self, x):
        return torch.log_softmax(self.head(self.gru(self.lstm(x)[0])[0][:, -1]), -1)


def strip(path):
    """Takes out where in which source each node comes from."""
    model = onnx.load(path)
    del model.metadata_props[:]
    del model.graph.metadata_props[:]
    del model.graph.value_info[:]
    for node in model.graph.node:
        del node.metadata_props[:]
        node.doc_string = ""
    for value in [*model.graph.input, *model.graph.output, *model.graph.initializer]:
        del value.metadata_props[:]
        value.doc_string = ""
    onnx.save(model, path)


def record(name, net, example, dynamo):
    for part in net.modules():
        if isinstance(part, torch.nn.BatchNorm2d):
            part.running_mean.normal_(0, 0.2)
            part.running_var.uniform_(0.5, 1.5)
            part.weight.data.uniform_(0.5, 1.5)
            part.bias.data.normal_(0, 0.1)
    net.eval()
    path = FOLDER / f"{name}.onnx"
    if dynamo:
        torch.onnx.export(net, (example,), path, dynamo=True, external_data=False,
                          dynamic_shapes=({0: torch.export.Dim("batch")},), verbose=False)
    else:
        torch.onnx.export(net, (example,), path, dynamo=False, input_names=["input"],
                          output_names=["output"],
                          dynamic_axes={"input": {0: "batch"}, "output": {0: "batch"}})
    strip(path)
    other = torch.randn(3, *example.shape[1:])
    with torch.no_grad():
        numpy.save(FOLDER / f"{name}.output.npy", net(other).numpy())
    numpy.save(FOLDER / f"{name}.input.npy", other.numpy())


def main():
    torch.manual_seed(0)
    FOLDER.mkdir(exist_ok=True)
    image = torch.randn(2, 3, 32, 32)
    record("resnet18", NarrowResNet(resnet.BasicBlock, [2, 2, 2, 2], 4), image, dynamo=False)
    record("resnet50", NarrowResNet(resnet.Bottleneck, [3, 4, 6, 3], 2), image, dynamo=True)
    record("mobilenet_v2", mobilenet(), image, dynamo=False)
    record("mobilenet_v2_dynamo", mobilenet(), image, dynamo=True)
    record("vit", vision_transformer(), image, dynamo=False)
    record("vit_dynamo", vision_transformer(), image, dynamo=True)
    record("recurrent", Recurrent(), torch.randn(2, 6, 4), dynamo=False)


if __name__ == "__main__":
    main()
