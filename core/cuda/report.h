// How kernels report bad values: an index out of range becomes an exception on the host, as on the
// CPU, and not a trap that would take the process's CUDA context with it.
//
// Each stream has a slot in host memory that its device can write. The first thread that meets a
// bad value claims it (core/cuda/report.cuh) and leaves what the message needs; the kernel skips
// the element. Whoever waits for the stream next (Stream::synchronize, synchronize(device), item,
// to_vector, printing, blocking copies) empties the slot and throws what the CPU kernels throw, in
// the same words; of several bad values any one may be named. Looking costs the host one read.
#pragma once

#include <cstdint>

#include "ferrite/core/stream.h"

namespace ferrite::cuda {

enum class ReportKind : int {
  index_out_of_range,  ///< IndexError; integers: value, size, ndim, position[ndim]
  class_out_of_range,  ///< IndexError; integers: value, classes, ignore_index, ndim, position[ndim]
  value_out_of_range,  ///< ValueError; numbers: low, high, value; integers: 1 where value is a
                       ///< float
};

struct DeviceReport {
  static constexpr int kFree = 0, kClaimed = 1, kComplete = 2;
  int state;  ///< claimed while its thread writes the rest, then complete
  ReportKind kind;
  const char* op;  ///< a host literal, which the device only carries
  long long integers[12];
  double numbers[3];
};

/// The slot of a stream of a CUDA device, to be passed to its kernels. It stays valid and may be
/// passed while a graph is captured.
DeviceReport* report_slot(const Stream& stream);

/// Empties `report` and throws what it holds; does nothing where it holds nothing.
void throw_report(DeviceReport& report);

}  // namespace ferrite::cuda
