// Devices of one process that a single thread has take part in collectives.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "ferrite/core/dtype.h"
#include "ferrite/core/stream.h"

namespace ferrite::parallel::comm {

/// One collective of all devices, with the first of them as root. `in` and `out` have an address
/// for each device.
struct CliqueCall {
  enum class Kind : std::uint8_t { broadcast, sum_to_root };
  Kind kind = Kind::broadcast;
  DType dtype = kUInt8;
  std::int64_t count = 0;       ///< elements
  std::vector<const void*> in;  ///< of a broadcast only the root's is read
  std::vector<void*> out;       ///< of a sum only the root's is written; may be its `in`
};

/// Calls may come from any thread.
class Clique {
 public:
  virtual ~Clique() = default;
  Clique(const Clique&) = delete;
  Clique& operator=(const Clique&) = delete;

  /// Puts the calls on the devices' streams, all of them as one; nothing waits for their work.
  /// DistributedError, naming `op`, where they fail, or an earlier call has failed since: the
  /// clique has then been aborted and is of no more use.
  virtual void run(const char* op, std::span<const CliqueCall> calls,
                   std::span<const Stream> streams) = 0;

 protected:
  Clique() = default;
};

/// By NCCL, of CUDA devices, each once. Error where NCCL cannot be used, saying why;
/// DistributedError where its communicators cannot be made.
std::shared_ptr<Clique> make_nccl_clique(std::span<const Device> devices);
bool has_nccl_clique();

}  // namespace ferrite::parallel::comm
