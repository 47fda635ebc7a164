// Every layer, loss and model with an input that suits it, for tests that run them all.
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
  /// Where a rounding decides which way a gradient goes, as at the maxima and kinks of a model,
  /// 16-bit types may go another way on another device.
  bool has_kinks = false;
};

const std::vector<Layer>& layer_table();

/// The same on every device, for the input of `layer` and whatever else.
Tensor make_values(const Shape& shape, DType dtype, const Device& device, int seed = 0);
Tensor make_input(const Layer& layer, DType dtype, const Device& device);

}  // namespace ferrite::test
