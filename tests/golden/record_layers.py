"""Layers and losses under PyTorch's names for them, repr(module): outputs and gradients."""

import re

import torch
from torch import nn

from recorder import Recorder

f64 = dict(dtype=torch.float64)


def name_of(module, note):
    """The repr, without what newer versions add to it, and without modules within."""
    text = re.sub(r"\(\n.*\)", "()", repr(module), flags=re.S)
    return re.sub(r"(affine=\w+), bias=\w+", r"\1", text) + note


def record(r, module, x, *more, note="", train=True):
    """The module's state, an output and, for a random gradient of it, all gradients."""
    module = module.double().train(train)
    case = name_of(module, note)
    with torch.no_grad():
        for p in module.parameters():
            p.uniform_(-1, 1)
    r.add(case, **{f"state.{k}": v for k, v in module.state_dict().items()})
    if x.is_floating_point():
        x = x.clone().requires_grad_()
    y = module(x, *more)
    y = y[0] if isinstance(y, tuple) else y
    dy = torch.randn_like(y)
    y.backward(dy)
    r.add(case, x=x, y=y, dy=dy, **{f"grad.{k}": p.grad for k, p in module.named_parameters()})
    r.add(case, **{f"more{i}": t for i, t in enumerate(more)})
    if x.is_floating_point():
        r.add(case, dx=x.grad)
    r.add(case, **{f"after.{k}": v for k, v in module.named_buffers()})


with Recorder("layers") as r:
    line, image = torch.randn(2, 4, 7, **f64), torch.randn(2, 4, 5, 6, **f64)
    volume = torch.randn(1, 4, 5, 4, 6, **f64)
    rows, small = torch.randn(3, 4, **f64), torch.randn(3, 4, **f64) * 4

    # Convolutions and padding.
    record(r, nn.Conv1d(4, 6, 3, stride=2, padding=1, groups=2), line)
    record(r, nn.Conv1d(4, 2, 4, padding="same", dilation=2, padding_mode="circular"), line)
    record(r, nn.Conv2d(4, 2, (3, 2), padding=(2, 1), padding_mode="reflect"), image)
    record(r, nn.Conv3d(4, 6, (2, 3, 2), stride=(2, 1, 2), padding=(1, 0, 1), groups=2), volume)
    record(r, nn.Conv3d(4, 2, (2, 1, 3), dilation=(2, 1, 1), padding="same", bias=False), volume)
    record(r, nn.Conv3d(4, 2, 2, padding=1, padding_mode="replicate"), volume)
    record(r, nn.ConvTranspose1d(4, 6, 3, stride=3, padding=1, output_padding=2, groups=2), line)
    record(r, nn.ConvTranspose3d(4, 2, (3, 2, 2), stride=(2, 1, 2), padding=(1, 0, 1),
                                 output_padding=(1, 0, 1), groups=2), volume)
    record(r, nn.ConvTranspose3d(4, 3, (2, 1, 2), dilation=(2, 1, 2), bias=False), volume)
    record(r, nn.ZeroPad1d((1, 2)), line)
    record(r, nn.ConstantPad2d((1, 0, 2, -1), 3.5), image)
    record(r, nn.ReflectionPad3d(1), volume)
    record(r, nn.ReplicationPad2d((1, 2, 0, 3)), image)
    record(r, nn.CircularPad1d(2), line)

    # Pooling.
    record(r, nn.MaxPool1d(3, stride=2, padding=1), line)
    record(r, nn.MaxPool3d((2, 3, 2), stride=(1, 2, 1), padding=(1, 1, 0), dilation=(2, 1, 1)), volume)
    record(r, nn.MaxPool3d(2, ceil_mode=True), volume)
    record(r, nn.AvgPool1d(3, padding=1, ceil_mode=True), line)
    record(r, nn.AvgPool3d((2, 3, 2), stride=(2, 1, 2), padding=(1, 1, 0), ceil_mode=True), volume)
    record(r, nn.AvgPool3d(3, padding=1, count_include_pad=False), volume, note=" inside")
    record(r, nn.AvgPool3d(3, divisor_override=5), volume, note=" by 5")
    for module, x in ((nn.AdaptiveAvgPool1d(3), line), (nn.AdaptiveMaxPool1d(3), line),
                      (nn.AdaptiveMaxPool2d((2, 4)), image), (nn.AdaptiveAvgPool3d((2, 3, 4)), volume),
                      (nn.AdaptiveMaxPool3d((2, 3, 4)), volume)):
        record(r, module, x)
    record(r, nn.LPPool1d(3, 2), line.abs() + 0.1)
    record(r, nn.LPPool2d(1.5, (3, 2), stride=2, ceil_mode=True), image.abs() + 0.1)
    record(r, nn.LPPool3d(2, (2, 1, 2)), volume)
    for n, x in ((1, line), (2, image), (3, volume)):
        pool = getattr(nn, f"MaxPool{n}d")(2, return_indices=True)
        pooled, indices = pool(x)
        r.add(f"indices {n}", x=x, pooled=pooled, indices=indices)
        record(r, getattr(nn, f"MaxUnpool{n}d")(2), pooled.detach(), indices)
        pool = getattr(nn, f"AdaptiveMaxPool{n}d")(3, return_indices=True)
        pooled, indices = pool(x)
        r.add(f"adaptive indices {n}", x=x, pooled=pooled, indices=indices)

    # Norms.
    record(r, nn.BatchNorm3d(4, momentum=0.3), volume)
    record(r, nn.InstanceNorm1d(4), line)
    record(r, nn.InstanceNorm2d(4, affine=True, track_running_stats=True, momentum=0.3), image)
    record(r, nn.InstanceNorm2d(4, affine=True, track_running_stats=True, momentum=0.3), image,
           note=" eval", train=False)
    record(r, nn.InstanceNorm3d(4, eps=0.1, affine=True), volume)
    record(r, nn.LocalResponseNorm(3, alpha=0.5, beta=0.6, k=2.0), image)
    record(r, nn.LocalResponseNorm(2, alpha=0.5), line)

    # Activations.
    for module in (nn.ELU(0.7), nn.CELU(1.3), nn.SELU(), nn.Hardtanh(-0.5, 0.7), nn.ReLU6(),
                   nn.Hardshrink(0.6), nn.Softshrink(0.6), nn.Tanhshrink(), nn.Threshold(0.3, 2.5),
                   nn.Softplus(2.0, 5.0), nn.Softsign(), nn.Hardswish(), nn.Hardsigmoid(), nn.Mish(),
                   nn.GLU(1), nn.LogSigmoid(), nn.Softmin(1), nn.PReLU()):
        record(r, module, small)
    record(r, nn.PReLU(4), image)
    record(r, nn.RReLU(0.1, 0.4), small, train=False)
    record(r, nn.Softmax2d(), image)

    # Other layers.
    record(r, nn.Unflatten(1, (2, 2)), line)
    record(r, nn.PixelShuffle(2), image)
    record(r, nn.PixelUnshuffle(2), torch.randn(2, 3, 4, 6, **f64))
    record(r, nn.ChannelShuffle(2), image)
    record(r, nn.UpsamplingNearest2d(scale_factor=2), image)
    record(r, nn.UpsamplingBilinear2d(size=(7, 9)), image)
    record(r, nn.Bilinear(4, 3, 2), rows, torch.randn(3, 3, **f64))
    record(r, nn.CosineSimilarity(), rows, torch.randn(3, 4, **f64))
    record(r, nn.PairwiseDistance(), rows, torch.randn(3, 4, **f64))
    indices, offsets = torch.tensor([1, 2, 4, 5, 4, 3, 2, 1]), torch.tensor([0, 3, 3, 5])
    for mode in ("sum", "mean", "max"):
        record(r, nn.EmbeddingBag(6, 3, mode=mode), indices, offsets)
        bag = nn.EmbeddingBag(6, 3, mode=mode, padding_idx=4, include_last_offset=True)
        record(r, bag, indices, torch.tensor([0, 3, 8]))
        record(r, nn.EmbeddingBag(6, 3, mode=mode), indices.reshape(2, 4), note=" rows")
    record(r, nn.EmbeddingBag(6, 3, mode="sum"), indices, offsets, torch.randn(8, **f64),
           note=" weighted")
    record(r, nn.RNN(4, 3, 2, bidirectional=True, batch_first=True), torch.randn(2, 5, 4, **f64))
    record(r, nn.RNN(4, 3, nonlinearity="relu", bias=False), torch.randn(5, 2, 4, **f64))
    record(r, nn.RNNCell(4, 3), rows, torch.randn(3, 3, **f64))
    record(r, nn.RNNCell(4, 3, bias=False, nonlinearity="relu"), rows, torch.randn(3, 3, **f64))

    # Losses.
    target, signs = torch.rand(3, 4, **f64), torch.tensor([[1, -1, 1, 1], [-1, -1, 1, -1], [1, 1, -1, 1]])
    record(r, nn.BCELoss(weight=torch.rand(4, **f64)), torch.rand(3, 4, **f64), target)
    record(r, nn.HuberLoss(delta=0.7), rows, target)
    record(r, nn.KLDivLoss(reduction="sum"), rows, target)
    counts = torch.tensor([[0.0, 1, 2, 5], [3, 1, 0, 2], [7, 2, 1, 1]], **f64)
    record(r, nn.PoissonNLLLoss(full=True), rows, counts)
    record(r, nn.PoissonNLLLoss(log_input=False, reduction="none"), rows.abs(), counts, note=" of counts")
    record(r, nn.GaussianNLLLoss(full=True), rows, target, torch.rand(3, 4, **f64))
    record(r, nn.GaussianNLLLoss(eps=0.5, reduction="sum"), rows, target, torch.rand(3, **f64), note=" of rows")
    record(r, nn.HingeEmbeddingLoss(0.8), rows, signs)
    record(r, nn.SoftMarginLoss(), rows, signs)
    record(r, nn.MarginRankingLoss(0.3), rows, target, signs)
    record(r, nn.CosineEmbeddingLoss(0.1, reduction="none"), rows, target, torch.tensor([1, -1, 1]))
    other = torch.randn(3, 4, **f64)
    record(r, nn.TripletMarginLoss(p=3, swap=True), rows, target, other)
    record(r, nn.TripletMarginWithDistanceLoss(margin=2.0), rows, target, other)
    classes = torch.tensor([1, 3, 0])
    record(r, nn.MultiMarginLoss(margin=0.5), rows, classes)
    record(r, nn.MultiMarginLoss(p=2, weight=torch.rand(4, **f64), reduction="none"), rows, classes, note=" 2")
    labels = torch.tensor([[3, 0, -1, 1], [-1, 0, 0, 0], [2, 1, 0, 3]])
    record(r, nn.MultiLabelMarginLoss(reduction="none"), rows, labels)
    record(r, nn.MultiLabelSoftMarginLoss(weight=torch.rand(4, **f64)), rows, (target > 0.5).double())

    log_probs = torch.randn(6, 3, 4, **f64).log_softmax(2)
    targets = torch.tensor([[1, 1, 2], [3, 2, 0], [2, 3, 3]])
    steps, lengths = torch.tensor([6, 5, 3]), torch.tensor([3, 2, 3])
    record(r, nn.CTCLoss(zero_infinity=True), log_probs, targets, steps, lengths)
    record(r, nn.CTCLoss(reduction="none"), log_probs, targets, steps, torch.tensor([2, 0, 1]), note=" each")
    flat = torch.tensor([1, 1, 2, 0, 2])
    record(r, nn.CTCLoss(blank=3, reduction="sum"), log_probs, flat, steps, torch.tensor([3, 1, 1]), note=" flat")

    # Added later, after the others' random numbers.
    for n, x in ((2, torch.randn(2, 3, 11, 9, **f64)), (3, torch.randn(2, 3, 7, 8, 9, **f64))):
        samples = torch.rand(2, 3, n, **f64)
        pool = getattr(torch.nn.functional, f"fractional_max_pool{n}d")
        x.requires_grad_()
        kernel, size = ((2, 3), (5, 4)) if n == 2 else ((2, 2, 3), (3, 5, 4))
        pooled, indices = pool(x, kernel, size, return_indices=True, _random_samples=samples)
        dy = torch.randn_like(pooled)
        pooled.backward(dy)
        r.add(f"fractional {n}", x=x, samples=samples, pooled=pooled, indices=indices, dy=dy, dx=x.grad)
    module = nn.AdaptiveLogSoftmaxWithLoss(9, 12, [4, 7], div_value=3.0, head_bias=True)
    classes = torch.tensor([3, 0, 11, 5, 5, 8])
    x = torch.randn(6, 9, **f64)
    record(r, module, x, classes)
    r.add("adaptive", log_prob=module.log_prob(x), predict=module.predict(x), loss=module(x, classes)[1],
          one=module(x[2], classes[2])[0])
