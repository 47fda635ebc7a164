#pragma once

#include "ferrite/kernels/reduce.h"

namespace ferrite::kernels::cuda {

// The parts of reduce(), one source file each.
void reduce_sum(const Stream& stream, const View& out, const View& in, bool mean);
void reduce_prod(const Stream& stream, const View& out, const View& in);
void reduce_extremum(const Stream& stream, const View& out, const View& in, bool max);
/// ReduceOp::count_nonzero, any or all.
void reduce_count(const Stream& stream, ReduceOp op, const View& out, const View& in);
void reduce_norm(const Stream& stream, const View& out, const View& in, double p);

}  // namespace ferrite::kernels::cuda
