// Steps of Lion, Adagrad, NAdam and RAdam (optim/lion.h, optim/adaptive.h): rules for one element,
// the same code on every device.
#pragma once

#include <cmath>
#include <cstdint>

#include "ferrite/core/host_device.h"
#include "ferrite/kernels/optim.h"

namespace ferrite::kernels {

struct LionArgs {
  double beta1, beta2, weight_decay;
  bool maximize;
};
/// state: average of the gradients.
FERRITE_KERNEL(lion, const OptimBatch& batch, const LionArgs& args);

struct AdagradArgs {
  double lr_decay, weight_decay, initial_accumulator_value, eps;
  bool maximize;
};
/// state: sum of squares.
FERRITE_KERNEL(adagrad, const OptimBatch& batch, const AdagradArgs& args);

struct NAdamArgs {
  double beta1, beta2, eps, weight_decay, momentum_decay;
  bool decoupled;  ///< weight decay acts on the parameter, not on the gradient
  bool maximize;
};
/// state: first moment, second moment; scalar: the product of the momenta so far.
FERRITE_KERNEL(nadam, const OptimBatch& batch, const NAdamArgs& args);

struct RAdamArgs {
  double beta1, beta2, eps, weight_decay;
  bool decoupled, maximize;
};
/// state: first moment, second moment.
FERRITE_KERNEL(radam, const OptimBatch& batch, const RAdamArgs& args);

// ---- Rules, which compute in type C: factors() once a parameter and step, then an update per
// element, with the element's gradient and its first and second state.

namespace rules {

/// What a parameter's factors are made of.
struct Now {
  double step;  ///< 1 at first
  double lr, momentum;
  double scalar = 0;  ///< OptimTensor::scalar; factors() may change it
};

template <class C>
struct Lion {
  static constexpr int kStates = 1;
  struct Factors {
    C beta1, take1, keep, lr;
  };
  LionArgs args;

  double first_beta() const { return args.beta1; }
  double gradient_decay() const { return 0; }
  FERRITE_HOST_DEVICE Factors factors(Now& now) const {
    return {static_cast<C>(now.momentum), static_cast<C>(1 - now.momentum),
            static_cast<C>(1 - now.lr * args.weight_decay), static_cast<C>(now.lr)};
  }
  FERRITE_HOST_DEVICE void operator()(const Factors& f, C& p, C g, C& average, C&) const {
    const C direction = f.beta1 * average + f.take1 * g;
    const C sign = direction > 0 ? C(1) : direction < 0 ? C(-1) : direction;  // NaN stays
    p = p * f.keep - sign * f.lr;
    average = static_cast<C>(args.beta2) * average + static_cast<C>(1 - args.beta2) * g;
  }
};

template <class C>
struct Adagrad {
  static constexpr int kStates = 1;
  struct Factors {
    C step_size, keep, start;  ///< the sum goes on from keep * sum + start
  };
  AdagradArgs args;

  double first_beta() const { return 0; }
  double gradient_decay() const { return args.weight_decay; }
  FERRITE_HOST_DEVICE Factors factors(Now& now) const {
    const bool begins = now.step == 1 && args.initial_accumulator_value != 0;
    return {static_cast<C>(now.lr / (1 + (now.step - 1) * args.lr_decay)), begins ? C(0) : C(1),
            begins ? static_cast<C>(args.initial_accumulator_value) : C(0)};
  }
  FERRITE_HOST_DEVICE void operator()(const Factors& f, C& p, C g, C& sum, C&) const {
    sum = f.keep * sum + f.start + g * g;
    p -= f.step_size * g / (std::sqrt(sum) + static_cast<C>(args.eps));
  }
};

template <class C>
struct NAdam {
  static constexpr int kStates = 2;
  struct Factors {
    C beta1, take1, keep, correction, gradient_size, mean_size;
  };
  NAdamArgs args;

  double first_beta() const { return args.beta1; }
  double gradient_decay() const { return args.decoupled ? 0 : args.weight_decay; }
  FERRITE_HOST_DEVICE Factors factors(Now& now) const {
    const double mu = momentum_at(now, now.step), next = momentum_at(now, now.step + 1);
    const double product = (now.step == 1 ? 1 : now.scalar) * mu;
    now.scalar = product;
    return {static_cast<C>(now.momentum),
            static_cast<C>(1 - now.momentum),
            static_cast<C>(args.decoupled ? 1 - now.lr * args.weight_decay : 1),
            static_cast<C>(1 / (1 - std::pow(args.beta2, now.step))),
            static_cast<C>(now.lr * (1 - mu) / (1 - product)),
            static_cast<C>(now.lr * next / (1 - product * next))};
  }
  FERRITE_HOST_DEVICE void operator()(const Factors& f, C& p, C g, C& mean, C& squares) const {
    mean = f.beta1 * mean + f.take1 * g;
    squares = static_cast<C>(args.beta2) * squares + static_cast<C>(1 - args.beta2) * g * g;
    const C deviation = std::sqrt(squares * f.correction) + static_cast<C>(args.eps);
    p = p * f.keep - (f.gradient_size * g + f.mean_size * mean) / deviation;
  }

 private:
  FERRITE_HOST_DEVICE double momentum_at(const Now& now, double step) const {
    return now.momentum * (1 - 0.5 * std::pow(0.96, step * args.momentum_decay));
  }
};

template <class C>
struct RAdam {
  static constexpr int kStates = 2;
  struct Factors {
    C beta1, take1, keep, step_size;
    bool adapts;  ///< whether the average is long enough for a variance
  };
  RAdamArgs args;

  double first_beta() const { return args.beta1; }
  double gradient_decay() const { return args.decoupled ? 0 : args.weight_decay; }
  FERRITE_HOST_DEVICE Factors factors(Now& now) const {
    // The length of the average, as that of a simple one, of which 5 are needed for a variance.
    const double decayed = std::pow(args.beta2, now.step), correction = 1 - decayed;
    const double limit = 2 / (1 - args.beta2) - 1;
    const double length = limit - 2 * now.step * decayed / correction;
    const bool adapts = length > 5;
    double step_size = now.lr / (1 - std::pow(now.momentum, now.step));
    if (adapts)
      step_size *= std::sqrt((length - 4) * (length - 2) * limit * correction /
                             (length * ((limit - 4) * (limit - 2))));
    return {static_cast<C>(now.momentum), static_cast<C>(1 - now.momentum),
            static_cast<C>(args.decoupled ? 1 - now.lr * args.weight_decay : 1),
            static_cast<C>(step_size), adapts};
  }
  FERRITE_HOST_DEVICE void operator()(const Factors& f, C& p, C g, C& mean, C& squares) const {
    mean = f.beta1 * mean + f.take1 * g;
    squares = static_cast<C>(args.beta2) * squares + static_cast<C>(1 - args.beta2) * g * g;
    const C divisor = f.adapts ? std::sqrt(squares) + static_cast<C>(args.eps) : C(1);
    p = p * f.keep - f.step_size * mean / divisor;
  }
};

}  // namespace rules

}  // namespace ferrite::kernels
