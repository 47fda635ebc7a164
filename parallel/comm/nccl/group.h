// Process groups of CUDA devices, on NCCL.
//
// Each group has a stream of its own, of high priority. An operation starts there behind what its
// caller's current stream holds, and Work::wait() has the current stream wait for it: the host
// never does, save while NCCL makes connections, and for barrier(). Tensors stay until the stream
// has passed.
//
// Captured into a graph, operations are replayed with it, by all ranks together; run each kind of
// operation once before, so that connections exist, and let go of the graph before the group. The
// watchdog does not see replays: a rank that is lost during one is noticed by the monitor and by
// NCCL's own errors, and the replay ends when the group is aborted.
//
// Reductions are NCCL's: 16-bit types are rounded to their type after each addition, averages scale
// before they add, and in which order it adds depends on the algorithm that NCCL chooses; still all
// ranks get the same bits. AllReduceAlgorithm::ring adds 16-bit types in float32. Whether NaN wins
// in min and max is NCCL's too. Sends may not complete before they are received: of two ranks that
// exchange large tensors, one has to receive first.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

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

  /// Of all ranks together, before anything else. DistributedError.
  void connect();
  std::optional<Device> device() const override { return device_; }

 private:
  Work do_all_reduce(const Tensor& tensor, ReduceOp op, AllReduceAlgorithm algorithm) override;
  Work do_broadcast(const Tensor& tensor, int root) override;
  Work do_reduce(const Tensor& tensor, int root, ReduceOp op) override;
  Work do_all_gather(const Tensor& out, const Tensor& in) override;
  Work do_reduce_scatter(const Tensor& out, const Tensor& in, ReduceOp op) override;
  Work do_send(const Tensor& tensor, int to) override;
  Work do_recv(const Tensor& tensor, int from) override;
  Work do_barrier() override;
  std::shared_ptr<ProcessGroup> do_new_group(const std::vector<int>& ranks, int rank,
                                             const std::string& name,
                                             Milliseconds timeout) override;
  void do_abort(const std::string& reason) override;

  /// Puts an operation on the group's stream, between the marks that order and time it.
  Work run(const comm::Call& call, const std::function<void()>& calls,
           Waiting waiting = Waiting::device);
  /// The same of one call of NCCL's; of none where there are no elements.
  using Request = std::function<ncclResult_t(const Library&, ncclComm_t, cudaStream_t)>;
  Work run(const comm::Call& call, std::int64_t numel, const Request& request,
           Waiting waiting = Waiting::device);
  void request(const char* op, const Request& request);
  void note_time();
  [[noreturn]] void give_up(const Operation& operation, const std::string& error);

  const GroupContext context_;
  const Device device_;
  const Library& library_;
  const Stream stream_;  // the operations'
  const Stream side_;    // what rings compute, beside
  const std::shared_ptr<Failure> failure_;
  Communicator communicator_;
  std::mutex turn_;  // one operation at a time
  std::uint64_t sequence_ = 0;
  std::shared_ptr<const Base> base_;
  Tensor token_;  // what barriers reduce
  Watchdog watchdog_;
};

}  // namespace ferrite::parallel::nccl
