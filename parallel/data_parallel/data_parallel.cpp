#include "ferrite/parallel/data_parallel/data_parallel.h"

#include <fmt/format.h>

#include <algorithm>

#include "ferrite/autograd/checkpoint.h"
#include "ferrite/core/cuda.h"
#include "ferrite/core/cuda_backend.h"
#include "ferrite/core/error.h"
#include "ferrite/core/stream.h"
#include "ferrite/parallel/data_parallel/data_parallel_timing.h"

namespace ferrite::parallel {

struct DataParallelBase::State {
  nn::Module& module;
  const std::vector<Device> devices;
  const Device output;
  const DataParallelOptions options;
  const std::shared_ptr<dp::DataParallelTimes> times;
  /// Of the first two devices, the first three, ...; created on first use.
  mutable std::vector<std::shared_ptr<dp::DeviceComm>> comms;

  dp::DeviceComm& comm(std::size_t size) const {
    FERRITE_CHECK(size >= 2 && size <= devices.size(), ValueError, "data_parallel",
                  "{} of {} devices: expected 2 or more, and not more than there are", size,
                  devices.size());
    std::shared_ptr<dp::DeviceComm>& comm = comms[size - 2];
    if (!comm) {
      const auto n = static_cast<std::ptrdiff_t>(size);
      comm = dp::make_measured_comm(
          dp::make_device_comm({devices.begin(), devices.begin() + n}, options.backend), times);
    }
    return *comm;
  }
};

namespace {

std::vector<Device> all_cuda_devices() {
  FERRITE_CHECK(cuda::is_available(), ValueError, "data_parallel",
                "there is no CUDA device to run on ({}); name the devices, of which the CPU can "
                "play any number: {{\"cpu:0\", \"cpu:1\"}}",
                cuda::why_unavailable());
  std::vector<Device> devices;
  for (int i = 0; i < cuda::device_count(); ++i) devices.emplace_back(DeviceType::cuda, i);
  return devices;
}

/// Checks the requirements of replicate().
void check_module(const nn::Module& module, const Device& first) {
  const auto check = [&](const std::vector<nn::NamedTensor>& tensors) {
    for (const auto& [name, t] : tensors)
      FERRITE_CHECK(t.device() == first, DeviceError, "data_parallel",
                    "module must have its parameters and buffers on device {} (devices[0]), but "
                    "'{}' is on device {}; move it with to(\"{}\") first",
                    first, name, t.device(), first);
  };
  check(module.named_parameters());
  check(module.named_buffers());
}

bool is_capturing(const std::vector<Device>& devices) {
  return std::ranges::any_of(devices, [](const Device& device) {
    return device.is_cuda() && ferrite::detail::cuda::is_capturing(current_stream(device));
  });
}

/// Whether a call is timed: not if it is a rerun of a checkpointed function, or being captured.
bool can_be_timed(const std::vector<Device>& devices) {
  const bool capturing = is_capturing(devices);
  FERRITE_CHECK(!capturing || devices.size() == 1, CudaError, "data_parallel",
                "a step on {} devices cannot be captured into a CUDA graph, which is one device's; "
                "capture the step of each rank of DistributedDataParallel instead",
                devices.size());
  return !capturing && !autograd::is_recomputing();
}

}  // namespace

DataParallelBase::DataParallelBase(nn::Module& module, std::vector<Device> devices,
                                   const DataParallelOptions& options) {
  if (devices.empty()) devices = all_cuda_devices();
  FERRITE_CHECK(options.bucket_cap_mb > 0, ValueError, "data_parallel",
                "bucket_cap_mb is {}, expected more than 0", options.bucket_cap_mb);
  const Device output = options.output_device.value_or(devices[0]);
  const std::size_t comms = devices.size() - 1;
  auto times = std::make_shared<dp::DataParallelTimes>(devices, output);
  state_.reset(new State{module, std::move(devices), output, options, std::move(times),
                         std::vector<std::shared_ptr<dp::DeviceComm>>(comms)});
  if (comms > 0)
    comm(comms + 1);  // reports problems with the devices early
  else
    module.to(state_->devices[0]);
  wrap_module(module);
}

DataParallelBase::~DataParallelBase() = default;

const std::vector<Device>& DataParallelBase::devices() const { return state_->devices; }

const Device& DataParallelBase::output_device() const { return state_->output; }

const DataParallelOptions& DataParallelBase::options() const { return state_->options; }

dp::DeviceComm& DataParallelBase::comm(std::size_t devices) const { return state_->comm(devices); }

DataParallelReport DataParallelBase::report() const {
  DataParallelReport report;
  report.devices = state_->devices;
  if (report.devices.size() > 1) report.backend = comm(report.devices.size()).backend();
  state_->times->fill(report);
  return report;
}

void DataParallelBase::reset_report() { state_->times->reset(); }

struct DataParallelBase::Call::Timed {
  dp::DataParallelTimes::Step step;
};

DataParallelBase::Call::Call(DataParallelBase& dp)
    : dp_(dp),
      timed_(can_be_timed(dp.devices()) ? new Timed{dp::DataParallelTimes::Step(*dp.state_->times)}
                                        : nullptr) {}

DataParallelBase::Call::~Call() = default;

void DataParallelBase::Call::scattered(std::int64_t bytes) {
  if (timed_) timed_->step.scattered(bytes);
}

Replicas DataParallelBase::Call::replicate(std::size_t chunks) {
  const State& state = *dp_.state_;
  Replicas replicas =
      parallel::replicate(state.module, state.comm(chunks), {state.options.bucket_cap_mb});
  if (timed_) timed_->step.replicated(chunks);
  return replicas;
}

void DataParallelBase::Call::not_replicated() {
  check_module(dp_.state_->module, dp_.devices()[0]);
  if (timed_) timed_->step.replicated(1);
}

void DataParallelBase::Call::applied() {
  if (timed_) timed_->step.applied();
}

void DataParallelBase::Call::gathered(std::int64_t bytes) {
  if (timed_) timed_->step.gathered(bytes);
}

void DataParallelBase::Call::end() {
  if (timed_) dp_.state_->times->end(std::move(timed_->step));
}

}  // namespace ferrite::parallel
