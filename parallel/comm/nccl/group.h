// Process groups of CUDA devices, on NCCL.
//
// Each group has its own high-priority streams, so that no other group's operations are queued on
// them. An operation starts there after the work on the caller's current stream, and Work::wait()
// makes the current stream wait for it: the host does not wait, except while NCCL connects, and for
// barrier(). Tensors are kept until the stream has passed.
//
// Operations captured into a graph are replayed with it, by all ranks together. Run each kind of
// operation once before, so that connections exist. A cuda::Graph keeps the groups that it
// captured; an aborted group's communicator is released with the last graph. The watchdog does not
// see replays: if a rank is lost during one, the monitor and NCCL's own errors detect it, and the
// replay ends when the group is aborted.
//
// Reductions are NCCL's: 16-bit types are rounded after each addition, averages scale before
// adding, and the order of additions depends on NCCL's algorithm; all ranks still get the same
// bits. AllReduceAlgorithm::ring adds 16-bit types in float32. NCCL also decides whether NaN
// propagates in min and max. Sends may not complete before they are received: if two ranks exchange
// large tensors, one has to receive first.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "ferrite/core/cuda/context.h"
#include "ferrite/core/tensor.h"
#include "ferrite/parallel/comm/backend.h"
#include "ferrite/parallel/comm/call.h"
#include "ferrite/parallel/comm/nccl/communicator.h"
#include "ferrite/parallel/comm/nccl/operation.h"
#include "ferrite/parallel/comm/nccl/watchdog.h"

namespace ferrite::parallel::nccl {

class NcclGroup final : public ProcessGroup {
 public:
  NcclGroup(const GroupContext& context, const Library& library, const Device& device);
  ~NcclGroup() override;

  /// Called by all ranks together, before anything else. DistributedError.
  void connect();
  std::optional<Device> device() const override { return device_; }

 private:
  /// Puts an operation on the group's stream, between the marks that order and time it.
  Work submit(comm::Call call) override;
  std::shared_ptr<ProcessGroup> do_new_group(const std::vector<int>& ranks, int rank,
                                             const std::string& name,
                                             Milliseconds timeout) override;
  void do_abort(const std::string& reason) override;
  void do_leave() override;

  /// Makes the call's requests to NCCL.
  void issue(const comm::Call& call);
  using Request = std::function<ncclResult_t(const Library&, ncclComm_t, cudaStream_t)>;
  void request(const char* op, const Request& request);
  void note_time();
  [[noreturn]] void give_up(const Operation& operation, const std::string& error);

  const GroupContext context_;
  const Device device_;
  const Library& library_;
  const cuda::detail::OwnStream operations_, computation_;
  const Stream stream_ = operations_.get();
  const Stream side_ = computation_.get();  // for the ring's computation
  const std::shared_ptr<Failure> failure_;
  Communicator communicator_;
  std::mutex turn_;  // one operation at a time
  std::uint64_t sequence_ = 0;
  std::shared_ptr<const Base> base_;
  Tensor token_;  // reduced by barriers
  Watchdog watchdog_;
};

}  // namespace ferrite::parallel::nccl
