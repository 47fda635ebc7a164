// Memory layout of operands, for the sources of the kit.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

#include "ferrite/core/tensor.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace ferrite::kit {

/// Sets the message printed if the program crashes now (cases.cpp); "" for none.
void set_last_words(const std::string& text);

/// On either side of an operand; more than the threads of a block reach with 16-byte accesses.
inline constexpr std::int64_t kGuardBytes = 4096;

/// The initial value of an element: a NaN that arithmetic never produces (it is signalling, and the
/// host's functions produce only the all-ones NaN), or an integer that no kernel computes.
constexpr std::uint64_t poison_of(DType dtype) {
  switch (dtype) {
    case kFloat32:
      return 0xffa5a5a5;
    case kFloat16:
      return 0xfda5;
    case kBFloat16:
      return 0xffa5;
    case kFloat64:
      return 0xfff5a5a5a5a5a5a5;
    default:
      return 0xa5a5a5a5a5a5a5a5;
  }
}
/// Poisons whole elements, starting at the lowest address.
inline void poison(void* data, std::size_t bytes, DType dtype) {
  const std::uint64_t pattern = poison_of(dtype);
  for (std::size_t at = 0; at < bytes; at += itemsize(dtype))
    std::memcpy(static_cast<unsigned char*>(data) + at, &pattern, itemsize(dtype));
}
inline bool is_poison(const void* element, DType dtype) {
  const std::uint64_t pattern = poison_of(dtype);
  return std::memcmp(element, &pattern, itemsize(dtype)) == 0;
}

/// The distance from the first element to one past the last; 0 if there are none.
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

/// Under AddressSanitizer, makes reads of a range of host memory an error for the scope of the
/// object. Only this detects a kernel that reads a guard without using the value.
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
