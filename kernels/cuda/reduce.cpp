#include "kernels/cuda/reduce.h"

namespace ferrite::kernels::cuda {

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

}  // namespace ferrite::kernels::cuda
