#pragma once

#include "ferrite/kernels/combine.h"

namespace ferrite::kernels::cpu {

/// Operands may lie at any address: they are pieces of streams of bytes.
void combine(Combine op, const View& out, const View& a, const View& b, double scale);

}  // namespace ferrite::kernels::cpu
