// L-BFGS (Nocedal 1980; Nocedal and Wright, "Numerical Optimization", algorithm 7.4), as
// torch.optim.LBFGS: a step calls the closure several times, which makes loss and gradients anew.
//
//   optim::LBFGS lbfgs(model.parameters(), {.line_search_fn = "strong_wolfe"});
//   Tensor loss = lbfgs.step([&] {
//     lbfgs.zero_grad();
//     Tensor loss = mse_loss(model(x), y);
//     loss.backward();
//     return loss;
//   });
//
// It needs the same loss at the same parameters: all of the data, and no dropout. Each step waits
// for the device, so it can be in no captured one.
#pragma once

#include <deque>
#include <functional>
#include <string>

#include "ferrite/optim/optimizer.h"

namespace ferrite::optim {

struct LBFGSOptions {
  double lr = 1;
  std::int64_t max_iter = 20;       ///< the largest number of iterations in one step()
  std::int64_t max_eval = -1;       ///< calls of the closure in a step; below 0: max_iter * 5 / 4
  double tolerance_grad = 1e-7;     ///< of the largest element of the gradient
  double tolerance_change = 1e-9;   ///< of the loss, and of the largest element of a change
  std::int64_t history_size = 100;  ///< how many past steps are remembered
  /// "strong_wolfe", or empty for steps of `lr`.
  std::string line_search_fn = {};
  bool maximize = false;

  static constexpr const char* kName = "LBFGS";
  Fields fields();
  void check() const;
  /// ValueError for parameters of 16 bits.
  static void check_parameter(const Tensor& p);
};

/// L-BFGS, which calls a closure several times in each step.
///
///   lbfgs.step([&] {
///     lbfgs.zero_grad();
///     Tensor loss = mse_loss(model(x), y);
///     loss.backward();
///     return loss;
///   });
///
/// One group of parameters of float32 or float64, on one device: ValueError for others, and for a
/// step without a closure, such as a loss scaler's.
class LBFGS final : public OptimizerWith<LBFGSOptions> {
 public:
  /// With these parameters and options.
  using OptimizerWith::OptimizerWith;

  using Optimizer::step;
  /// The loss at the start.
  Tensor step(const std::function<Tensor()>& closure) override;

  /// PyTorch's state of the first parameter, of which lists are numbered, "state.0.old_dirs.0".
  StateDict state_dict() const override;
  void load_state_dict(const StateDict& dict) override;

 private:
  /// The values at a point of the search: what is minimized, and its gradient as one vector.
  struct Value {
    double loss;
    Tensor grad;
  };
  /// A point x + t d of a line, and the slope there.
  struct Point {
    double t;
    Value value;
    double slope;
  };
  /// A change of the gradient, the step that made it, and 1 / their product.
  struct Pair {
    Tensor change, step;
    double ro;
  };
  using Closure = std::function<Tensor()>;

  void step_group(std::size_t group, const Tensor&, const Tensor&) override;
  const std::vector<Tensor>& checked_parameters() const;
  void keep_up_with_parameters();
  Value evaluate(const Closure& closure, Tensor* loss = nullptr) const;
  void move(double t, const Tensor& direction) const;
  void remember(const Tensor& grad);
  Tensor direction(const Tensor& grad) const;
  void iterate(const Closure& closure, Value value, std::int64_t evaluations);
  Point search(const Closure& closure, const Point& start, double t, std::int64_t most,
               std::int64_t& evaluations) const;

  // State of the last iteration, by PyTorch's names.
  std::int64_t n_iter_ = 0, func_evals_ = 0;
  double t_ = 0, h_diag_ = 1, prev_loss_ = 0;
  Tensor d_, prev_flat_grad_;
  std::deque<Pair> history_;
};

}  // namespace ferrite::optim
