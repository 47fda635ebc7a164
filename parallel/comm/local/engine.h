// Moves and reduces the memory of ranks, on the host or on a stream of the rank's CUDA device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "ferrite/core/device.h"
#include "ferrite/core/dtype.h"
#include "ferrite/parallel/comm/links/link.h"
#include "ferrite/parallel/comm/reduce_op.h"

namespace ferrite::parallel::local {

/// Memory of a rank, on the host or a CUDA device.
struct Place {
  const void* data = nullptr;
  Device device = {};
};

/// The engine of one rank. `to` and `out` are memory of its own device.
class Engine {
 public:
  virtual ~Engine() = default;
  virtual void copy(void* to, const Place& from, std::size_t bytes) = 0;
  /// out[i] = the reduction over all s of sources[s][i], in the order of the sources; 16-bit types
  /// are computed in float32 and rounded once. `out` may be one of the sources.
  virtual void reduce(void* out, std::span<const Place> sources, std::int64_t numel, DType dtype,
                      ReduceOp op) = 0;
  /// Waits for the requested work, unless interrupted.
  virtual void finish(const links::Interrupt& interrupt) = 0;
  /// Waits for it unconditionally.
  virtual void drain() noexcept = 0;
};

std::unique_ptr<Engine> make_host_engine();
/// On a separate stream of `device`, a CUDA device; sources may be on other ones.
std::unique_ptr<Engine> make_device_engine(const Device& device);

}  // namespace ferrite::parallel::local
