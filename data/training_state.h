// The state of a training run, under the names used in a checkpoint.
//
//   data::TrainingState state;
//   state.add("model", model).add("optimizer", sgd).add("scheduler", scheduler).add("loader",
//   loader); state.add_generators(); state.add_value("epoch", epoch);
//   data::save_checkpoint("run.safetensors", state);
//   data::load_checkpoint("run.safetensors", state);
#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "ferrite/core/generator.h"
#include "ferrite/core/state_dict.h"
#include "ferrite/data/safetensors.h"

namespace ferrite::data {

/// Modules, optimizers, schedulers, scalers, loaders, samplers, and user types. load_state_dict
/// must throw before it changes anything.
template <class T>
concept Stateful = requires(T& part, const StateDict& state) {
  { part.state_dict() } -> std::convertible_to<StateDict>;
  part.load_state_dict(state);
};

/// Types that a checkpoint stores as text, in the metadata. Floating-point numbers round-trip
/// exactly.
template <class T>
concept StateValue = std::integral<T> || std::floating_point<T> || std::same_as<T, std::string>;

namespace state_value {
/// The value as text.
std::string value_text(std::int64_t value);
std::string value_text(std::uint64_t value);
std::string value_text(double value);
/// The value as text.
template <StateValue T>
std::string to_text(const T& value) {
  if constexpr (std::same_as<T, std::string>)
    return value;
  else if constexpr (std::same_as<T, bool>)
    return value ? "true" : "false";
  else if constexpr (std::floating_point<T>)
    return value_text(static_cast<double>(value));
  else if constexpr (std::signed_integral<T>)
    return value_text(static_cast<std::int64_t>(value));
  else
    return value_text(static_cast<std::uint64_t>(value));
}

// ValueError, naming the value, if `text` does not parse as the type or is out of range.
/// The value of a text: ValueError, which names the value, if it is not one of this type.
std::int64_t to_signed(std::string_view name, std::string_view text, std::int64_t low,
                       std::int64_t high);
/// The value of a text: ValueError, which names the value, if it is not one of this type.
std::uint64_t to_unsigned(std::string_view name, std::string_view text, std::uint64_t high);
/// The value of a text: ValueError, which names the value, if it is not one of this type.
double to_floating(std::string_view name, std::string_view text);
/// The value of a text: ValueError, which names the value, if it is not one of this type.
bool to_bool(std::string_view name, std::string_view text);
/// The value of a text: ValueError, which names the value, if it is not one of this type.
template <StateValue T>
T from_text(std::string_view name, const std::string& text) {
  if constexpr (std::same_as<T, std::string>)
    return text;
  else if constexpr (std::same_as<T, bool>)
    return to_bool(name, text);
  else if constexpr (std::floating_point<T>)
    return static_cast<T>(to_floating(name, text));
  else if constexpr (std::signed_integral<T>)
    return static_cast<T>(
        to_signed(name, text, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
  else
    return static_cast<T>(to_unsigned(name, text, std::numeric_limits<T>::max()));
}
}  // namespace state_value

/// The options of CheckpointManager::resume() and load_checkpoint().
struct ResumeOptions {
  /// Whether a part or value that exists only in the checkpoint or only in the state is a
  /// ValueError; otherwise it is left unchanged and reported.
  bool strict = true;
  /// Whether checksums are verified.
  bool checksums = true;
  /// CheckpointManager::resume() only: if the newest checkpoint is damaged, use the one before it,
  /// and report that.
  bool fall_back = false;
  /// CheckpointManager::resume() only: this step's checkpoint instead of the newest.
  std::optional<std::int64_t> step = {};
};

/// What resume() found and loaded.
struct ResumeReport {
  std::filesystem::path path;
  std::int64_t step = 0;                ///< 0 if the file does not record it
  std::optional<double> metric = {};    ///< the value that save() was given
  std::vector<std::string> restored;    ///< names of parts and values
  std::vector<std::string> missing;     ///< in the state but not in the file
  std::vector<std::string> unexpected;  ///< in the file but not in the state
  std::vector<std::string> skipped;     ///< damaged checkpoints, with their errors
  std::size_t tensors = 0, bytes = 0;   ///< restored
  /// Human-readable, one item per line.
  std::string str() const;
};

class TrainingState {
 public:
  /// Binds a part to a name: its tensors are saved as "<name>.<tensor>". Parts are restored in the
  /// order they were added, and must outlive this object. ValueError for names that are taken,
  /// empty or contain a dot.
  template <Stateful T>
  TrainingState& add(std::string name, T& part) {
    return add_part(
        std::move(name), [&part] { return StateDict(part.state_dict()); },
        [&part](const StateDict& state) { part.load_state_dict(state); });
  }
  TrainingState& add(std::string name, Generator& generator);
  /// The default generators of all devices, as the part "generators". Every process that resumes
  /// continues with those of the process that saved.
  TrainingState& add_generators();

  /// Binds a variable: a counter, a best metric. ValueError for names that are taken, or reserved
  /// for checkpoints ("step", "metric", "parts", "format", "ferrite...").
  template <StateValue T>
  TrainingState& add_value(std::string name, T& variable) {
    return bind_value(
        name, [&variable] { return state_value::to_text(variable); },
        [name, &variable](const std::string& text) -> std::function<void()> {
          return [&variable, value = state_value::from_text<T>(name, text)] { variable = value; };
        });
  }
  /// A value to save, such as the configuration of the run; get() returns it after a resume.
  template <class T>
  TrainingState& set(std::string name, const T& value) {
    if constexpr (std::convertible_to<const T&, std::string_view>)
      return set_text(std::move(name), std::string(std::string_view(value)));
    else
      return set_text(std::move(name), state_value::to_text(value));
  }
  /// IndexError if there is no such value, ValueError if it is not a T.
  template <StateValue T>
  T get(std::string_view name) const {
    return state_value::from_text<T>(name, text_of(name));
  }
  bool contains(std::string_view name) const;

  /// All tensors, sharing memory with the parts.
  StateDict tensors() const;
  /// The values, as text.
  Metadata values() const;
  /// The names of the parts, in order.
  std::vector<std::string> part_names() const;

  /// Restores everything from an open checkpoint, or throws and leaves everything unchanged: the
  /// file is checked as a whole before the first part is touched, and if a part rejects its data,
  /// the parts before it are rolled back (which takes a copy of the state on the host during the
  /// call). ValueError for parts and values that exist on one side only, and exceptions of the
  /// parts, with the part's name; IoError.
  ResumeReport restore(const SafetensorsFile& file, const ResumeOptions& options = {});

 private:
  struct Part {
    std::string name;
    std::function<StateDict()> save;
    std::function<void(const StateDict&)> load;
  };
  /// A value: read() and parse() if it is bound to a variable, else its text.
  struct Value {
    std::string name;
    std::function<std::string()> read;
    std::function<std::function<void()>(const std::string&)> parse;
    std::string text;
  };

  TrainingState& add_part(std::string name, std::function<StateDict()> save,
                          std::function<void(const StateDict&)> load);
  TrainingState& bind_value(std::string name, std::function<std::string()> read,
                            std::function<std::function<void()>(const std::string&)> parse);
  TrainingState& set_text(std::string name, std::string text);
  const std::string& text_of(std::string_view name) const;
  const Value* find_value(std::string_view name) const;
  void append(Value value);
  void compare_names(const SafetensorsFile& file, const std::vector<std::string>& parts_in_file,
                     const ResumeOptions& options, ResumeReport& report) const;
  void load_parts(const std::vector<std::pair<const Part*, StateDict>>& dicts,
                  const std::filesystem::path& path) const;

  std::vector<Part> parts_;
  std::vector<Value> values_;
  std::map<std::string, std::size_t, std::less<>> value_index_;  // a file may have very many
};

/// Writes one checkpoint: the tensors, the values, and the step. Waits for the devices.
void save_checkpoint(const std::filesystem::path& path, const TrainingState& state,
                     std::int64_t step = 0, std::optional<double> metric = {});
/// TrainingState::restore() from a file.
ResumeReport load_checkpoint(const std::filesystem::path& path, TrainingState& state,
                             const ResumeOptions& options = {});

/// The metadata of a checkpoint: the values of the state, and these arguments.
Metadata checkpoint_metadata(const TrainingState& state, std::int64_t step,
                             std::optional<double> metric);
/// The step in that metadata; nothing if it is absent.
std::optional<std::int64_t> step_of(const Metadata& metadata);
/// The metric in a checkpoint's texts.
std::optional<double> metric_of(const Metadata& metadata);

}  // namespace ferrite::data
