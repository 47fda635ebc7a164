// Records the ops that one run of a network reports (core/tracing.h), and which of its values
// depend on the input.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ferrite/core/storage.h"
#include "ferrite/core/tracing.h"

namespace ferrite::onnx {

/// "in 'layer1.0'", for errors.
std::string in_module(const std::string& path);

/// The ops that one run of the network reported, and the values that they read and made.
class Tape : public tracing::Recorder {
 public:
  struct Value {
    Tensor tensor;
    std::uint32_t version;
    std::uint64_t hash;
    bool known;  // an input, or the result of an op
    int first_use = 0;
    bool depends = false;  // on the network's input
    std::string maker;     // the unreported op that computed it from the network's input
    // The function of ops/ that was running when a reported op made this value, if that function
    // reads the network's input but the op does not. The function may have written values that
    // depend on the input into it. 0: none.
    std::size_t made_in = 0;
    std::string made_by;
  };
  struct Event {
    std::string op, path;
    std::vector<tracing::Attribute> attributes;
    std::vector<int> inputs, outputs;
  };
  struct Unreported {
    std::string op, path;
    std::size_t events;  // reported before it
  };

  explicit Tape(const std::vector<Tensor>& inputs) {
    for (const Tensor& t : inputs) add(t, true, 0, true);
  }

  std::size_t begin(const char* name, std::span<const Tensor> inputs,
                    std::span<const tracing::Attribute> attributes) override;
  void end(std::size_t number, std::span<const Tensor> outputs) override;
  void entered(const char* name, std::span<const Tensor* const> inputs) override;
  void left() noexcept override;
  void read(const char* name, const Tensor& t) override;
  void allocated(const Storage& storage) override;

  /// The number of the value that `t` holds now; `by` names its reader in errors.
  int use(const Tensor& t, const std::string& by);

  /// The last function of ops/ that was called and does not report itself, for errors.
  std::string last_entered() const;
  /// The last function called before event `event` during which no op was reported, for errors.
  std::string suspect(std::size_t event) const;

  std::vector<Value> values;
  std::vector<Event> events;
  std::vector<Unreported> others;
  std::string reader;   // reads values that depend on the input on the host; empty: none does
  std::string refusal;  // why this cannot be exported, once that is known

 private:
  template <class... Args>
  void refuse(fmt::format_string<Args...> format, Args&&... args) {
    if (refusal.empty()) refusal = fmt::format(format, std::forward<Args>(args)...);
  }

  /// A function of ops/ that is running.
  struct Range {
    std::string_view name;
    std::string path;
    std::size_t serial;
    bool depends;                                          // on the network's input
    std::vector<std::pair<Tensor, std::uint32_t>> inputs;  // with their versions before

    std::string described() const { return fmt::format("{} {}", name, in_module(path)); }
  };

  static std::string path();
  int add(const Tensor& t, bool known, std::size_t event, bool depends);
  /// The number of the value in `t`, if it was recorded as this tensor or as another one with the
  /// same memory and layout, such as detach() returns.
  std::optional<int> number_of(const Tensor& t) const;
  /// Whether the values of `t` depend on the input, according to the ops reported so far.
  bool depends(const Tensor& t) const;

  std::unordered_map<const TensorImpl*, int> numbers_;  // values keep the tensors alive
  // The values in each storage that depend on the input.
  std::unordered_map<const Storage*, std::vector<int>> in_memory_;
  // The unreported op that wrote values depending on the input into a storage, for each storage.
  std::unordered_map<const Storage*, std::string> makers_;
  std::vector<Range> ranges_;
  std::size_t entered_ = 0;
};

}  // namespace ferrite::onnx
