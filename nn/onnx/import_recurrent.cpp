// LSTM, GRU and RNN nodes, step by step.
#include "ferrite/nn/onnx/graph.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/unary.h"

namespace ferrite::onnx {

namespace {

using Results = std::vector<Tensor>;

struct State {
  Tensor h, c;
};

/// One direction of a layer: its weights, and how it goes on by one step.
struct Direction {
  Tensor w, r, wb, rb;  ///< [gates * hidden, input], [gates * hidden, hidden], biases or undefined
};

/// ONNX has the gates in the order i o f c.
State lstm_step(const Tensor& projected, const Direction& d, const State& s) {
  const Results gates = chunk(projected + linear(s.h, d.r, d.rb), 4, 1);
  const Tensor c = sigmoid(gates[2]) * s.c + sigmoid(gates[0]) * tanh(gates[3]);
  return {sigmoid(gates[1]) * tanh(c), c};
}

/// In the order z r h.
State gru_step(const Tensor& projected, const Direction& d, const State& s, bool before_reset) {
  const std::int64_t n = s.h.size(1);
  const Results x = chunk(projected, 3, 1);
  if (before_reset) {
    const Results y = chunk(linear(s.h, d.r, d.rb), 3, 1);
    const Tensor z = sigmoid(x[0] + y[0]), r = sigmoid(x[1] + y[1]);
    const Tensor fresh = tanh(x[2] + r * y[2]);
    return {fresh + z * (s.h - fresh), {}};
  }
  const auto part = [&](std::int64_t from, std::int64_t gates, const Tensor& h) {
    return linear(h, d.r.narrow(0, from * n, gates * n),
                  d.rb.defined() ? d.rb.narrow(0, from * n, gates * n) : Tensor());
  };
  const Results y = chunk(part(0, 2, s.h), 2, 1);
  const Tensor z = sigmoid(x[0] + y[0]), r = sigmoid(x[1] + y[1]);
  const Tensor fresh = tanh(x[2] + part(2, 1, r * s.h));
  return {fresh + z * (s.h - fresh), {}};
}

State rnn_step(const Tensor& projected, const Direction& d, const State& s, bool relus) {
  const Tensor sum = projected + linear(s.h, d.r, d.rb);
  return {relus ? relu(sum) : tanh(sum), {}};
}

/// Whether the activations are those that the types have by default; for an RNN, whether Relu.
bool has_relu(const Call& c, std::size_t ways) {
  if (!c.given("activations")) return false;
  const auto& names = c.node.attributes.at("activations").strings();
  const std::vector<std::string> given(names.begin(), names.end());
  std::vector<std::string> each{"Sigmoid", "Tanh", "Tanh"};
  if (c.node.type == "GRU") each = {"Sigmoid", "Tanh"};
  if (c.node.type == "RNN") each = {given.empty() ? "Tanh" : given[0]};
  std::vector<std::string> all = each;
  if (ways == 2) all.insert(all.end(), each.begin(), each.end());
  if (given != all || (c.node.type == "RNN" && each[0] != "Tanh" && each[0] != "Relu"))
    c.node.refuse(fmt::format("its activations are not read; expected {}",
                              c.node.type == "RNN" ? "Tanh or Relu" : "Sigmoid and Tanh"));
  return each[0] == "Relu";
}

Results run_recurrent(const Call& c) {
  const std::string direction = c.text("direction", "forward");
  const std::size_t ways = direction == "bidirectional" ? 2 : 1;
  const std::int64_t hidden = c.integer("hidden_size", 0);
  const bool lstm = c.node.type == "LSTM", gru = c.node.type == "GRU";
  const std::int64_t gates = lstm ? 4 : gru ? 3 : 1;
  const bool relus = has_relu(c, ways), before_reset = c.integer("linear_before_reset", 0) != 0;
  const Tensor& x = c[0];
  const auto n = static_cast<std::int64_t>(ways);
  if (c.has(4)) c.node.refuse("lengths of the sequences are not read");
  if (c.integer("layout", 0) != 0 || c.integer("input_forget", 0) != 0 || c.given("clip"))
    c.node.refuse("layout, input_forget and clip are not read");
  if (direction != "forward" && direction != "reverse" && ways == 1)
    c.node.refuse("direction is " + direction);
  if (x.dim() != 3 || x.size(0) < 1 || hidden < 1 || hidden > (1 << 24) ||
      c[1].shape() != Shape{n, gates * hidden, x.size(2)} ||
      c[2].shape() != Shape{n, gates * hidden, hidden} ||
      (c.has(3) && c[3].shape() != Shape{n, 2 * gates * hidden}))
    c.node.refuse(
        fmt::format("its weights {} and {} do not suit an input of {} and a hidden_size of {}",
                    c[1].describe(), c[2].describe(), x.describe(), hidden));

  const auto steps = static_cast<std::size_t>(x.size(0));
  Results outputs, last_h, last_c;
  for (std::size_t way = 0; way < ways; ++way) {
    const auto at = static_cast<std::int64_t>(way);
    const Results bias = c.has(3) ? chunk(c[3].select(0, at), 2) : Results(2);
    const Direction d{c[1].select(0, at), c[2].select(0, at), bias[0], bias[1]};
    const auto state = [&](std::size_t i) {
      if (c.has(i)) return c[i].select(0, at);
      return zeros({x.size(1), hidden}, {.dtype = x.dtype(), .device = x.device()});
    };
    State s{state(5), lstm ? state(6) : Tensor()};
    const Results projected = unbind(linear(x, d.w, d.wb), 0);
    Results all(steps);
    for (std::size_t i = 0; i < steps; ++i) {
      const std::size_t t = way == 1 || direction == "reverse" ? steps - 1 - i : i;
      s = lstm  ? lstm_step(projected[t], d, s)
          : gru ? gru_step(projected[t], d, s, before_reset)
                : rnn_step(projected[t], d, s, relus);
      all[t] = s.h;
    }
    outputs.push_back(stack(all, 0));
    last_h.push_back(s.h);
    if (lstm) last_c.push_back(s.c);
  }
  Results results{stack(outputs, 1), stack(last_h, 0)};
  if (lstm) results.push_back(stack(last_c, 0));
  return results;
}

const std::vector<std::string_view> kRecurrent{
    "activations",  "activation_alpha", "activation_beta",    "clip", "direction", "hidden_size",
    "input_forget", "layout",           "linear_before_reset"};

}  // namespace

const KernelTable& recurrent_kernels() {
  static const KernelTable table{{"LSTM", {3, 7, 3, kRecurrent, run_recurrent}},
                                 {"GRU", {3, 6, 2, kRecurrent, run_recurrent}},
                                 {"RNN", {3, 6, 2, kRecurrent, run_recurrent}}};
  return table;
}

}  // namespace ferrite::onnx
