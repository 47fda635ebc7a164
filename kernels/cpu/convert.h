// Short runs converted between storage types and the types that arithmetic is done in, so that a
// kernel needs one body for all storage types.
#pragma once

#include <cstdint>
#include <cstring>

#include "ferrite/core/dtype.h"

namespace ferrite::kernels::cpu {

/// What integers and 16-bit types are reduced as.
template <class T>
using Wide = std::conditional_t<is_floating_type<T>, Compute<T>, std::int64_t>;

/// Calls f.operator()<E>() for the Wide type of `dtype`.
template <class F>
decltype(auto) dispatch_wide(DType dtype, F&& f) {
  if (dtype == kFloat64) return f.template operator()<double>();
  if (is_floating(dtype)) return f.template operator()<float>();
  return f.template operator()<std::int64_t>();
}

/// dst[i] = src[i * stride] as E, of any dtype; `src` points at the first.
template <class E>
void load_run(E* dst, const void* src, DType dtype, std::int64_t stride, std::int64_t n);
/// dst[i * stride] = src[i], converted as a C++ cast does (to bool: != 0).
template <class E>
void store_run(void* dst, DType dtype, std::int64_t stride, const E* src, std::int64_t n);

/// A view's elements as runs of E: in place where they lie so, else through a buffer.
template <class E>
class RunReader {
 public:
  RunReader(const void* data, DType dtype)
      : data_(static_cast<const char*>(data)), dtype_(dtype), size_(itemsize(dtype)) {}
  /// n elements from `offset` on; `buffer` holds n if they must be converted or gathered.
  const E* read(std::int64_t offset, std::int64_t stride, std::int64_t n, E* buffer) const {
    const char* at = data_ + offset * static_cast<std::int64_t>(size_);
    if (direct(stride)) return reinterpret_cast<const E*>(at);
    if (stride == 1) {
      // What follows is mostly read next, and not foreseen by the machine while this is used.
      const auto bytes = n * static_cast<std::int64_t>(size_);
      for (std::int64_t i = bytes; i < 2 * bytes; i += 64) __builtin_prefetch(at + i);
    }
    load_run(buffer, at, dtype_, stride, n);
    return buffer;
  }
  bool direct(std::int64_t stride) const { return stride == 1 && dtype_ == dtype_of<E>; }
  const E* data() const { return reinterpret_cast<const E*>(data_); }

 private:
  const char* data_;
  DType dtype_;
  std::size_t size_;
};

/// The same for results, of neighbours.
template <class E>
class RunWriter {
 public:
  RunWriter(void* data, DType dtype) : data_(static_cast<char*>(data)), dtype_(dtype) {}
  /// Where results from `offset` on are written: in place, or `buffer` if they must be converted.
  E* begin(std::int64_t offset, E* buffer) const {
    return dtype_ == dtype_of<E> ? reinterpret_cast<E*>(at(offset)) : buffer;
  }
  /// Ends the n results at x, which begin() gave.
  void end(std::int64_t offset, const E* x, std::int64_t n) const {
    if (dtype_ != dtype_of<E>) store_run(at(offset), dtype_, 1, x, n);
  }

 private:
  char* at(std::int64_t offset) const {
    return data_ + offset * static_cast<std::int64_t>(itemsize(dtype_));
  }

  char* data_;
  DType dtype_;
};

}  // namespace ferrite::kernels::cpu
