#include "ferrite/nn/onnx/tape.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/autograd/module_path.h"
#include "ferrite/nn/onnx/recording.h"

namespace ferrite::onnx {

std::string in_module(const std::string& path) {
  return path.empty() ? "in the network itself" : fmt::format("in '{}'", path);
}

namespace {

/// A hash of the values of a tensor, by which it is noticed that something wrote them.
std::uint64_t fingerprint(const Tensor& t) {
  const tracing::detail::Listening nobody(nullptr);
  const NoGradGuard no_grad;
  const Tensor host = t.cpu().contiguous();
  const auto* const bytes = static_cast<const char*>(host.data_ptr());
  std::uint64_t hash = 0x9e3779b97f4a7c15u;
  for (std::size_t at = 0; at < host.nbytes(); at += sizeof hash) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + at, std::min(sizeof word, host.nbytes() - at));
    hash = std::rotl((hash ^ word) * 0xff51afd7ed558ccdu, 31);
  }
  return hash;
}

}  // namespace

std::size_t Tape::begin(const char* name, std::span<const Tensor> inputs,
                        std::span<const tracing::Attribute> attributes) {
  Event event{name, path(), {attributes.begin(), attributes.end()}, {}, {}};
  for (const Tensor& t : inputs) event.inputs.push_back(t.defined() ? use(t, name) : kNone);
  events.push_back(std::move(event));
  return events.size() - 1;
}

void Tape::end(std::size_t number, std::span<const Tensor> outputs) {
  Event& event = events[number];
  const bool in_place = event.op.ends_with('_');
  if (in_place) event.op.pop_back();
  const bool depends = std::ranges::any_of(event.inputs, [&](int v) {
    return v != kNone && values[static_cast<std::size_t>(v)].depends;
  });
  for (const Tensor& t : outputs) {
    // An op that had nothing to do returned its input.
    const auto known = t.defined() ? numbers_.find(t.impl()) : numbers_.end();
    if (!in_place && known != numbers_.end() &&
        std::ranges::find(event.inputs, known->second) != event.inputs.end())
      event.outputs.push_back(known->second);
    else
      event.outputs.push_back(t.defined() ? add(t, true, number, depends) : kNone);
  }
}

void Tape::entered(const char* name, std::span<const Tensor* const> inputs) {
  if (!inputs.empty()) others.push_back({name, path(), events.size()});
  Range range{.name = name, .path = path(), .serial = ++entered_, .depends = false, .inputs = {}};
  // zeros_like(x) and the like read the shape alone.
  const bool reads = !range.name.ends_with("_like");
  for (const Tensor* const t : inputs) {
    if (!t->defined()) continue;
    range.inputs.emplace_back(*t, t->storage()->version());
    range.depends = range.depends || (reads && depends(*t));
  }
  ranges_.push_back(std::move(range));
}

void Tape::left() noexcept {
  const Range& range = ranges_.back();
  if (range.depends)
    for (const auto& [t, version] : range.inputs)
      if (t.storage()->version() != version) makers_[t.storage().get()] = range.described();
  ranges_.pop_back();
}

void Tape::read(const char* name, const Tensor& t) {
  if (!reader.empty() || !depends(t)) return;
  reader = ranges_.empty() ? fmt::format("{}() {}", name, in_module(path()))
                           : ranges_.back().described();
}

void Tape::allocated(const Storage& storage) {
  if (!ranges_.empty() && ranges_.back().depends)
    makers_[&storage] = ranges_.back().described();
  else
    makers_.erase(&storage);
}

int Tape::use(const Tensor& t, const std::string& by) {
  const auto found = number_of(t);
  if (!found) return add(t, false, events.size(), depends(t));
  const Value& value = values[static_cast<std::size_t>(*found)];
  const auto written = makers_.find(t.storage().get());
  const std::string within =
      ranges_.empty() ? fmt::format("{} {}", by, in_module(path())) : ranges_.front().described();
  const bool left = value.made_in != 0 &&
                    std::ranges::find(ranges_, value.made_in, &Range::serial) == ranges_.end();
  if (left)
    refuse(
        "{} cannot be exported: it does not report what it makes of the network's input, a {} "
        "that {} reads",
        value.made_by, t.describe(), by);
  else if (value.version != t.storage()->version())
    refuse(
        "{} cannot be exported: {} reads a {} that was changed in place through another tensor "
        "of the same memory",
        written != makers_.end() ? written->second : within, by, t.describe());
  else if (value.hash != fingerprint(t))  // kernels that ops call do not count as changes
    refuse(
        "{} cannot be exported: {} reads a {} that was written by something that is not known, "
        "after {}",
        within, by, t.describe(), last_entered());
  return *found;
}

std::string Tape::last_entered() const {
  if (others.empty()) return "the program";
  return fmt::format("{} {}", others.back().op, in_module(others.back().path));
}

std::string Tape::suspect(std::size_t event) const {
  for (std::size_t i = others.size(); i-- > 0;) {
    const std::size_t next = i + 1 < others.size() ? others[i + 1].events : events.size();
    if (others[i].events <= event && std::min(next, event) == others[i].events)
      return fmt::format("{} {}", others[i].op, in_module(others[i].path));
  }
  return last_entered();
}

std::string Tape::path() {
  const char* const path = autograd::detail::module_path;
  return path ? path : "";
}

int Tape::add(const Tensor& t, bool known, std::size_t event, bool depends) {
  const int number = static_cast<int>(values.size());
  const auto made = makers_.find(t.storage().get());
  values.push_back({.tensor = t,
                    .version = t.storage()->version(),
                    .hash = fingerprint(t),
                    .known = known,
                    .first_use = static_cast<int>(event),
                    .depends = depends,
                    .maker = known || made == makers_.end() ? "" : made->second});
  numbers_[t.impl()] = number;
  for (auto range = ranges_.rbegin(); known && !depends && range != ranges_.rend(); ++range)
    if (range->depends) {
      values.back().made_in = range->serial;
      values.back().made_by = range->described();
      break;
    }
  if (depends) in_memory_[t.storage().get()].push_back(number);
  return number;
}

std::optional<int> Tape::number_of(const Tensor& t) const {
  if (const auto found = numbers_.find(t.impl()); found != numbers_.end()) return found->second;
  const auto in_memory = in_memory_.find(t.storage().get());
  if (in_memory == in_memory_.end()) return {};
  const std::vector<int>& all = in_memory->second;
  const auto same = std::find_if(all.rbegin(), all.rend(), [&](int number) {
    const Tensor& other = values[static_cast<std::size_t>(number)].tensor;
    return t.shape() == other.shape() && t.strides() == other.strides() &&
           t.data_ptr() == other.data_ptr() && t.dtype() == other.dtype();
  });
  if (same != all.rend()) return *same;
  return {};
}

bool Tape::depends(const Tensor& t) const {
  if (const auto found = numbers_.find(t.impl()); found != numbers_.end())
    return values[static_cast<std::size_t>(found->second)].depends;
  return in_memory_.contains(t.storage().get()) || makers_.contains(t.storage().get());
}

}  // namespace ferrite::onnx
