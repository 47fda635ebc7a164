// The recurrent layers RNN, LSTM and GRU, and their single steps RNNCell, LSTMCell and GRUCell.
// They consist of ops: one product for the input of all steps, then a loop over the steps.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "ferrite/core/named_tuple.h"
#include "ferrite/nn/module.h"

namespace ferrite::nn {

struct RNNOptions {
  std::int64_t num_layers = 1;  ///< each layer reads the output of the previous one
  bool bias = true;
  bool batch_first = false;  ///< sequences are [N, T, *] rather than [T, N, *]; states are not
  double dropout = 0;  ///< probability of dropping an output of any layer but the last, in training
  bool bidirectional = false;  ///< a second set of weights processes each sequence in reverse
};

/// The weights of one layer in one direction: [gates * hidden_size, input size], [gates *
/// hidden_size, hidden_size] and two of [gates * hidden_size], undefined without bias.
struct RNNWeights {
  Tensor weight_ih;
  Tensor weight_hh;
  Tensor bias_ih;
  Tensor bias_hh;
};

/// The common base of RNN, LSTM and GRU. Sequences are [T, N, input_size], or [T, input_size]
/// without a batch; outputs [T, N, D * hidden_size], D being 2 where bidirectional, else 1; states
/// [D * num_layers, N, hidden_size], where those of a layer's two directions are adjacent.
/// ShapeError for other inputs.
///
/// Parameters are named as PyTorch's: weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0 and, for
/// the other direction, weight_ih_l0_reverse...
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
  /// What one direction of a layer gives.
  struct Result {
    Tensor output;  ///< the result of each step, of the last layer
    States last;    ///< the state after the last step
  };

  RNNBase(const char* name, int gates, int states, std::int64_t input_size,
          std::int64_t hidden_size, const RNNOptions& options);
  /// Undefined initial states are zeros.
  Result run(const Tensor& input, const States& initial);

  /// The contribution of the input to each step, for all steps.
  virtual Tensor project(const Tensor& input, const RNNWeights& weights) const = 0;
  /// Advances the states by one step; `projected` is the input's contribution to it.
  virtual void step(const Tensor& projected, const RNNWeights& weights, States& states) const = 0;
  /// All steps of x [T, N, *] in one direction: the output [T, N, hidden_size], and in `states` the
  /// last ones in place of the first ones.
  virtual Tensor run_steps(const Tensor& x, const RNNWeights& weights, States& states,
                           bool reverse) const;
  /// PyTorch's word for what it computes: "LSTM", "GRU", "RNN_TANH", "RNN_RELU".
  virtual const char* mode() const = 0;

 private:
  std::int64_t directions() const { return options_.bidirectional ? 2 : 1; }
  Result run_traced(const Tensor& input, const States& initial);
  /// The weights of the cell, as the steps take them.
  RNNWeights weights(std::span<const Tensor> parameters, std::int64_t layer,
                     std::int64_t direction) const;
  std::vector<Tensor> initial_states(const Tensor& state, const Tensor& x, bool batched) const;

  int states_;
  std::int64_t input_size_, hidden_size_;
  RNNOptions options_;
};

/// A NamedTuple (core/named_tuple.h), like the results below.
struct LSTMState {
  Tensor h;  ///< the hidden state after the last step
  Tensor c;  ///< the cell's state
  /// The parts, for structured bindings.
  auto fields() { return std::tie(h, c); }
  auto fields() const { return std::tie(h, c); }
  operator std::tuple<Tensor&, Tensor&>() && { return fields(); }
  operator std::tuple<Tensor, Tensor>() const { return fields(); }
};

/// `auto [output, state] = lstm(x); auto [h_n, c_n] = state;`, or `std::tie(output, h_n, c_n) =
/// lstm(x)`.
struct LSTMOutput {
  Tensor output;    ///< the result of each step, of the last layer
  LSTMState state;  ///< after the last step
  /// The parts, for structured bindings.
  auto fields() { return std::tie(output, state); }
  auto fields() const { return std::tie(output, state); }
  operator std::tuple<Tensor&, LSTMState&>() && { return fields(); }
  operator std::tuple<Tensor&, Tensor&, Tensor&>() && { return {output, state.h, state.c}; }
};

/// Long short-term memory (Hochreiter and Schmidhuber 1997), with PyTorch's order of gates: input,
/// forget, cell, output. `auto [output, state] = lstm(x)`, or `lstm(x, {h_0, c_0})`. Called
/// through Module, as in a Sequential, it returns only the output.
class LSTM : public Cloneable<LSTM, RNNBase> {
 public:
  LSTM(std::int64_t input_size, std::int64_t hidden_size, const RNNOptions& options = {});
  Tensor forward(const Tensor& input) override;
  LSTMOutput forward(const Tensor& input, const LSTMState& state);
  /// States as libtorch gives them: `lstm(x, std::make_tuple(h, c))`.
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

 protected:
  Tensor project(const Tensor& input, const RNNWeights& weights) const override;
  void step(const Tensor& projected, const RNNWeights& weights, States& states) const override;
  Tensor run_steps(const Tensor& x, const RNNWeights& weights, States& states,
                   bool reverse) const override;
  const char* mode() const override { return "LSTM"; }
};

/// Of a GRU or an RNN.
struct GRUOutput {
  Tensor output;  ///< the result of each step, of the last layer
  Tensor h_n;     ///< the hidden state after the last step
  /// The parts, for structured bindings.
  auto fields() { return std::tie(output, h_n); }
  auto fields() const { return std::tie(output, h_n); }
  operator std::tuple<Tensor&, Tensor&>() && { return fields(); }
  operator std::tuple<Tensor, Tensor>() const { return fields(); }
};
using RNNOutput = GRUOutput;  ///< results of all steps, and the state after the last

/// tanh or relu.
enum class Nonlinearity : std::uint8_t { tanh, relu };

/// h = tanh(weight_ih x + bias_ih + weight_hh h + bias_hh), or with relu (Elman 1990): `RNN(4, 3,
/// {.num_layers = 2}, Nonlinearity::relu)`. `auto [output, h_n] = rnn(x)`, or `rnn(x, h_0)`;
/// otherwise like LSTM.
class RNN : public Cloneable<RNN, RNNBase> {
 public:
  RNN(std::int64_t input_size, std::int64_t hidden_size, const RNNOptions& options = {},
      Nonlinearity nonlinearity = Nonlinearity::tanh);
  Tensor forward(const Tensor& input) override;
  RNNOutput forward(const Tensor& input, const Tensor& h_0);
  RNNOutput operator()(const Tensor& input, const Tensor& h_0 = {}) {
    return Cloneable::operator()(input, h_0);
  }

 protected:
  Tensor project(const Tensor& input, const RNNWeights& weights) const override;
  void step(const Tensor& projected, const RNNWeights& weights, States& states) const override;
  const char* mode() const override {
    return nonlinearity_ == Nonlinearity::relu ? "RNN_RELU" : "RNN_TANH";
  }

 private:
  Nonlinearity nonlinearity_;
};

/// Gated recurrent units (Cho et al. 2014), with PyTorch's order of gates: reset, update, new.
/// `auto [output, h_n] = gru(x)`, or `gru(x, h_0)`; otherwise like LSTM.
class GRU : public Cloneable<GRU, RNNBase> {
 public:
  GRU(std::int64_t input_size, std::int64_t hidden_size, const RNNOptions& options = {});
  Tensor forward(const Tensor& input) override;
  GRUOutput forward(const Tensor& input, const Tensor& h_0);
  GRUOutput operator()(const Tensor& input, const Tensor& h_0 = {}) {
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
};

/// The common base of the cells. Inputs are [N, input_size], states [N, hidden_size]; undefined
/// states count as zeros. ShapeError for other inputs.
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

/// `h = cell(x, h)`, a step of RNN.
class RNNCell : public Cloneable<RNNCell, RNNCellBase> {
 public:
  RNNCell(std::int64_t input_size, std::int64_t hidden_size, const RNNCellOptions& options = {},
          Nonlinearity nonlinearity = Nonlinearity::tanh);
  Tensor forward(const Tensor& input) override { return forward(input, {}); }
  Tensor forward(const Tensor& input, const Tensor& h);
  Tensor operator()(const Tensor& input, const Tensor& h = {}) {
    return Cloneable::operator()(input, h);
  }
  std::string extra_repr() const override;

 private:
  Nonlinearity nonlinearity_;
};

/// `auto [h, c] = cell(x, {h, c})`. With only the input, returns the new h from a state of zeros.
class LSTMCell : public Cloneable<LSTMCell, RNNCellBase> {
 public:
  LSTMCell(std::int64_t input_size, std::int64_t hidden_size, const RNNCellOptions& options = {});
  Tensor forward(const Tensor& input) override { return forward(input, {}).h; }
  LSTMState forward(const Tensor& input, const LSTMState& state);
  /// States as libtorch gives them: `lstm(x, std::make_tuple(h, c))`.
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

/// `h = cell(x, h)`.
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
