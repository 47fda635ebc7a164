#include "ferrite/optim/param_groups.h"

#include <algorithm>
#include <unordered_set>

namespace ferrite::optim {

GroupRule no_decay() {
  return {[](const Tensor& p) { return p.dim() < 2; }, {.weight_decay = 0}};
}

std::vector<GroupRule> layer_decay(const std::vector<std::string>& layers, double decay) {
  FERRITE_CHECK(decay > 0, ValueError, "layer_decay", "expected a factor above 0, got {}", decay);
  std::vector<GroupRule> rules;
  double scale = 1;
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer, scale *= decay)
    rules.push_back({*layer, {.lr_scale = scale}});
  return rules;
}

namespace detail {

std::vector<std::pair<std::vector<const GroupRule*>, std::vector<Tensor>>> grouped(
    const nn::Module& model, const std::vector<GroupRule>& rules) {
  std::vector<std::unordered_set<const TensorImpl*>> named(rules.size());
  for (std::size_t i = 0; i < rules.size(); ++i)
    if (!rules[i].selects)
      for (const Tensor& p : model.parameters(rules[i].pattern)) named[i].insert(p.impl());

  std::vector<std::pair<std::vector<const GroupRule*>, std::vector<Tensor>>> groups;
  for (const Tensor& p : model.parameters()) {
    std::vector<const GroupRule*> taken;
    for (std::size_t i = 0; i < rules.size(); ++i)
      if (rules[i].selects ? rules[i].selects(p) : named[i].contains(p.impl()))
        taken.push_back(&rules[i]);
    auto group = std::ranges::find(groups, taken, [](const auto& g) { return g.first; });
    if (group == groups.end()) group = groups.insert(group, {std::move(taken), {}});
    group->second.push_back(p);
  }
  return groups;
}

}  // namespace detail

}  // namespace ferrite::optim
