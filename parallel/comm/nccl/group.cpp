#include "ferrite/parallel/comm/nccl/group.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <exception>
#include <utility>

#include "ferrite/core/cuda.h"
#include "ferrite/core/cuda/runtime.h"
#include "ferrite/core/cuda_backend.h"
#include "ferrite/core/error.h"
#include "ferrite/core/profiler/device_work.h"
#include "ferrite/parallel/comm/nccl/agree_on_communicator.h"
#include "ferrite/parallel/comm/nccl/ring.h"
#include "ferrite/parallel/comm/nccl/types.h"

namespace ferrite::parallel {

namespace nccl {

namespace {

/// How long releasing a group waits for ranks that are not done with it.
constexpr Milliseconds kFarewell = std::chrono::seconds(10);

}  // namespace

NcclGroup::NcclGroup(const GroupContext& context, const Library& library, const Device& device)
    : ProcessGroup("nccl", context.name, context.rank, context.size, context.timeout),
      context_(context),
      device_(device),
      library_(library),
      stream_(Stream::create(device, StreamPriority::high)),
      side_(Stream::create(device, StreamPriority::high)),
      failure_(std::make_shared<Failure>()),
      communicator_(library, *failure_),
      watchdog_(context_, device_, communicator_, failure_,
                [this](const std::string& reason) { abort(reason); }) {}

NcclGroup::~NcclGroup() {
  watchdog_.stop();
  try {
    const cuda::DeviceGuard guard(device_);
    if (communicator_.finish(Clock::now() + std::min(timeout(), kFarewell))) return;
    watchdog_.settle();
    // Otherwise running operations would appear to have succeeded once they are aborted.
    failure_->set(
        fmt::format("group {} was let go of while its operations were under way", name()));
    communicator_.abort();
  } catch (const Error&) {  // the device is lost
  }
}

void NcclGroup::connect() {
  const Deadline deadline = Clock::now() + timeout();
  const cuda::DeviceGuard guard(device_);
  const ncclUniqueId id = agree_on_communicator(context_, library_, device_, deadline);
  communicator_.connect(id, rank(), size(), deadline);
  const StreamGuard use(stream_);
  token_ = empty({1}, {.dtype = kInt32, .device = device_});
  FERRITE_CUDA_CHECK(
      cudaMemsetAsync(token_.data_ptr(), 0, token_.nbytes(), cuda::native_stream(stream_)));
}

// ---- One operation

/// Device events are converted to host time by one event known in both. The clocks drift apart, so
/// it is renewed from time to time.
void NcclGroup::note_time() {
  const auto now = Clock::now();
  if ((base_ && now - base_->time < std::chrono::seconds(10)) || !stream_.query()) return;
  auto mark = stream_.impl()->record(Timing::wanted);
  base_ = std::make_shared<const Base>(Base{std::move(mark), Clock::now()});
}

Work NcclGroup::run(const comm::Call& call, const std::function<void()>& calls, Waiting waiting) {
  const char* const op = comm::name(call.kind);
  for (const Tensor* t : {&call.out, &call.in})
    FERRITE_CHECK(!t->defined() || t->device() == device_, DeviceError, op,
                  "expected tensors on {}, the device of this rank of group {}, got {}", device_,
                  name(), t->describe());
  const std::lock_guard turn(turn_);
  const cuda::NvtxRange range(op);
  const cuda::DeviceGuard guard(device_);
  const Stream current = current_stream(device_);
  auto operation = std::make_shared<Operation>();
  operation->sequence = ++sequence_;
  operation->op = op;
  operation->what = describe(call, context_.job_ranks);
  operation->captured = ferrite::detail::cuda::is_capturing(current);
  if (!operation->captured) {
    if (context_.monitor) context_.monitor->begin(name(), operation->sequence, operation->what);
    note_time();
    operation->base = base_;
  }
  stream_.wait(current);
  if (!operation->captured) operation->begin = stream_.impl()->record(Timing::wanted);
  try {
    const profiler::detail::DeviceWork work(stream_, op);
    calls();
  } catch (const DistributedError& error) {
    give_up(*operation, error.what());
  }
  operation->end = stream_.impl()->record(operation->captured ? Timing::none : Timing::wanted);
  for (const Tensor* t : {&call.out, &call.in})
    if (t->defined()) t->storage()->record_stream(stream_);
  if (!operation->captured) watchdog_.add(operation);
  return Work(std::make_shared<OperationWork>(device_, std::move(operation), failure_, waiting));
}

Work NcclGroup::run(const comm::Call& call, std::int64_t numel, const Request& wanted,
                    Waiting waiting) {
  return run(
      call,
      [&] {
        if (numel > 0) request(comm::name(call.kind), wanted);
      },
      waiting);
}

void NcclGroup::request(const char* op, const Request& wanted) {
  const cudaStream_t native = cuda::native_stream(stream_);
  communicator_.call(op, Clock::now() + timeout(),
                     [&](const Library& library, ncclComm_t communicator) {
                       return wanted(library, communicator, native);
                     });
}

void NcclGroup::give_up(const Operation& operation, const std::string& error) {
  if (!failure_->is_set())
    failure_->set(fmt::format("{} ({})", watchdog_.blame(operation, "could not begin"), error));
  abort(failure_->reason());
  failure_->check(operation.op);
  std::terminate();  // unreachable: check() throws
}

void NcclGroup::do_abort(const std::string& reason) {
  failure_->set(reason);
  watchdog_.wake();
}

// ---- Operations

Work NcclGroup::do_all_reduce(const Tensor& tensor, ReduceOp op, AllReduceAlgorithm algorithm) {
  if (algorithm == AllReduceAlgorithm::ring) {
    const comm::Call call{.kind = comm::Collective::ring_all_reduce, .op = op, .out = tensor};
    return run(call, [&] {
      nccl::ring_all_reduce(
          tensor, op, {.rank = rank(), .size = size(), .stream = stream_, .side = side_},
          [&](const Request& exchange) { request(comm::name(call.kind), exchange); });
    });
  }
  return run({.kind = comm::Collective::all_reduce, .op = op, .out = tensor}, tensor.numel(),
             [&](const Library& nccl, ncclComm_t communicator, cudaStream_t stream) {
               return nccl.all_reduce(
                   tensor.data_ptr(), tensor.data_ptr(), static_cast<std::size_t>(tensor.numel()),
                   data_type(tensor.dtype()), reduction(op), communicator, stream);
             });
}

Work NcclGroup::do_broadcast(const Tensor& tensor, int root) {
  return run({.kind = comm::Collective::broadcast, .peer = root, .out = tensor}, tensor.numel(),
             [&](const Library& nccl, ncclComm_t communicator, cudaStream_t stream) {
               return nccl.broadcast(tensor.data_ptr(), tensor.data_ptr(),
                                     static_cast<std::size_t>(tensor.numel()),
                                     data_type(tensor.dtype()), root, communicator, stream);
             });
}

Work NcclGroup::do_reduce(const Tensor& tensor, int root, ReduceOp op) {
  return run({.kind = comm::Collective::reduce, .op = op, .peer = root, .out = tensor},
             tensor.numel(),
             [&](const Library& nccl, ncclComm_t communicator, cudaStream_t stream) {
               return nccl.reduce(
                   tensor.data_ptr(), tensor.data_ptr(), static_cast<std::size_t>(tensor.numel()),
                   data_type(tensor.dtype()), reduction(op), root, communicator, stream);
             });
}

Work NcclGroup::do_all_gather(const Tensor& out, const Tensor& in) {
  return run({.kind = comm::Collective::all_gather, .out = out, .in = in}, in.numel(),
             [&](const Library& nccl, ncclComm_t communicator, cudaStream_t stream) {
               return nccl.all_gather(in.data_ptr(), out.data_ptr(),
                                      static_cast<std::size_t>(in.numel()), data_type(in.dtype()),
                                      communicator, stream);
             });
}

Work NcclGroup::do_reduce_scatter(const Tensor& out, const Tensor& in, ReduceOp op) {
  return run({.kind = comm::Collective::reduce_scatter, .op = op, .out = out, .in = in},
             out.numel(), [&](const Library& nccl, ncclComm_t communicator, cudaStream_t stream) {
               return nccl.reduce_scatter(
                   in.data_ptr(), out.data_ptr(), static_cast<std::size_t>(out.numel()),
                   data_type(in.dtype()), reduction(op), communicator, stream);
             });
}

Work NcclGroup::do_send(const Tensor& tensor, int to) {
  return run({.kind = comm::Collective::send, .peer = to, .in = tensor}, tensor.numel(),
             [&](const Library& nccl, ncclComm_t communicator, cudaStream_t stream) {
               return nccl.send(tensor.data_ptr(), static_cast<std::size_t>(tensor.numel()),
                                data_type(tensor.dtype()), to, communicator, stream);
             });
}

Work NcclGroup::do_recv(const Tensor& tensor, int from) {
  return run({.kind = comm::Collective::recv, .peer = from, .out = tensor}, tensor.numel(),
             [&](const Library& nccl, ncclComm_t communicator, cudaStream_t stream) {
               return nccl.recv(tensor.data_ptr(), static_cast<std::size_t>(tensor.numel()),
                                data_type(tensor.dtype()), from, communicator, stream);
             });
}

Work NcclGroup::do_barrier() {
  return run(
      {.kind = comm::Collective::barrier}, token_.numel(),
      [&](const Library& nccl, ncclComm_t communicator, cudaStream_t stream) {
        return nccl.all_reduce(token_.data_ptr(), token_.data_ptr(), 1, ncclInt32, ncclSum,
                               communicator, stream);
      },
      Waiting::host);
}

std::shared_ptr<ProcessGroup> NcclGroup::do_new_group(const std::vector<int>& ranks, int rank,
                                                      const std::string& name,
                                                      Milliseconds timeout) {
  return make_nccl_group(context_of_some(context_, ranks, rank, name, timeout));
}

}  // namespace nccl

std::shared_ptr<ProcessGroup> make_nccl_group(const GroupContext& context) {
  const nccl::Library* const library = nccl::library();
  FERRITE_CHECK(
      library, Error, "init_process_group",
      "the backend nccl needs NCCL, which cannot be used: {}. Install it (apt-get install "
      "libnccl2, or pip install nvidia-nccl-cu13) where the system's loader finds it "
      "(LD_LIBRARY_PATH); or use the backend \"gloo\"",
      nccl::why_not());
  auto group = std::make_shared<nccl::NcclGroup>(context, *library, nccl::choose_device(context));
  group->connect();
  return group;
}

}  // namespace ferrite::parallel
