// The requirements on every backend of process groups, run by each rank of a group, whether threads
// or processes.
#pragma once

#include <cstdint>

#include "ferrite/core/device.h"
#include "ferrite/parallel/comm/process_group.h"

namespace ferrite::test {

struct CollectiveOptions {
  /// The largest tensors: above the size that the backend treats as one piece.
  std::int64_t large = 40'001;
  bool send_recv = true, ring = true;
};

/// Every collective with every dtype and reduction, sizes from none to large, roots, several
/// pending operations, views, channels-last, wrong arguments and sub-groups, on tensors of
/// `device`, against references computed here.
void check_collectives(parallel::ProcessGroup& group, const Device& device,
                       const CollectiveOptions& options = {});

/// Ranks that call different operations, shapes, dtypes or roots: an error on all of them that
/// names a rank and its call; each in a separate sub-group, which is lost.
void check_disagreements(parallel::ProcessGroup& group, const Device& device);

}  // namespace ferrite::test
