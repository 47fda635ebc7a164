// Every layer, loss and model with a suitable input, for tests that run them all.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ferrite/nn/module.h"

namespace ferrite::test {

struct Layer {
  std::string name;
  std::function<std::unique_ptr<nn::Module>()> make;
  Shape input;
  std::int64_t classes = 0;  ///< not 0: the input holds indices below it
  bool is_model = false;     ///< many layers: rounding adds up
  /// At the maxima and kinks of a model, rounding decides the path of a gradient. For 16-bit types,
  /// it may differ between devices.
  bool has_kinks = false;
};

const std::vector<Layer>& layer_table();
/// Adds layers with options that few networks use.
void add_layer_options(std::vector<Layer>& table);

/// Values for inputs and gradients, the same on every device.
Tensor make_values(const Shape& shape, DType dtype, const Device& device, int seed = 0);
Tensor make_input(const Layer& layer, DType dtype, const Device& device);

}  // namespace ferrite::test
