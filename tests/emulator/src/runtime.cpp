#include "ferrite/tests/emulator/src/runtime.h"

#include <atomic>
#include <string>
#include <vector>

#include "ferrite/emulator/emulator.h"
#include "ferrite/tests/emulator/src/clock.h"
#include "ferrite/tests/emulator/src/memory.h"
#include "ferrite/tests/emulator/src/report.h"
#include "ferrite/tests/emulator/src/scheduler.h"
#include "ferrite/tests/emulator/src/stream.h"

namespace emulator {

std::mutex runtime_mutex;
std::condition_variable work_done;
HostWaits waits_so_far;

namespace {

thread_local int device_now = 0;
thread_local cudaError_t last_error = cudaSuccess;

cudaError_t sticky[kMaxDevices] = {};
std::atomic<bool> contexts[kMaxDevices] = {};

struct Failure {
  std::string name;
  cudaError_t error;
  int skip;
};
std::vector<Failure>& failures = *new std::vector<Failure>;
std::atomic<bool> failures_wanted{false};

cudaError_t wanted_failure(const char* name) {
  const Lock lock;
  for (std::size_t i = 0; i < failures.size(); ++i) {
    if (failures[i].name != name || failures[i].skip-- > 0) continue;
    const cudaError_t error = failures[i].error;
    failures.erase(failures.begin() + static_cast<std::ptrdiff_t>(i));
    failures_wanted = !failures.empty();
    return error;
  }
  return cudaSuccess;
}

[[maybe_unused]] const bool started = (reseed(), explain_findings(), true);

}  // namespace

int current_device() { return device_now; }
void set_current_device(int device) { device_now = device; }
cudaError_t sticky_error(int device) { return sticky[device]; }
void set_sticky_error(int device, cudaError_t error) {
  sticky[device] = error;
  if (error != cudaSuccess) discard_work(device);
}

cudaError_t remember(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}
cudaError_t last_error_of_thread() { return last_error; }
void clear_error() { last_error = cudaSuccess; }

cudaError_t begin_call(const char* name) {
  if (running_here()) fatal(name, 0, "a runtime function called from inside a kernel");
  if (failures_wanted)
    if (const cudaError_t error = wanted_failure(name); error != cudaSuccess) return error;
  contexts[device_now].store(true, std::memory_order_relaxed);
  return sticky[device_now];
}

bool has_context(int device) {
  return device >= 0 && device < kMaxDevices && contexts[device].load(std::memory_order_relaxed);
}
void drop_context(int device) { contexts[device].store(false, std::memory_order_relaxed); }

bool has_race_detector() { return kRaces; }

HostWaits host_waits() {
  const Lock lock;
  return waits_so_far;
}

Settings settings() {
  const Lock lock;
  return current_settings;
}
void set_order(Order order, std::uint64_t seed) {
  const Lock lock;
  current_settings.order = order;
  current_settings.seed = seed;
  reseed();
}
void set_devices(int count) {
  const Lock lock;
  if (count >= 1 && count <= kMaxDevices) current_settings.devices = count;
}
void fail_next(const char* name, cudaError_t error, int skip) {
  const Lock lock;
  failures.push_back({name, error, skip});
  failures_wanted = true;
}
void lose(int device) {
  const Lock lock;
  if (device >= 0 && device < kMaxDevices) set_sticky_error(device, cudaErrorLaunchFailure);
}
void reset() {
  const Lock lock;
  for (cudaError_t& error : sticky) error = cudaSuccess;
  last_error = cudaSuccess;
  failures.clear();
  failures_wanted = false;
}

}  // namespace emulator
