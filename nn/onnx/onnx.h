// Networks to and from ONNX files: a component of its own, which is linked as ferrite::onnx.
//
//   onnx::save(net, example, "net.onnx", {.dynamic_batch = true});
//
//   auto loaded = onnx::load("net.onnx");
//   Tensor scores = (*loaded)(images);
//
// docs/onnx.md lists the ops, and says what is and is not exchanged.
#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ferrite/core/tensor.h"
#include "ferrite/nn/hooks.h"
#include "ferrite/nn/module.h"

namespace ferrite::onnx {

/// The options of onnx::save().
struct SaveOptions {
  int opset = 17;  ///< of ONNX's operators: 17 to 20
  /// Whether the first dimension of the inputs may have any size, instead of the example's.
  bool dynamic_batch = false;
  /// With dynamic_batch: the dimension of the batch in each input, -1 for none; 0 in all if empty.
  /// A recurrent layer's [T, N, *] has it in 1.
  std::vector<int> batch_dims = {};
  std::vector<std::string> input_names = {};   ///< else "input", or "input_0", "input_1", ...
  std::vector<std::string> output_names = {};  ///< else "output", or "output_0", "output_1", ...
  /// Whether batch norms are made part of the convolutions before them.
  bool fold_batch_norm = false;
  /// Whether weights lie in a file of their own, net.onnx.data: above 2 GB they must.
  bool external_data = false;
};

namespace detail {

using Forward = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;
void save(nn::Module& model, const Forward& forward, const std::vector<Tensor>& examples,
          const std::filesystem::path& path, const SaveOptions& options);

/// The tensors of what a forward() returned.
template <class Result>
std::vector<Tensor> tensors_in(Result result) {
  std::vector<Tensor> all;
  const auto collect = [&](const Tensor& t) { all.push_back(t); };
  nn::detail::for_each_tensor(result, collect);
  return all;
}

}  // namespace detail

/// Writes `model` as it computes model(example) in evaluation mode, without autocast; its modes are
/// restored. The ops are recorded while it runs, two or three times, on variants of the example
/// with other values and, with dynamic_batch, other batch sizes, so that what depends on them is
/// told from what does not: control flow of the program is not in the file, sizes computed from the
/// batch are. Parameters and buffers have their names in the module.
///
/// ValueError if the network cannot be written: an op without equivalent, named with the path of
/// its module; a result that depends on the input in a way that is not recorded (values read by
/// item(), in-place changes of a part); other ops for other values. What the program reads through
/// pointers (data(), accessor()) is not seen: a tensor that it fills from that is found only as far
/// as the runs differ. IoError if the file
/// cannot be written. After an error there is no file, or the old one; with external_data the two
/// files appear one after the other, so that if the second cannot be renamed, or the process ends
/// between them, the data are new and the model is the old one or none.
template <std::derived_from<nn::Module> Model>
void save(Model& model, const Tensor& example, const std::filesystem::path& path,
          const SaveOptions& options = {}) {
  detail::save(
      model,
      [&](const std::vector<Tensor>& inputs) { return detail::tensors_in(model(inputs[0])); },
      {example}, path, options);
}
/// Exports a model of several inputs: model(a, b).
template <std::derived_from<nn::Module> Model, std::same_as<Tensor>... Inputs>
void save(Model& model, const std::tuple<Inputs...>& examples, const std::filesystem::path& path,
          const SaveOptions& options = {}) {
  const auto all = std::apply([](const auto&... t) { return std::vector<Tensor>{t...}; }, examples);
  detail::save(
      model,
      [&](const std::vector<Tensor>& inputs) {
        return [&]<std::size_t... I>(std::index_sequence<I...>) {
          return detail::tensors_in(model(inputs[I]...));
        }
        (std::index_sequence_for<Inputs...>());
      },
      all, path, options);
}
/// Exports any function of the model, for inputs and outputs of other types.
inline void save(nn::Module& model, const detail::Forward& forward,
                 const std::vector<Tensor>& examples, const std::filesystem::path& path,
                 const SaveOptions& options = {}) {
  detail::save(model, forward, examples, path, options);
}

class Graph;

/// A network from an ONNX file. Its floating initializers are parameters under their names
/// ("layer1.0.conv1.weight" is `weight` of the submodule `layer1.0.conv1`), and trainable; the
/// running statistics of batch norms are buffers; single numbers and integers belong to the graph.
/// Dropout follows train() and eval(); batch norms use their running statistics, except under
/// train() in files that were exported for training.
class Network : public nn::Module {
 public:
  explicit Network(std::unique_ptr<Graph> graph);
  ~Network() override;

  /// The first output, for a network with one input and at least one output.
  Tensor forward(const Tensor& input) override;
  /// All outputs, for inputs in the order of input_names(). ValueError for another number of
  /// inputs; ShapeError or DTypeError, which name the input, if one does not fit the file's
  /// description. After to(dtype), floating inputs have that dtype.
  std::vector<Tensor> run(const std::vector<Tensor>& inputs);

  /// A copy with tensors of its own.
  std::unique_ptr<Network> clone() const;

  /// The names of the inputs in the file.
  const std::vector<std::string>& input_names() const;
  /// The names of the outputs in the file.
  const std::vector<std::string>& output_names() const;
  std::string name() const override { return "Network"; }
  std::string extra_repr() const override;

 protected:
  std::unique_ptr<Module> copy() const override;

 private:
  std::unique_ptr<Graph> graph_;
};

/// Reads a network. IoError for a file that is damaged, or whose weights lie outside of its folder;
/// ValueError, with op type and name of the node, for ops or attributes that are not read, for
/// cycles and names that nothing defines; DTypeError for types that Ferrite does not have.
std::unique_ptr<Network> load(const std::filesystem::path& path);

}  // namespace ferrite::onnx
