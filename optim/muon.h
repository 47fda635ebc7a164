// Muon (Jordan et al. 2024, https://kellerjordan.github.io/posts/muon), with torch.optim.Muon's
// options: the momentum of a matrix W of r rows and c columns, made nearly orthogonal,
//   m = momentum m + (1 - momentum) g,  u = momentum m + (1 - momentum) g  (Nesterov),
//   W -= lr * (sqrt(max(1, r / c)) * orthogonalized(u) + weight_decay W).
// It computes in the type of the parameters, float32 for 16-bit ones, where PyTorch makes the
// momentum orthogonal in bfloat16, and rounds elements of it by about a hundredth.
// It is for the matrices of hidden layers, the kernels of convolutions ([out, in * kh * kw]) among
// them. Embeddings, the last layer and all vectors are better off with AdamW.
#pragma once

#include <array>
#include <string>

#include "ferrite/optim/tensor_optimizer.h"

namespace ferrite::optim {

struct MuonOptions {
  double lr = 1e-3;
  double weight_decay = 0.1;  ///< decoupled, as AdamW's
  double momentum = 0.95;
  bool nesterov = true;  ///< whether the direction is that after the momentum's next step
  /// Coefficients a, b, c of the Newton-Schulz iteration X = a X + (b A + c A A) X with A = X X^T.
  /// It starts from u / max(|u|, eps), and ends with singular values around 1.
  std::array<double, 3> ns_coefficients = {3.4445, -4.7750, 2.0315};
  double eps = 1e-7;
  std::int64_t ns_steps = 5;  ///< the number of Newton-Schulz iterations, below 100
  /// The factor of lr for a matrix of r rows and c columns: "original" (or empty), sqrt(max(1, r /
  /// c)); "match_rms_adamw", 0.2 sqrt(max(r, c)), with which AdamW's lr and weight_decay suit (Liu
  /// et al. 2025, https://arxiv.org/abs/2502.16982); "spectral_unclamped", sqrt(r / c).
  std::string adjust_lr_fn = {};

  static constexpr const char* kName = "Muon";
  Fields fields();
  /// ValueError for another adjust_lr_fn.
  void check() const;
  /// ValueError for parameters of fewer than two dimensions.
  static void check_parameter(const Tensor& p);
};

/// Momentum whose direction is made orthogonal by Newton-Schulz iterations, for the matrices of
/// hidden layers: `Muon(matrices, {.lr = 0.02})`. ValueError for parameters of fewer than two
/// dimensions.
class Muon final : public TensorOptimizer<MuonOptions> {
 public:
  using TensorOptimizer::TensorOptimizer;

 private:
  void update(ParameterStep& p, const MuonOptions& o) override;
};

}  // namespace ferrite::optim
