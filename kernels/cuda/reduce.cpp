#include "ferrite/kernels/cuda/reduce.h"

#include "ferrite/kernels/conv.h"
#include "ferrite/kernels/matmul.h"

namespace ferrite::kernels::cuda {

namespace {

/// `out`, which has only dimension `dim` of `in`, with all dimensions of `in`.
View spread(const View& out, const View& in, int dim) {
  View v = out;
  v.ndim = in.ndim;
  for (int d = 0; d < in.ndim; ++d) {
    v.sizes[d] = d == dim ? out.sizes[0] : 1;
    v.strides[d] = d == dim ? out.strides[0] : 0;
  }
  return v;
}

}  // namespace

void reduce(const Stream& stream, ReduceOp op, const View& out, const View& in, double p) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::mean:
      return reduce_sum(stream, out, in, op == ReduceOp::mean);
    case ReduceOp::prod:
      return reduce_prod(stream, out, in);
    case ReduceOp::max:
    case ReduceOp::min:
      return reduce_extremum(stream, out, in, op == ReduceOp::max);
    case ReduceOp::norm:
      return reduce_norm(stream, out, in, p);
    case ReduceOp::count_nonzero:
    case ReduceOp::any:
    case ReduceOp::all:
      return reduce_count(stream, op, out, in);
  }
}

void column_sum(const Stream& stream, const View& out, const View& a) {
  reduce_sum(stream, spread(out, a, 1), a, false);
}
void channel_sum(const Stream& stream, const View& out, const View& grad) {
  reduce_sum(stream, spread(out, grad, 1), grad, false);
}

}  // namespace ferrite::kernels::cuda
