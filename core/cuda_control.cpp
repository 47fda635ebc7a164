#include "ferrite/core/cuda_control.h"

#include "ferrite/core/allocator.h"
#include "ferrite/core/cuda_backend.h"
#include "ferrite/core/generator.h"
#include "ferrite/core/stream.h"

namespace ferrite {

Device try_gpu(int i) { return i >= 0 && i < cuda::device_count() ? Device(kCUDA, i) : Device(); }

std::vector<Device> try_all_gpus() {
  std::vector<Device> devices;
  for (int i = 0; i < cuda::device_count(); ++i) devices.emplace_back(kCUDA, i);
  if (devices.empty()) devices.emplace_back();
  return devices;
}

namespace cuda {

void synchronize(int device) {
  if (is_available()) ferrite::synchronize(Device(kCUDA, device));
}

void empty_cache(int device) {
  if (is_available()) ferrite::empty_cache(Device(kCUDA, device));
}

std::size_t memory_allocated(int device) {
  return is_available() ? ferrite::memory_allocated(Device(kCUDA, device)) : 0;
}

std::size_t max_memory_allocated(int device) {
  return is_available() ? ferrite::max_memory_allocated(Device(kCUDA, device)) : 0;
}

std::string memory_summary(int device) {
  return is_available() ? ferrite::memory_summary(Device(kCUDA, device)) : std::string();
}

std::size_t memory_reserved(int device) {
  return is_available() ? ferrite::memory_reserved(Device(kCUDA, device)) : 0;
}

void reset_peak_memory_stats(int device) {
  if (is_available()) ferrite::reset_peak_memory_stats(Device(kCUDA, device));
}

void manual_seed(std::uint64_t seed) {
  if (is_available()) default_generator(Device(kCUDA)).manual_seed(seed);
}

void manual_seed_all(std::uint64_t seed) {
  for (int i = 0; i < device_count(); ++i) default_generator(Device(kCUDA, i)).manual_seed(seed);
}

std::string get_device_name(int device) { return get_device_properties(device).name; }

const DeviceProperties& get_device_properties(int device) {
  return properties(Device(kCUDA, device).index());
}

DeviceScope::DeviceScope(int device) {
  if (device < 0) return;
  previous_ = current_device();
  set_device(device);
}

DeviceScope::~DeviceScope() {
  if (previous_ >= 0) ferrite::detail::cuda::restore_device(previous_);
}

}  // namespace cuda
}  // namespace ferrite
