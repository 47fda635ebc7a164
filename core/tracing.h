// Records what a program computes, op by op, for users of its graph (ONNX export). An op reports
// its inputs, attributes and results to the recorder of the calling thread, if there is one; ops
// called within it are then part of it. While no thread has a recorder, this costs a read of the
// flag that every op reads for the profiler.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "ferrite/core/profiler/range.h"
#include "ferrite/core/scalar.h"
#include "ferrite/core/tensor.h"

namespace ferrite::tracing {

/// A Shape is a list of integers: sizes, dimensions, a padding. A Sizes may be longer.
using Sizes = std::vector<std::int64_t>;
using Value = std::variant<bool, std::int64_t, double, std::string, Scalar, Sizes>;

struct Attribute {
  const char* name;
  Value value;
};
using Attributes = std::initializer_list<Attribute>;

inline Sizes sizes(const Shape& shape) { return {shape.begin(), shape.end()}; }

class Recorder {
 public:
  virtual ~Recorder() = default;
  /// An op begins with these inputs, some of them perhaps undefined; gives its number.
  virtual std::size_t begin(const char* name, std::span<const Tensor> inputs,
                            std::span<const Attribute> attributes) = 0;
  /// Op `number` has these results. If its name ends in _, they are its first input, changed.
  virtual void end(std::size_t number, std::span<const Tensor> outputs) = 0;
  /// A function of ops/ runs until left(). It reports itself only through the ops within it, if at
  /// all.
  virtual void entered(const char* name, std::span<const Tensor* const> inputs) = 0;
  virtual void left() noexcept = 0;
  /// The program reads values of `tensor` on the host, by the function `name`.
  virtual void read(const char* name, const Tensor& tensor) = 0;
  /// This memory is new.
  virtual void allocated(const Storage& storage) = 0;
};

namespace detail {

inline thread_local constinit Recorder* recorder = nullptr;

/// While it exists, `recorder` records the ops of this thread; none are recorded if it is null.
class Listening {
 public:
  explicit Listening(Recorder* recorder) : outer_(std::exchange(detail::recorder, recorder)) {}
  ~Listening() { recorder = outer_; }
  Listening(const Listening&) = delete;
  Listening& operator=(const Listening&) = delete;

 private:
  Recorder* const outer_;
};

inline std::vector<Tensor> tensors_of(const Tensor& t) { return {t}; }
inline std::vector<Tensor> tensors_of(const std::vector<Tensor>& all) { return all; }
template <class Pair>
std::vector<Tensor> tensors_of(const Pair& pair) {
  const auto& [a, b] = pair;
  return {a, b};
}

}  // namespace detail

/// Lets `recorder` listen to this thread until the end of the scope.
class Scope {
 public:
  explicit Scope(Recorder& recorder);
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  detail::Listening listening_;
};

/// Whether this thread has a recorder.
inline bool on() {
  return (profiler::detail::flags.hooks.load(std::memory_order_relaxed) &
          profiler::detail::kTrace) != 0 &&
         detail::recorder != nullptr;
}

/// f(), reported as the op `name`. An op begins with
///
///   if (tracing::on())
///     return tracing::op("tril", {x}, {{"diagonal", d}}, [&] { return tril(x, d); });
template <class F>
decltype(auto) op(const char* name, std::span<const Tensor> inputs,
                  std::span<const Attribute> attributes, F&& f) {
  Recorder* const recorder = detail::recorder;
  const std::size_t number = recorder->begin(name, inputs, attributes);
  const detail::Listening nobody(nullptr);
  decltype(auto) result = std::forward<F>(f)();
  recorder->end(number, detail::tensors_of(result));
  // A reference stays one; a value is moved out.
  if constexpr (std::is_reference_v<std::invoke_result_t<F>>)
    return static_cast<std::invoke_result_t<F>>(result);
  else
    return std::invoke_result_t<F>(std::move(result));
}
template <class F>
decltype(auto) op(const char* name, std::initializer_list<Tensor> inputs,
                  const std::vector<Attribute>& attributes, F&& f) {
  return op(name, std::span<const Tensor>(inputs.begin(), inputs.size()),
            std::span<const Attribute>(attributes), std::forward<F>(f));
}
template <class F>
decltype(auto) op(const char* name, std::initializer_list<Tensor> inputs, Attributes attributes,
                  F&& f) {
  return op(name, std::span<const Tensor>(inputs.begin(), inputs.size()),
            std::span<const Attribute>(attributes.begin(), attributes.size()), std::forward<F>(f));
}
template <class F>
decltype(auto) op(const char* name, std::span<const Tensor> inputs, Attributes attributes, F&& f) {
  return op(name, inputs, std::span<const Attribute>(attributes.begin(), attributes.size()),
            std::forward<F>(f));
}

}  // namespace ferrite::tracing
