#pragma once

#include "ferrite/core/fwd.h"
#include "ferrite/kernels/reduce.h"

namespace ferrite::kernels::cuda {

void reduce(const Stream& stream, ReduceOp op, const View& out, const View& in, double p);

/// out[n] = the sum of a[:, n].
void column_sum(const Stream& stream, const View& out, const View& a);
/// out[c] = the sum of grad[:, c, :, :].
void channel_sum(const Stream& stream, const View& out, const View& grad);

// ---- One a source

void reduce_sum(const Stream& stream, const View& out, const View& in, bool mean);
void reduce_prod(const Stream& stream, const View& out, const View& in);
void reduce_extremum(const Stream& stream, const View& out, const View& in, bool max);
/// ReduceOp::count_nonzero, any or all.
void reduce_count(const Stream& stream, ReduceOp op, const View& out, const View& in);
void reduce_norm(const Stream& stream, const View& out, const View& in, double p);

}  // namespace ferrite::kernels::cuda
