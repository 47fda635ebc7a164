#include "ferrite/optim/lr_finder.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "ferrite/autograd/engine.h"
#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/generator_state.h"
#include "ferrite/optim/fields.h"
#include "ferrite/optim/modes.h"

namespace ferrite::optim {

namespace {

constexpr const char* kLRFinder = "LRFinder";

/// What a range test changes; its end puts it back.
class Restored {
 public:
  Restored(nn::Module& model, Optimizer& optimizer)
      : model_(model),
        optimizer_(optimizer),
        weights_(model.state_dict().clone()),
        state_(optimizer.state_dict().clone()),
        generators_(generator_state_dict().clone()) {
    for (nn::Module* m : model.modules()) modes_.emplace_back(m, m->is_training());
    const std::vector<Tensor> of_model = model.parameters();
    for (const Tensor& p : optimizer.parameters()) {
      const NoGradGuard guard;
      gradients_.emplace_back(p, p.grad().defined() ? p.grad().clone() : Tensor());
      if (std::ranges::none_of(of_model, [&](const Tensor& other) { return other.is_same(p); }))
        others_.emplace_back(p, p.clone());
    }
  }

  void restore() {
    model_.load_state_dict(weights_);
    optimizer_.load_state_dict(state_);
    load_generator_state_dict(generators_);
    for (const auto& [p, grad] : gradients_) p.set_grad(grad);
    const NoGradGuard guard;
    for (const auto& [p, values] : others_) p.copy_(values);
    restore_modes(modes_);
  }

 private:
  nn::Module& model_;
  Optimizer& optimizer_;
  const StateDict weights_, state_, generators_;
  std::vector<std::pair<nn::Module*, bool>> modes_;
  std::vector<std::pair<Tensor, Tensor>> gradients_, others_;  // parameters that the model lacks
};

}  // namespace

LRFinder::LRFinder(nn::Module& model, Optimizer& optimizer, const LRFinderOptions& options)
    : model_(model), optimizer_(optimizer), o_(options) {
  FERRITE_CHECK(o_.start_lr > 0 && o_.start_lr < o_.end_lr, ValueError, kLRFinder,
                "expected 0 < start_lr < end_lr, got {} and {}", o_.start_lr, o_.end_lr);
  FERRITE_CHECK(o_.num_iter >= 2, ValueError, kLRFinder, "expected num_iter of 2 or more, got {}",
                o_.num_iter);
  check_fields({{"beta", &o_.beta, kBelowOne}}, kLRFinder);
  FERRITE_CHECK(o_.diverge_threshold > 1, ValueError, kLRFinder,
                "expected a diverge_threshold above 1, got {}", o_.diverge_threshold);
}

double LRFinder::lr(std::int64_t step) const {
  const double part = static_cast<double>(step) / static_cast<double>(o_.num_iter - 1);
  return o_.spacing == LRSpacing::linear ? o_.start_lr + (o_.end_lr - o_.start_lr) * part
                                         : o_.start_lr * std::pow(o_.end_lr / o_.start_lr, part);
}

LRFinderResult LRFinder::range_test(const std::function<Tensor()>& loss) {
  Restored before(model_, optimizer_);
  LRFinderResult result;
  try {
    double mean = 0, best = INFINITY;
    for (std::int64_t i = 0; i < o_.num_iter; ++i) {
      optimizer_.set_lr(lr(i));
      optimizer_.zero_grad();
      const Tensor value = loss();
      mean = o_.beta * mean + (1 - o_.beta) * value.item<double>();
      const double smoothed = mean / (1 - std::pow(o_.beta, static_cast<double>(i + 1)));
      result.lrs.push_back(lr(i));
      result.losses.push_back(smoothed);
      result.diverged =
          !std::isfinite(smoothed) || (best > 0 && smoothed > o_.diverge_threshold * best);
      if (result.diverged) break;
      best = std::min(best, smoothed);
      value.backward();
      optimizer_.step();
    }
  } catch (...) {
    before.restore();
    throw;
  }
  before.restore();
  return result;
}

std::optional<double> LRFinderResult::suggestion(std::size_t skip_begin,
                                                 std::size_t skip_end) const {
  if (losses.size() < skip_begin + skip_end + 2) return {};
  const std::size_t end = losses.size() - skip_end;
  std::optional<double> found;
  double steepest = 0;
  for (std::size_t i = skip_begin; i < end; ++i) {
    // By step, as numpy.gradient: central differences, one-sided at the ends.
    const std::size_t low = i == skip_begin ? i : i - 1, high = i + 1 == end ? i : i + 1;
    const double slope = (losses[high] - losses[low]) / static_cast<double>(high - low);
    if (!(slope < steepest)) continue;
    steepest = slope;
    found = lrs[i];
  }
  return found;
}

}  // namespace ferrite::optim
