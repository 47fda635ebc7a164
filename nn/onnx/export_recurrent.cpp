// LSTM, GRU and RNN: one node a layer, with the gates in ONNX's order.
#include "ferrite/nn/onnx/builder.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/creation.h"

namespace ferrite::onnx {

namespace {

/// Where ONNX has the gates of PyTorch's order: LSTM i f g o is there i o f g, GRU r z n is z r n.
std::vector<std::size_t> gate_order(const std::string& mode) {
  if (mode == "LSTM") return {0, 3, 1, 2};
  if (mode == "GRU") return {1, 0, 2};
  return {0};
}

/// The rows of a weight or bias by gates, in ONNX's order.
Tensor reordered(const Tensor& t, const std::vector<std::size_t>& order) {
  const std::vector<Tensor> gates = chunk(t.detach(), static_cast<std::int64_t>(order.size()));
  std::vector<Tensor> out;
  for (const std::size_t g : order) out.push_back(gates[g]);
  return cat(out, 0);
}

}  // namespace

void export_rnn(Exported& e) {
  const std::string& mode = e.op.text("mode");
  if (e.op.integer("proj_size") > 0)
    e.op.refuse("its hidden states are projected (proj_size), which ONNX has no operator for");
  const std::int64_t hidden = e.op.integer("hidden_size");
  const bool bias = e.op.flag("bias"), two_ways = e.op.flag("bidirectional");
  const std::size_t ways = two_ways ? 2 : 1, each = bias ? 4 : 2;
  const std::size_t layers = static_cast<std::size_t>(e.op.integer("num_layers"));
  const bool batched = e.input(0).dim() == 3, turned = batched && e.op.flag("batch_first");
  Builder& graph = e.graph;
  const auto transposed = [&](const std::string& x) {
    return graph.node("Transpose", {x}, {{"perm", std::vector<std::int64_t>{1, 0, 2}}});
  };
  const std::string one = graph.integers({1});

  std::string x = e.inputs[0];
  if (!batched) x = graph.node("Unsqueeze", {x, one});
  if (turned) x = transposed(x);
  std::vector<std::string> last[2];
  const std::vector<std::size_t> order = gate_order(mode);
  const char* const type = mode.starts_with("RNN") ? "RNN" : mode == "GRU" ? "GRU" : "LSTM";
  for (std::size_t layer = 0; layer < layers; ++layer) {
    std::vector<Tensor> w, r, b;
    for (std::size_t way = 0; way < ways; ++way) {
      const std::size_t at = 3 + (layer * ways + way) * each;
      const auto part = [&](std::size_t i) {
        if (!e.input(at + i).is_constant())
          e.op.refuse("its weights are computed from others, while its node holds numbers");
        return reordered(e.input(at + i).tensor, order);
      };
      w.push_back(part(0));
      r.push_back(part(1));
      if (bias) b.push_back(cat({part(2), part(3)}, 0));
    }
    const auto name = [&](const char* what) {
      return fmt::format("{}{}{}_l{}", e.op.path, e.op.path.empty() ? "" : ".", what, layer);
    };
    std::vector<std::string> inputs{x, graph.initializer(name("W"), stack(w, 0)),
                                    graph.initializer(name("R"), stack(r, 0)),
                                    bias ? graph.initializer(name("B"), stack(b, 0)) : "", ""};
    for (std::size_t state = 0; state < 2; ++state) {
      if (!e.has(1 + state)) continue;
      std::string given = e.inputs[1 + state];
      if (!batched) given = graph.node("Unsqueeze", {given, one});
      const auto from = static_cast<std::int64_t>(layer * ways);
      if (layers > 1)
        given = graph.node("Slice", {given, graph.integers({from}),
                                     graph.integers({from + static_cast<std::int64_t>(ways)}),
                                     graph.integers({0})});
      inputs.resize(std::max(inputs.size(), 6 + state));
      inputs[5 + state] = given;
    }
    std::vector<NamedAttribute> attributes{
        {"direction", std::string(two_ways ? "bidirectional" : "forward")},
        {"hidden_size", hidden}};
    if (mode == "GRU") attributes.push_back({"linear_before_reset", std::int64_t{1}});
    if (mode == "RNN_RELU")
      attributes.push_back({"activations", std::vector<std::string>(ways, "Relu")});
    std::vector<std::string> out = graph.nodes(type, inputs, attributes, mode == "LSTM" ? 3 : 2);
    // [T, ways, N, hidden] to [T, N, ways * hidden].
    if (two_ways) {
      const std::string ordered =
          graph.node("Transpose", {out[0]}, {{"perm", std::vector<std::int64_t>{0, 2, 1, 3}}});
      x = graph.node("Reshape",
                     {ordered, graph.integers({0, 0, static_cast<std::int64_t>(ways) * hidden})});
    } else {
      x = graph.node("Squeeze", {out[0], one});
    }
    for (std::size_t state = 0; state + 1 < out.size(); ++state)
      last[state].push_back(out[state + 1]);
  }
  e.outputs[0] = !batched ? graph.node("Squeeze", {x, one}) : turned ? transposed(x) : x;
  for (std::size_t state = 0; state < 2; ++state) {
    if (last[state].empty()) continue;
    std::string all = last[state].size() == 1
                          ? last[state][0]
                          : graph.node("Concat", last[state], {{"axis", std::int64_t{0}}});
    if (!batched) all = graph.node("Squeeze", {all, one});
    e.outputs[1 + state] = all;
  }
}

}  // namespace ferrite::onnx
