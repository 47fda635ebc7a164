#pragma once

#include "core/stream.h"
#include "kernels/unary.h"

namespace ferrite::kernels::cuda {

void unary(const Stream& stream, UnaryOp op, const View& out, const View& in, const UnaryParams& p);
void unary_backward(const Stream& stream, UnaryOp op, const View& out, const View& grad,
                    const View& saved, const UnaryParams& p);
void hardtanh_backward(const Stream& stream, const View& out, const View& grad, const View& saved,
                       const UnaryParams& p);
void predicate(const Stream& stream, Predicate op, const View& out, const View& in);

// The parts of unary(), a source each.
/// What a few instructions do.
void simple_unary(const Stream& stream, UnaryOp op, const View& out, const View& in,
                  const UnaryParams& p);
/// Exponentials, logarithms, trigonometry.
void transcendental(const Stream& stream, UnaryOp op, const View& out, const View& in);
void activation(const Stream& stream, UnaryOp op, const View& out, const View& in,
                const UnaryParams& p);

}  // namespace ferrite::kernels::cuda
