// How kernels report bad values: an index out of range becomes an exception on the host, as on the
// CPU, instead of a trap that would destroy the process's CUDA context.
//
// Each stream has a slot in host memory that its device can write. The first thread that meets a
// bad value claims the slot (core/cuda/report.cuh) and stores the fields of the message; the kernel
// skips the element. The next call that waits for the stream (Stream::synchronize,
// synchronize(device), item, to_vector, printing, blocking copies) empties the slot and throws the
// same exception, with the same message, as the CPU kernels. If there are several bad values, any
// one of them may be named. The check costs the host one read.
#pragma once

#include <cstdint>

#include "ferrite/core/stream.h"

namespace ferrite::cuda {

enum class ReportKind : int {
  index_out_of_range,  ///< IndexError; integers: value, size, ndim, position[ndim]
  class_out_of_range,  ///< IndexError; integers: value, classes, ignore_index, ndim, position[ndim]
  value_out_of_range,  ///< ValueError; numbers: low, high, value; integers: 1 if value is a float
};

struct DeviceReport {
  static constexpr int kFree = 0, kClaimed = 1, kComplete = 2;
  int state;  ///< claimed while its thread writes the rest, then complete
  ReportKind kind;
  const char* op;  ///< a host literal, only passed through by the device
  long long integers[12];
  double numbers[3];
};

/// The slot of a stream of a CUDA device, passed to its kernels. It stays valid and may be passed
/// while a graph is captured.
DeviceReport* report_slot(const Stream& stream);

/// Empties `report` and throws its error; does nothing if it is empty.
void throw_report(DeviceReport& report);

}  // namespace ferrite::cuda
