#include "ferrite/ops/norm_gradient.h"

#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/norm_arguments.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/unary.h"

namespace ferrite::ops {

using autograd::Gradients;
using autograd::Needs;

namespace {

/// x normalised over `dims`, and the inverse of its standard deviation; or of the root of its mean
/// square, where its mean counts as 0.
struct Normal {
  Tensor x, invstd;
  bool centered = true;
};

Normal normalized(const Tensor& x, const Dims& dims, double eps, bool centered = true) {
  const Tensor distance = centered ? x - mean(x, dims, true) : x;
  const Tensor invstd = rsqrt(mean(square(distance), dims, true) + eps);
  return {distance * invstd, invstd, centered};
}

/// The gradient of x through normalized(), from that of its result.
Tensor through(const Normal& normal, const Tensor& grad, const Dims& dims) {
  const Tensor moved = normal.centered ? grad - mean(grad, dims, true) : grad;
  return normal.invstd * (moved - normal.x * mean(grad * normal.x, dims, true));
}

}  // namespace

Gradients batch_norm_gradient(const BatchNormInputs& norm, const Tensor& grad,
                              const BatchNormNeeds& needs) {
  const DType wide = norms::statistics_dtype(norm.x.dtype());
  const int n = norm.x.dim();
  Shape per_channel = Shape::filled(n, 1), all_but_channels{0};
  per_channel[1] = norm.x.size(1);
  for (int d = 2; d < n; ++d) all_but_channels.push_back(d);
  const Dims dims(all_but_channels);
  const auto spread = [&](const Tensor& t) { return t.to(wide).reshape(per_channel); };
  const Tensor x = norm.x.to(wide);
  const bool given = norm.mean.defined();
  const Normal normal =
      given ? Normal{(x - spread(norm.mean)) * spread(norm.invstd), spread(norm.invstd)}
            : normalized(x, dims, norm.eps);
  Tensor dy = grad.to(wide);
  if (norm.relu) {
    const Tensor passed = no_grad([&] {
      if (norm.out.defined()) return gt(norm.out, 0);
      Tensor y = norm.weight.defined() ? normal.x * spread(norm.weight) : normal.x;
      return gt(norm.bias.defined() ? y + spread(norm.bias) : y, 0);
    });
    dy = where(passed, dy, 0);
  }
  Gradients g(4);
  if (needs.input) {
    const Tensor scaled = norm.weight.defined() ? dy * spread(norm.weight) : dy;
    g[0] = (given ? scaled * normal.invstd : through(normal, scaled, dims)).to(norm.x.dtype());
  }
  if (needs.weight) g[1] = sum(dy * normal.x, dims);
  if (needs.bias) g[2] = sum(dy, dims);
  if (needs.residual) g[3] = dy.to(grad.dtype());
  return g;
}

Gradients layer_norm_gradient(const Tensor& x, const Tensor& weight, int last, double eps,
                              bool centered, const Tensor& grad, Needs needs) {
  const DType wide = norms::statistics_dtype(x.dtype());
  Shape normalized_dims, rows;
  for (int d = 0; d < x.dim(); ++d) (d < x.dim() - last ? rows : normalized_dims).push_back(d);
  const Dims dims(normalized_dims);
  const Normal normal = normalized(x.to(wide), dims, eps, centered);
  const Tensor dy = grad.to(wide);
  const auto over_rows = [&](const Tensor& t) { return rows.size() > 0 ? sum(t, Dims(rows)) : t; };
  Gradients g(3);
  if (needs[0]) {
    const Tensor scaled = weight.defined() ? dy * weight.to(wide) : dy;
    g[0] = through(normal, scaled, dims).to(x.dtype());
  }
  if (needs[1]) g[1] = over_rows(dy * normal.x);
  if (needs[2]) g[2] = over_rows(dy);
  return g;
}

Gradients group_norm_gradient(const Tensor& x, const Tensor& weight, std::int64_t groups,
                              double eps, const Tensor& grad, Needs needs) {
  const DType wide = norms::statistics_dtype(x.dtype());
  const std::int64_t images = x.size(0), channels = x.size(1);
  std::int64_t pixels = 1;
  for (int d = 2; d < x.dim(); ++d) pixels *= x.size(d);
  const auto grouped = [&](const Tensor& t) {
    return t.to(wide).reshape({images, groups, channels / groups, pixels});
  };
  const Dims of_group{2, 3}, all_but_channels{0, 3};
  const Normal normal = normalized(grouped(x), of_group, eps);
  const Tensor dy = grouped(grad);
  Gradients g(3);
  if (needs[0]) {
    const Tensor scaled =
        weight.defined() ? dy * weight.to(wide).reshape({1, groups, channels / groups, 1}) : dy;
    g[0] = through(normal, scaled, of_group).reshape(x.shape()).to(x.dtype());
  }
  if (needs[1]) g[1] = sum(dy * normal.x, all_but_channels).reshape({channels});
  if (needs[2]) g[2] = sum(dy, all_but_channels).reshape({channels});
  return g;
}

}  // namespace ferrite::ops
