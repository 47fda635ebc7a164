#pragma once

#include "ferrite/kernels/unary.h"

namespace ferrite::kernels::cpu {

/// A function on contiguous runs of float or double, what each (op, type) compiles to.
template <class C>
using Block = void (*)(C* out, const C* in, std::int64_t n, C a, C b);
/// Null where the op is another's.
template <class C>
Block<C> math_block(UnaryOp op);
template <class C>
Block<C> activation_block(UnaryOp op);

}  // namespace ferrite::kernels::cpu
