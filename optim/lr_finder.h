// LRFinder: the range test of Smith (2017, "Cyclical Learning Rates for Training Neural Networks"),
// with the smoothing, the end and the suggestion of fastai and Lightning. It trains with rates that
// rise from step to step, and suggests the one where the loss falls fastest.
//
//   optim::LRFinder finder(model, sgd);
//   const auto found = finder.range_test(loader, [&](auto& batch) {
//     auto& [x, y] = batch;
//     return cross_entropy(model(x), y);
//   });
//   sgd.set_lr(found.suggestion().value_or(0.1));
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "ferrite/nn/module.h"
#include "ferrite/optim/optimizer.h"

namespace ferrite::optim {

/// Whether learning rates grow by a factor or by a difference.
enum class LRSpacing : std::uint8_t { exponential, linear };

struct LRFinderOptions {
  double start_lr = 1e-7, end_lr = 10;  ///< above 0, the first below the second
  std::int64_t num_iter = 100;          ///< steps; 2 or more
  /// Whether learning rates grow by a factor or by a difference.
  LRSpacing spacing = LRSpacing::exponential;
  /// Weight of the past in the running mean of the loss, from 0 (none) to below 1.
  double beta = 0.98;
  /// The test ends early when the mean loss is not finite, or exceeds the best so far, if that is
  /// above 0, by this factor, which must be above 1.
  double diverge_threshold = 4;
};

/// The curve that range_test() measured, and a suggestion.
struct LRFinderResult {
  std::vector<double> lrs, losses;  ///< of each step; losses are smoothed
  bool diverged = false;            ///< whether it ended before num_iter
  /// The rate at which the loss falls fastest, without the first and the last steps; nothing if it
  /// never falls.
  std::optional<double> suggestion(std::size_t skip_begin = 10, std::size_t skip_end = 1) const;
};

/// Weights, buffers, gradients, other parameters of the optimizer, the modes of modules, the
/// optimizer and the default generators are afterwards what they were before, also after an
/// exception. What `loss` reads, such as a loader with a generator of its own, moves on.
class LRFinder {
 public:
  /// Both must outlive it. ValueError for options out of range.
  LRFinder(nn::Module& model, Optimizer& optimizer, const LRFinderOptions& options = {});

  /// `loss` computes the loss of the next batch, one number that requires a gradient; the finder
  /// runs its backward() and the step. All groups have the same rate. It waits for every loss.
  LRFinderResult range_test(const std::function<Tensor()>& loss);
  /// The same with the batches of a loader, which begins again where it ends: `loss(batch)`.
  /// ValueError if it has none.
  template <class Loader, class Loss>
  LRFinderResult range_test(Loader& loader, const Loss& loss) {
    auto batch = loader.begin();
    return range_test([&] {
      if (batch == loader.end()) batch = loader.begin();
      FERRITE_CHECK(batch != loader.end(), ValueError, "LRFinder", "the loader has no batches");
      const Tensor value = loss(*batch);
      ++batch;
      return value;
    });
  }

 private:
  double lr(std::int64_t step) const;

  nn::Module& model_;
  Optimizer& optimizer_;
  LRFinderOptions o_;
};

}  // namespace ferrite::optim
