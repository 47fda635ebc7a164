// Collectives among devices of one process, driven by a single thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ferrite/core/dtype.h"
#include "ferrite/core/stream.h"

namespace ferrite::parallel::comm {

/// One collective of all devices, with the first of them as root. `in` and `out` have one address
/// per device.
struct CliqueCall {
  enum class Kind : std::uint8_t { broadcast, sum_to_root };
  Kind kind = Kind::broadcast;
  DType dtype = kUInt8;
  std::int64_t count = 0;       ///< elements
  std::vector<const void*> in;  ///< for a broadcast, only the root's is read
  std::vector<void*> out;       ///< for a sum, only the root's is written; may equal its `in`
};

/// Thread-safe.
class Clique {
 public:
  virtual ~Clique() = default;
  Clique(const Clique&) = delete;
  Clique& operator=(const Clique&) = delete;

  /// Puts the calls on the devices' streams as one group, without waiting for their work.
  /// DistributedError, naming `op`, if they fail, or an earlier call has failed in the meantime:
  /// the clique is then aborted and unusable.
  virtual void run(const char* op, std::span<const CliqueCall> calls,
                   std::span<const Stream> streams) = 0;

 protected:
  Clique() = default;
};

/// With NCCL, for distinct CUDA devices. Error if NCCL cannot be used, with the reason;
/// DistributedError if its communicators cannot be created.
std::shared_ptr<Clique> make_nccl_clique(std::span<const Device> devices);
bool has_nccl_clique();

}  // namespace ferrite::parallel::comm
