// What a model is made of and costs: a table of its layers, as torchinfo's and Keras'.
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
  /// Levels below the model that str() shows; what lies deeper counts in the rows above it.
  int depth = 3;
  /// Of the input that is made of a shape: that of the model's first floating-point parameter where
  /// it is not given.
  std::optional<DType> dtype = {};
};

/// One module.
struct SummaryRow {
  std::string path;  ///< "layer1.0.conv1"; "" is the model itself
  std::string type;  ///< "Conv2d"
  int depth = 0;     ///< 0 is the model
  bool is_leaf = true;
  /// Of the last call: of each tensor in the result. Empty where the module was not called, or its
  /// result holds no tensors.
  std::vector<Shape> output_shapes;
  std::int64_t calls = 0;
  /// Elements of its parameters, and of those that are trainable: its own, and with all below it.
  /// Parameters that several modules share are in the rows of each.
  std::int64_t own_parameters = 0, own_trainable = 0;
  std::int64_t parameters = 0, trainable = 0;
  /// Of all calls: its own (no value: not known, Module::multiply_adds) and with those below it,
  /// as far as they are known.
  std::optional<std::int64_t> own_multiply_adds = 0;
  std::int64_t multiply_adds = 0;
};

struct Summary {
  std::vector<SummaryRow> rows;  ///< of all modules, parents first
  int depth = 3;                 ///< what str() shows
  /// Elements, each parameter once.
  std::int64_t parameters = 0, trainable = 0;
  /// Of one forward of the batch that was given. A product of matrices or a convolution counts;
  /// additions of biases, activations, norms and pooling do not.
  std::int64_t multiply_adds = 0;
  bool multiply_adds_known = true;  ///< whether every layer with weights said how many it needs
  /// In bytes. Activations are estimated as torchinfo does it: the outputs of all calls of layers
  /// with parameters and without layers below them, once for the value and once for its gradient.
  std::int64_t input_bytes = 0, activation_bytes = 0, parameter_bytes = 0;

  /// The table and the totals below it; sizes in MB (10^6 bytes).
  std::string str() const;
};

std::ostream& operator<<(std::ostream& out, const Summary& summary);

/// Runs `model` once on zeros of that shape, on the device of its parameters, in eval mode and
/// without recording, and puts everything back as it was: modes, hooks, the values of buffers,
/// random numbers. What forward() throws comes out. Layers that run as one op otherwise run one by
/// one.
Summary summary(Module& model, const Shape& input, const SummaryOptions& options = {});
/// The same on an input of another kind, as indices of words.
Summary summary(Module& model, const Tensor& input, const SummaryOptions& options = {});
/// For models of several inputs: `run` calls the model, `[&] { model(queries, keys, values); }`.
Summary summary(Module& model, const std::function<void()>& run,
                const SummaryOptions& options = {});

}  // namespace ferrite::nn
