// Process groups: ranks, and collectives between them.
//
//   parallel::init_process_group("gloo");             // reads RANK, WORLD_SIZE, MASTER_ADDR...
//   parallel::all_reduce(gradient, ReduceOp::avg);    // blocking, on the default group
//   Work work = group.all_reduce(gradient);           // or asynchronous, on any group
//   ...
//   work.wait();
//
// Backends: `nccl` for CUDA devices; `gloo` for processes on one or several hosts, with tensors on
// the host or on CUDA devices, staged through the host; `local` for ranks that are threads of one
// process (parallel/comm/local/local_group.h).
//
// Every rank of a group must call the same operations in the same order. If a rank is lost, is
// silent beyond the timeout, or calls something else, every other rank gets a DistributedError that
// names the rank and the operation. The group is then aborted: its other operations, pending or
// future, fail at once with the same reason. Nothing waits longer than the group's timeout.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ferrite/core/tensor.h"
#include "ferrite/parallel/comm/reduce_op.h"
#include "ferrite/parallel/comm/work.h"

namespace ferrite::parallel {

namespace comm {
struct Call;
}

/// A length of time.
using Milliseconds = std::chrono::milliseconds;

/// One rank's view of a group. Operations may be called from any thread, one at a time.
///
/// Tensors are dense in memory (contiguous, or channels-last; ValueError otherwise: call
/// contiguous()) and of float16, bfloat16, float32, float64 or an integer (DTypeError);
/// shapes, dtypes and roots must agree on all ranks. ValueError for a root or a rank that is not in
/// the group, DeviceError for a tensor that is not on the group's device(). Nothing is recorded on
/// the tape. Empty tensors are allowed, and so are groups of one rank.
///
/// The call itself throws these errors. If the group fails, because a rank is lost, is silent
/// beyond the timeout or calls something else, Work::wait() and all later calls throw a
/// DistributedError.
class ProcessGroup : public std::enable_shared_from_this<ProcessGroup> {
 public:
  virtual ~ProcessGroup() = default;
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  int rank() const { return rank_; }  ///< in this group
  /// The number of ranks of the group.
  int size() const { return size_; }
  /// "nccl", "gloo" or "local".
  std::string_view backend() const { return backend_; }
  /// "default", "default/1" for a sub-group; used in messages.
  const std::string& name() const { return name_; }
  Milliseconds timeout() const { return timeout_; }
  /// The only device whose tensors it accepts; nothing if it accepts any.
  virtual std::optional<Device> device() const { return std::nullopt; }

  /// Every rank gets the reduction of all ranks' tensors, in place, the same bits everywhere.
  /// DTypeError for the average of integers.
  [[nodiscard]] Work all_reduce(const Tensor& tensor, ReduceOp op = ReduceOp::sum,
                                AllReduceAlgorithm algorithm = AllReduceAlgorithm::automatic);
  /// Every rank gets root's values, in place.
  [[nodiscard]] Work broadcast(const Tensor& tensor, int root = 0);
  /// Root gets the reduction, in place; the contents of the others' tensors are then undefined.
  [[nodiscard]] Work reduce(const Tensor& tensor, int root = 0, ReduceOp op = ReduceOp::sum);
  /// `out` gets every rank's `in` in rank order: [size() * n, *] of [n, *], or any other shape with
  /// out.numel() == size() * in.numel() (ShapeError). `in` has the same shape on all ranks, and the
  /// dtype (DTypeError) and device (DeviceError) of `out`. ValueError if the two overlap, unless
  /// `in` is this rank's part of `out`. torch's all_gather_into_tensor.
  [[nodiscard]] Work all_gather(const Tensor& out, const Tensor& in);
  /// `out` gets this rank's part of the reduction of all `in`: [n, *] of [size() * n, *], or any
  /// other shape with in.numel() == size() * out.numel() (ShapeError). Other errors as for
  /// all_gather(). torch's reduce_scatter_tensor.
  [[nodiscard]] Work reduce_scatter(const Tensor& out, const Tensor& in,
                                    ReduceOp op = ReduceOp::sum);
  /// To and from one other rank, in the order of the calls for that pair. Sends may complete before
  /// they are received. ValueError for this rank itself.
  [[nodiscard]] Work send(const Tensor& tensor, int to);
  /// Receives the values that a rank sends. Shapes and dtypes must agree.
  [[nodiscard]] Work recv(const Tensor& tensor, int from);
  /// Completes when every rank has called it.
  [[nodiscard]] Work barrier();

  /// A group of some of this group's ranks, in the order given, with a name and resources of its
  /// own. Every rank of this group calls it, in the same order; those that are not in it get null.
  /// ValueError for no ranks, a rank that this group does not have or that is given twice, and a
  /// timeout that is not positive.
  std::shared_ptr<ProcessGroup> new_group(const std::vector<int>& ranks,
                                          std::optional<Milliseconds> timeout = {});

  /// Ends pending operations and refuses others, with this reason. Thread-safe; may be called
  /// repeatedly: the first reason stays. Never waits for other ranks.
  void abort(std::string_view reason);
  /// Ends the group on this rank once its pending operations have ended, and refuses others, with
  /// this reason. The other ranks are told nothing: their operations may still need what this rank
  /// sent them.
  void leave(std::string_view reason);
  /// Whether the group was ended, by an error, abort() or leave().
  bool is_aborted() const;

 protected:
  ProcessGroup(std::string backend, std::string name, int rank, int size, Milliseconds timeout);

  // Implemented by backends.
  /// Queues an operation, whose arguments have been checked. The group is not aborted.
  virtual Work submit(comm::Call call) = 0;
  /// Called on the ranks of the new group, as `rank` of it.
  virtual std::shared_ptr<ProcessGroup> do_new_group(const std::vector<int>& ranks, int rank,
                                                     const std::string& name,
                                                     Milliseconds timeout) = 0;
  /// Called once, by the first abort.
  virtual void do_abort(const std::string& reason) = 0;
  /// Waits for pending operations and releases what they need, unless that has been done.
  virtual void do_leave() = 0;

  /// Throws DistributedError with the reason if the group is aborted.
  void check_alive(const char* op) const;
  /// "" unless the group is aborted.
  std::string abort_reason() const;

 private:
  Work start(const char* op, comm::Call call, bool writes = true);

  struct State;
  const std::string backend_, name_;
  const int rank_, size_;
  const Milliseconds timeout_;
  const std::shared_ptr<State> state_;
};

/// The options of init_process_group().
struct InitOptions {
  /// "env://" (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT, or the variables of mpirun and srun),
  /// "file:///shared/path" or "tcp://host:port"; the last two take rank and world_size from here,
  /// or from the environment if not given (parallel/comm/bootstrap/rendezvous.h).
  std::string init_method = "env://";
  std::optional<int> rank = {}, world_size = {};
  /// The maximum time of an operation, including the wait for other ranks. At most a year: more
  /// counts as that.
  Milliseconds timeout = std::chrono::minutes(10);
  /// For nccl: the device of this rank; default: the only one that the process sees, else
  /// cuda:LOCAL_RANK.
  std::optional<Device> device = {};
};

/// Creates the process's default group, once all ranks have arrived. "gloo", "nccl", or "" for nccl
/// if there are CUDA devices and NCCL, else gloo. ValueError if there is one already or the
/// environment lacks a required setting; DistributedError if ranks do not arrive in time.
///
///   parallel::init_process_group("gloo");
///   parallel::all_reduce(x);
std::shared_ptr<ProcessGroup> init_process_group(std::string_view backend = "",
                                                 const InitOptions& options = {});
/// Says goodbye to the other ranks and releases the default group. A process that ends without it
/// counts as lost while others still work. Does nothing if there is no group.
void destroy_process_group();
/// Whether there is a default group.
bool is_initialized();
/// The default group: this thread's if it is a rank of a local group, else the process's.
/// ValueError if there is none.
const std::shared_ptr<ProcessGroup>& default_group();
/// Rank and size of the default group; 0 and 1 if there is none, so that programs also run alone.
int get_rank();
/// The number of ranks of the default group.
int get_world_size();
/// LOCAL_RANK, or its equivalent of mpirun and srun; 0 if not set.
int get_local_rank();

/// Makes `group` this thread's default group for the scope of the object.
class DefaultGroupScope {
 public:
  explicit DefaultGroupScope(std::shared_ptr<ProcessGroup> group);
  ~DefaultGroupScope();
  DefaultGroupScope(const DefaultGroupScope&) = delete;
  DefaultGroupScope& operator=(const DefaultGroupScope&) = delete;

 private:
  std::shared_ptr<ProcessGroup> previous_;
};

// ---- Blocking forms on the default group, like torch.distributed's.
/// Every rank gets the reduction of all ranks' tensors, in place. Shapes and dtypes agree on all
/// ranks. ValueError without a default group, DTypeError for the average of integers,
/// DistributedError, naming the rank to blame, if the group fails. The functions below have these
/// errors too.
///
///   parallel::all_reduce(x, parallel::ReduceOp::avg);
void all_reduce(const Tensor& tensor, ReduceOp op = ReduceOp::sum);
/// Every rank gets the values of rank `root`, in place: tensors of one shape and dtype on all
/// ranks. ValueError for a root that is not a rank of the group.
///
///   for (const Tensor& p : model.parameters()) parallel::broadcast(p);
void broadcast(const Tensor& tensor, int root = 0);
/// Rank `root` gets the reduction of all ranks' tensors, in place. The contents of the others'
/// tensors are undefined afterwards. ValueError for a root that is not a rank of the group.
void reduce(const Tensor& tensor, int root = 0, ReduceOp op = ReduceOp::sum);
/// Every rank gets the tensors of all ranks, in the order of ranks: `in` [n, *] on each gives `out`
/// [world_size * n, *], or [world_size, n, *]. `in` has the same shape and dtype on all ranks.
/// ShapeError unless out.numel() is world_size * in.numel(), DTypeError and DeviceError unless
/// `out` and `in` agree.
///
///   Tensor all = empty({parallel::get_world_size() * 8, 10});
///   parallel::all_gather(all, logits);  // logits [8, 10] on each rank
void all_gather(const Tensor& out, const Tensor& in);
/// Each rank gets its part of the reduction of all ranks' tensors: `in` [world_size * n, *], of one
/// shape on all ranks, gives `out` [n, *]. ShapeError unless in.numel() is world_size *
/// out.numel(), DTypeError and DeviceError unless `out` and `in` agree.
void reduce_scatter(const Tensor& out, const Tensor& in, ReduceOp op = ReduceOp::sum);
/// Sends the values to rank `to`, which calls recv() with a tensor of the same shape and dtype. It
/// may return before they are received. ValueError for this rank itself.
void send(const Tensor& tensor, int to);
/// Receives, in place, the values that rank `from` sends. Shapes and dtypes must agree. ValueError
/// for this rank itself.
void recv(const Tensor& tensor, int from);
/// Returns when all ranks of the default group have called it.
void barrier();

}  // namespace ferrite::parallel

namespace ferrite {
namespace dist = parallel;
}  // namespace ferrite
