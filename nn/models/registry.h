// The networks for images by torchvision's names, for programs that choose one at run time.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ferrite/nn/module.h"

namespace ferrite::nn {

/// The options of make_image_model().
struct ImageModelOptions {
  std::int64_t classes = 1000;
  std::int64_t in_channels = 3;
  std::int64_t image_size = 224;  ///< height and width, which vision transformers must know
  /// For images of some 32 x 32: the ResNets' small stem, and some 64 patches of vision
  /// transformers.
  bool small_images = false;
  /// Scales the channels; 1 is torchvision's network. SqueezeNet has no such scale.
  double width = 1;
};

/// All names that make_image_model() knows, in the order of the families.
std::vector<std::string> image_model_names();

/// `make_image_model("resnext50_32x4d", {.classes = 10})`. ValueError, with the closest name, for
/// others, and for sizes that the network does not take.
std::unique_ptr<Module> make_image_model(std::string_view name,
                                         const ImageModelOptions& options = {});

}  // namespace ferrite::nn
