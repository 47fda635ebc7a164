// What DistributedDataParallel tells of its buckets and of the time that their communication takes.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "ferrite/core/device.h"
#include "ferrite/core/dtype.h"

namespace ferrite::parallel {

/// Times are averages over the steps counted, in milliseconds.
struct DDPReport {
  struct Bucket {
    std::vector<std::string> parameters;  ///< in the order in which they lie in it
    std::int64_t numel = 0, bytes = 0;    ///< as communicated, gaps included
    DType dtype = kFloat32;
    Device device = {};
    /// After the start of backward: when the last gradient was there; when communication of it
    /// began and ended.
    double ready_ms = 0, begun_ms = 0, ended_ms = 0;
  };

  std::string group;  ///< "gloo, 4 ranks, this is rank 0"
  std::vector<Bucket> buckets;
  bool rebuilt = false;                    ///< whether in the order in which gradients arrive
  std::int64_t parameters = 0, bytes = 0;  ///< of all buckets: what a step communicates
  std::int64_t steps = 0;                  ///< backward passes with communication
  std::int64_t timed = 0;                  ///< those whose communication could be timed
  double backward_ms = 0;                  ///< from its start until its last gradient
  double communication_ms =
      0;                  ///< while any bucket was under way, waiting for other ranks included
  double exposed_ms = 0;  ///< of that, after the last gradient
  /// The share of communication that is hidden behind backward; 1 where there is none.
  double overlap() const;
  /// A table.
  std::string str() const;
};

std::ostream& operator<<(std::ostream& out, const DDPReport& report);

}  // namespace ferrite::parallel
