// Communicators of several devices, driven by one thread: calls on all of them form one group, so
// that NCCL does not wait for one before it has seen the others.
#include "ferrite/parallel/comm/clique.h"

#include <nccl.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "ferrite/core/background_waits.h"
#include "ferrite/core/cuda.h"
#include "ferrite/core/cuda/context.h"
#include "ferrite/core/cuda/runtime.h"
#include "ferrite/core/error.h"
#include "ferrite/parallel/comm/nccl/backoff.h"
#include "ferrite/parallel/comm/nccl/library.h"
#include "ferrite/parallel/comm/nccl/types.h"

namespace ferrite::parallel {

namespace nccl {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kHostPatience = std::chrono::minutes(2);  // for host-side work
constexpr auto kLastWait = std::chrono::seconds(10);     // for work still running
constexpr auto kWatchInterval = std::chrono::milliseconds(100);

bool is_bad(ncclResult_t result) { return result != ncclSuccess && result != ncclInProgress; }

class NcclClique final : public comm::Clique {
 public:
  NcclClique(const Library& library, std::span<const Device> devices)
      : library_(library), devices_(devices.begin(), devices.end()), members_(devices.size()) {
    connect();
    watcher_ = std::thread([this] { watch(); });
  }
  ~NcclClique() override;

  void run(const char* op, std::span<const comm::CliqueCall> calls,
           std::span<const Stream> streams) override;

 private:
  using Request = std::function<ncclResult_t(std::size_t device, ncclComm_t& communicator)>;

  void connect();
  void group(const char* op, Clock::duration patience, const Request& request);
  ncclResult_t poll();
  void watch();
  void finish();
  void abort(const std::string& reason);
  [[noreturn]] void give_up(const char* op, ncclResult_t result);

  const Library& library_;
  const std::vector<Device> devices_;
  std::mutex mutex_;
  // Protected by the mutex; even a query changes state: it completes what NCCL has begun.
  std::vector<ncclComm_t> members_;  // null once it has been released
  std::string failure_;
  bool stop_ = false;
  std::condition_variable stopped_;
  std::thread watcher_;
};

NcclClique::~NcclClique() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    stopped_.notify_all();
  }
  watcher_.join();
  const std::lock_guard lock(mutex_);
  if (!failure_.empty()) return;
  try {
    finish();
  } catch (const Error& error) {
    abort(error.what());
  }
}

/// Makes the calls of all devices as a group, and returns when they are on the streams.
void NcclClique::group(const char* op, Clock::duration patience, const Request& request) {
  const auto deadline = Clock::now() + patience;
  ncclResult_t bad = library_.group_start();
  if (is_bad(bad)) give_up(op, bad);
  bad = ncclSuccess;
  try {
    for (std::size_t d = 0; d < devices_.size() && !is_bad(bad); ++d) {
      const cuda::DeviceGuard guard(devices_[d]);
      bad = request(d, members_[d]);
    }
  } catch (...) {
    // A device is lost. In the open group this thread's later calls would only be noted.
    library_.group_end();
    throw;
  }
  const ncclResult_t end = library_.group_end();
  if (is_bad(bad)) give_up(op, bad);
  if (is_bad(end)) give_up(op, end);
  for (Backoff backoff;; backoff.pause()) {
    const ncclResult_t result = poll();
    if (result == ncclSuccess) return;
    if (is_bad(result)) give_up(op, result);
    FERRITE_CHECK(Clock::now() < deadline, DistributedError, op,
                  "NCCL has not done what the host has to do for it in time; NCCL_DEBUG=INFO has "
                  "it say more, and the backend \"copies\" does without it");
  }
}

/// The worst result among all.
ncclResult_t NcclClique::poll() {
  ncclResult_t all = ncclSuccess;
  for (const ncclComm_t member : members_) {
    ncclResult_t result = ncclInternalError;
    if (member) {
      const ncclResult_t status = library_.async_error(member, &result);
      if (status != ncclSuccess) result = status;
    }
    if (is_bad(result)) return result;
    if (result != ncclSuccess) all = result;
  }
  return all;
}

void NcclClique::connect() {
  constexpr const char* op = "device_comm";
  ncclUniqueId id;
  const ncclResult_t result = library_.get_unique_id(&id);
  FERRITE_CHECK(result == ncclSuccess, DistributedError, op, "{}",
                describe(library_, result, nullptr));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  try {
    group(op, kHostPatience, [&](std::size_t d, ncclComm_t& member) {
      return library_.init_rank_config(&member, static_cast<int>(devices_.size()), id,
                                       static_cast<int>(d), &config);
    });
  } catch (const Error& error) {
    if (failure_.empty()) abort(error.what());
    throw;
  }
}

void NcclClique::run(const char* op, std::span<const comm::CliqueCall> calls,
                     std::span<const Stream> streams) {
  std::vector<ncclDataType_t> types;
  for (const comm::CliqueCall& call : calls) types.push_back(data_type(call.dtype));
  // If two cliques queued their calls on the devices in different orders, each would wait for the
  // other.
  static std::mutex one_at_a_time;
  const std::lock_guard turn(one_at_a_time);
  const std::lock_guard lock(mutex_);
  FERRITE_CHECK(failure_.empty(), DistributedError, op, "an earlier call has failed: {}", failure_);
  if (const ncclResult_t result = poll(); is_bad(result)) give_up(op, result);
  try {
    group(op, kHostPatience, [&](std::size_t d, ncclComm_t& member) {
      const cudaStream_t stream = cuda::native_stream(streams[d]);
      ncclResult_t result = ncclSuccess;
      for (std::size_t i = 0; i < calls.size(); ++i) {
        const comm::CliqueCall& call = calls[i];
        const auto count = static_cast<std::size_t>(call.count);
        const ncclDataType_t type = types[i];
        if (call.kind == comm::CliqueCall::Kind::broadcast)
          result = library_.broadcast(call.in[d], call.out[d], count, type, 0, member, stream);
        else
          result =
              library_.reduce(call.in[d], call.out[d], count, type, ncclSum, 0, member, stream);
        if (is_bad(result)) return result;
      }
      return result;
    });
  } catch (const Error& error) {
    if (failure_.empty()) abort(error.what());
    throw;
  }
}

/// A failed collective on the devices ends only when the communicators are aborted: otherwise a
/// wait for a stream would last forever.
void NcclClique::watch() {
  const cuda::BackgroundWaits not_the_training;
  std::unique_lock lock(mutex_);
  while (!stopped_.wait_for(lock, kWatchInterval, [this] { return stop_; })) {
    if (!failure_.empty()) return;
    if (const ncclResult_t result = poll(); is_bad(result))
      abort(describe(library_, result, nullptr));
  }
}

void NcclClique::give_up(const char* op, ncclResult_t result) {
  abort(describe(library_, result, nullptr));
  fail<DistributedError>(op, "{}", failure_);
}

void NcclClique::finish() {
  // It frees memory, which would otherwise invalidate this thread's capture.
  const cuda::detail::CaptureRelaxed relaxed;
  group("device_comm", kLastWait,
        [&](std::size_t, ncclComm_t& member) { return library_.finalize(member); });
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    const cuda::DeviceGuard guard(devices_[d]);
    library_.destroy(std::exchange(members_[d], nullptr));
  }
}

void NcclClique::abort(const std::string& reason) {
  failure_ = reason;
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    if (!members_[d]) continue;
    try {
      const cuda::DeviceGuard guard(devices_[d]);
      // It frees memory, which would otherwise invalidate another thread's capture.
      const cuda::detail::CaptureRelaxed relaxed;
      library_.abort(std::exchange(members_[d], nullptr));
    } catch (const Error&) {  // the device is lost, with all its work
    }
  }
}

}  // namespace

}  // namespace nccl

std::shared_ptr<comm::Clique> comm::make_nccl_clique(std::span<const Device> devices) {
  const nccl::Library* const library = nccl::library();
  FERRITE_CHECK(library, Error, "device_comm",
                "the backend nccl needs NCCL, which cannot be used: {}. Install it (apt-get "
                "install libnccl2, or pip install nvidia-nccl-cu13) where the system's loader "
                "finds it (LD_LIBRARY_PATH); or use the backend \"copies\"",
                nccl::why_not());
  return std::make_shared<nccl::NcclClique>(*library, devices);
}

bool comm::has_nccl_clique() { return nccl::library() != nullptr; }

}  // namespace ferrite::parallel
