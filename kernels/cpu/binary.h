#pragma once

#include "kernels/elementwise.h"

namespace ferrite::kernels::cpu {

void binary(BinaryOp op, const View& out, const View& a, const View& b);
void binary(BinaryOp op, const View& out, const View& a, Scalar b);
void binary(BinaryOp op, const View& out, Scalar a, const View& b);
void add_scaled(const View& out, const View& a, const View& b, Scalar alpha);

}  // namespace ferrite::kernels::cpu
