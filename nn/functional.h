// Functions of layers by PyTorch's names: `F::relu(x)`, `nn::functional::cross_entropy(x, y)`. They
// are those of ops/, which need no prefix.
#pragma once

#include "ferrite/ops/activation.h"
#include "ferrite/ops/arrange.h"
#include "ferrite/ops/attention.h"
#include "ferrite/ops/conv.h"
#include "ferrite/ops/ctc_loss.h"
#include "ferrite/ops/dropout.h"
#include "ferrite/ops/embedding_bag.h"
#include "ferrite/ops/fractional_pool.h"
#include "ferrite/ops/grid_sample.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/loss.h"
#include "ferrite/ops/margin_loss.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/norm.h"
#include "ferrite/ops/pool.h"
#include "ferrite/ops/products.h"
#include "ferrite/ops/rearrange.h"
#include "ferrite/ops/resize.h"
#include "ferrite/ops/rotary.h"
#include "ferrite/ops/sampling.h"
#include "ferrite/ops/softmax.h"
#include "ferrite/ops/unary.h"

namespace ferrite {
namespace nn {
namespace functional = ::ferrite;
}
namespace F = nn::functional;
}  // namespace ferrite
