// Small programs, each with a kernel that is correct or has one known bug: the emulator must report
// the bug, and nothing else.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "ferrite/emulator/portable.h"

namespace planted {

struct Program {
  const char* name;
  bool (*run)();  // returns whether the result was right
};
std::vector<Program>& programs();

struct Registration {
  Registration(const char* name, bool (*run)()) { programs().push_back({name, run}); }
};

/// PLANTED(name) { ...; return result == expected; }
#define PLANTED(name)                                        \
  static bool name();                                        \
  static const ::planted::Registration name##_(#name, name); \
  static bool name()

inline void check(cudaError_t error, const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s:%d: %s\n", file, line, cudaGetErrorName(error));
  std::exit(3);
}

/// The launch parameters of a kernel.
struct On {
  dim3 grid, block;
  std::size_t shared_bytes = 0;
  cudaStream_t stream = nullptr;
  const char* file = __builtin_FILE();
  int line = __builtin_LINE();

  On(dim3 grid, dim3 block, std::size_t shared_bytes = 0, cudaStream_t stream = nullptr,
     const char* file = __builtin_FILE(), int line = __builtin_LINE())
      : grid(grid),
        block(block),
        shared_bytes(shared_bytes),
        stream(stream),
        file(file),
        line(line) {}
};

template <class... P, class... A>
void launch(const On& on, const char* name, void (*kernel)(P...), A&&... arguments) {
  check(emulator::launch(name, on.file, on.line, on.grid, on.block, on.shared_bytes, on.stream,
                         kernel, std::forward<A>(arguments)...),
        on.file, on.line);
}

/// An array in device memory, with NaN bits unless values are given.
template <class T>
class Array {
 public:
  explicit Array(std::size_t size) : size_(size) { check(cudaMalloc(&data_, size * sizeof(T))); }
  explicit Array(const std::vector<T>& values) : Array(values.size()) {
    check(cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  ~Array() { cudaFree(data_); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  T* get() const { return data_; }
  std::vector<T> values() const {
    std::vector<T> host(size_);
    check(cudaMemcpy(host.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost));
    return host;
  }
  T value() const { return values().at(0); }

 private:
  T* data_ = nullptr;
  std::size_t size_;
};

/// first, first + 1, ...
inline std::vector<float> counting(std::size_t size, float first = 0) {
  std::vector<float> values(size);
  for (std::size_t i = 0; i < size; ++i) values[i] = first + static_cast<float>(i);
  return values;
}

}  // namespace planted
