#pragma once

#include "ferrite/kernels/reduce.h"

namespace ferrite::kernels::cpu {

// The parts of reduce(), a translation unit each.
void reduce_sum(const View& out, const View& in, bool mean);
void reduce_prod(const View& out, const View& in);
void reduce_extremum(const View& out, const View& in, bool max);
void reduce_count(ReduceOp op, const View& out, const View& in);
void reduce_norm(const View& out, const View& in, double p);

}  // namespace ferrite::kernels::cpu
