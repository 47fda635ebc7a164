#include "ferrite/parallel/tensor_parallel/split_module.h"

#include <map>
#include <optional>
#include <unordered_set>
#include <utility>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/ops/concat.h"
#include "ferrite/parallel/tensor_parallel/groups.h"

namespace ferrite::parallel {

namespace {

struct Part {
  const nn::Module* layer;
  const SplitModule* split;
  SplitTensor of;
};

/// The parts in a network, identified by their memory: a layer may have several names.
class Parts {
 public:
  explicit Parts(const nn::Module& network) {
    for (const nn::Module* const layer : network.modules()) {
      const auto* const split = dynamic_cast<const SplitModule*>(layer);
      if (!split) continue;
      const StateDict own = layer->state_dict();
      for (SplitTensor& of : split->split_tensors()) {
        const Tensor& t = own.at(of.name);
        parts_.emplace(place_of(t), Part{layer, split, std::move(of)});
      }
    }
  }

  const Part* find(const Tensor& t) const {
    const auto found = parts_.find(place_of(t));
    return found == parts_.end() ? nullptr : &found->second;
  }

 private:
  using Place = std::pair<const Storage*, std::int64_t>;
  static Place place_of(const Tensor& t) { return {t.storage().get(), t.storage_offset()}; }

  std::map<Place, Part> parts_;
};

/// "block.fc1.1.weight" with the part "1.weight" of "weight" is "block.fc1.weight".
std::string whole_name(const std::string& name, const SplitTensor& of) {
  return name.substr(0, name.size() - of.name.size()) + of.whole;
}

Tensor put_together(const Part& part) {
  const NoGradGuard guard;
  const StateDict own = part.layer->state_dict();
  if (const auto group = part.split->group())
    return tensor_parallel::all_gather_parts(own.at(part.of.name), part.of.dim, *group);
  std::vector<Tensor> all;
  for (const SplitTensor& other : part.split->split_tensors())
    if (other.whole == part.of.whole) {
      const Tensor& t = own.at(other.name);
      all.push_back(all.empty() ? t : t.to(all[0].device()));
    }
  return cat(all, part.of.dim);
}

}  // namespace

ParametersBySplit parameters_by_split(const nn::Module& module) {
  const Parts parts(module);
  ParametersBySplit result;
  for (const Tensor& p : module.parameters()) {
    const Part* const part = parts.find(p);
    (part && part->split->group() ? result.split : result.whole).push_back(p);
  }
  return result;
}

StateDict full_state_dict(const nn::Module& module) {
  const Parts parts(module);
  std::map<std::pair<const nn::Module*, std::string>, Tensor> wholes;  // for layers encountered
                                                                       // again
  StateDict full;
  for (const auto& [name, tensor] : module.state_dict()) {
    const Part* const part = parts.find(tensor);
    if (!part) {
      full.insert(name, tensor);
      continue;
    }
    const std::string whole = whole_name(name, part->of);
    if (full.contains(whole)) continue;
    Tensor& t = wholes[{part->layer, part->of.whole}];
    if (!t.defined()) t = put_together(*part);
    full.insert(whole, t);
  }
  return full;
}

nn::LoadReport load_full_state_dict(nn::Module& module, const StateDict& dict, bool strict) {
  const Parts parts(module);
  StateDict own;
  std::unordered_set<std::string> taken;
  for (const auto& [name, tensor] : module.state_dict()) {
    const Part* const part = parts.find(tensor);
    if (!part) continue;
    const SplitTensor& of = part->of;
    const std::string whole = whole_name(name, of);
    taken.insert(whole);
    const auto found = dict.find(whole);
    if (found == dict.end()) continue;
    FERRITE_CHECK(found->second.shape() == of.shape, ShapeError, "load_full_state_dict",
                  "{} does not fit the dict: {}: expected {}, got {}", module.name(), whole,
                  of.shape, found->second.shape());
    own.insert(name, found->second.detach().narrow(of.dim, of.begin, tensor.size(of.dim)));
  }
  for (const auto& [name, tensor] : dict)
    if (!taken.contains(name)) own.insert(name, tensor);
  return module.load_state_dict(own, {.strict = strict});
}

}  // namespace ferrite::parallel
