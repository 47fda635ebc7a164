// What the sources of the kit share: how operands lie in memory.
#pragma once

#include <cstdint>

#include "core/tensor.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace ferrite::kit {

/// On either side of an operand; more than the threads of a block reach with 16-byte accesses.
inline constexpr std::int64_t kGuardBytes = 4096;

/// What memory holds before a kernel runs: NaN, or integers that nobody computes.
constexpr unsigned char poison_byte(DType dtype) { return is_floating(dtype) ? 0xff : 0xa5; }

/// The distance from the first to one past the last element; 0 where there are none.
inline std::int64_t span_of(const Shape& shape, const Strides& strides) {
  std::int64_t span = 1;
  for (int d = 0; d < shape.size(); ++d) {
    if (shape[d] == 0) return 0;
    span += (shape[d] - 1) * strides[d];
  }
  return span;
}

/// Calls f(offset from the first element) on every element, in row-major order.
template <class F>
void for_each_offset(const Tensor& t, F&& f) {
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    std::int64_t rest = i, offset = 0;
    for (int d = t.dim() - 1; d >= 0; --d) {
      offset += rest % t.shape()[d] * t.strides()[d];
      rest /= t.shape()[d];
    }
    f(offset);
  }
}

/// Under AddressSanitizer, makes reads of a range of the host's memory errors until it goes. A
/// kernel that reads a guard and uses nothing of it is found this way only.
class Unreadable {
 public:
  Unreadable(const void* data, std::size_t bytes) : data_(data), bytes_(bytes) {
#if defined(__SANITIZE_ADDRESS__)
    __asan_poison_memory_region(data_, bytes_);
#endif
  }
  ~Unreadable() {
#if defined(__SANITIZE_ADDRESS__)
    if (data_) __asan_unpoison_memory_region(data_, bytes_);
#endif
  }
  Unreadable(Unreadable&& other) noexcept : data_(other.data_), bytes_(other.bytes_) {
    other.data_ = nullptr;
  }
  Unreadable& operator=(Unreadable&&) = delete;

 private:
  const void* data_;
  [[maybe_unused]] std::size_t bytes_;
};

}  // namespace ferrite::kit
