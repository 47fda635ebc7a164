// Parameters by name, and their freezing.
#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_set>

#include "ferrite/core/closest.h"
#include "ferrite/nn/module.h"

namespace ferrite::nn {

namespace {

void set_requires_grad(const Tensor& parameter, bool on) {
  parameter.set_requires_grad(on);
  if (!on && parameter.grad().defined()) parameter.set_grad({});
}

/// Whether `text` matches `pattern`: '*' matches any text, '?' any character.
bool matches(std::string_view text, std::string_view pattern) {
  std::size_t t = 0, p = 0;
  std::size_t star = std::string_view::npos,
              resume = 0;  // the last '*', and the end of the text that it matches
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++t;
      ++p;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

/// Whether the parameter `path`, or a module that contains it, matches `pattern`.
bool covers(std::string_view pattern, std::string_view path) {
  for (std::size_t end = path.find('.'); end != std::string_view::npos;
       end = path.find('.', end + 1))
    if (matches(path.substr(0, end), pattern)) return true;
  return matches(path, pattern);
}

/// The parts between commas, trimmed of spaces; empty parts are omitted.
std::vector<std::string_view> split(std::string_view list) {
  std::vector<std::string_view> parts;
  while (!list.empty()) {
    const std::size_t comma = std::min(list.find(','), list.size());
    std::string_view part = list.substr(0, comma);
    list.remove_prefix(std::min(comma + 1, list.size()));
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
}

}  // namespace

Module& Module::requires_grad_(bool on) {
  for (const Tensor& p : parameters()) set_requires_grad(p, on);
  return *this;
}

std::vector<Tensor> Module::parameters_like(std::string_view pattern, const char* op) const {
  std::vector<NamedTensor> parameters;  // under all of their names
  for_each_tensor("", [&](const std::string& name, Kind kind, const Tensor& t) {
    if (kind == Kind::parameter) parameters.emplace_back(name, t);
  });
  const std::vector<std::string_view> patterns = split(pattern);
  FERRITE_CHECK(!patterns.empty(), ValueError, op,
                "expected a pattern such as 'layer1' or '*.bias', got '{}'", pattern);
  std::vector<Tensor> found;
  std::unordered_set<const TensorImpl*> seen;
  for (const std::string_view p : patterns) {
    bool any = false;
    for (const auto& [name, tensor] : parameters) {
      if (!covers(p, name)) continue;
      any = true;
      if (seen.insert(tensor.impl()).second) found.push_back(tensor);
    }
    if (any) continue;
    std::vector<std::string> names;
    for (const auto& [name, module] : named_modules())
      if (!module->parameters().empty() && !name.empty()) names.push_back(name);
    for (const auto& [name, tensor] : parameters) names.push_back(name);
    fail<ValueError>(op, "no parameter of {} matches '{}'; the closest names are {}", this->name(),
                     p, fmt::join(closest_names(p, std::move(names), 3), ", "));
  }
  return found;
}

std::vector<Tensor> Module::parameters(std::string_view pattern) const {
  return parameters_like(pattern, "parameters");
}

std::int64_t Module::requires_grad_(bool on, std::string_view pattern) {
  const std::vector<Tensor> found = parameters_like(pattern, "requires_grad_");
  for (const Tensor& tensor : found) set_requires_grad(tensor, on);
  return static_cast<std::int64_t>(found.size());
}

}  // namespace ferrite::nn
