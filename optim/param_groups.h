// Groups of a model's parameters by name, for optimizers:
//
//   // no weight decay for biases and norms
//   optim::SGD sgd(optim::param_groups(model, optim::SGDOptions{.lr = 0.1, .weight_decay = 1e-4},
//                                      {optim::no_decay()}));
//   // a new head on a trained backbone
//   optim::AdamW adamw(optim::param_groups(model, optim::AdamWOptions{.lr = 1e-3},
//                                          {{"backbone", {.lr_scale = 0.1}}, {"*.pos", {.lr =
//                                          0}}}));
//   // rates that fall towards the input
//   optim::param_groups(model, options, optim::layer_decay({"stem", "layer1", "layer2"}, 0.8));
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ferrite/nn/module.h"
#include "ferrite/optim/optimizer.h"

namespace ferrite::optim {

/// The parameters that it is for, and the change. A parameter takes every rule that is for it, in
/// their order.
struct GroupRule {
  /// `pattern` as in Module::requires_grad_(): "*.bias", "layer1", "conv1, bn*".
  GroupRule(std::string pattern, const GroupChange& change)
      : pattern(std::move(pattern)), change(change) {}
  GroupRule(std::function<bool(const Tensor&)> selects, const GroupChange& change)
      : selects(std::move(selects)), change(change) {}

  std::string pattern;  ///< which parameters the rule is for, by name
  std::function<bool(const Tensor& parameter)> selects;  ///< instead of the pattern
  GroupChange change;                                    ///< what is different for these parameters
};

/// No weight decay for parameters of fewer than two dimensions: biases, and weights of norms.
GroupRule no_decay();
/// The last of `layers` has the full rate, and each one before it `decay` times that of the next
/// (as in ELECTRA and BEiT). ValueError unless `decay` is above 0.
std::vector<GroupRule> layer_decay(const std::vector<std::string>& layers, double decay);

namespace detail {
/// Which rules each group takes, and its parameters; in the order of the model's parameters.
std::vector<std::pair<std::vector<const GroupRule*>, std::vector<Tensor>>> grouped(
    const nn::Module& model, const std::vector<GroupRule>& rules);
}  // namespace detail

/// The model's parameters in groups of equal options: `options` with the changes of the rules.
/// ValueError for a pattern that no parameter's name fits, with the closest names.
template <class Options>
std::vector<ParamGroup<Options>> param_groups(const nn::Module& model, const Options& options,
                                              const std::vector<GroupRule>& rules) {
  std::vector<ParamGroup<Options>> groups;
  for (auto& [taken, parameters] : detail::grouped(model, rules)) {
    Options own = options;
    for (const GroupRule* rule : taken) own = detail::changed(own, rule->change);
    groups.push_back({std::move(parameters), own});
  }
  return groups;
}

}  // namespace ferrite::optim
