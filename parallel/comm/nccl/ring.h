// The ring of parallel/comm/ring_all_reduce.h on a device: NCCL's send and recv transfer pieces on
// one stream while kernels add them on another; NCCL's broadcasts exchange the sums, as one group.
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
  Stream stream;  ///< transfers pieces; all work is ordered on it at the end
  Stream side;    ///< adds pieces
};

/// Makes NCCL calls on the first stream.
using Exchange = std::function<void(
    const std::function<ncclResult_t(const Library&, ncclComm_t, cudaStream_t)>&)>;

/// Queues it; the host does not wait for other ranks. `tensor` is dense. Sums and averages of
/// 16-bit types are transferred as float32 until they are complete.
void ring_all_reduce(const Tensor& tensor, ReduceOp op, const RingPlace& place,
                     const Exchange& exchange);

}  // namespace ferrite::parallel::nccl
