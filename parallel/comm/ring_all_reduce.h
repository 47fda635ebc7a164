// Ring all-reduce (Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters
// of workstations"): a reduce-scatter and then an all-gather, in each of which every rank sends (n
// - 1) / n of the bytes to its neighbour, whatever the number n of ranks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ferrite/core/dtype.h"
#include "ferrite/parallel/comm/links/link.h"
#include "ferrite/parallel/comm/reduce_op.h"

namespace ferrite::parallel::comm {

/// Reduces `numel` elements of host memory in place, over all ranks of the mesh, which call it
/// together; every rank gets the same bits. Any number of ranks and elements. Received data is
/// reduced directly from the link's buffer while the next piece is in transit. Sums and averages of
/// 16-bit types are transferred as float32 until they are complete.
void ring_all_reduce(links::LinkMesh& links, int rank, int size, void* data, std::int64_t numel,
                     DType dtype, ReduceOp op, const links::Interrupt& interrupt);

}  // namespace ferrite::parallel::comm
