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
// Inputs are known by their signature: shapes, dtypes, memory formats, whether gradients are
// recorded, the autocast region, which modules are in training, which have hooks, and which
// parameters are frozen. The first calls of a signature run the function as it stands; the next one
// captures it (core/cuda_graph.h) and replays that, as do all that follow. Signatures seen less
// often (the last, smaller batch of an epoch) keep running eagerly. Each call is one step and gives
// the bits that the function itself would give, random numbers included, where the ops are
// deterministic.
//
// Of the function only what it puts on the device is repeated. So
// - nothing in it may wait for the device or read from it: item(), printing, copies to ordinary
//   memory. Such a call throws CudaError, naming the op, when the step is captured;
// - numbers of the host are those of the capture, the options of an optimizer and settings such as
//   deterministic algorithms among them. Learning rates and momenta are not: set_lr(),
//   set_momentum() and schedulers between steps are seen. reset() captures anew where others were
//   changed;
// - tensors that it changes must exist before: parameters and buffers of the model, optimizer
//   state (made by the eager steps), sums. Those that it holds, parameters that were moved and
//   gradients that were dropped or replaced between the steps are looked after.
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
  /// Eager steps of a signature before it is captured, 1 or more (ValueError): they make gradients
  /// and optimizer state, and let libraries choose their algorithms.
  int warmup = 3;
  /// Signatures that may have a graph; those beyond run eagerly.
  std::size_t max_graphs = 8;
  /// Whether results are the tensors that every replay writes anew, and not copies of them.
  bool static_outputs = false;
  /// Modules that the function uses besides the model.
  std::vector<nn::Module*> also = {};
};

/// Steps so far.
struct GraphedStepStats {
  std::int64_t eager = 0, replayed = 0;
  std::int64_t captures = 0;
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

  /// `inputs` go to the device first. Results have no gradient.
  std::vector<Tensor> run(std::span<const Tensor> inputs, const Step& step);
  void reset();
  const GraphedStepStats& stats() const;
  std::size_t pool_reserved() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// How a step's result becomes tensors, and these become a result.
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

/// `F` takes tensors and gives nothing, a tensor, a vector of tensors, or an array, pair or tuple
/// of tensors. To be called by one thread at a time, always with as many tensors.
template <class F>
class GraphedStep {
 public:
  /// For the device that the model is on at each call; where that is no CUDA device every step is
  /// eager. The model must outlive this.
  GraphedStep(nn::Module& model, F step, GraphedStepOptions options = {})
      : step_(std::move(step)), graphs_(model, std::move(options)) {}

  /// One step. The function gets the inputs as tensors of the device, without gradients. Results
  /// come without gradients too. ValueError for inputs that require one.
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

  /// Forgets all graphs: what follows is captured anew, after as many eager steps.
  void reset() { graphs_.reset(); }
  const GraphedStepStats& stats() const { return graphs_.stats(); }
  /// Bytes of the device that the graphs hold for what they compute.
  std::size_t pool_reserved() const { return graphs_.pool_reserved(); }

 private:
  F step_;
  detail::StepGraphs graphs_;
};

}  // namespace ferrite::nn
