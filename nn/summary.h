// The layers and costs of a model, as a table like those of torchinfo and Keras.
//
//   nn::ResNet18 model;
//   std::cout << nn::summary(model, {1, 3, 224, 224});
//
// Layer (type)             Output shape         Parameters  Trainable    Multiply-adds
// ResNet18                 [1, 1000]                    --  yes                     --
// ├─conv1 (Conv2d)         [1, 64, 112, 112]         9,408  yes            118,013,952
// ├─bn1 (BatchNorm2d)      [1, 64, 112, 112]           128  yes                     --
// ...
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "ferrite/nn/module.h"

namespace ferrite::nn {

struct SummaryOptions {
  /// The number of levels below the model that str() shows; deeper modules count in the rows of
  /// their parents.
  int depth = 3;
  /// The dtype of the input that is created from a shape. Default: that of the model's first
  /// floating-point parameter.
  std::optional<DType> dtype = {};
};

/// One module.
struct SummaryRow {
  std::string path;     ///< "layer1.0.conv1"; "" is the model itself
  std::string type;     ///< "Conv2d"
  int depth = 0;        ///< 0 is the model
  bool is_leaf = true;  ///< whether it has no layers within
  /// The shape of each tensor in the result of the last call. Empty if the module was not called,
  /// or if its result contains no tensors.
  std::vector<Shape> output_shapes;
  std::int64_t calls = 0;  ///< how often the layer was called
  /// Elements of all parameters, and of the trainable ones: its own, and with those of its
  /// submodules. Shared parameters count in the row of each module.
  std::int64_t own_parameters = 0, own_trainable = 0;
  std::int64_t parameters = 0;  ///< the number of elements of all parameters
  std::int64_t trainable = 0;   ///< the number of elements of the parameters that are trained
  /// Multiply-adds of all calls: its own (no value: unknown, Module::multiply_adds), and with those
  /// of its submodules, as far as they are known.
  std::optional<std::int64_t> own_multiply_adds = 0;
  std::int64_t multiply_adds = 0;  ///< multiplications with their additions
};

struct Summary {
  std::vector<SummaryRow> rows;  ///< of all modules, parents first
  int depth = 3;                 ///< the levels that str() shows
  /// Elements, each parameter once.
  std::int64_t parameters = 0, trainable = 0;
  /// Multiply-adds of one forward of the given batch. Matrix products and convolutions count;
  /// biases, activations, norms and pooling do not.
  std::int64_t multiply_adds = 0;
  bool multiply_adds_known = true;  ///< whether they are known for every layer with weights
  /// In bytes. Activations are estimated as in torchinfo: the outputs of all calls of layers with
  /// parameters and without submodules, once for the value and once for its gradient.
  std::int64_t input_bytes = 0, activation_bytes = 0, parameter_bytes = 0;

  /// The table and the totals below it; sizes in MB (10^6 bytes).
  std::string str() const;
};

std::ostream& operator<<(std::ostream& out, const Summary& summary);

/// Runs `model` once on zeros of that shape, on the device of its parameters, in eval mode and
/// without recording. Then restores modes, hooks, the values of buffers and the states of
/// generators. Passes on exceptions of forward(). Layers that usually run as one op run one by one.
Summary summary(Module& model, const Shape& input, const SummaryOptions& options = {});
/// The same for a given input, such as the indices of words.
Summary summary(Module& model, const Tensor& input, const SummaryOptions& options = {});
/// For models of several inputs: `run` calls the model, `[&] { model(queries, keys, values); }`.
Summary summary(Module& model, const std::function<void()>& run,
                const SummaryOptions& options = {});

}  // namespace ferrite::nn
