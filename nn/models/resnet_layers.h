// A residual network as the list of layers that it is: for a pipeline, or for parts of it.
#pragma once

#include "ferrite/nn/containers.h"
#include "ferrite/nn/models/resnet.h"

namespace ferrite::nn {

/// The layers of `net` in the order in which they run, on its tensors: the list computes what `net`
/// does, learns its parameters and keeps its running statistics, and `net` saves and loads them
/// under its own names. Layers are "0", "1", ...: convolution, norm, ReLU, (max pooling,) every
/// block of the four stages, average pooling, Flatten, linear layer. Modes and hooks are those of
/// now; later ones of the list are its own.
Sequential resnet_layers(ResNet& net);

}  // namespace ferrite::nn
