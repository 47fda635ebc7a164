// The device side of core/cuda/report.h: called by a kernel that meets a bad value and then skips
// the element.
#pragma once

#include <cuda_runtime.h>

#include "ferrite/core/cuda/report.h"

namespace ferrite::cuda {

namespace detail {

/// Writes the coordinates of element `linear` of a row-major walk over `sizes`.
__device__ inline void write_position(long long* position, std::int64_t linear, int ndim,
                                      const std::int64_t* sizes) {
  for (int d = ndim - 1; d >= 0; --d) {
    position[d] = linear % sizes[d];
    linear /= sizes[d];
  }
}

__device__ inline bool claim(DeviceReport* report, ReportKind kind, const char* op) {
  if (atomicCAS(&report->state, DeviceReport::kFree, DeviceReport::kClaimed) != DeviceReport::kFree)
    return false;
  report->kind = kind;
  report->op = op;
  return true;
}

/// Publishes the report: the host, which may look at any time, sees all of it or nothing.
__device__ inline void complete(DeviceReport* report) {
  __threadfence_system();
  atomicExch(&report->state, DeviceReport::kComplete);
}

}  // namespace detail

/// Reports "index VALUE at position [..] is out of range for a dimension of size SIZE" for element
/// `linear`, in row-major order, of an index of `sizes`.
[[maybe_unused]] static __device__ __attribute__((noinline)) void report_index(
    DeviceReport* report, const char* op, std::int64_t value, std::int64_t size,
    std::int64_t linear, int ndim, const std::int64_t* sizes) {
  if (!detail::claim(report, ReportKind::index_out_of_range, op)) return;
  report->integers[0] = value;
  report->integers[1] = size;
  report->integers[2] = ndim;
  detail::write_position(report->integers + 3, linear, ndim, sizes);
  detail::complete(report);
}

/// Reports "target VALUE at position [..] is out of range for CLASSES classes (ignore_index is ..)"
/// for element `linear`, in row-major order, of a target of `sizes` (without the class dimension).
[[maybe_unused]] static __device__ __attribute__((noinline)) void report_class(
    DeviceReport* report, const char* op, std::int64_t value, std::int64_t classes,
    std::int64_t ignore_index, std::int64_t linear, int ndim, const std::int64_t* sizes) {
  if (!detail::claim(report, ReportKind::class_out_of_range, op)) return;
  report->integers[0] = value;
  report->integers[1] = classes;
  report->integers[2] = ignore_index;
  report->integers[3] = ndim;
  detail::write_position(report->integers + 4, linear, ndim, sizes);
  detail::complete(report);
}

/// Reports "expected values in [LOW, HIGH], got VALUE". T is float or double: the type in which the
/// value was compared and is printed.
template <class T>
[[maybe_unused]] static __device__ __attribute__((noinline)) void report_value(
    DeviceReport* report, const char* op, double low, double high, T value) {
  if (!detail::claim(report, ReportKind::value_out_of_range, op)) return;
  report->integers[0] = sizeof(T) == sizeof(float);
  report->numbers[0] = low;
  report->numbers[1] = high;
  report->numbers[2] = static_cast<double>(value);
  detail::complete(report);
}

}  // namespace ferrite::cuda
