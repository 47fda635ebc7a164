// What every backend of process groups must do: run by each rank of a group, threads or processes
// alike.
#pragma once

#include <cstdint>

#include "ferrite/core/device.h"
#include "ferrite/parallel/comm/process_group.h"

namespace ferrite::test {

struct CollectiveOptions {
  /// The largest tensors: above what the backend treats as one piece.
  std::int64_t large = 40'001;
  bool send_recv = true, ring = true;
};

/// Every collective with every dtype and reduction, sizes from none to large, roots, several works
/// under way, views, channels-last, wrong arguments and sub-groups, on tensors of `device`, against
/// references computed here.
void check_collectives(parallel::ProcessGroup& group, const Device& device,
                       const CollectiveOptions& options = {});

/// Ranks that call different operations, shapes, dtypes or roots: an error on all of them that
/// names a rank and what it called; each in a sub-group of its own, which is lost.
void check_disagreements(parallel::ProcessGroup& group, const Device& device);

}  // namespace ferrite::test
