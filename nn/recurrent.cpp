#include "ferrite/nn/recurrent.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <ranges>
#include <span>

#include "ferrite/core/tracing.h"
#include "ferrite/nn/init.h"
#include "ferrite/nn/repr.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/dropout.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/lstm.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/views.h"

namespace ferrite::nn {

namespace {

void draw(std::span<const Tensor> parameters, std::int64_t hidden_size) {
  const double bound = hidden_size > 0 ? 1 / std::sqrt(static_cast<double>(hidden_size)) : 0;
  for (const Tensor& p : parameters) init::uniform_(p, -bound, bound);
}

/// Every row of the output uses every weight once.
std::int64_t products(const Module& module, const Tensor& output, std::int64_t width) {
  std::int64_t weights = 0;
  for (const Tensor& p : module.parameters())
    if (p.dim() == 2) weights += p.numel();
  return output.numel() / width * weights;
}

// ---- One step. For an LSTM and an RNN, both biases are added to the input projection at once. For
// a GRU, the reset gate is applied between them.

Tensor both_biases(const RNNWeights& w) {
  return w.bias_ih.defined() ? w.bias_ih + w.bias_hh : Tensor();
}

Tensor project_with_both(const Tensor& input, const RNNWeights& w) {
  return linear(input, w.weight_ih, both_biases(w));
}

Tensor rnn_step(const Tensor& projected, const RNNWeights& w, const Tensor& h,
                Nonlinearity nonlinearity) {
  const Tensor sum = addmm(projected, h, w.weight_hh.t());
  return nonlinearity == Nonlinearity::relu ? relu(sum) : tanh(sum);
}

Tensor gru_project(const Tensor& input, const RNNWeights& w) {
  return linear(input, w.weight_ih, w.bias_ih);
}

Tensor gru_step(const Tensor& projected, const RNNWeights& w, const Tensor& h) {
  const std::int64_t n = h.size(1);
  const std::vector<Tensor> x = split(projected, {2 * n, n}, 1);
  const std::vector<Tensor> y = split(linear(h, w.weight_hh, w.bias_hh), {2 * n, n}, 1);
  const std::vector<Tensor> gates = chunk(sigmoid(x[0] + y[0]), 2, 1);
  const Tensor fresh = tanh(x[1] + gates[0] * y[1]);
  return fresh + gates[1] * (h - fresh);
}

}  // namespace

// ---- Layers

RNNBase::RNNBase(const char* name, int gates, int states, std::int64_t input_size,
                 std::int64_t hidden_size, const RNNOptions& options)
    : states_(states), input_size_(input_size), hidden_size_(hidden_size), options_(options) {
  FERRITE_CHECK(input_size >= 1 && hidden_size >= 1, ValueError, name,
                "expected an input_size and a hidden_size above 0, got {} and {}", input_size,
                hidden_size);
  FERRITE_CHECK(options.num_layers >= 1, ValueError, name, "expected one layer or more, got {}",
                options.num_layers);
  FERRITE_CHECK(options.dropout >= 0 && options.dropout <= 1, ValueError, name,
                "dropout: expected a probability, got {}", options.dropout);
  FERRITE_CHECK(options.proj_size == 0 || states == 2, ValueError, name,
                "proj_size is an option of LSTM only, got {}", options.proj_size);
  FERRITE_CHECK(options.nonlinearity == Nonlinearity::tanh || gates == 1, ValueError, name,
                "nonlinearity is an option of RNN only, got {}", options.nonlinearity.name());
  FERRITE_CHECK(options.proj_size >= 0 && options.proj_size < hidden_size, ValueError, name,
                "expected a proj_size of 0 or more and below the hidden_size {}, got {}",
                hidden_size, options.proj_size);
  const std::int64_t rows = gates * hidden_size;
  for (std::int64_t layer = 0; layer < options.num_layers; ++layer) {
    const std::int64_t width = layer == 0 ? input_size : directions() * output_size();
    for (const char* direction : {"", "_reverse"}) {
      if (*direction && !options.bidirectional) continue;
      const auto add = [&](const char* part, const Shape& shape) {
        names_.push_back(fmt::format("{}_l{}{}", part, layer, direction));
        add_parameter(names_.back(), empty(shape));
      };
      add("weight_ih", {rows, width});
      add("weight_hh", {rows, output_size()});
      if (options.bias) {
        add("bias_ih", {rows});
        add("bias_hh", {rows});
      }
      if (options.proj_size > 0) add("weight_hr", {options.proj_size, hidden_size});
    }
  }
  reset_parameters();
}

void RNNBase::reset_parameters() { draw(parameters(), hidden_size_); }

std::vector<Tensor> RNNBase::all_weights() const {
  std::vector<Tensor> all;
  for (const std::string& name : names_) all.push_back(own_tensor(name));
  return all;
}

RNNWeights RNNBase::weights(std::span<const Tensor> all, std::int64_t layer,
                            std::int64_t direction) const {
  const std::size_t biases = options_.bias ? 2 : 0, projections = options_.proj_size > 0 ? 1 : 0;
  const auto before = static_cast<std::size_t>(layer * directions() + direction);
  const std::span<const Tensor> own = all.subspan(before * (2 + biases + projections));
  return {own[0], own[1], biases ? own[2] : Tensor(), biases ? own[3] : Tensor(),
          projections ? own[2 + biases] : Tensor()};
}

void RNNBase::check_state(std::size_t k, const Tensor& state, const Tensor& input,
                          std::int64_t sequences, bool batched) const {
  if (!state.defined()) return;
  const std::int64_t count = options_.num_layers * directions(),
                     size = k == 0 ? output_size() : hidden_size_;
  const Shape expected = batched ? Shape{count, sequences, size} : Shape{count, size};
  FERRITE_CHECK(state.shape() == expected, ShapeError, name(),
                "expected an initial state of shape {}, got {}", expected, state.describe());
  // The kernels read it where the input is.
  FERRITE_CHECK(state.device() == input.device(), DeviceError, name(),
                "expected an initial state on {}, where the input is, got {}", input.device(),
                state.describe());
}

RNNBase::Result RNNBase::run(const Tensor& input, const States& initial) {
  if (tracing::on()) return run_traced(input, initial);
  FERRITE_CHECK(input.defined() && (input.dim() == 2 || input.dim() == 3), ShapeError, name(),
                "expected a sequence of {0}, or [T, {1}], got {2}",
                options_.batch_first ? fmt::format("[N, T, {}]", input_size_)
                                     : fmt::format("[T, N, {}]", input_size_),
                input_size_, input.describe());
  FERRITE_CHECK(input.size(-1) == input_size_, ShapeError, name(),
                "expected inputs of size {}, got {}", input_size_, input.describe());
  const bool batched = input.dim() == 3, turned = batched && options_.batch_first;
  const Tensor x = !batched ? input.unsqueeze(1) : turned ? input.transpose(0, 1) : input;
  FERRITE_CHECK(x.size(0) > 0, ShapeError, name(),
                "expected a sequence of one step or more, got {}", input.describe());
  States first = initial;
  for (std::size_t k = 0; k < first.size(); ++k) {
    check_state(k, first[k], x, x.size(1), batched);
    if (first[k].defined() && !batched) first[k] = first[k].unsqueeze(1);
  }
  Result r = run_layers(x, x.size(1), first,
                        [this](const Tensor& in, const RNNWeights& w, States& s, bool reverse) {
                          return run_steps(in, w, s, reverse);
                        });
  if (turned) r.output = r.output.transpose(0, 1);
  if (!batched) {
    r.output = r.output.squeeze(1);
    for (int k = 0; k < states_; ++k)
      r.last[static_cast<std::size_t>(k)] = r.last[static_cast<std::size_t>(k)].squeeze(1);
  }
  return r;
}

RNNBase::PackedResult RNNBase::run(const PackedSequence& input, const States& initial) {
  FERRITE_CHECK(!tracing::on(), ValueError, name(),
                "packed sequences cannot be exported to ONNX; export the layer with a padded "
                "input");
  const std::vector<std::int64_t> sizes =
      utils::rnn::detail::checked_batch_sizes(input, name().c_str());
  FERRITE_CHECK(input.data.dim() == 2 && input.data.size(1) == input_size_, ShapeError, name(),
                "expected packed inputs of size {}, got {}", input_size_, input.data.describe());
  const auto reordered = [](const Tensor& state, const Tensor& indices) {
    return state.defined() && indices.defined() ? index_select(state, 1, indices) : state;
  };
  States first = initial;
  for (std::size_t k = 0; k < first.size(); ++k) {
    check_state(k, first[k], input.data, sizes.front(), true);
    first[k] = reordered(first[k], input.sorted_indices);
  }
  Result r = run_layers(input.data, sizes.front(), first,
                        [&](const Tensor& in, const RNNWeights& w, States& s, bool reverse) {
                          return run_packed_steps(in, sizes, w, s, reverse);
                        });
  for (Tensor& state : r.last) state = reordered(state, input.unsorted_indices);
  return {input.with(r.output), r.last};
}

RNNBase::Result RNNBase::run_layers(Tensor x, std::int64_t sequences, const States& initial,
                                    const Direction& run_direction) const {
  const auto count = static_cast<std::size_t>(states_);
  std::vector<Tensor> first[2], last[2];
  for (std::size_t k = 0; k < count; ++k)
    first[k] =
        initial[k].defined()
            ? unbind(initial[k], 0)
            : std::vector<Tensor>(static_cast<std::size_t>(options_.num_layers * directions()),
                                  zeros({sequences, k == 0 ? output_size() : hidden_size_},
                                        {.dtype = x.dtype(), .device = x.device()}));

  const std::vector<Tensor> all = all_weights();
  std::size_t at = 0;  // index of layer and direction
  for (std::int64_t layer = 0; layer < options_.num_layers; ++layer) {
    std::vector<Tensor> outputs;
    for (std::int64_t direction = 0; direction < directions(); ++direction, ++at) {
      States s;
      for (std::size_t k = 0; k < count; ++k) s[k] = first[k][at];
      outputs.push_back(run_direction(x, weights(all, layer, direction), s, direction == 1));
      for (std::size_t k = 0; k < count; ++k) last[k].push_back(s[k]);
    }
    x = outputs.size() == 1 ? outputs[0] : cat(outputs, -1);
    if (layer + 1 < options_.num_layers) x = dropout(x, options_.dropout, is_training());
  }

  Result r{x, {}};
  for (std::size_t k = 0; k < count; ++k) r.last[k] = stack(last[k], 0);
  return r;
}

Tensor RNNBase::run_packed_steps(const Tensor& x, std::span<const std::int64_t> batch_sizes,
                                 const RNNWeights& w, States& s, bool reverse) const {
  // Steps of as many sequences are one tensor [steps, sequences, *], as run_steps() takes them.
  std::vector<Tensor> stretches;
  std::int64_t begin = 0;
  for (auto at = batch_sizes.begin(); at != batch_sizes.end();) {
    const auto end = std::find_if(at, batch_sizes.end(), [&](auto size) { return size != *at; });
    const Shape shape{end - at, *at};
    stretches.push_back(unflatten(x.narrow(0, begin, shape.numel()), 0, shape));
    begin += shape.numel();
    at = end;
  }

  // The longest sequences come first: the others have ended, or in reverse not begun.
  if (reverse) std::ranges::reverse(stretches);
  for (Tensor& stretch : stretches) {
    const std::int64_t running = stretch.size(1), resting = batch_sizes.front() - running;
    States next;
    for (std::size_t k = 0; k < s.size(); ++k)
      if (s[k].defined()) next[k] = s[k].narrow(0, 0, running);
    stretch = run_steps(stretch, w, next, reverse).flatten(0, 1);
    for (std::size_t k = 0; k < s.size(); ++k)
      if (s[k].defined())
        s[k] = resting == 0 ? next[k] : cat({next[k], s[k].narrow(0, running, resting)}, 0);
  }
  if (reverse) std::ranges::reverse(stretches);
  return stretches.size() == 1 ? stretches[0] : cat(stretches, 0);
}

Tensor RNNBase::run_steps(const Tensor& x, const RNNWeights& w, States& s, bool reverse) const {
  const std::vector<Tensor> projected = unbind(project(x, w), 0);
  std::vector<Tensor> hidden(projected.size());
  for (std::size_t i = 0; i < hidden.size(); ++i) {
    const std::size_t t = reverse ? hidden.size() - 1 - i : i;
    step(projected[t], w, s);
    hidden[t] = s[0];
  }
  return stack(hidden, 0);
}

RNNBase::Result RNNBase::run_traced(const Tensor& input, const States& initial) {
  std::vector<Tensor> inputs = all_weights();
  inputs.insert(inputs.begin(), {input, initial[0], initial[1]});
  const std::vector<Tensor> results =
      tracing::op("rnn", std::span<const Tensor>(inputs),
                  {{"mode", std::string(mode())},
                   {"hidden_size", hidden_size_},
                   {"num_layers", options_.num_layers},
                   {"bias", options_.bias},
                   {"batch_first", options_.batch_first},
                   {"bidirectional", options_.bidirectional},
                   {"proj_size", options_.proj_size}},
                  [&] {
                    const Result r = run(input, initial);
                    return std::vector<Tensor>{r.output, r.last[0], r.last[1]};
                  });
  return {results[0], {results[1], results[2]}};
}

std::optional<std::int64_t> RNNBase::multiply_adds(std::span<const Tensor>,
                                                   std::span<const Tensor> outputs) const {
  return products(*this, outputs[0], directions() * output_size());
}

std::string RNNBase::extra_repr() const {
  std::string text = fmt::format("{}, {}", input_size_, hidden_size_);
  if (options_.proj_size != 0) text += fmt::format(", proj_size={}", options_.proj_size);
  if (options_.num_layers != 1) text += fmt::format(", num_layers={}", options_.num_layers);
  if (!options_.bias) text += ", bias=False";
  if (options_.batch_first) text += ", batch_first=True";
  if (options_.dropout != 0) text += ", dropout=" + repr(options_.dropout);
  if (options_.bidirectional) text += ", bidirectional=True";
  return text;
}

LSTM::LSTM(std::int64_t input_size, std::int64_t hidden_size, const RNNOptions& options)
    : Cloneable("LSTM", 4, 2, input_size, hidden_size, options) {}

Tensor LSTM::forward(const Tensor& input) { return run(input, {}).output; }

LSTMOutput LSTM::forward(const Tensor& input, const LSTMState& state) {
  const Result r = run(input, {state.h, state.c});
  return {r.output, {r.last[0], r.last[1]}};
}

LSTMPackedOutput LSTM::forward(const PackedSequence& input, const LSTMState& state) {
  const PackedResult r = run(input, {state.h, state.c});
  return {r.output, {r.last[0], r.last[1]}};
}

Tensor LSTM::project(const Tensor& input, const RNNWeights& w) const {
  return project_with_both(input, w);
}

void LSTM::step(const Tensor& projected, const RNNWeights& w, States& s) const {
  const ferrite::detail::LstmStates next =
      ferrite::detail::lstm_step(projected, w.weight_hh, {s[0], s[1]});
  s = {w.weight_hr.defined() ? linear(next.h, w.weight_hr) : next.h, next.c};
}

Tensor LSTM::run_steps(const Tensor& x, const RNNWeights& w, States& s, bool reverse) const {
  // Autocast chooses dtypes step by step, and the kernel does not project.
  const bool one_dtype = std::ranges::all_of(
      std::array{w.weight_ih.dtype(), w.weight_hh.dtype(), s[0].dtype(), s[1].dtype()},
      [&](DType dtype) { return dtype == x.dtype(); });
  if (!one_dtype || !is_floating(x.dtype()) || is_autocast_enabled(x.device()) ||
      w.weight_hr.defined())
    return RNNBase::run_steps(x, w, s, reverse);
  const ferrite::detail::LstmSequence all = ferrite::detail::lstm_sequence(
      x, {w.weight_ih, w.weight_hh, both_biases(w)}, {s[0], s[1]}, reverse);
  s = {all.last.h, all.last.c};
  return all.output;
}

RNN::RNN(std::int64_t input_size, std::int64_t hidden_size, const RNNOptions& options)
    : Cloneable("RNN", 1, 1, input_size, hidden_size, options) {}

RNN::RNN(std::int64_t input_size, std::int64_t hidden_size, RNNOptions options,
         Choice<Nonlinearity> nonlinearity)
    : RNN(input_size, hidden_size, (options.nonlinearity = nonlinearity, options)) {}

Tensor RNN::forward(const Tensor& input) { return run(input, {}).output; }

RNNOutput RNN::forward(const Tensor& input, const Tensor& h_0) {
  const Result r = run(input, {h_0});
  return {r.output, r.last[0]};
}

RNNPackedOutput RNN::forward(const PackedSequence& input, const Tensor& h_0) {
  const PackedResult r = run(input, {h_0});
  return {r.output, r.last[0]};
}

Tensor RNN::project(const Tensor& input, const RNNWeights& w) const {
  return project_with_both(input, w);
}

void RNN::step(const Tensor& projected, const RNNWeights& w, States& s) const {
  s[0] = rnn_step(projected, w, s[0], options().nonlinearity);
}

GRU::GRU(std::int64_t input_size, std::int64_t hidden_size, const RNNOptions& options)
    : Cloneable("GRU", 3, 1, input_size, hidden_size, options) {}

Tensor GRU::forward(const Tensor& input) { return run(input, {}).output; }

GRUOutput GRU::forward(const Tensor& input, const Tensor& h_0) {
  const Result r = run(input, {h_0});
  return {r.output, r.last[0]};
}

GRUPackedOutput GRU::forward(const PackedSequence& input, const Tensor& h_0) {
  const PackedResult r = run(input, {h_0});
  return {r.output, r.last[0]};
}

Tensor GRU::project(const Tensor& input, const RNNWeights& w) const {
  return gru_project(input, w);
}

void GRU::step(const Tensor& projected, const RNNWeights& w, States& s) const {
  s[0] = gru_step(projected, w, s[0]);
}

// ---- Cells

namespace {

/// The input or a state of one sample as that of a batch.
Tensor batched(const Tensor& t) { return t.dim() == 1 ? t.unsqueeze(0) : t; }

/// What the steps made of batched(input), without the batch if `input` has none.
Tensor as_input(const Tensor& next, const Tensor& input) {
  return input.dim() == 1 ? next.squeeze(0) : next;
}

}  // namespace

RNNCellBase::RNNCellBase(int gates, std::int64_t input_size, std::int64_t hidden_size,
                         const RNNCellOptions& options)
    : weight_ih(empty({gates * hidden_size, input_size})),
      weight_hh(empty({gates * hidden_size, hidden_size})) {
  FERRITE_CHECK(options.nonlinearity == Nonlinearity::tanh || gates == 1, ValueError, "rnn_cell",
                "nonlinearity is an option of RNNCell only, got {}", options.nonlinearity.name());
  if (options.bias) {
    bias_ih = empty({gates * hidden_size});
    bias_hh = empty({gates * hidden_size});
  }
  register_parameter("weight_ih", weight_ih);
  register_parameter("weight_hh", weight_hh);
  register_parameter("bias_ih", bias_ih);
  register_parameter("bias_hh", bias_hh);
  reset_parameters();
}

void RNNCellBase::reset_parameters() { draw(parameters(), weight_hh.size(1)); }

void RNNCellBase::check_input(const Tensor& input) const {
  FERRITE_CHECK(input.defined() && (input.dim() == 1 || input.dim() == 2) &&
                    input.size(-1) == weight_ih.size(1),
                ShapeError, name(), "expected [N, {}] or [{}], got {}", weight_ih.size(1),
                weight_ih.size(1), input.describe());
}

Tensor RNNCellBase::checked_state(const Tensor& state, const Tensor& input) const {
  const std::int64_t width = weight_hh.size(1);
  const Shape shape = input.dim() == 1 ? Shape{width} : Shape{input.size(0), width};
  if (!state.defined()) return zeros(shape, {.dtype = input.dtype(), .device = input.device()});
  FERRITE_CHECK(state.shape() == shape, ShapeError, name(), "expected a state of shape {}, got {}",
                shape, state.describe());
  return state;
}

std::optional<std::int64_t> RNNCellBase::multiply_adds(std::span<const Tensor>,
                                                       std::span<const Tensor> outputs) const {
  return products(*this, outputs[0], weight_hh.size(1));
}

std::string RNNCellBase::extra_repr() const {
  return fmt::format("{}, {}{}", weight_ih.size(1), weight_hh.size(1),
                     bias_ih.defined() ? "" : ", bias=False");
}

RNNCell::RNNCell(std::int64_t input_size, std::int64_t hidden_size, const RNNCellOptions& options)
    : Cloneable(1, input_size, hidden_size, options), nonlinearity_(options.nonlinearity) {}

RNNCell::RNNCell(std::int64_t input_size, std::int64_t hidden_size, RNNCellOptions options,
                 Choice<Nonlinearity> nonlinearity)
    : RNNCell(input_size, hidden_size, (options.nonlinearity = nonlinearity, options)) {}

Tensor RNNCell::forward(const Tensor& input, const Tensor& h) {
  check_input(input);
  const Tensor next = rnn_step(project_with_both(batched(input), weights()), weights(),
                               batched(checked_state(h, input)), nonlinearity_);
  return as_input(next, input);
}

std::string RNNCell::extra_repr() const {
  const char* const text = nonlinearity_ == Nonlinearity::relu ? ", nonlinearity=relu" : "";
  return RNNCellBase::extra_repr() + text;
}

LSTMCell::LSTMCell(std::int64_t input_size, std::int64_t hidden_size, const RNNCellOptions& options)
    : Cloneable(4, input_size, hidden_size, options) {}

LSTMState LSTMCell::forward(const Tensor& input, const LSTMState& state) {
  check_input(input);
  const ferrite::detail::LstmStates next = ferrite::detail::lstm_step(
      project_with_both(batched(input), weights()), weight_hh,
      {batched(checked_state(state.h, input)), batched(checked_state(state.c, input))});
  return {as_input(next.h, input), as_input(next.c, input)};
}

GRUCell::GRUCell(std::int64_t input_size, std::int64_t hidden_size, const RNNCellOptions& options)
    : Cloneable(3, input_size, hidden_size, options) {}

Tensor GRUCell::forward(const Tensor& input, const Tensor& h) {
  check_input(input);
  const Tensor next =
      gru_step(gru_project(batched(input), weights()), weights(), batched(checked_state(h, input)));
  return as_input(next, input);
}

}  // namespace ferrite::nn
