// Every optimizer, for tests that run with each.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ferrite/core/cuda.h"
#include "ferrite/optim/adam.h"
#include "ferrite/optim/adaptive.h"
#include "ferrite/optim/lamb.h"
#include "ferrite/optim/lars.h"
#include "ferrite/optim/lion.h"
#include "ferrite/optim/rmsprop.h"
#include "ferrite/optim/sgd.h"

namespace ferrite::test {

/// The host, a virtual device and, where there is one, cuda:0.
inline std::vector<Device> optim_devices() {
  std::vector<Device> devices = {"cpu", "cpu:1"};
  if (cuda::is_available()) devices.emplace_back("cuda:0");
  return devices;
}

struct NamedOptimizer {
  std::string name;
  std::function<std::unique_ptr<optim::Optimizer>(std::vector<Tensor>)> make;
  bool lr_acts_at_once = true;  ///< else on later steps, or on the first alone
};

/// With momentum and weight decay, and state of every kind.
inline std::vector<NamedOptimizer> all_optimizers() {
  const auto make = []<class O, class Options>(const Options& options) {
    return [options](std::vector<Tensor> p) -> std::unique_ptr<optim::Optimizer> {
      return std::make_unique<O>(std::move(p), options);
    };
  };
  return {
      {"SGD", make.operator()<optim::SGD>(
                  optim::SGDOptions{.lr = 0.05, .momentum = 0.9, .weight_decay = 1e-3})},
      {"Adam", make.operator()<optim::Adam>(optim::AdamOptions{.lr = 0.01, .amsgrad = true})},
      {"AdamW", make.operator()<optim::AdamW>(optim::AdamWOptions{.lr = 0.01})},
      {"RMSprop", make.operator()<optim::RMSprop>(
                      optim::RMSpropOptions{.lr = 0.005, .momentum = 0.5, .centered = true})},
      {"LARS", make.operator()<optim::LARS>(optim::LARSOptions{
                   .lr = 0.1, .weight_decay = 1e-3, .trust_coefficient = 0.1, .nesterov = true})},
      {"LAMB", make.operator()<optim::LAMB>(optim::LAMBOptions{.lr = 0.01})},
      {"Lion", make.operator()<optim::Lion>(optim::LionOptions{.lr = 0.003, .weight_decay = 0.1})},
      {"Adagrad", make.operator()<optim::Adagrad>(
                      optim::AdagradOptions{.lr = 0.05, .initial_accumulator_value = 0.1})},
      {"Adadelta", make.operator()<optim::Adadelta>(optim::AdadeltaOptions{})},
      {"Adamax", make.operator()<optim::Adamax>(optim::AdamaxOptions{.lr = 0.01})},
      {"NAdam", make.operator()<optim::NAdam>(optim::NAdamOptions{.lr = 0.01})},
      {"RAdam", make.operator()<optim::RAdam>(optim::RAdamOptions{.lr = 0.03})},
      {"ASGD", make.operator()<optim::ASGD>(optim::ASGDOptions{.lr = 0.1, .t0 = 2}), false},
      {"Rprop", make.operator()<optim::Rprop>(optim::RpropOptions{.lr = 0.003}), false},
  };
}

}  // namespace ferrite::test
