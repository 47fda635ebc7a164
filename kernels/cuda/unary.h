#pragma once

#include "ferrite/core/fwd.h"
#include "ferrite/kernels/unary.h"

namespace ferrite::kernels::cuda {

void unary(const Stream& stream, UnaryOp op, const View& out, const View& in, const UnaryParams& p);
void unary_backward(const Stream& stream, UnaryOp op, const View& out, const View& grad,
                    const View& saved, const UnaryParams& p);
void predicate(const Stream& stream, Predicate op, const View& out, const View& in);

/// The part of unary() that is activation.cu's.
void activation(const Stream& stream, UnaryOp op, const View& out, const View& in,
                const UnaryParams& p);

}  // namespace ferrite::kernels::cuda
