// The recurrent layers RNN, LSTM and GRU, and their single steps RNNCell, LSTMCell and GRUCell.
// They consist of ops: one product for the input of all steps, then a loop over the steps.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "ferrite/core/choice.h"
#include "ferrite/core/named_tuple.h"
#include "ferrite/nn/module.h"
#include "ferrite/nn/packed_sequence.h"

namespace ferrite::nn {

using utils::rnn::PackedSequence;

/// The nonlinearity of an RNN: tanh or relu.
enum class Nonlinearity : std::uint8_t { tanh, relu };

}  // namespace ferrite::nn

namespace ferrite {
template <>
struct detail::ChoiceNames<nn::Nonlinearity> {
  static constexpr const char* kOption = "nonlinearity";
  static constexpr std::pair<const char*, nn::Nonlinearity> kNames[] = {
      {"tanh", nn::Nonlinearity::tanh}, {"relu", nn::Nonlinearity::relu}};
};
}  // namespace ferrite

namespace ferrite::nn {

struct RNNOptions {
  std::int64_t num_layers = 1;  ///< each layer reads the output of the previous one
  Choice<Nonlinearity> nonlinearity = Nonlinearity::tanh;  ///< of an RNN: tanh or relu
  bool bias = true;
  bool batch_first = false;  ///< input and output are [N, T, *], not [T, N, *]; states stay as
                             ///< they are
  double dropout = 0;  ///< probability of dropping an output of any layer but the last, in training
  bool bidirectional = false;  ///< a second set of weights processes each sequence in reverse
  /// Of an LSTM, if above 0: the size of its hidden states, which are then projections of
  /// hidden_size values (Sak et al. 2014).
  std::int64_t proj_size = 0;
};

/// The weights of one layer in one direction: [gates * hidden_size, input size], [gates *
/// hidden_size, hidden_size] and two of [gates * hidden_size], undefined without bias. With
/// proj_size, weight_hh is [gates * hidden_size, proj_size], and weight_hr, otherwise undefined, is
/// [proj_size, hidden_size].
struct RNNWeights {
  Tensor weight_ih;
  Tensor weight_hh;
  Tensor bias_ih;
  Tensor bias_hh;
  Tensor weight_hr = {};  ///< undefined without proj_size
};

/// The common base of RNN, LSTM and GRU, with D = 2 where bidirectional, else 1:
///
/// - the input is [T, N, input_size], or [T, input_size] without a batch;
/// - the output is [T, N, D * hidden_size]: the hidden states of the last layer at all steps; where
///   bidirectional, those of both directions side by side in the last dimension;
/// - initial and last states are [D * num_layers, N, hidden_size]: layer 0, layer 0 in reverse,
///   layer 1, and so on;
/// - with proj_size, which an LSTM takes, hidden states have this size instead of hidden_size, as
///   has the output; cell states do not.
///
/// `batch_first` makes input and output [N, T, *], and leaves the states as they are. Without a
/// batch none of them has N. States that are not given, or undefined, are zeros. ShapeError for
/// inputs and states of other shapes and for T = 0; DTypeError and DeviceError unless input and
/// weights agree.
///
/// Sequences of different lengths are a PackedSequence (nn/packed_sequence.h), with data [sum of
/// the lengths, input_size]. The output is one, too; states are in the order of the batch that was
/// packed, and the last state of a sequence is the one after its own last step, in reverse after
/// its first. Packed sequences are not exported to ONNX (ValueError).
///
/// The constructors throw ValueError for sizes and layers below 1, for a dropout outside [0, 1],
/// and for a proj_size that is below 0, not below hidden_size, or not of an LSTM.
///
/// Parameters are named as PyTorch's: weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0, with
/// proj_size weight_hr_l0 and, for the other direction, weight_ih_l0_reverse...
class RNNBase : public Module {
 public:
  /// Uniform within +-1 / sqrt(hidden_size).
  void reset_parameters();
  std::string extra_repr() const override;
  std::optional<std::int64_t> multiply_adds(std::span<const Tensor> inputs,
                                            std::span<const Tensor> outputs) const override;
  const RNNOptions& options() const { return options_; }

 protected:
  /// h, and c for an LSTM.
  using States = std::array<Tensor, 2>;
  /// What all layers give.
  struct Result {
    Tensor output;  ///< the result of each step, of the last layer
    States last;    ///< the states after the last step, of all layers and directions
  };
  /// The same of packed sequences.
  struct PackedResult {
    PackedSequence output;  ///< the result of each step, of the last layer
    States last;  ///< the states after the last step of each sequence, in the order of the batch
  };

  RNNBase(const char* name, int gates, int states, std::int64_t input_size,
          std::int64_t hidden_size, const RNNOptions& options);
  /// Undefined initial states are zeros.
  Result run(const Tensor& input, const States& initial);
  PackedResult run(const PackedSequence& input, const States& initial);

  /// The contribution of the input to each step, for all steps.
  virtual Tensor project(const Tensor& input, const RNNWeights& weights) const = 0;
  /// Advances the states by one step; `projected` is the input's contribution to it.
  virtual void step(const Tensor& projected, const RNNWeights& weights, States& states) const = 0;
  /// All steps of x [T, N, *] in one direction: the output [T, N, size of h], and in `states` the
  /// last ones in place of the first ones.
  virtual Tensor run_steps(const Tensor& x, const RNNWeights& weights, States& states,
                           bool reverse) const;
  /// PyTorch's word for what it computes: "LSTM", "GRU", "RNN_TANH", "RNN_RELU".
  virtual const char* mode() const = 0;

 private:
  std::int64_t directions() const { return options_.bidirectional ? 2 : 1; }
  /// Computes a layer in one direction, as run_steps().
  using Direction =
      std::function<Tensor(const Tensor& x, const RNNWeights&, States&, bool reverse)>;
  Result run_traced(const Tensor& input, const States& initial);
  /// All layers of N sequences, whose initial states are [D * num_layers, N, *] or undefined.
  Result run_layers(Tensor x, std::int64_t sequences, const States& initial,
                    const Direction& run_direction) const;
  /// run_steps() of packed sequences, x [rows, *].
  Tensor run_packed_steps(const Tensor& x, std::span<const std::int64_t> batch_sizes,
                          const RNNWeights& weights, States& states, bool reverse) const;
  /// The tensors of names_. parameters() leaves out those that weight_norm() computes, and repeats.
  std::vector<Tensor> all_weights() const;
  /// The weights of the cell, as the steps take them.
  RNNWeights weights(std::span<const Tensor> all, std::int64_t layer, std::int64_t direction) const;
  /// ShapeError unless the state k (h, c) of N sequences is undefined or of its shape.
  void check_state(std::size_t k, const Tensor& state, const Tensor& input, std::int64_t sequences,
                   bool batched) const;
  /// The number of values of a hidden state.
  std::int64_t output_size() const {
    return options_.proj_size > 0 ? options_.proj_size : hidden_size_;
  }

  int states_;
  std::int64_t input_size_, hidden_size_;
  RNNOptions options_;
  std::vector<std::string> names_;  // of the weights, layer by layer
};

/// The states of an LSTM or an LSTMCell: a NamedTuple (core/named_tuple.h), like the results below.
struct LSTMState {
  /// The hidden state: [D * num_layers, N, H], where H is proj_size if that is above 0, else
  /// hidden_size; of a cell [N, hidden_size].
  Tensor h;
  Tensor c;  ///< the cell state: [D * num_layers, N, hidden_size]; of a cell [N, hidden_size]
  /// The parts, for structured bindings.
  auto fields() { return std::tie(h, c); }
  auto fields() const { return std::tie(h, c); }
  operator std::tuple<Tensor&, Tensor&>() && { return fields(); }
  operator std::tuple<Tensor, Tensor>() const { return fields(); }
};

/// `auto [output, state] = lstm(x); auto [h_n, c_n] = state;`, or `std::tie(output, h_n, c_n) =
/// lstm(x)`.
struct LSTMOutput {
  /// [T, N, D * H], where H is proj_size if that is above 0, else hidden_size: the hidden states of
  /// the last layer.
  Tensor output;
  LSTMState state;  ///< after the last step, of all layers and directions
  /// The parts, for structured bindings.
  auto fields() { return std::tie(output, state); }
  auto fields() const { return std::tie(output, state); }
  operator std::tuple<Tensor&, LSTMState&>() && { return fields(); }
  operator std::tuple<Tensor&, Tensor&, Tensor&>() && { return {output, state.h, state.c}; }
};

/// The same of packed sequences.
struct LSTMPackedOutput {
  PackedSequence output;  ///< data: [sum of the lengths, D * H]
  LSTMState state;        ///< after the last step of each sequence, in the order of the batch
  /// The parts, for structured bindings.
  auto fields() { return std::tie(output, state); }
  auto fields() const { return std::tie(output, state); }
  operator std::tuple<PackedSequence&, LSTMState&>() && { return fields(); }
};

/// Long short-term memory (Hochreiter and Schmidhuber 1997), with PyTorch's order of gates: input,
/// forget, cell, output. With the option proj_size, hidden states are weight_hr times what they
/// would be without. `lstm(x)` starts from zeros, `lstm(x, {h_0, c_0})` from these states; both
/// give the output and the last states. Called through Module, as in a Sequential, it returns only
/// the output. Shapes and errors are those of RNNBase.
///
///   nn::LSTM lstm(8, 16, {.num_layers = 2, .batch_first = true, .bidirectional = true});
///   auto [output, state] = lstm(randn({4, 10, 8}));  // output [4, 10, 32]
///   auto [h_n, c_n] = state;                         // [2 layers * 2 directions, 4, 16] each
class LSTM : public Cloneable<LSTM, RNNBase> {
 public:
  LSTM(std::int64_t input_size, std::int64_t hidden_size, const RNNOptions& options = {});
  Tensor forward(const Tensor& input) override;
  LSTMOutput forward(const Tensor& input, const LSTMState& state);
  /// With the states as libtorch takes them: `lstm(x, std::make_tuple(h, c))`.
  template <std::same_as<std::tuple<Tensor, Tensor>> States>
  LSTMOutput forward(const Tensor& input, const States& state) {
    return forward(input, LSTMState{std::get<0>(state), std::get<1>(state)});
  }
  template <std::same_as<std::tuple<Tensor, Tensor>> States>
  LSTMOutput operator()(const Tensor& input, const States& state) {
    return (*this)(input, LSTMState{std::get<0>(state), std::get<1>(state)});
  }
  LSTMOutput operator()(const Tensor& input, const LSTMState& state = {}) {
    return Cloneable::operator()(input, state);
  }
  LSTMPackedOutput forward(const PackedSequence& input, const LSTMState& state = {});
  LSTMPackedOutput operator()(const PackedSequence& input, const LSTMState& state = {}) {
    return Cloneable::operator()(input, state);
  }

 protected:
  Tensor project(const Tensor& input, const RNNWeights& weights) const override;
  void step(const Tensor& projected, const RNNWeights& weights, States& states) const override;
  Tensor run_steps(const Tensor& x, const RNNWeights& weights, States& states,
                   bool reverse) const override;
  const char* mode() const override { return "LSTM"; }
};

/// The result of a GRU or an RNN: `auto [output, h_n] = gru(x)`.
struct GRUOutput {
  Tensor output;  ///< [T, N, D * hidden_size]: the hidden states of the last layer
  Tensor h_n;     ///< [D * num_layers, N, hidden_size]: the hidden states after the last step
  /// The parts, for structured bindings.
  auto fields() { return std::tie(output, h_n); }
  auto fields() const { return std::tie(output, h_n); }
  operator std::tuple<Tensor&, Tensor&>() && { return fields(); }
  operator std::tuple<Tensor, Tensor>() const { return fields(); }
};
using RNNOutput = GRUOutput;  ///< the hidden states of all steps, and those after the last one

/// The same of packed sequences.
struct GRUPackedOutput {
  PackedSequence output;  ///< data: [sum of the lengths, D * hidden_size]
  Tensor h_n;             ///< after the last step of each sequence, in the order of the batch
  /// The parts, for structured bindings.
  auto fields() { return std::tie(output, h_n); }
  auto fields() const { return std::tie(output, h_n); }
  operator std::tuple<PackedSequence&, Tensor&>() && { return fields(); }
};
using RNNPackedOutput = GRUPackedOutput;  ///< of packed sequences

/// h = tanh(weight_ih x + bias_ih + weight_hh h + bias_hh), or with relu (Elman 1990). `rnn(x)`
/// starts from zeros, `rnn(x, h_0)` from this state; called through Module it returns only the
/// output. Shapes and errors are those of RNNBase.
///
///   nn::RNN rnn(8, 16, {.num_layers = 2, .nonlinearity = "relu"});
///   auto [output, h_n] = rnn(randn({10, 4, 8}));  // [10, 4, 16] and [2, 4, 16]
class RNN : public Cloneable<RNN, RNNBase> {
 public:
  RNN(std::int64_t input_size, std::int64_t hidden_size, const RNNOptions& options = {});
  RNN(std::int64_t input_size, std::int64_t hidden_size, RNNOptions options,
      Choice<Nonlinearity> nonlinearity);
  Tensor forward(const Tensor& input) override;
  RNNOutput forward(const Tensor& input, const Tensor& h_0);
  RNNOutput operator()(const Tensor& input, const Tensor& h_0 = {}) {
    return Cloneable::operator()(input, h_0);
  }
  RNNPackedOutput forward(const PackedSequence& input, const Tensor& h_0 = {});
  RNNPackedOutput operator()(const PackedSequence& input, const Tensor& h_0 = {}) {
    return Cloneable::operator()(input, h_0);
  }

 protected:
  Tensor project(const Tensor& input, const RNNWeights& weights) const override;
  void step(const Tensor& projected, const RNNWeights& weights, States& states) const override;
  const char* mode() const override {
    return options().nonlinearity == Nonlinearity::relu ? "RNN_RELU" : "RNN_TANH";
  }
};

/// Gated recurrent units (Cho et al. 2014), with PyTorch's order of gates: reset, update, new.
/// `gru(x)` starts from zeros, `gru(x, h_0)` from this state; called through Module it returns only
/// the output. Shapes and errors are those of RNNBase.
///
///   nn::GRU gru(8, 16, {.bidirectional = true});
///   auto [output, h_n] = gru(randn({10, 4, 8}));  // [10, 4, 32] and [2, 4, 16]
class GRU : public Cloneable<GRU, RNNBase> {
 public:
  GRU(std::int64_t input_size, std::int64_t hidden_size, const RNNOptions& options = {});
  Tensor forward(const Tensor& input) override;
  GRUOutput forward(const Tensor& input, const Tensor& h_0);
  GRUOutput operator()(const Tensor& input, const Tensor& h_0 = {}) {
    return Cloneable::operator()(input, h_0);
  }
  GRUPackedOutput forward(const PackedSequence& input, const Tensor& h_0 = {});
  GRUPackedOutput operator()(const PackedSequence& input, const Tensor& h_0 = {}) {
    return Cloneable::operator()(input, h_0);
  }

 protected:
  Tensor project(const Tensor& input, const RNNWeights& weights) const override;
  void step(const Tensor& projected, const RNNWeights& weights, States& states) const override;
  const char* mode() const override { return "GRU"; }
};

// ---- Single steps

struct RNNCellOptions {
  bool bias = true;
  Choice<Nonlinearity> nonlinearity = Nonlinearity::tanh;  ///< of an RNNCell: tanh or relu
};

/// The common base of the cells, which make one step of one layer. Inputs are [N, input_size],
/// states [N, hidden_size]; a batch is needed. States that are not given, or undefined, are zeros.
/// ShapeError for inputs and states of other shapes; DTypeError and DeviceError unless input and
/// weights agree.
class RNNCellBase : public Module {
 public:
  /// Uniform within +-1 / sqrt(hidden_size).
  void reset_parameters();
  std::string extra_repr() const override;
  std::optional<std::int64_t> multiply_adds(std::span<const Tensor> inputs,
                                            std::span<const Tensor> outputs) const override;

  // The same as RNNWeights.
  Tensor weight_ih;
  Tensor weight_hh;
  Tensor bias_ih;
  Tensor bias_hh;

 protected:
  RNNCellBase(int gates, std::int64_t input_size, std::int64_t hidden_size,
              const RNNCellOptions& options);
  /// The weights of the cell, as the steps take them.
  RNNWeights weights() const { return {weight_ih, weight_hh, bias_ih, bias_hh}; }
  /// ShapeError for an input that does not fit.
  void check_input(const Tensor& input) const;
  /// `state`, or zeros on the device and of the dtype of `input` if it is undefined.
  Tensor checked_state(const Tensor& state, const Tensor& input) const;
};

/// One step of RNN: `h = cell(x, h)`, with x [N, input_size] and h [N, hidden_size], or both
/// without N.
///
///   nn::RNNCell cell(8, 16);
///   Tensor h = cell(randn({4, 8}));  // [4, 16], from a state of zeros
class RNNCell : public Cloneable<RNNCell, RNNCellBase> {
 public:
  RNNCell(std::int64_t input_size, std::int64_t hidden_size, const RNNCellOptions& options = {});
  RNNCell(std::int64_t input_size, std::int64_t hidden_size, RNNCellOptions options,
          Choice<Nonlinearity> nonlinearity);
  Tensor forward(const Tensor& input) override { return forward(input, {}); }
  Tensor forward(const Tensor& input, const Tensor& h);
  Tensor operator()(const Tensor& input, const Tensor& h = {}) {
    return Cloneable::operator()(input, h);
  }
  std::string extra_repr() const override;

 private:
  Nonlinearity nonlinearity_;
};

/// One step of LSTM: `auto [h, c] = cell(x, {h, c})`, with x [N, input_size], h and c
/// [N, hidden_size], or all without N. Called through Module it returns only the new h.
///
///   nn::LSTMCell cell(8, 16);
///   nn::LSTMState state;  // undefined: zeros
///   for (const Tensor& x : randn({10, 4, 8}).unbind(0)) state = cell(x, state);  // h, c [4, 16]
class LSTMCell : public Cloneable<LSTMCell, RNNCellBase> {
 public:
  LSTMCell(std::int64_t input_size, std::int64_t hidden_size, const RNNCellOptions& options = {});
  Tensor forward(const Tensor& input) override { return forward(input, {}).h; }
  LSTMState forward(const Tensor& input, const LSTMState& state);
  /// With the states as libtorch takes them: `lstm(x, std::make_tuple(h, c))`.
  template <std::same_as<std::tuple<Tensor, Tensor>> States>
  LSTMState forward(const Tensor& input, const States& state) {
    return forward(input, LSTMState{std::get<0>(state), std::get<1>(state)});
  }
  template <std::same_as<std::tuple<Tensor, Tensor>> States>
  LSTMState operator()(const Tensor& input, const States& state) {
    return (*this)(input, LSTMState{std::get<0>(state), std::get<1>(state)});
  }
  LSTMState operator()(const Tensor& input, const LSTMState& state = {}) {
    return Cloneable::operator()(input, state);
  }
};

/// One step of GRU: `h = cell(x, h)`, with x [N, input_size] and h [N, hidden_size], or both
/// without N.
class GRUCell : public Cloneable<GRUCell, RNNCellBase> {
 public:
  GRUCell(std::int64_t input_size, std::int64_t hidden_size, const RNNCellOptions& options = {});
  Tensor forward(const Tensor& input) override { return forward(input, {}); }
  Tensor forward(const Tensor& input, const Tensor& h);
  Tensor operator()(const Tensor& input, const Tensor& h = {}) {
    return Cloneable::operator()(input, h);
  }
};

}  // namespace ferrite::nn
