#pragma once

#include "ferrite/kernels/unary.h"

namespace ferrite::kernels::cuda {

/// The part of unary() in activation.cu.
decltype(unary) activation;

}  // namespace ferrite::kernels::cuda
