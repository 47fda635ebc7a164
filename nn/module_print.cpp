// Printing of modules.
#include <fmt/format.h>

#include <ostream>

#include "ferrite/core/profiler/type_name.h"
#include "ferrite/nn/module.h"

namespace ferrite::nn {

namespace {

std::string indent(std::string_view text) {
  std::string out;
  for (char c : text) {
    out += c;
    if (c == '\n') out += "  ";
  }
  return out;
}

}  // namespace

std::string Module::name_of(const std::type_info& type) {
  return profiler::detail::type_name(type);
}

std::string Module::str() const {
  const std::string extra = extra_repr();
  const std::vector<NamedModule> children = named_children();
  if (children.empty() && extra.find('\n') == std::string::npos)
    return fmt::format("{}({})", name(), extra);
  std::string lines = extra.empty() ? "" : "\n" + extra;
  for (const auto& [name, child] : children)
    lines += fmt::format("\n({}): {}", name.empty() ? "module" : name, child->str());
  return fmt::format("{}({}\n)", name(), indent(lines));
}

std::ostream& operator<<(std::ostream& out, const Module& module) {
  const std::int64_t all = module.num_parameters(), trainable = module.num_trainable_parameters();
  out << module.str() << "\n" << all << " parameters";
  if (trainable != all) out << ", " << trainable << " of them trainable";
  return out;
}

}  // namespace ferrite::nn
