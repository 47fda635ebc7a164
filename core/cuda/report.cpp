#include "ferrite/core/cuda/report.h"

#include <atomic>

#include "ferrite/core/error.h"
#include "ferrite/core/shape.h"

namespace ferrite::cuda {

namespace {

/// Formats `count` followed by `position[count]` as "[1, 2]".
Shape position_at(const long long* count) {
  Shape position;
  for (long long d = 0; d < *count; ++d) position.push_back(count[1 + d]);
  return position;
}

}  // namespace

void throw_report(DeviceReport& slot) {
  std::atomic_ref<int> state(slot.state);
  if (state.load(std::memory_order_relaxed) == DeviceReport::kFree) [[likely]]
    return;
  // Exactly one host thread takes the report; one that is still being written is left for the next
  // thread that waits.
  int complete = DeviceReport::kComplete;
  if (!state.compare_exchange_strong(complete, DeviceReport::kClaimed, std::memory_order_acquire))
    return;
  const DeviceReport report = slot;
  state.store(DeviceReport::kFree, std::memory_order_release);
  const auto* integers = report.integers;
  const auto* numbers = report.numbers;
  switch (report.kind) {
    case ReportKind::index_out_of_range:
      fail<IndexError>(report.op,
                       "index {} at position {} is out of range for a dimension of size {}",
                       integers[0], position_at(integers + 2), integers[1]);
    case ReportKind::class_out_of_range:
      fail<IndexError>(
          report.op, "target {} at position {} is out of range for {} classes (ignore_index is {})",
          integers[0], position_at(integers + 3), integers[1], integers[2]);
    case ReportKind::value_out_of_range:
      if (integers[0])
        fail<ValueError>(report.op, "expected values in [{}, {}], got {}", numbers[0], numbers[1],
                         static_cast<float>(numbers[2]));
      fail<ValueError>(report.op, "expected values in [{}, {}], got {}", numbers[0], numbers[1],
                       numbers[2]);
  }
}

}  // namespace ferrite::cuda
