#include "ferrite/data/training_state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <exception>
#include <set>

#include "ferrite/core/generator_state.h"
#include "ferrite/core/host_copy.h"
#include "ferrite/data/host.h"

namespace ferrite::data {

namespace {

constexpr const char* kStateOp = "checkpoint";
constexpr const char* kStep = "step";
constexpr const char* kMetric = "metric";
constexpr const char* kParts = "parts";
constexpr const char* kFormat = "format";
constexpr const char* kFormatName = "ferrite.checkpoint.1";

bool is_value_name(std::string_view name) {
  return !name.empty() && name != kStep && name != kMetric && name != kParts && name != kFormat &&
         !name.starts_with(kOwnKeys);
}

void check_value_name(std::string_view name) {
  FERRITE_CHECK(is_value_name(name), ValueError, kStateOp,
                "the name '{}' is not for values: checkpoints use it themselves", name);
}

}  // namespace

// ---- Values

namespace state_value {

namespace {
template <class T>
T parse(std::string_view name, std::string_view text, const char* what) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  FERRITE_CHECK(error == std::errc() && end == text.data() + text.size(), ValueError, kStateOp,
                "value '{}': expected {}, got '{}'", name, what, text);
  return value;
}
}  // namespace

std::string value_text(std::int64_t value) { return fmt::format("{}", value); }
std::string value_text(std::uint64_t value) { return fmt::format("{}", value); }
std::string value_text(double value) { return fmt::format("{}", value); }

std::int64_t to_signed(std::string_view name, std::string_view text, std::int64_t low,
                       std::int64_t high) {
  const auto value = parse<std::int64_t>(name, text, "an integer");
  FERRITE_CHECK(value >= low && value <= high, ValueError, kStateOp,
                "value '{}': expected an integer of {} to {}, got {}", name, low, high, value);
  return value;
}

std::uint64_t to_unsigned(std::string_view name, std::string_view text, std::uint64_t high) {
  const auto value = parse<std::uint64_t>(name, text, "an integer of 0 or more");
  FERRITE_CHECK(value <= high, ValueError, kStateOp,
                "value '{}': expected an integer of 0 to {}, got {}", name, high, value);
  return value;
}

double to_floating(std::string_view name, std::string_view text) {
  return parse<double>(name, text, "a number");
}

bool to_bool(std::string_view name, std::string_view text) {
  FERRITE_CHECK(text == "true" || text == "false", ValueError, kStateOp,
                "value '{}': expected true or false, got '{}'", name, text);
  return text == "true";
}

}  // namespace state_value

// ---- Contents

TrainingState& TrainingState::add_part(std::string name, std::function<StateDict()> save,
                                       std::function<void(const StateDict&)> load) {
  FERRITE_CHECK(!name.empty() && name.find_first_of(".,") == std::string::npos, ValueError,
                kStateOp, "expected a part's name without dots and commas, got '{}'", name);
  FERRITE_CHECK(std::ranges::find(parts_, name, &Part::name) == parts_.end(), ValueError, kStateOp,
                "there is a part '{}' already", name);
  parts_.push_back({std::move(name), std::move(save), std::move(load)});
  return *this;
}

TrainingState& TrainingState::add(std::string name, Generator& generator) {
  const auto save = [&generator] {
    const PhiloxState s = generator.state();
    return StateDict{{"state", from_vector<std::int64_t>({static_cast<std::int64_t>(s.seed),
                                                          static_cast<std::int64_t>(s.offset)},
                                                         {2})}};
  };
  return add_part(std::move(name), save, [&generator](const StateDict& state) {
    const Tensor& numbers = state.at("state");
    FERRITE_CHECK(numbers.dtype() == kInt64 && numbers.numel() == 2, ValueError, "generator",
                  "expected the seed and the offset, int64[2], got {}", numbers.describe());
    const auto v = numbers.to_vector<std::int64_t>();
    generator.set_state({static_cast<std::uint64_t>(v[0]), static_cast<std::uint64_t>(v[1])});
  });
}

TrainingState& TrainingState::add_generators() {
  return add_part("generators", generator_state_dict, load_generator_state_dict);
}

const TrainingState::Value* TrainingState::find_value(std::string_view name) const {
  const auto found = value_index_.find(name);
  return found == value_index_.end() ? nullptr : &values_[found->second];
}

void TrainingState::append(Value value) {
  value_index_.emplace(value.name, values_.size());
  values_.push_back(std::move(value));
}

TrainingState& TrainingState::bind_value(
    std::string name, std::function<std::string()> read,
    std::function<std::function<void()>(const std::string&)> parse) {
  check_value_name(name);
  FERRITE_CHECK(!find_value(name), ValueError, kStateOp, "there is a value '{}' already", name);
  append({std::move(name), std::move(read), std::move(parse), {}});
  return *this;
}

TrainingState& TrainingState::set_text(std::string name, std::string text) {
  check_value_name(name);
  if (auto* value = const_cast<Value*>(find_value(name))) {
    FERRITE_CHECK(!value->read, ValueError, kStateOp,
                  "the value '{}' is that of a variable: change the variable", name);
    value->text = std::move(text);
  } else {
    append({std::move(name), nullptr, nullptr, std::move(text)});
  }
  return *this;
}

const std::string& TrainingState::text_of(std::string_view name) const {
  const Value* value = find_value(name);
  FERRITE_CHECK(value, IndexError, kStateOp, "there is no value '{}'", name);
  FERRITE_CHECK(!value->read, ValueError, kStateOp,
                "the value '{}' is that of a variable: look at the variable", name);
  return value->text;
}

bool TrainingState::contains(std::string_view name) const { return find_value(name) != nullptr; }

StateDict TrainingState::tensors() const {
  StateDict all;
  for (const Part& part : parts_) all.insert_all(part.name + ".", part.save());
  return all;
}

Metadata TrainingState::values() const {
  Metadata all;
  for (const Value& value : values_)
    all.emplace(value.name, value.read ? value.read() : value.text);
  return all;
}

std::vector<std::string> TrainingState::part_names() const {
  std::vector<std::string> names;
  for (const Part& part : parts_) names.push_back(part.name);
  return names;
}

// ---- Restoring

namespace {

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    words.emplace_back(text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return words;
}

/// The parts listed in the file; for a file of another program, the prefixes of its tensor names.
std::vector<std::string> parts_of(const SafetensorsFile& file) {
  if (const auto said = file.metadata().find(kParts); said != file.metadata().end())
    return split(said->second);
  std::vector<std::string> parts;
  std::set<std::string> known;
  for (const std::string& name : file.names())
    if (const auto [part, is_new] = known.insert(name.substr(0, name.find('.'))); is_new)
      parts.push_back(*part);
  return parts;
}

bool contains(const std::vector<std::string>& words, const std::string& word) {
  return std::ranges::find(words, word) != words.end();
}

/// A copy of the dict in separate host memory.
StateDict copied(const StateDict& dict) {
  StateDict copy;
  copy.reserve(dict.size());
  for (const auto& [name, tensor] : dict) {
    const Tensor host = ferrite::detail::readable_on_host(tensor, kStateOp);
    copy.insert(name, gather_strided(host.data_ptr(), host.shape(), host.strides(), host.dtype()));
  }
  return copy;
}

/// Calls f(); adds the part and the file to its exceptions.
template <class F>
void naming(const std::string& part, const std::filesystem::path& path, F&& f) {
  const auto text = [&](const Error& error) {
    return fmt::format("part '{}' of '{}': {}", part, path.string(), error.what());
  };
  try {
    f();
  } catch (const ShapeError& error) {
    fail<ShapeError>(kStateOp, "{}", text(error));
  } catch (const DTypeError& error) {
    fail<DTypeError>(kStateOp, "{}", text(error));
  } catch (const IndexError& error) {
    fail<IndexError>(kStateOp, "{}", text(error));
  } catch (const ValueError& error) {
    fail<ValueError>(kStateOp, "{}", text(error));
  }
}

}  // namespace

void TrainingState::compare_names(const SafetensorsFile& file,
                                  const std::vector<std::string>& parts_in_file,
                                  const ResumeOptions& options, ResumeReport& report) const {
  for (const Part& part : parts_)
    (data::contains(parts_in_file, part.name) ? report.restored : report.missing)
        .push_back(part.name);
  for (const Value& value : values_)
    if (value.parse)
      (file.metadata().contains(value.name) ? report.restored : report.missing)
          .push_back(value.name);
  for (const std::string& part : parts_in_file)
    if (std::ranges::find(parts_, part, &Part::name) == parts_.end())
      report.unexpected.push_back(part);
  FERRITE_CHECK(!options.strict || (report.missing.empty() && report.unexpected.empty()),
                ValueError, kStateOp,
                "'{}' and the state hold different things: missing from the file: {}; unexpected "
                "in it: {}. With .strict = false what there is of both is restored",
                file.path().string(), fmt::join(report.missing, ", "),
                fmt::join(report.unexpected, ", "));
}

void TrainingState::load_parts(const std::vector<std::pair<const Part*, StateDict>>& dicts,
                               const std::filesystem::path& path) const {
  std::vector<std::pair<const Part*, StateDict>> before;
  try {
    for (const auto& [part, dict] : dicts) {
      before.emplace_back(part, copied(part->save()));
      naming(part->name, path, [&, part = part, &dict = dict] { part->load(dict); });
    }
  } catch (...) {
    const std::exception_ptr error = std::current_exception();
    for (const auto& [part, dict] : before)  // in the same order: parts may depend on earlier ones
      try {
        part->load(dict);
      } catch (const Error&) {  // a part that rejects its own state; the first error is more
                                // informative
      }
    std::rethrow_exception(error);
  }
}

ResumeReport TrainingState::restore(const SafetensorsFile& file, const ResumeOptions& options) {
  const Metadata& metadata = file.metadata();
  const std::vector<std::string> parts = parts_of(file);
  ResumeReport report{
      .path = file.path(), .step = step_of(metadata).value_or(0), .metric = metric_of(metadata)};
  compare_names(file, parts, options, report);
  std::vector<std::function<void()>> assignments;
  for (const Value& value : values_)
    if (const auto text = metadata.find(value.name); value.parse && text != metadata.end())
      assignments.push_back(value.parse(text->second));

  const StateDict all = file.load();
  std::vector<std::pair<const Part*, StateDict>> dicts;
  for (const Part& part : parts_) {
    if (!data::contains(parts, part.name)) continue;
    const std::string prefix = part.name + ".";
    StateDict& dict = dicts.emplace_back(&part, StateDict()).second;
    for (const auto& [name, tensor] : all) {
      if (!name.starts_with(prefix)) continue;
      dict.insert(name.substr(prefix.size()), tensor);
      ++report.tensors;
      report.bytes += tensor.nbytes();
    }
  }
  load_parts(dicts, file.path());
  for (const auto& assign : assignments) assign();
  for (const auto& [name, text] : metadata) {
    const Value* known = find_value(name);
    if (is_value_name(name) && !(known && known->read)) set_text(name, text);
  }
  return report;
}

std::string ResumeReport::str() const {
  std::string text = fmt::format("resumed from {}, step {}", path.string(), step);
  if (metric) text += fmt::format(", metric {}", *metric);
  text += fmt::format("\nrestored: {} ({} tensors, {})", fmt::join(restored, ", "), tensors,
                      ferrite::detail::readable_bytes(bytes));
  if (!missing.empty()) text += fmt::format("\nnot in the file: {}", fmt::join(missing, ", "));
  if (!unexpected.empty())
    text += fmt::format("\nin the file alone: {}", fmt::join(unexpected, ", "));
  for (const std::string& damaged : skipped) text += fmt::format("\nskipped: {}", damaged);
  return text;
}

// ---- Files

Metadata checkpoint_metadata(const TrainingState& state, std::int64_t step,
                             std::optional<double> metric) {
  Metadata metadata = state.values();
  metadata[kFormat] = kFormatName;
  metadata[kParts] = fmt::format("{}", fmt::join(state.part_names(), ","));
  metadata[kStep] = state_value::value_text(step);
  if (metric) metadata[kMetric] = state_value::value_text(*metric);
  return metadata;
}

std::optional<std::int64_t> step_of(const Metadata& metadata) {
  const auto found = metadata.find(kStep);
  if (found == metadata.end()) return {};
  return state_value::from_text<std::int64_t>(kStep, found->second);
}

std::optional<double> metric_of(const Metadata& metadata) {
  const auto found = metadata.find(kMetric);
  if (found == metadata.end()) return {};
  return state_value::from_text<double>(kMetric, found->second);
}

void save_checkpoint(const std::filesystem::path& path, const TrainingState& state,
                     std::int64_t step, std::optional<double> metric) {
  save_safetensors(state.tensors(), path, checkpoint_metadata(state, step, metric));
}

ResumeReport load_checkpoint(const std::filesystem::path& path, TrainingState& state,
                             const ResumeOptions& options) {
  return state.restore(SafetensorsFile(path, {.mmap = true, .checksums = options.checksums}),
                       options);
}

}  // namespace ferrite::data
