// A residual network as a list of layers, for pipelines or for using parts of it.
#pragma once

#include "ferrite/nn/containers.h"
#include "ferrite/nn/models/resnet.h"

namespace ferrite::nn {

/// The layers of `net` in the order in which they run. They share the tensors of `net`: the list
/// computes the same function, trains the same parameters and updates the same running statistics,
/// and `net` saves and loads them under its own names. Layers are named "0", "1", ...: convolution,
/// norm, ReLU, max pooling (standard stem only), every block of the four stages, average pooling,
/// Flatten, linear layer. Modes and hooks are copied from `net`; later changes of either do not
/// affect the other.
Sequential resnet_layers(ResNet& net);

}  // namespace ferrite::nn
