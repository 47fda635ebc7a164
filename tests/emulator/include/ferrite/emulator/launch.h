// Launching a kernel, which is a plain function here.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

namespace emulator {

/// The parameters of a launch.
struct Launch {
  const void* function = nullptr;
  const char* name = "";
  const char* file = "";
  int line = 0;
  dim3 grid, block;
  std::size_t shared_bytes = 0;
};

/// A kernel with its arguments. `keep` moves it to the heap, for launches that run later.
struct BoundKernel {
  void* self;
  void (*run)(const void* self);  // runs one thread of the kernel
  std::shared_ptr<const void> (*keep)(void* self);
  const void* const* pointers;  // those arguments that are pointers
  int pointer_count;
};

/// Checks the launch like CUDA, then runs it, or queues it in its stream or graph.
cudaError_t submit(const Launch& launch, cudaStream_t stream, const BoundKernel& kernel);

namespace detail {
template <class T>
constexpr bool is_data_pointer =
    std::is_pointer_v<T> && !std::is_function_v<std::remove_pointer_t<T>>;

template <class... P>
struct Call {
  void (*kernel)(P...);
  std::tuple<std::remove_cv_t<P>...> arguments;

  static void run(const void* self) {
    const Call& call = *static_cast<const Call*>(self);
    std::apply([&](const auto&... a) { call.kernel(a...); }, call.arguments);
  }
  static std::shared_ptr<const void> keep(void* self) {
    return std::make_shared<Call>(std::move(*static_cast<Call*>(self)));
  }
};
}  // namespace detail

/// Launches `kernel`; `name`, `file` and `line` identify the launch in reports.
template <class... P, class... A>
cudaError_t launch(const char* name, const char* file, int line, dim3 grid, dim3 block,
                   std::size_t shared_bytes, cudaStream_t stream, void (*kernel)(P...),
                   A&&... arguments) {
  static_assert(sizeof...(P) == sizeof...(A), "the kernel takes another number of arguments");
  using Call = detail::Call<P...>;
  Call call{kernel, {static_cast<P>(std::forward<A>(arguments))...}};
  const void* pointers[sizeof...(P) + 1];
  int count = 0;
  std::apply(
      [&]<class... T>(const T&... a) {
        const auto note = [&]<class U>(const U& value) {
          if constexpr (detail::is_data_pointer<U>)
            pointers[count++] = const_cast<const void*>(static_cast<const volatile void*>(value));
        };
        (note(a), ...);
        static_cast<void>(note);
      },
      call.arguments);
  const Launch what{
      reinterpret_cast<const void*>(kernel), name, file, line, grid, block, shared_bytes};
  return submit(what, stream, {&call, &Call::run, &Call::keep, pointers, count});
}

}  // namespace emulator
