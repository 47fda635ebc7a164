// Runs ops on inputs from a file, forward and backward, and writes the results:
//
//   differential cases.json cases.bin results.json results.bin DEVICE
//
// compare.py writes the cases and compares the results with PyTorch's.
#include <fmt/core.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "ferrite/autograd/engine.h"
#include "ferrite/core/generator.h"
#include "ferrite/ops/complex.h"
#include "ferrite/ops/copy.h"
#include "ferrite/tests/differential/ops.h"

namespace ferrite::differential {

namespace {

std::string read_file(const char* path) {
  std::ifstream in(path, std::ios::binary);
  FERRITE_CHECK(in.is_open(), IoError, "differential", "cannot open {}", path);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Writes the bytes of results, and their offsets.
class Writer {
 public:
  Json put(const Tensor& t) {
    if (!t.defined()) return nullptr;
    const Tensor host = t.detach().cpu().contiguous();
    const Json entry = {{"dtype", std::string(name(t.dtype()))},
                        {"shape", std::vector<std::int64_t>(t.shape().begin(), t.shape().end())},
                        {"at", bytes_.size()}};
    bytes_.append(static_cast<const char*>(host.data_ptr()), host.nbytes());
    return entry;
  }
  void write(const char* path) const { std::ofstream(path, std::ios::binary) << bytes_; }

 private:
  std::string bytes_;
};

Tensor make_leaf(const Json& spec, const std::string& bytes, const Device& device) {
  const Tensor host =
      empty(to_shape(spec["shape"]), {.dtype = parse_dtype(spec["dtype"].get<std::string>())});
  if (host.nbytes() > 0)
    std::memcpy(host.data_ptr(), bytes.data() + spec["at"].get<std::size_t>(), host.nbytes());
  const Tensor leaf = host.to(device);
  if (spec["grad"].get<bool>()) leaf.set_requires_grad();
  return leaf;
}

Tensor apply_view(const Tensor& t, const Json& view) {
  const std::string kind = view[0];
  if (kind == "transpose") return t.transpose(view[1], view[2]);
  if (kind == "slice") return t.slice(view[1], view[2], view[3], view[4]);
  if (kind == "expand") return t.expand(to_shape(view[1]));
  if (kind == "channels_last") return t.contiguous(kChannelsLast);
  fail<ValueError>("differential", "there is no view '{}'", kind);
}

/// Small numbers that every dtype can represent, depending on the position.
Tensor make_weight(const Tensor& out) {
  std::vector<float> values(static_cast<std::size_t>(out.numel()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = (static_cast<float>(i * 7 % 11) - 5) / 4;
  Tensor weight = from_vector(values, out.shape());
  if (out.is_complex()) {
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = (static_cast<float>(i * 5 % 7) - 3) / 4;
    weight = complex(weight, from_vector(values, out.shape()));
  }
  return weight.to(out.device(), out.dtype());
}

void run_backward(const Tensors& outputs) {
  Tensors roots, weights;
  for (const Tensor& out : outputs)
    if (out.defined() && out.requires_grad())
      roots.push_back(out), weights.push_back(make_weight(out));
  if (!roots.empty()) autograd::backward(roots, weights);
}

Json run_case(const Json& c, const std::string& bytes, const Table& table, const Device& device,
              Writer& writer) {
  const std::string op = c["op"];
  const auto entry = table.find(op);
  FERRITE_CHECK(entry != table.end(), ValueError, "differential", "there is no op '{}'", op);
  const bool inplace = op.back() == '_';
  Json result = {{"outputs", Json::array()}, {"grads", Json::array()}};
  Tensors leaves, inputs, outputs;
  Tensor base;
  try {
    for (const Json& spec : c["in"]) {
      leaves.push_back(make_leaf(spec, bytes, device));
      Tensor input = leaves.back();
      if (inplace && inputs.empty()) base = input = input.clone();
      for (const Json& view : spec["views"]) {
        input = apply_view(input, view);
        if (inplace && inputs.empty() && view[0] == "channels_last") base = input;
      }
      inputs.push_back(input);
    }
    outputs = entry->second(inputs, c["args"]);
    if (inplace) outputs.push_back(base);
    for (const Tensor& out : outputs) result["outputs"].push_back(writer.put(out));
  } catch (const std::exception& error) {
    return {{"error", error.what()}};
  }
  try {
    run_backward(outputs);
    for (const Tensor& leaf : leaves) result["grads"].push_back(writer.put(leaf.grad()));
  } catch (const std::exception& error) {
    result["backward_error"] = error.what();
  }
  return result;
}

int run(char** argv) {
  const Json cases = Json::parse(read_file(argv[1]));
  const std::string bytes = read_file(argv[2]);
  const Device device(argv[5]);
  Table table;
  for (const auto add :
       {add_elementwise, add_reductions, add_indexing, add_statistics, add_places, add_arrangements,
        add_layers, add_spatial, add_distances, add_linalg, add_margins, add_sequences, add_complex,
        add_modules, add_networks, add_optimizers})
    add(table);
  Writer writer;
  Json results = Json::array();
  for (const Json& c : cases) {
    // Identifies the case after a crash.
    std::ofstream(argv[3]) << c["id"];
    results.push_back(run_case(c, bytes, table, device, writer));
  }
  writer.write(argv[4]);
  std::ofstream(argv[3]) << results;
  return 0;
}

}  // namespace

}  // namespace ferrite::differential

int main(int argc, char** argv) {
  if (argc != 6) {
    fmt::print(stderr,
               "usage: differential cases.json cases.bin results.json results.bin DEVICE\n");
    return 2;
  }
  try {
    return ferrite::differential::run(argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
