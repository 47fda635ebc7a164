// Saving and loading: modules and state dicts.
#include <fmt/format.h>

#include <algorithm>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/closest.h"
#include "ferrite/nn/functional_call.h"
#include "ferrite/nn/module.h"

namespace ferrite::nn {

namespace {

/// The first few parts and the number of the others, or "none".
std::string list(const std::vector<std::string>& parts, std::string_view separator = ", ") {
  constexpr std::size_t kShown = 12;
  std::string out;
  for (std::size_t i = 0; i < std::min(parts.size(), kShown); ++i)
    out += (i > 0 ? std::string(separator) : "") + parts[i];
  if (parts.size() > kShown) out += fmt::format(" and {} more", parts.size() - kShown);
  return out.empty() ? "none" : out;
}

std::vector<std::string> describe(const std::vector<LoadReport::Mismatch>& mismatched) {
  std::vector<std::string> lines;
  for (const auto& m : mismatched)
    lines.push_back(fmt::format("{}: expected {}, got {}", m.name, m.expected, m.got));
  return lines;
}

std::string rename(const std::string& name, const LoadOptions& options) {
  std::string_view rest = name;
  if (rest.starts_with(options.strip_prefix)) rest.remove_prefix(options.strip_prefix.size());
  return rest.starts_with(options.add_prefix) ? std::string(rest)
                                              : options.add_prefix + std::string(rest);
}

constexpr std::string_view kWrapperPrefix = "module.";

bool all_begin(const std::vector<std::string>& names) {
  return !names.empty() &&
         std::ranges::all_of(names, [](const auto& n) { return n.starts_with(kWrapperPrefix); });
}

/// Whether all names of `dict`, but not all names of `own`, have the prefix of a wrapper.
bool is_wrapped(const StateDict& dict, const StateDict& own) {
  const auto begins = [](const auto& entry) { return entry.first.starts_with(kWrapperPrefix); };
  return std::ranges::all_of(dict, begins) && !std::ranges::all_of(own, begins);
}

/// A hint for the error message if all names differ only by the wrapper's prefix; else "".
std::string prefix_hint(const LoadReport& report) {
  if (all_begin(report.unexpected) && !all_begin(report.missing))
    return ". The dict is that of a wrapped model: load it with .strip_prefix = \"module.\"";
  if (all_begin(report.missing) && !all_begin(report.unexpected))
    return ". The module is a wrapped model: load with .add_prefix = \"module.\"";
  return "";
}

/// The name here of what torch.nn.utils.parametrizations.weight_norm and spectral_norm made, such
/// as "fc.parametrizations.weight.original0"; else `name`.
std::string without_parametrization(const std::string& name) {
  constexpr std::string_view kMark = "parametrizations.";
  constexpr std::pair<std::string_view, std::string_view> kParts[] = {
      {".original0", "_g"}, {".original1", "_v"}, {".original", "_orig"},
      {".0._u", "_u"},      {".0._v", "_v"},
  };
  const std::size_t mark = name.rfind(kMark);
  if (mark == std::string::npos || (mark > 0 && name[mark - 1] != '.')) return name;
  for (const auto& [theirs, ours] : kParts)
    if (name.ends_with(theirs)) {
      const std::string tensor = name.substr(mark + kMark.size());
      return name.substr(0, mark) + tensor.substr(0, tensor.size() - theirs.size()) +
             std::string(ours);
    }
  return name;
}

/// Whether `name` is the count of batches of a norm in `own`. Files from before PyTorch 0.4.1 lack
/// it, and PyTorch takes them; with a momentum the count has no effect.
bool may_be_missing(const std::string& name, const StateDict& own) {
  constexpr std::string_view kCount = "num_batches_tracked";
  if (name != kCount && !name.ends_with("." + std::string(kCount))) return false;
  return own.contains(name.substr(0, name.size() - kCount.size()) + "running_mean");
}

/// Whether `saved` is a number in the form of PyTorch before 0.4, [1], for `own` without
/// dimensions.
bool is_old_number(const Tensor& saved, const Tensor& own) {
  return own.dim() == 0 && saved.shape() == Shape{1};
}

/// The dict under the module's names.
StateDict renamed(const StateDict& dict, const StateDict& module, const LoadOptions& options) {
  StateDict out;
  out.reserve(dict.size());
  for (const auto& [name, tensor] : dict) {
    std::string own = rename(name, options);
    if (!module.contains(own))
      if (std::string other = without_parametrization(own); module.contains(other))
        own = std::move(other);
    FERRITE_CHECK(!own.empty() && !out.contains(own), ValueError, "load_state_dict",
                  "after the change of prefixes '{}' becomes '{}', which is {}", name, own,
                  own.empty() ? "empty" : "the name of another tensor");
    out.insert(own, tensor);
  }
  return out;
}

}  // namespace

std::string LoadReport::str() const {
  std::string out = fmt::format("loaded {} tensor{}", loaded, loaded == 1 ? "" : "s");
  const auto add = [&](const char* what, const std::vector<std::string>& names,
                       std::string_view separator) {
    if (!names.empty())
      out += fmt::format("; {} {}: {}", names.size(), what, list(names, separator));
  };
  add("missing from the dict", missing, ", ");
  add("unexpected in the dict", unexpected, ", ");
  add("of another shape", describe(mismatched), ", ");
  return out;
}

StateDict Module::state_dict(std::string_view prefix) const {
  StateDict dict;
  for_each_tensor("", [&](const std::string& name, Kind kind, const Tensor& t) {
    if (kind != Kind::temporary_buffer) dict.insert(std::string(prefix) + name, t.detach());
  });
  return dict;
}

LoadReport Module::load_state_dict(const StateDict& dict, const LoadOptions& options) {
  const StateDict own = state_dict();
  LoadOptions prefixes = options;
  if (wrapped() && options.strip_prefix.empty() && is_wrapped(dict, own))
    prefixes.strip_prefix = kWrapperPrefix;
  const StateDict given = renamed(dict, own, prefixes);
  LoadReport report;
  std::vector<std::pair<Tensor, Tensor>> copies;  // to, from
  for (const auto& [name, tensor] : own) {
    const auto found = given.find(name);
    if (found == given.end()) {
      if (!may_be_missing(name, own)) report.missing.push_back(name);
    } else if (found->second.shape() != tensor.shape() && !is_old_number(found->second, tensor)) {
      report.mismatched.push_back({name, tensor.shape(), found->second.shape()});
    } else {
      FERRITE_CHECK(is_complex(tensor.dtype()) || !is_complex(found->second.dtype()), DTypeError,
                    "load_state_dict",
                    "'{}' is {} in the module and {} in the dict, whose imaginary parts would be "
                    "lost; put its real() into the dict",
                    name, tensor.dtype(), found->second.dtype());
      copies.emplace_back(tensor, tensor.dim() == 0 ? found->second.reshape({}) : found->second);
    }
  }
  for (const auto& [name, tensor] : given)
    if (!own.contains(name)) report.unexpected.push_back(name);
  FERRITE_CHECK(
      options.skip_mismatched || report.mismatched.empty(), ShapeError, "load_state_dict",
      "{} does not fit the dict: {}. With .skip_mismatched = true these keep their values",
      this->name(), list(describe(report.mismatched), "; "));
  FERRITE_CHECK(!options.strict || (report.missing.empty() && report.unexpected.empty()),
                ValueError, "load_state_dict",
                "{} and the dict hold different names: missing from the dict: {}; unexpected in "
                "it: {}. With .strict = false only the common names are loaded{}",
                this->name(), list(report.missing), list(report.unexpected), prefix_hint(report));
  NoGradGuard guard;
  for (const auto& [to, from] : copies) to.copy_(from);
  report.loaded = copies.size();
  return report;
}

// ---- Other tensors for a while

detail::SubstitutedTensors::SubstitutedTensors(Module& module, const StateDict& tensors) {
  std::vector<std::pair<std::string, Tensor*>> places;
  const auto collect = [&](const auto& self, const std::string& prefix, Module& m) -> void {
    for (const Module::Entry& e : m.registry_) {
      const std::string path =
          e.name.empty() || prefix.empty() ? prefix + e.name : prefix + "." + e.name;
      if (e.kind == Module::Kind::module)
        self(self, path, m.module_of(e));
      else if (e.kind != Module::Kind::computed && m.tensor_of(e).defined())
        places.emplace_back(path, &m.tensor_of(e));
    }
  };
  collect(collect, "", module);
  for (const auto& [name, tensor] : tensors) {
    const auto place = std::ranges::find(places, name, [](const auto& p) { return p.first; });
    if (place == places.end()) {
      std::vector<std::string> names;
      for (const auto& [known, at] : places) names.push_back(known);
      fail<ValueError>(
          "functional_call", "{} has no parameter or buffer '{}'{}", module.name(), name,
          names.empty()
              ? ""
              : "; the closest is '" + closest_names(name, std::move(names)).front() + "'");
    }
    FERRITE_CHECK(tensor.defined() && tensor.shape() == place->second->shape(), ShapeError,
                  "functional_call", "expected {} for '{}', got {}", place->second->describe(),
                  name, tensor.defined() ? tensor.describe() : "an undefined tensor");
  }
  for (const auto& [name, tensor] : tensors) {
    const auto place = std::ranges::find(places, name, [](const auto& p) { return p.first; });
    const Tensor original = *place->second;
    for (const auto& [path, at] : places)
      if (at->impl() == original.impl()) {
        originals_.emplace_back(at, original);
        *at = tensor;
      }
  }
}

detail::SubstitutedTensors::~SubstitutedTensors() {
  for (auto it = originals_.rbegin(); it != originals_.rend(); ++it) *it->first = it->second;
}

}  // namespace ferrite::nn
