#include "ferrite/optim/muon.h"

#include <algorithm>
#include <cmath>

#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/reduce.h"

namespace ferrite::optim {

namespace {

constexpr Range kFewSteps{"from 0 to 99", 0, 99};
constexpr std::string_view kAdjustments[] = {"", "original", "match_rms_adamw",
                                             "spectral_unclamped"};

}  // namespace

Fields MuonOptions::fields() {
  return {{"lr", &lr, kNonNegative},
          {"weight_decay", &weight_decay, kNonNegative},
          {"momentum", &momentum, kBelowOne},
          {"nesterov", &nesterov},
          {"ns_coefficients.0", &ns_coefficients[0]},
          {"ns_coefficients.1", &ns_coefficients[1]},
          {"ns_coefficients.2", &ns_coefficients[2]},
          {"eps", &eps, kNonNegative},
          {"ns_steps", &ns_steps, kFewSteps},
          {"adjust_lr_fn", Word{&adjust_lr_fn, kAdjustments}}};
}

void MuonOptions::check() const {
  FERRITE_CHECK(std::ranges::find(kAdjustments, adjust_lr_fn) != std::end(kAdjustments), ValueError,
                kName,
                "expected adjust_lr_fn \"original\", \"match_rms_adamw\" or "
                "\"spectral_unclamped\", got \"{}\"",
                adjust_lr_fn);
}

void MuonOptions::check_parameter(const Tensor& p) {
  FERRITE_CHECK(!p.defined() || p.dim() >= 2, ValueError, kName,
                "expected matrices and kernels of convolutions, got {}; give parameters of fewer "
                "than two dimensions to another optimizer, such as AdamW",
                p.describe());
}

namespace {

/// Products are of the smaller side: X X^T of a matrix that is no taller than wide.
Tensor orthogonalized(const Tensor& matrix, const MuonOptions& o) {
  const auto [a, b, c] = o.ns_coefficients;
  const bool is_tall = matrix.size(0) > matrix.size(1);
  Tensor x = is_tall ? matrix.t() : matrix;
  x = x / clamp_min(norm(x), o.eps);
  for (std::int64_t i = 0; i < o.ns_steps; ++i) {
    const Tensor gram = x.mm(x.t());
    x = x * a + (gram * b + gram.mm(gram) * c).mm(x);
  }
  return is_tall ? x.t() : x;
}

/// The factor of the learning rate.
double adjustment(const Tensor& matrix, const MuonOptions& o) {
  const double rows = static_cast<double>(matrix.size(0)),
               columns = static_cast<double>(std::max<std::int64_t>(1, matrix.size(1)));
  if (o.adjust_lr_fn == "match_rms_adamw") return 0.2 * std::sqrt(std::max(rows, columns));
  const double ratio = rows / columns;
  return std::sqrt(o.adjust_lr_fn == "spectral_unclamped" ? ratio : std::max(1.0, ratio));
}

}  // namespace

void Muon::update(ParameterStep& p, const MuonOptions& o) {
  const Tensor buffer = p.state("momentum_buffer"), added = p.grad * (1 - p.momentum);
  buffer.mul_(p.momentum).add_(added);
  const Tensor matrix = (o.nesterov ? buffer * p.momentum + added : buffer).flatten(1);
  const Tensor direction = orthogonalized(matrix, o).reshape(p.param.shape());
  if (o.weight_decay != 0) p.param.mul_(1 - p.lr * o.weight_decay);
  p.param.sub_(direction * (p.lr * adjustment(matrix, o)));
}

}  // namespace ferrite::optim
