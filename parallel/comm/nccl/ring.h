// The ring of parallel/comm/ring_all_reduce.h on a device: pieces travel by NCCL's send and recv on
// one stream, and are added by kernels on another meanwhile.
#pragma once

#include <nccl.h>

#include <functional>

#include "ferrite/core/stream.h"
#include "ferrite/core/tensor.h"
#include "ferrite/parallel/comm/nccl/library.h"
#include "ferrite/parallel/comm/reduce_op.h"

namespace ferrite::parallel::nccl {

struct RingPlace {
  int rank = 0, size = 1;
  Stream stream;  ///< on which pieces travel, and all is done in the end
  Stream side;    ///< on which they are added
};

/// Makes calls of NCCL's on the first stream.
using Exchange = std::function<void(
    const std::function<ncclResult_t(const Library&, ncclComm_t, cudaStream_t)>&)>;

/// Queues it; nothing waits in the host for other ranks. `tensor` is dense. Sums and averages of
/// 16-bit types travel as float32 until they are complete.
void ring_all_reduce(const Tensor& tensor, ReduceOp op, const RingPlace& place,
                     const Exchange& exchange);

}  // namespace ferrite::parallel::nccl
