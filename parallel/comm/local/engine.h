// What moves and reduces the memory of ranks: the host, or a stream of the rank's CUDA device.
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

/// Memory of some rank, of the host or of a CUDA device.
struct Place {
  const void* data = nullptr;
  Device device = {};
};

/// Of one rank. `to` and `out` are memory of its own device.
class Engine {
 public:
  virtual ~Engine() = default;
  virtual void copy(void* to, const Place& from, std::size_t bytes) = 0;
  /// out[i] = the reduction over all s of sources[s][i], in the order of the sources; 16-bit types
  /// in float32, rounded once. `out` may be one of the sources.
  virtual void reduce(void* out, std::span<const Place> sources, std::int64_t numel, DType dtype,
                      ReduceOp op) = 0;
  /// Waits for what was asked for, as long as `interrupt` lets it.
  virtual void finish(const links::Interrupt& interrupt) = 0;
  /// Waits for it whatever happens.
  virtual void drain() noexcept = 0;
};

std::unique_ptr<Engine> make_host_engine();
/// On a stream of its own of `device`, a CUDA device; sources may be of other ones.
std::unique_ptr<Engine> make_device_engine(const Device& device);

}  // namespace ferrite::parallel::local
