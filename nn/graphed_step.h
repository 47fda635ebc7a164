// GraphedStep: a whole training step (forward, backward, clipping, optimizer, loss scale) as one
// CUDA graph, launched at the cost of one kernel.
//
//   nn::GraphedStep step(model, [&](const Tensor& images, const Tensor& labels) {
//     Tensor loss = cross_entropy(model(images), labels);
//     sgd.zero_grad();
//     loss.backward();
//     sgd.step();
//     return loss;
//   });
//   for (auto& [images, labels] : loader) meter.add(step(images, labels));
//
// A call has a signature: the shapes, dtypes and memory formats of its inputs, whether gradients
// are recorded, the autocast region, which modules are in training, which have hooks, and which
// parameters are frozen. The first calls of a signature run the function eagerly. The next one
// captures it (core/cuda_graph.h) and replays the graph, as do all later ones. Rare signatures (the
// last, smaller batch of an epoch) keep running eagerly. Each call is one step. If the ops are
// deterministic, it gives the same bits as the function itself, including random numbers.
//
// A replay repeats only the function's work on the device. Therefore
// - the function must not wait for the device or read from it: item(), printing, copies to pageable
//   memory. During the capture such a call throws CudaError, which names the op;
// - values on the host keep those of the capture, including an optimizer's options and settings
//   such as deterministic algorithms. Learning rates and momenta are exceptions: set_lr(),
//   set_momentum() and schedulers take effect between steps. After changing other values, call
//   reset() to capture again;
// - tensors that the function changes must exist before: parameters and buffers of the model,
//   optimizer state (which the eager steps create), sums. GraphedStep keeps the tensors in use
//   alive, and handles parameters that were moved and gradients that were dropped or replaced
//   between steps.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "ferrite/core/tensor.h"
#include "ferrite/nn/module.h"

namespace ferrite::nn {

struct GraphedStepOptions {
  /// The number of eager steps of a signature before its capture, 1 or more (ValueError). They
  /// create gradients and optimizer state, and let libraries choose their algorithms.
  int warmup = 3;
  /// The limit of signatures with a graph; further ones run eagerly.
  std::size_t max_graphs = 8;
  /// Whether results are the tensors that every replay overwrites, instead of copies.
  bool static_outputs = false;
  /// Modules that the function uses in addition to the model.
  std::vector<nn::Module*> also = {};
};

/// The numbers of steps and captures so far.
struct GraphedStepStats {
  std::int64_t eager = 0;     ///< how many steps ran eagerly
  std::int64_t replayed = 0;  ///< how many steps were replayed
  std::int64_t captures = 0;  ///< how many graphs were captured
};

namespace detail {

/// The graphs of one step, by signature.
class StepGraphs {
 public:
  using Step = std::function<std::vector<Tensor>(std::span<const Tensor>)>;

  StepGraphs(nn::Module& model, GraphedStepOptions options);
  ~StepGraphs();
  StepGraphs(StepGraphs&&) noexcept;
  StepGraphs& operator=(StepGraphs&&) noexcept;

  /// Copies `inputs` to the device first. Results do not require gradients.
  std::vector<Tensor> run(std::span<const Tensor> inputs, const Step& step);
  void reset();
  /// How many steps ran how.
  const GraphedStepStats& stats() const;
  std::size_t pool_reserved() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Conversion of a step's result to tensors and back.
template <class R>
struct StepResult {
  static constexpr auto kIndices = std::make_index_sequence<std::tuple_size_v<R>>();
  static std::vector<Tensor> pack(const R& r) {
    return std::apply([](const auto&... t) { return std::vector<Tensor>{t...}; }, r);
  }
  static R unpack(std::vector<Tensor>&& t) {
    return [&]<std::size_t... I>(std::index_sequence<I...>) { return R{std::move(t[I])...}; }
    (kIndices);
  }
};
template <>
struct StepResult<Tensor> {
  static std::vector<Tensor> pack(const Tensor& r) { return {r}; }
  static Tensor unpack(std::vector<Tensor>&& t) { return std::move(t[0]); }
};
template <>
struct StepResult<std::vector<Tensor>> {
  static std::vector<Tensor> pack(std::vector<Tensor> r) { return r; }
  static std::vector<Tensor> unpack(std::vector<Tensor>&& t) { return std::move(t); }
};

}  // namespace detail

/// `F` takes tensors and returns void, a tensor, a vector of tensors, or an array, pair or tuple of
/// tensors. Only one thread at a time may call the step, always with the same number of tensors.
template <class F>
class GraphedStep {
 public:
  /// Steps run on the device that the model is on at the call; unless that is a CUDA device, all
  /// steps are eager. The model must outlive this object.
  GraphedStep(nn::Module& model, F step, GraphedStepOptions options = {})
      : step_(std::move(step)), graphs_(model, std::move(options)) {}

  /// Performs one step. The function receives the inputs as tensors on the device that do not
  /// require gradients; results do not require gradients either. ValueError for inputs that require
  /// a gradient.
  template <class... Inputs>
  auto operator()(const Inputs&... inputs) {
    static_assert((std::is_convertible_v<const Inputs&, Tensor> && ...), "inputs are tensors");
    using R = std::invoke_result_t<F&, const Inputs&...>;
    const std::array<Tensor, sizeof...(Inputs)> in{inputs...};
    const auto call = [this]<std::size_t... I>(std::span<const Tensor> t, std::index_sequence<I...>)
                          ->R {
      return step_(t[I]...);
    };
    constexpr auto kIndices = std::make_index_sequence<sizeof...(Inputs)>();
    if constexpr (std::is_void_v<R>) {
      graphs_.run(in, [&](std::span<const Tensor> t) {
        call(t, kIndices);
        return std::vector<Tensor>();
      });
    } else {
      using Result = detail::StepResult<std::remove_cvref_t<R>>;
      return Result::unpack(graphs_.run(
          in, [&](std::span<const Tensor> t) { return Result::pack(call(t, kIndices)); }));
    }
  }

  /// Discards all graphs: each signature is captured again, after its eager steps.
  void reset() { graphs_.reset(); }
  /// How many steps ran how.
  const GraphedStepStats& stats() const { return graphs_.stats(); }
  /// Device memory that the graphs reserve for their tensors, in bytes.
  std::size_t pool_reserved() const { return graphs_.pool_reserved(); }

 private:
  F step_;
  detail::StepGraphs graphs_;
};

}  // namespace ferrite::nn
