#include "ferrite/parallel/data_parallel/data_parallel.h"

#include <fmt/format.h>

#include <algorithm>

#include "ferrite/autograd/checkpoint.h"
#include "ferrite/core/cuda.h"
#include "ferrite/core/cuda_backend.h"
#include "ferrite/core/error.h"
#include "ferrite/core/stream.h"
#include "ferrite/nn/norm.h"

namespace ferrite::parallel {

namespace {

const DataParallelOptions& checked(const DataParallelOptions& options) {
  FERRITE_CHECK(options.bucket_cap_mb > 0, ValueError, "data_parallel",
                "bucket_cap_mb is {}, expected more than 0", options.bucket_cap_mb);
  return options;
}

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
                                   const DataParallelOptions& options)
    : wrapped_(module),
      devices_(devices.empty() ? all_cuda_devices() : std::move(devices)),
      output_(options.output_device.value_or(devices_[0])),
      options_(checked(options)),
      times_(std::make_shared<dp::DataParallelTimes>(devices_, output_)),
      comms_(devices_.size() - 1) {
  FERRITE_CHECK(comms_.empty() || std::ranges::none_of(module.modules(),
                                                       [](nn::Module* m) {
                                                         const auto* const norm =
                                                             dynamic_cast<nn::BatchNorm*>(m);
                                                         return norm && norm->is_synchronized();
                                                       }),
                ValueError, "data_parallel",
                "a SyncBatchNorm works in DistributedDataParallel with one device per process, not "
                "in replicas on several; revert_sync_batchnorm() the model");
  if (!comms_.empty())
    comm(devices_.size());  // reports problems with the devices early
  else
    module.to(devices_[0]);
  wrap_module(module);
}

dp::DeviceComm& DataParallelBase::comm(std::size_t size) const {
  FERRITE_CHECK(size >= 2 && size <= devices_.size(), ValueError, "data_parallel",
                "{} of {} devices: expected 2 or more, and not more than there are", size,
                devices_.size());
  std::shared_ptr<dp::DeviceComm>& comm = comms_[size - 2];
  if (!comm) {
    const auto end = devices_.begin() + static_cast<std::ptrdiff_t>(size);
    comm = dp::make_measured_comm(dp::make_device_comm({devices_.begin(), end}, options_.backend),
                                  times_);
  }
  return *comm;
}

DataParallelReport DataParallelBase::report() const {
  DataParallelReport report;
  report.devices = devices_;
  if (devices_.size() > 1) report.backend = comm(devices_.size()).backend();
  times_->fill(report);
  return report;
}

DataParallelBase::Call::Call(DataParallelBase& dp) : dp_(dp) {
  if (can_be_timed(dp.devices())) timed_.emplace(*dp.times_);
}

Replicas DataParallelBase::Call::replicate(std::size_t chunks) {
  Replicas replicas =
      parallel::replicate(dp_.wrapped_, dp_.comm(chunks), {dp_.options_.bucket_cap_mb});
  if (timed_) timed_->replicated(chunks);
  return replicas;
}

void DataParallelBase::Call::not_replicated() {
  check_module(dp_.wrapped_, dp_.devices()[0]);
  if (timed_) timed_->replicated(1);
}

}  // namespace ferrite::parallel
