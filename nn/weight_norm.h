// Layers whose weight is computed from other parameters before each call.
//
//   nn::Conv2d conv = nn::utils::spectral_norm(nn::Conv2d(3, 64, 3));
//   nn::utils::weight_norm(net.get<nn::Linear>("fc"));
//
// state_dict() has PyTorch's names (torch.nn.utils.weight_norm and spectral_norm), and
// load_state_dict() also takes those of torch.nn.utils.parametrizations. The member, such as
// Linear::weight, has the value that the last call computed. Apply them before an optimizer is
// made: the layer's parameters are others afterwards.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "ferrite/nn/module.h"

namespace ferrite::nn::utils {

/// The options of spectral_norm().
struct SpectralNormOptions {
  std::string name = "weight";
  int n_power_iterations = 1;  ///< of a call in training; in eval() mode there are none
  double eps = 1e-12;          ///< the least norm that is divided by
  /// The dimension of the outputs: 1 for transposed convolutions if not given, otherwise 0.
  std::optional<int> dim = {};
};

namespace detail {
void weight_norm(Module& module, const std::string& name, std::optional<int> dim);
void spectral_norm(Module& module, const SpectralNormOptions& options);
}  // namespace detail

/// Computes the parameter `name` as weight_g * weight_v / |weight_v| from the parameters
/// "weight_g", a length for each index of dimension `dim` (one for all without `dim`, or with -1,
/// as in PyTorch), and "weight_v" (Salimans and Kingma, "Weight Normalization", 2016). ValueError
/// if the module has no such parameter; IndexError for a dimension that it does not have. Returns
/// the module.
template <std::derived_from<Module> M>
M& weight_norm(M& module, const std::string& name = "weight", std::optional<int> dim = 0) {
  detail::weight_norm(module, name, dim);
  return module;
}
template <std::derived_from<Module> M>
M weight_norm(M&& module, const std::string& name = "weight", std::optional<int> dim = 0) {
  detail::weight_norm(module, name, dim);
  return std::move(module);
}
/// Makes `name` a parameter again, of its present value.
void remove_weight_norm(Module& module, const std::string& name = "weight");

/// Computes the parameter as weight_orig / sigma, where sigma estimates the largest singular value
/// of weight_orig as a matrix, by power iteration on the buffers "weight_u" and "weight_v" (Miyato
/// et al., "Spectral Normalization for Generative Adversarial Networks", 2018), which begins with
/// 15 iterations. Errors as weight_norm's. Returns the module.
template <std::derived_from<Module> M>
M& spectral_norm(M& module, const SpectralNormOptions& options = {}) {
  detail::spectral_norm(module, options);
  return module;
}
template <std::derived_from<Module> M>
M spectral_norm(M&& module, const SpectralNormOptions& options = {}) {
  detail::spectral_norm(module, options);
  return std::move(module);
}
/// The weight is a parameter again, with its present value.
void remove_spectral_norm(Module& module, const std::string& name = "weight");

}  // namespace ferrite::nn::utils
