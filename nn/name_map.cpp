#include "ferrite/nn/name_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <regex>
#include <set>
#include <unordered_map>
#include <unordered_set>

namespace ferrite::nn {

namespace {

constexpr const char* kMapOp = "load_state_dict";
constexpr std::size_t kLongestName = 1000;  // std::regex recurses for each character
// Each chain of wrappers is tried on all names, which a file may have made up.
constexpr std::size_t kLongestChain = 8, kMostChains = 64;

using MappedNames = std::vector<std::optional<std::string>>;

std::regex compiled(const std::string& pattern) {
  try {
    return std::regex(pattern, std::regex::ECMAScript | std::regex::optimize);
  } catch (const std::regex_error& error) {
    fail<ValueError>("NameMap", "'{}' is not a regular expression: {}", pattern, error.what());
  }
}

void check_length(const std::string& name) {
  FERRITE_CHECK(
      name.size() <= kLongestName, ValueError, kMapOp,
      "expected names of at most {} bytes for regular expressions, got one of {}: '{}...'",
      kLongestName, name.size(), name.substr(0, 100));
}

/// Removes the parts of a path that are wrappers inside a model.
std::string without_inner_wrappers(std::string_view name) {
  constexpr std::array<std::string_view, 3> kInner = {"_orig_mod.", "_checkpoint_wrapped_module.",
                                                      "_fsdp_wrapped_module."};
  std::string out;
  for (std::size_t at = 0; at < name.size();) {
    const auto part = at == 0 || name[at - 1] != '.'
                          ? kInner.end()
                          : std::ranges::find_if(kInner, [&](std::string_view inner) {
                              return name.substr(at).starts_with(inner);
                            });
    if (part != kInner.end())
      at += part->size();
    else
      out += name[at++];
  }
  return out;
}

/// A chain of wrappers in front of a name, by the words' positions in their list.
using Wrapping = std::vector<std::size_t>;

/// The chains with which the name begins, with their lengths, from none on.
std::map<Wrapping, std::size_t> wrappings_of(const std::string& name,
                                             const std::vector<std::string>& words) {
  std::map<Wrapping, std::size_t> all = {{{}, 0}};
  Wrapping chain;
  for (std::size_t at = 0, dot; chain.size() < kLongestChain; at = dot + 1) {
    dot = name.find('.', at);
    if (dot == std::string::npos) break;
    const auto word = std::ranges::find(words, std::string_view(name).substr(at, dot - at));
    if (word == words.end()) break;
    chain.push_back(static_cast<std::size_t>(word - words.begin()));
    all.emplace(chain, dot + 1);
  }
  return all;
}

std::string text_of(const Wrapping& wrapping, const std::vector<std::string>& words) {
  std::string text;
  for (const std::size_t i : wrapping) text += words[i] + ".";
  return text;
}

MappedNames stripped(const MappedNames& names, const std::string& prefix) {
  MappedNames out = names;
  for (auto& name : out) {
    if (!name) continue;
    if (name->starts_with(prefix))
      name = without_inner_wrappers(std::string_view(*name).substr(prefix.size()));
    else
      name.reset();
  }
  return out;
}

}  // namespace

// ---- Rules

NameMap& NameMap::each(std::function<std::optional<std::string>(const std::string&)> f) {
  rules_.push_back(
      std::make_shared<const Rule>([f = std::move(f)](Names& names, const Known&, const Rest&) {
        for (auto& name : names)
          if (name) name = f(*name);
      }));
  return *this;
}

NameMap& NameMap::exact(std::string from, std::string to) {
  return table({{std::move(from), std::move(to)}});
}

NameMap& NameMap::table(const std::vector<std::pair<std::string, std::string>>& names) {
  std::unordered_map<std::string, std::string> map;
  for (const auto& [from, to] : names)
    FERRITE_CHECK(map.emplace(from, to).second, ValueError, "NameMap", "the table has '{}' twice",
                  from);
  return each([map = std::move(map)](const std::string& name) {
    const auto found = map.find(name);
    return found == map.end() ? name : found->second;
  });
}

NameMap& NameMap::prefix(std::string from, std::string to) {
  return each([from = std::move(from), to = std::move(to)](const std::string& name) {
    return name.starts_with(from) ? to + name.substr(from.size()) : name;
  });
}

NameMap& NameMap::regex(const std::string& pattern, std::string to) {
  return each([expression = compiled(pattern), to = std::move(to)](const std::string& name) {
    check_length(name);
    return std::regex_replace(name, expression, to);
  });
}

NameMap& NameMap::drop(const std::string& pattern) {
  return each([expression = compiled(pattern)](const std::string& name) {
    check_length(name);
    return std::regex_match(name, expression) ? std::nullopt : std::optional(name);
  });
}

NameMap& NameMap::then(const NameMap& other) {
  const auto rules = other.rules_;  // `other` may be this
  rules_.insert(rules_.end(), rules.begin(), rules.end());
  return *this;
}

std::vector<std::string> NameMap::usual_wrappers() {
  return {"module",  "model",   "_orig_mod", "_forward_module", "state_dict", "model_state_dict",
          "network", "net",     "backbone",  "encoder",         "encoder_q",  "student",
          "teacher", "weights", "model_ema", "state_dict_ema"};
}

NameMap& NameMap::unwrap(std::vector<std::string> words) {
  rules_.push_back(std::make_shared<const Rule>(
      [words = std::move(words)](Names& names, const Known& known, const Rest& rest) {
        std::set<Wrapping> wrappings = {{}};  // none, then in the order of preference
        for (const auto& name : names)
          if (name)
            for (const auto& entry : wrappings_of(*name, words))
              if (wrappings.size() < kMostChains) wrappings.insert(entry.first);
        Names best;
        std::ptrdiff_t most = -1;
        for (const Wrapping& wrapping : wrappings) {
          Names candidate = stripped(names, text_of(wrapping, words));
          Names result = candidate;
          rest(result);
          const auto count =
              std::ranges::count_if(result, [&](const auto& n) { return n && known(*n); });
          if (count <= most) continue;
          most = count;
          best = std::move(candidate);
        }
        names = std::move(best);
      }));
  return *this;
}

// ---- Ready maps

NameMap NameMap::timm() {
  std::vector<std::string> words = usual_wrappers();
  std::erase_if(words, [](const auto& w) { return w == "state_dict_ema" || w == "model_ema"; });
  words.insert(words.begin(), {"state_dict_ema", "model_ema"});
  return NameMap().unwrap(std::move(words));
}

NameMap NameMap::transformers_resnet() {
  NameMap map;
  map.unwrap().prefix("resnet.", "");
  map.prefix("embedder.embedder.convolution.", "conv1.");
  map.prefix("embedder.embedder.normalization.", "bn1.");
  map.prefix("classifier.1.", "fc.");
  for (int stage = 0; stage < 4; ++stage) {
    const std::string begin = fmt::format("^encoder\\.stages\\.{}\\.layers\\.(\\d+)\\.", stage);
    const std::string block = fmt::format("layer{}.$1.", stage + 1);
    map.regex(begin + "shortcut\\.convolution\\.", block + "downsample.0.");
    map.regex(begin + "shortcut\\.normalization\\.", block + "downsample.1.");
    for (int layer = 0; layer < 3; ++layer) {
      const std::string inner = fmt::format("{}layer\\.{}\\.", begin, layer);
      map.regex(inner + "convolution\\.", fmt::format("{}conv{}.", block, layer + 1));
      map.regex(inner + "normalization\\.", fmt::format("{}bn{}.", block, layer + 1));
    }
  }
  return map;
}

// ---- Use

void NameMap::run(Names& names, const Known& known, std::size_t first) const {
  for (std::size_t i = first; i < rules_.size(); ++i)
    (*rules_[i])(names, known, [&, i](Names& rest) { run(rest, known, i + 1); });
}

std::vector<std::optional<std::string>> NameMap::names(const std::vector<std::string>& from,
                                                       const Module& module) const {
  std::unordered_set<std::string> own;
  for (const auto& [name, tensor] : module.state_dict()) own.insert(name);
  Names names(from.begin(), from.end());
  run(
      names, [&](const std::string& name) { return own.contains(name); }, 0);
  return names;
}

std::string NameMapReport::str() const {
  std::string out =
      fmt::format("loaded {} tensor{}\n", matched.size(), matched.size() == 1 ? "" : "s");
  const auto arrow = [](const Match& m) {
    return m.from == m.to ? m.from : fmt::format("{} -> {}", m.from, m.to);
  };
  const auto add = [&](std::string_view what, const auto& list, const auto& line) {
    if (list.empty()) return;
    out += fmt::format("{} {}:\n", list.size(), what);
    for (const auto& item : list) out += fmt::format("  {}\n", line(item));
  };
  const auto same = [](const std::string& name) { return name; };
  add("matched", matched, arrow);
  add("missing from the dict", missing, same);
  add("unexpected in the dict", unexpected, arrow);
  add("of another shape", mismatched, [&](const Mismatch& m) {
    return fmt::format("{}: expected {}, got {}", arrow({m.from, m.to}), m.expected, m.got);
  });
  add("left out", left_out, same);
  return out;
}

namespace {

/// For messages: without what went well, and of each list the first few.
std::string short_text(NameMapReport report) {
  constexpr std::size_t kShown = 12;
  report.matched.clear();
  report.left_out.clear();
  std::string dropped;
  const auto shorten = [&](auto& list, std::string_view what) {
    if (list.size() <= kShown) return;
    dropped += fmt::format("  and {} more {}\n", list.size() - kShown, what);
    list.resize(kShown);
  };
  shorten(report.missing, "missing");
  shorten(report.unexpected, "unexpected");
  shorten(report.mismatched, "of another shape");
  const std::string text = report.str();
  return text.substr(text.find('\n') + 1) + dropped;
}

}  // namespace

NameMapReport load_state_dict(Module& module, const StateDict& dict, const NameMap& map,
                              const LoadOptions& options) {
  FERRITE_CHECK(options.strip_prefix.empty() && options.add_prefix.empty(), ValueError, kMapOp,
                "with a NameMap the changes of prefixes are rules: .prefix(\"{}\", \"{}\")",
                options.strip_prefix, options.add_prefix);
  std::vector<std::string> from;
  for (const auto& [name, tensor] : dict) from.push_back(name);
  const auto to = map.names(from, module);
  StateDict renamed;
  std::unordered_map<std::string, std::string> origins;
  NameMapReport report;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (!to[i]) {
      report.left_out.push_back(from[i]);
      continue;
    }
    FERRITE_CHECK(!to[i]->empty(), ValueError, kMapOp, "the name '{}' becomes empty", from[i]);
    const auto [origin, is_new] = origins.emplace(*to[i], from[i]);
    FERRITE_CHECK(is_new, ValueError, kMapOp, "'{}' and '{}' both become '{}'", origin->second,
                  from[i], *to[i]);
    renamed.insert(*to[i], dict.at(from[i]));
  }
  const StateDict own = module.state_dict();
  for (const auto& [name, tensor] : own) {
    const auto found = renamed.find(name);
    if (found == renamed.end())
      report.missing.push_back(name);
    else if (found->second.shape() == tensor.shape())
      report.matched.push_back({origins.at(name), name});
    else
      report.mismatched.push_back({origins.at(name), name, tensor.shape(), found->second.shape()});
  }
  for (const auto& [name, tensor] : renamed)
    if (!own.contains(name)) report.unexpected.push_back({origins.at(name), name});
  FERRITE_CHECK(
      options.skip_mismatched || report.mismatched.empty(), ShapeError, kMapOp,
      "{} does not fit the dict; with .skip_mismatched = true tensors of another shape keep "
      "their values:\n{}",
      module.name(), short_text(report));
  FERRITE_CHECK(
      !options.strict || (report.missing.empty() && report.unexpected.empty()), ValueError, kMapOp,
      "{} and the dict hold different names; with .strict = false only the common ones are "
      "loaded:\n{}",
      module.name(), short_text(report));
  module.load_state_dict(renamed, {.strict = false, .skip_mismatched = true});
  return report;
}

}  // namespace ferrite::nn
