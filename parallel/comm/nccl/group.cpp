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
      operations_(device, StreamPriority::high),
      computation_(device, StreamPriority::high),
      failure_(std::make_shared<Failure>()),
      communicator_(library, *failure_),
      watchdog_(context_, device_, communicator_, failure_,
                [this](const std::string& reason) { abort(reason); }) {}

NcclGroup::~NcclGroup() { do_leave(); }

void NcclGroup::do_leave() {
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

Work NcclGroup::submit(comm::Call call) {
  const char* const op = comm::name(call.kind);
  for (const Tensor* t : {&call.out, &call.in})
    FERRITE_CHECK(!t->defined() || t->device() == device_, DeviceError, op,
                  "expected tensors on {}, the device of this rank of group {}, got {}", device_,
                  name(), t->describe());
  // Before anything is under way: an error between the calls of an NCCL group would leave it open.
  if (call.out.defined()) data_type(call.out.dtype());
  if (call.in.defined()) data_type(call.in.dtype());
  const std::lock_guard turn(turn_);
  const cuda::NvtxRange range(op);
  const cuda::DeviceGuard guard(device_);
  const Stream current = current_stream(device_);
  auto operation = std::make_shared<Operation>();
  operation->sequence = ++sequence_;
  operation->op = op;
  operation->what = describe(call, context_.job_ranks);
  operation->captured = ferrite::detail::cuda::is_capturing(current);
  if (operation->captured) {
    communicator_.set_captured();
    ferrite::detail::cuda::captured_keep(current, shared_from_this());
  } else {
    if (context_.monitor) context_.monitor->begin(name(), operation->sequence, operation->what);
    note_time();
    operation->base = base_;
  }
  stream_.wait(current);
  if (!operation->captured) operation->begin = stream_.impl()->record(Timing::wanted);
  try {
    const profiler::detail::DeviceWork work(stream_, op);
    issue(call);
  } catch (const DistributedError& error) {
    give_up(*operation, error.what());
  }
  operation->end = stream_.impl()->record(operation->captured ? Timing::none : Timing::wanted);
  for (const Tensor* t : {&call.out, &call.in})
    if (t->defined()) t->storage()->record_stream(stream_);
  if (!operation->captured) watchdog_.add(operation);
  return Work(std::make_shared<OperationWork>(
      device_, std::move(operation), failure_,
      call.kind == comm::Collective::barrier ? Waiting::host : Waiting::device));
}

namespace {

/// A call other than the ring's, of `out` and `in`, which may be the same.
ncclResult_t call_nccl(const comm::Call& call, const Tensor& out, const Tensor& in,
                       std::int64_t numel, const Library& nccl, ncclComm_t communicator,
                       cudaStream_t stream) {
  const auto count = static_cast<std::size_t>(numel);
  const ncclDataType_t type = data_type(in.dtype());
  const void* const from = in.data_ptr();
  switch (call.kind) {
    case comm::Collective::broadcast:
      return nccl.broadcast(from, out.data_ptr(), count, type, call.peer, communicator, stream);
    case comm::Collective::reduce:
      return nccl.reduce(from, out.data_ptr(), count, type, reduction(call.op), call.peer,
                         communicator, stream);
    case comm::Collective::all_gather:
      return nccl.all_gather(from, out.data_ptr(), count, type, communicator, stream);
    case comm::Collective::reduce_scatter:
      return nccl.reduce_scatter(from, out.data_ptr(), count, type, reduction(call.op),
                                 communicator, stream);
    case comm::Collective::send:
      return nccl.send(from, count, type, call.peer, communicator, stream);
    case comm::Collective::recv:
      return nccl.recv(out.data_ptr(), count, type, call.peer, communicator, stream);
    case comm::Collective::all_reduce:
    case comm::Collective::barrier:
    case comm::Collective::ring_all_reduce:
      break;
  }
  return nccl.all_reduce(from, out.data_ptr(), count, type, reduction(call.op), communicator,
                         stream);
}

}  // namespace

void NcclGroup::issue(const comm::Call& call) {
  const char* const op = comm::name(call.kind);
  if (call.kind == comm::Collective::ring_all_reduce)
    return nccl::ring_all_reduce(call.out, call.op,
                                 {.rank = rank(), .size = size(), .stream = stream_, .side = side_},
                                 [&](const Request& exchange) { request(op, exchange); });
  const Tensor& out = call.kind == comm::Collective::barrier ? token_ : call.out;
  const Tensor& in = call.in.defined() ? call.in : out;
  const bool counts_input =
      call.kind == comm::Collective::all_gather || call.kind == comm::Collective::send;
  const std::int64_t numel = (counts_input ? in : out).numel();
  if (numel == 0) return;
  request(op, [&](const Library& nccl, ncclComm_t communicator, cudaStream_t stream) {
    return call_nccl(call, out, in, numel, nccl, communicator, stream);
  });
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
