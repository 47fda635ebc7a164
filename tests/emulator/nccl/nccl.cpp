// NCCL for ranks that are threads of one process, each with an emulated device of its own.
//
// It behaves like NCCL: each group of calls is carried out by a thread of its own, and its
// communicators are in progress until that has ended and been polled; work waits on its stream
// until all ranks' streams have reached theirs; mismatched or unmatched calls wait forever, until
// ncclCommAbort. Collectives can be captured: each launch of the graph is matched again. A graph
// refers to the communicators it captured, and ncclCommFinalize and ncclCommAbort wait for it to be
// destroyed.
#include "ferrite/emulator/nccl.h"

#include <nccl.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ferrite/emulator/emulator.h"
#include "ferrite/tests/emulator/nccl/clique.h"
#include "ferrite/tests/emulator/src/host_worker.h"
#include "ferrite/tests/emulator/src/memory.h"
#include "ferrite/tests/emulator/src/race.h"
#include "ferrite/tests/emulator/src/stream.h"

using namespace emulator;
using namespace emulator::nccl;

namespace {

/// A group of calls under way. All members are accessed with the runtime's lock held.
struct Job {
  std::thread thread;
  bool done = false;
  ncclResult_t result = ncclSuccess;
};

}  // namespace

/// The communicator of one rank. Queued work keeps it alive.
struct ncclComm {
  std::shared_ptr<Clique> clique;
  int rank = 0, device = 0;
  bool connected = false, busy = false, finalizing = false, finalized = false, aborted = false;
  ncclResult_t planted = ncclSuccess;
  std::vector<PostedPtr> posted;  // of the operation that its stream has reached
  std::uint64_t queued = 0;       // operations that are not done
  std::uint64_t captured = 0;     // operations that are part of graphs
  std::shared_ptr<Job> job;       // the last one
};

namespace {

using CommPtr = std::shared_ptr<ncclComm>;

struct Id {
  char magic[16] = "emulated NCCL";
  std::int64_t process = 0, number = 0;
};
static_assert(sizeof(Id) <= sizeof(ncclUniqueId));

struct World {
  std::map<std::int64_t, std::shared_ptr<Clique>> cliques;  // by id; null until a rank has arrived
  std::map<ncclComm_t, CommPtr> comms;                      // valid handles
  std::int64_t next_id = 1;
  std::uint64_t groups = 0;
};
World& world() {
  static World& the = *new World;
  return the;
}

thread_local std::string last_error;

ncclResult_t refuse(ncclResult_t result, const char* why) {
  last_error = why;
  return result;
}

CommPtr find(ncclComm_t handle) {
  const auto it = world().comms.find(handle);
  return it == world().comms.end() ? nullptr : it->second;
}

ncclResult_t begin(const char* name) {
  const cudaError_t error = begin_call(name);
  if (error == cudaSuccess) return ncclSuccess;
  return refuse(ncclUnhandledCudaError, cudaGetErrorString(error));
}

// ---- Operations

struct Queued {
  CommPtr comm;
  StreamPtr stream;
  Request request;
};

struct Group {
  int depth = 0;
  std::vector<Queued> queued;
};
thread_local Group group;

/// Whether the requests are done; posts them at the first query of a launch.
bool is_ready(ncclComm& comm, const std::vector<Request>& requests) {
  if (comm.aborted) return true;
  if (comm.posted.empty()) {
    bool progress = false;
    for (const Request& request : requests) {
      comm.posted.push_back(std::make_shared<Posted>(Posted{request, false, false}));
      progress |= comm.clique->post(comm.rank, comm.posted.back());
    }
    if (progress) host_worker_advance();
    if (progress) work_done.notify_all();
  }
  for (const PostedPtr& posted : comm.posted)
    if (!posted->done) return false;
  comm.posted.clear();
  return true;
}

/// For the race detector: records each rank's accesses as work of its own stream.
void note_accesses(const ncclComm& comm, const std::vector<Request>& requests) {
  if (comm.aborted) return;
  const int ranks = comm.clique->size();
  for (const Request& r : requests) {
    if (const std::size_t bytes = r.in_bytes(ranks)) race_range(r.in, bytes, false);
    const bool writes = r.kind != Kind::reduce || r.peer == comm.rank;
    if (const std::size_t bytes = r.out_bytes(ranks); bytes && writes)
      race_range(r.out, bytes, true);
  }
}

/// A graph's reference to a communicator, which the operation owns.
class Captured {
 public:
  explicit Captured(CommPtr comm) : comm_(std::move(comm)) { ++comm_->captured; }
  ~Captured() {
    if (--comm_->captured == 0) work_done.notify_all();
  }
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;

 private:
  const CommPtr comm_;
};

ncclResult_t put(const CommPtr& comm, const StreamPtr& stream, std::vector<Request> requests) {
  auto operation = std::make_shared<Operation>();
  operation->kind = Operation::Kind::kernel;
  operation->name = "NCCL";
  const bool counted = !stream->capture;
  const auto captured = counted ? nullptr : std::make_shared<const Captured>(comm);
  auto all = std::make_shared<const std::vector<Request>>(std::move(requests));
  operation->ready = [comm, all, counted, captured] {
    if (!is_ready(*comm, *all)) return false;
    if (counted) --comm->queued;
    return true;
  };
  operation->run = [comm, all] { note_accesses(*comm, *all); };
  if (counted) ++comm->queued;
  if (issue(stream, std::move(operation)) == cudaSuccess) return ncclSuccess;
  return refuse(ncclUnhandledCudaError, "the stream takes no work");
}

/// Queues the group's operations for all communicators at once.
ncclResult_t put_all(std::vector<Queued> queued) {
  ncclResult_t result = ncclSuccess;
  while (!queued.empty()) {
    const CommPtr comm = queued.front().comm;
    const StreamPtr stream = queued.front().stream;
    std::vector<Request> requests;
    std::erase_if(queued, [&](const Queued& q) {
      if (q.comm != comm) return false;
      requests.push_back(q.request);
      return true;
    });
    const ncclResult_t status = put(comm, stream, std::move(requests));
    if (status != ncclSuccess) result = status;
  }
  return result;
}

/// Has a thread queue the group's operations.
ncclResult_t start(std::vector<Queued> queued) {
  ++world().groups;
  auto job = std::make_shared<Job>();
  for (const Queued& q : queued) {
    q.comm->job = job;
    q.comm->busy = true;
  }
  job->thread = std::thread([job, queued = std::move(queued)] {
    const Lock lock;
    job->result = put_all(queued);
    job->done = true;
    work_done.notify_all();
  });
  return ncclInProgress;
}

/// Whether the communicator's last group is done; ends its thread if it is.
bool has_ended(ncclComm& comm) {
  if (!comm.job) return true;
  if (!comm.job->done) return false;
  if (comm.job->thread.joinable()) comm.job->thread.join();
  return true;
}

bool is_of(const void* data, std::size_t bytes, int device) {
  if (bytes == 0) return true;
  const Allocation* const a = find_device(data);
  return a && a->live && a->device == device &&
         a->contains(reinterpret_cast<std::uintptr_t>(data), bytes);
}

ncclResult_t submit(const char* name, const Request& request, ncclComm_t handle,
                    cudaStream_t stream_handle) {
  if (const ncclResult_t result = begin(name); result != ncclSuccess) return result;
  const Lock lock;
  const CommPtr comm = find(handle);
  const StreamPtr stream = resolve(stream_handle);
  if (!comm || !stream) return refuse(ncclInvalidArgument, "no such communicator or stream");
  const int ranks = comm->clique->size();
  if (comm->busy || !comm->connected || comm->finalizing)
    return refuse(ncclInvalidUsage, "the communicator is not ready: ask ncclCommGetAsyncError");
  if (request.peer < 0 || request.peer >= ranks || request.type >= ncclNumTypes ||
      request.op >= ncclNumOps)
    return refuse(ncclInvalidArgument, "no such rank, type or reduction");
  if (stream->device != comm->device || current_device() != comm->device ||
      !is_of(request.in, request.in_bytes(ranks), comm->device) ||
      !is_of(request.out, request.out_bytes(ranks), comm->device))
    return refuse(ncclInvalidArgument, "the stream or the memory is not the device's");
  if (group.depth > 0) {
    group.queued.push_back({comm, stream, request});
    return ncclSuccess;
  }
  return start({{comm, stream, request}});
}

}  // namespace

void emulator::plant_nccl_error(int device, ncclResult_t error) {
  const Lock lock;
  for (const auto& [handle, comm] : world().comms)
    if (comm->device == device) comm->planted = error;
}

std::uint64_t emulator::nccl_groups() {
  const Lock lock;
  return world().groups;
}

int emulator::live_nccl_communicators() {
  const Lock lock;
  return static_cast<int>(world().comms.size());
}

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInternalError:
      return "internal error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "operation in progress";
    default:
      return "unknown result code";
  }
}

const char* ncclGetLastError(ncclComm_t) { return last_error.c_str(); }

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const Lock lock;
  Id mine;
  mine.process = getpid();
  mine.number = world().next_id++;
  world().cliques[mine.number] = nullptr;
  std::memset(id, 0, sizeof *id);
  std::memcpy(id->internal, &mine, sizeof mine);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* handle, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (const ncclResult_t result = begin("ncclCommInitRankConfig"); result != ncclSuccess)
    return result;
  const Lock lock;
  Id mine;
  std::memcpy(&mine, id.internal, sizeof mine);
  if (!config || config->magic != 0xcafebeef || config->blocking != 0)
    return refuse(ncclInvalidUsage, "only for communicators that do not block");
  if (mine.process != getpid())
    return refuse(ncclInvalidUsage, "the emulator's NCCL is for ranks of one process alone");
  const auto it = world().cliques.find(mine.number);
  if (it == world().cliques.end() || ranks < 1 || rank < 0 || rank >= ranks)
    return refuse(ncclInvalidArgument, "no such id or rank");
  if (!it->second) it->second = std::make_shared<Clique>(ranks);
  const std::shared_ptr<Clique> clique = it->second;
  int& device = clique->devices[static_cast<std::size_t>(rank)];
  if (clique->size() != ranks || device >= 0)
    return refuse(ncclInvalidArgument, "the rank is there already, or the number of ranks differs");
  for (const int other : clique->devices)
    if (other == current_device()) return refuse(ncclInvalidUsage, "Duplicate GPU detected");
  device = current_device();
  auto comm = std::make_shared<ncclComm>();
  comm->clique = clique;
  comm->rank = rank;
  comm->device = device;
  if (clique->is_complete()) world().cliques.erase(it);
  *handle = comm.get();
  world().comms[comm.get()] = std::move(comm);
  return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* error) {
  const Lock lock;
  const CommPtr comm = find(handle);
  if (!comm) return refuse(ncclInvalidArgument, "no such communicator");
  *error = ncclInProgress;
  if (comm->planted != ncclSuccess) {
    last_error = "planted";
    *error = comm->planted;
  } else if (!comm->connected) {
    comm->connected = comm->clique->is_complete();
  } else if (!has_ended(*comm) || (comm->finalizing && comm->queued + comm->captured > 0)) {
    return ncclSuccess;
  } else if (!std::exchange(comm->busy, false)) {
    comm->finalized = comm->finalizing;
    *error = comm->job ? comm->job->result : ncclSuccess;
  }
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  const Lock lock;
  const CommPtr comm = find(handle);
  if (!comm) return refuse(ncclInvalidArgument, "no such communicator");
  comm->finalizing = comm->busy = true;
  return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  const Lock lock;
  const CommPtr comm = find(handle);
  if (!comm) return refuse(ncclInvalidArgument, "no such communicator");
  if (!comm->finalized) return refuse(ncclInvalidUsage, "the communicator is not finalized");
  world().comms.erase(handle);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  Lock lock;
  const CommPtr comm = find(handle);
  if (!comm) return refuse(ncclInvalidArgument, "no such communicator");
  comm->aborted = true;
  for (const PostedPtr& posted : comm->posted) posted->withdrawn = true;
  comm->posted.clear();
  host_worker_advance();
  work_done.notify_all();
  work_done.wait(lock.get(), [&] { return has_ended(*comm) && comm->captured == 0; });
  world().comms.erase(handle);
  return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return submit("ncclAllReduce", {Kind::all_reduce, in, out, count, type, op}, comm, stream);
}
ncclResult_t ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream) {
  return submit("ncclBroadcast", {Kind::broadcast, in, out, count, type, ncclSum, root}, comm,
                stream);
}
ncclResult_t ncclReduce(const void* in, void* out, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return submit("ncclReduce", {Kind::reduce, in, out, count, type, op, root}, comm, stream);
}
ncclResult_t ncclAllGather(const void* in, void* out, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return submit("ncclAllGather", {Kind::all_gather, in, out, count, type}, comm, stream);
}
ncclResult_t ncclReduceScatter(const void* in, void* out, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return submit("ncclReduceScatter", {Kind::reduce_scatter, in, out, count, type, op}, comm,
                stream);
}
ncclResult_t ncclSend(const void* in, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return submit("ncclSend", {Kind::send, in, nullptr, count, type, ncclSum, peer}, comm, stream);
}
ncclResult_t ncclRecv(void* out, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return submit("ncclRecv", {Kind::recv, nullptr, out, count, type, ncclSum, peer}, comm, stream);
}

ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  if (group.depth == 0) return refuse(ncclInvalidUsage, "no group was begun");
  if (--group.depth > 0 || group.queued.empty()) return ncclSuccess;
  const Lock lock;
  return start(std::exchange(group.queued, {}));
}

}  // extern "C"
