#pragma once

#include "ferrite/kernels/unary.h"

namespace ferrite::kernels::cuda {

/// The part of unary() that is activation.cu's.
decltype(unary) activation;

}  // namespace ferrite::kernels::cuda
