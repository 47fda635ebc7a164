// Values and gradients of functions made of others, recorded from PyTorch as one number each: the
// sum of a result with weights. Then their second derivatives, and what PyTorch does at the edges.
#include <doctest/doctest.h>

#include <cmath>

#include "ferrite/autograd/engine.h"
#include "ferrite/autograd/gradcheck.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/arrange.h"
#include "ferrite/ops/blend.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/grid_sample.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/linalg.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/place.h"
#include "ferrite/ops/products.h"
#include "ferrite/ops/quantile.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/unary.h"
#include "ferrite/ops/views.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

using In = const std::vector<Tensor>&;

/// 2 sin(1.7 i + 0.3 + seed)
Tensor numbers(const Shape& shape, int seed) {
  std::vector<double> v;
  for (std::int64_t i = 0; i < shape.numel(); ++i)
    v.push_back(2 * std::sin(1.7 * static_cast<double>(i) + 0.3 + seed));
  return from_vector(v, shape);
}

/// The sum of its elements, in order, with the weights cos(0.9 i + 0.2).
Tensor checksum(const Tensor& t) {
  std::vector<double> weights;
  for (std::int64_t i = 0; i < t.numel(); ++i)
    weights.push_back(std::cos(0.9 * static_cast<double>(i) + 0.2));
  return sum(t.to(kFloat64).reshape({-1}) * from_vector(weights, {t.numel()}));
}

Tensor spd(const Tensor& x) { return matmul(x, x.mT()) + 3 * eye(x.size(-2), {.dtype = kFloat64}); }
Tensor of_unique(const Unique& u) {
  return sum(u.values) + checksum(u.inverse) + 10 * checksum(u.counts);
}
Tensor qr_parts(const Tensor& x) {
  const auto [q, r] = linalg::qr(x);
  return q.narrow(-2, 0, 3) * 2 + r;
}
Tensor eigh_parts(const Tensor& x) {
  const auto [values, vectors] = linalg::eigh(x);
  return values.unsqueeze(-2) + square(vectors);  // vectors have no sign of their own
}
Tensor qr_of_wide(const Tensor& x, const char* mode) {
  const auto [q, r] = linalg::qr(x + eye(3, x.size(-1), {.dtype = kFloat64}), mode);
  const Tensor parts[] = {q, r};
  return cat(parts, -1);
}
Tensor svd_parts(const Tensor& x, bool full_matrices = false) {
  const auto [u, s, vh] = linalg::svd(x, full_matrices);
  return s.unsqueeze(-2) + square(u.narrow(-2, 0, 3).narrow(-1, 0, 3)) +
         square(vh.narrow(-2, 0, 3).narrow(-1, 0, 3));
}

struct Case {
  const char* name;
  std::vector<Shape> shapes;
  Tensor (*f)(In);
  double value, gradient;  // NaN: none
};

const std::vector<Case>& cases() {
  static const Tensor at = tensor({{0, 1, 2, 0}, {0, 2, 2, 1}}), slices = tensor({0, 2, 0});
  static const std::vector<Case> all = {
    {"logit", {{3, 4}}, [](In x) { return logit(sigmoid(x[0]), 0.1); }, 2.588752958, 6.40124362},
    {"logsigmoid", {{3, 4}}, [](In x) { return logsigmoid(x[0] * 10); }, 18.34854355, 36.71629701},
    {"sinc", {{3, 4}}, [](In x) { return sinc(x[0]); }, 0.0170720107, -1.260529851},
    {"frac", {{3, 4}}, [](In x) { return frac(x[0] * 3); }, 1.351025257, 19.20373086},
    {"deg2rad", {{3, 4}}, [](In x) { return deg2rad(x[0]) + rad2deg(x[0]); }, 148.369801, 366.8759659},
    {"hypot", {{3, 4}, {4}}, [](In x) { return hypot(x[0], x[1]); }, -0.7798044753, -0.8041025383},
    {"copysign", {{3, 4}, {4}}, [](In x) { return copysign(x[0], x[1]); }, 0.9868341394, 2.608277322},
    {"logaddexp", {{3, 4}, {4}}, [](In x) { return logaddexp(x[0], x[1]) + logaddexp2(x[0], x[1]); }, 3.62053452, 7.111789035},
    {"xlogy", {{3, 4}, {4}}, [](In x) { return xlogy(x[0], x[1] * x[1]); }, -1.679195434, -5.272567449},
    {"lerp", {{3, 4}, {4}, {3, 1}}, [](In x) { return lerp(x[0], x[1], x[2]); }, 0.9161912216, 12.86035326},
    {"lerp number", {{3, 4}, {4}}, [](In x) { return lerp(x[0], x[1], 0.7); }, 2.360333583, 3.060067064},
    {"addcmul", {{3, 4}, {4}, {3, 1}}, [](In x) { return addcmul(x[0], x[1], x[2], 2) + addcdiv(x[0], x[1], x[2], 2); }, 18.90536408, 26.98376928},
    {"einsum product", {{2, 3, 4}, {2, 4, 5}}, [](In x) { return einsum("bij,bjk->ikb", {x[0], x[1]}); }, 6.741307883, 1.805597542},
    {"einsum three", {{2, 3}, {3, 4}, {4, 2}}, [](In x) { return einsum("ij,jk,ki", {x[0], x[1], x[2]}); }, 1.996439404, 12.98310952},
    {"einsum implicit", {{2, 3}, {4, 2}}, [](In x) { return einsum("ba,cb", {x[0], x[1]}); }, -2.223088236, 1.149110183},
    {"einsum ellipsis", {{2, 1, 3, 4}, {5, 4}}, [](In x) { return einsum("...ij,...j->i...", {x[0], x[1]}); }, 33.20171417, 11.91061718},
    {"einsum diagonal", {{3, 2, 3}, {3}}, [](In x) { return einsum("iji,i->ji", {x[0], x[1]}); }, 2.894001291, 7.098665827},
    {"einsum outer", {{3}, {2}}, [](In x) { return einsum("i,j", {x[0], x[1]}); }, 0.8540957744, 2.098299692},
    {"tensordot", {{2, 3, 4}, {4, 2, 5}}, [](In x) { return tensordot(x[0], x[1], {2, 0}, {0, 1}); }, 0.1282996839, 8.244078483},
    {"inner", {{2, 3, 4}, {5, 4}}, [](In x) { return inner(x[0], x[1]); }, 17.00631162, -1.029462334},
    {"kron", {{2, 3}, {2}}, [](In x) { return kron(x[0], x[1]); }, -3.282632567, -3.216607364},
    {"baddbmm", {{3, 5}, {2, 3, 4}, {2, 4, 5}}, [](In x) { return baddbmm(x[0], x[1], x[2], 2, 3) + addbmm(x[0], x[1], x[2], 2, 3); }, -39.99736624, 121.8322832},
    {"addmv", {{3}, {3, 4}, {4}}, [](In x) { return addmv(x[0], x[1], x[2], 2, 3); }, 18.39237158, 9.655960614},
    {"addr", {{3, 4}, {3}, {4}}, [](In x) { return addr(x[0], x[1], x[2], 2, 3); }, -3.866574655, 12.79515371},
    {"cross", {{2, 3}, {1, 3}}, [](In x) { return cross(x[0], x[1], -1); }, 1.580934085, 0.7325723771},
    {"cdist", {{3, 4}, {2, 5, 4}}, [](In x) { return cdist(x[0], x[1]) + cdist(x[0], x[1], 1); }, 38.3753296, -18.53162289},
    {"pairwise_distance", {{3, 4}, {3, 4}}, [](In x) { return pairwise_distance(x[0], x[1], 3); }, 2.462426457, 0},
    {"pdist", {{5, 3}}, [](In x) { return pdist(x[0]) + pdist(x[0], 3); }, 11.3847685, 6.548266076},
    {"cosine_similarity", {{3, 4}, {3, 4}}, [](In x) { return cosine_similarity(x[0], x[1]); }, 0.4344347934, 0.2329580193},
    {"normalize", {{3, 4}}, [](In x) { return normalize(x[0], 3, 0); }, 1.265143448, 2.998348898},
    {"logsumexp", {{2, 3, 4}}, [](In x) { return logsumexp(x[0], {0, 2}); }, 3.006122029, 0.1992649137},
    {"diff", {{2, 3, 4}}, [](In x) { return diff(x[0], 2, 1); }, -0.8736437271, 8.584434329},
    {"trace", {{3, 4}}, [](In x) { return trace(x[0]); }, -0.2339164722, -0.007022869963},
    {"cumprod", {{3, 4}}, [](In x) { return cumprod(x[0], 1); }, 0.1140173496, -5.324862791},
    {"cumprod of zeros", {{3, 4}}, [](In x) { return cumprod(x[0] * tensor({{0.0, 1.0, 1.0, 0.0}, {1.0, 0.0, 1.0, 1.0}, {1.0, 1.0, 1.0, 1.0}}, kFloat64), 1); }, 0.5312779846, -0.6763184958},
    {"prod of zeros", {{3, 4}}, [](In x) { return prod(x[0] * tensor({{0.0, 1.0, 1.0, 0.0}, {1.0, 0.0, 1.0, 1.0}, {1.0, 1.0, 1.0, 1.0}}, kFloat64), 1); }, 0.1044974808, -0.4067654535},
    {"logcumsumexp", {{3, 4}}, [](In x) { return logcumsumexp(x[0], 0); }, 0.9937467223, 3.318217839},
    {"cummax", {{3, 6}}, [](In x) { return cummax(x[0], 1).values + cummin(x[0], 1).values; }, -2.699750761, 7.931353093},
    {"cummax indices", {{3, 6}}, [](In x) { return cummax(round(x[0]), 1).indices + 10 * cummin(round(x[0]), 1).indices; }, -158.0931311, NAN},
    {"median", {{3, 6}}, [](In x) { return median(x[0], 1).values + median(x[0]); }, 0.80444131, 0.6374534067},
    {"kthvalue", {{3, 6}}, [](In x) { return kthvalue(x[0], 2, 0).values; }, -0.6238593124, 2.358359245},
    {"mode", {{3, 6}}, [](In x) { return mode(round(x[0]), 1).values; }, 0.9051680081, 0},
    {"quantile", {{3, 6}}, [](In x) { return quantile(x[0], tensor({0.1, 0.75}, kFloat64), 1); }, -3.022224114, 0.4064424765},
    {"quantile nearest", {{3, 6}}, [](In x) { return quantile(x[0], 0.4, {}, false, Interpolation::nearest) + quantile(x[0], 0.4, {}, false, Interpolation::midpoint); }, -1.442896678, 1.820881951},
    {"histc", {{40}}, [](In x) { return histc(x[0], 7) + histc(x[0], 7, -1, 1); }, 12.57291244, NAN},
    {"take_along_dim", {{3, 4}}, [](In x) { return take_along_dim(x[0], tensor({{2}, {0}}), 0) + take(x[0], tensor({-1, 0, 5, 5})); }, 0.4673613114, -0.3737979696},
    {"index_copy", {{3, 4}, {2, 4}}, [](In x) { return index_copy(x[0], 0, tensor({2, 0}), x[1]) + index_fill(x[0], 1, tensor({1}), 7); }, 2.346724568, 7.536180308},
    {"masked_scatter", {{3, 4}, {20}}, [](In x) { return masked_scatter(x[0], tensor({{true}, {false}, {true}}), x[1]); }, 1.340159925, 2.60334584},
    {"scatter_reduce sum", {{3, 4}, {2, 4}}, [](In x) { return scatter_reduce(x[0], 0, at, x[1], "sum", false); }, 8.05573494, 4.138830427},
    {"scatter_reduce prod", {{3, 4}, {2, 4}}, [](In x) { return scatter_reduce(x[0], 0, at, x[1], "prod", true); }, 7.942804667, 7.008116811},
    {"scatter_reduce prod", {{3, 4}, {2, 4}}, [](In x) { return scatter_reduce(x[0], 0, at, x[1], "prod", false); }, 0.8597362886, 5.474884545},
    {"scatter_reduce mean", {{3, 4}, {2, 4}}, [](In x) { return scatter_reduce(x[0], 0, at, x[1], "mean", true); }, 3.659791034, 4.979069907},
    {"scatter_reduce mean", {{3, 4}, {2, 4}}, [](In x) { return scatter_reduce(x[0], 0, at, x[1], "mean", false); }, 4.332629401, 4.221354368},
    {"scatter_reduce amax", {{3, 4}, {2, 4}}, [](In x) { return scatter_reduce(x[0], 0, at, x[1], "amax", true); }, 3.797352784, 2.959136569},
    {"scatter_reduce amax", {{3, 4}, {2, 4}}, [](In x) { return scatter_reduce(x[0], 0, at, x[1], "amax", false); }, 4.217494974, 2.77262184},
    {"scatter_reduce amin", {{3, 4}, {2, 4}}, [](In x) { return scatter_reduce(x[0], 0, at, x[1], "amin", true); }, 3.009185314, 5.670086895},
    {"scatter_reduce amin", {{3, 4}, {2, 4}}, [](In x) { return scatter_reduce(x[0], 0, at, x[1], "amin", false); }, 4.447763827, 5.670086895},
    {"searchsorted", {{7}, {3, 4}}, [](In x) { return searchsorted(sort(x[0]).values, x[1]) + 10 * sum(bucketize(x[0], sort(x[0]).values, {.right = true})); }, -212.0424223, NAN},
    {"isin", {{12}}, [](In x) { return isin(round(x[0]), tensor({1.0, -2.0}, kFloat64)).to(kFloat64); }, -0.9935257056, NAN},
    {"unique", {{12}}, [](In x) { return of_unique(unique(round(x[0]), {true, true})); }, -12.31146014, NAN},
    {"unique rows", {{6, 2}}, [](In x) { return of_unique(unique(round(x[0] / 2), {true, true, 0})); }, -4.869797037, NAN},
    {"unique_consecutive", {{12}}, [](In x) { return of_unique(unique_consecutive(round(x[0] / 3), {true, true})); }, -21.91523004, NAN},
    {"bincount", {{12}}, [](In x) { return bincount(round(abs(x[0])).to(kInt64), x[0].detach(), 5); }, 1.801025723, NAN},
    {"rot90", {{2, 3, 4}}, [](In x) { return rot90(x[0], 1, {0, 2}); }, 0.7365474362, -1.199309162},
    {"rot90 back", {{2, 3, 4}}, [](In x) { return rot90(x[0], -1, {1, 2}); }, 3.544681675, -0.4072012005},
    {"block_diag", {{2, 3}, {2}}, [](In x) { return block_diag(std::vector<Tensor>{x[0], x[1]}); }, 5.926886862, 1.937615122},
    {"meshgrid", {{2}, {3}}, [](In x) { return meshgrid(std::vector<Tensor>{x[0], x[1]}, "xy")[0] * 2 + meshgrid(std::vector<Tensor>{x[0], x[1]}, "xy")[1]; }, 1.782734895, 0.1845836736},
    {"cartesian_prod", {{2}, {3}}, [](In x) { return cartesian_prod(std::vector<Tensor>{x[0], x[1]}); }, 4.247067346, 0.9815776792},
    {"combinations", {{4}}, [](In x) { return combinations(x[0], 3); }, 0.05261363985, 0.9369009797},
    {"dstack", {{2}, {2}}, [](In x) { return dstack(std::vector<Tensor>{x[0], x[1]}); }, 0.4225457231, 0.7758994467},
    {"hstack", {{2, 3}, {2, 1}}, [](In x) { return hstack(std::vector<Tensor>{x[0], x[1]}); }, 2.361313773, 1.599018207},
    {"diag_embed", {{2, 3}}, [](In x) { return diag_embed(x[0], 1, 0, 2); }, -0.6296210674, -0.758202669},
    {"diag", {{3}}, [](In x) { return diag(x[0], -2); }, -1.820580352, -1.327757526},
    {"tril_indices", {{3}}, [](In) { return sum(tril_indices(3, 4, 1) * tensor({{2}, {5}})) + checksum(triu_indices(4, 3, -1)); }, 71.36343784, NAN},
    {"repeat_interleave", {{3, 2}}, [](In x) { return repeat_interleave(x[0], tensor({2, 0, 3}), 0); }, 0.6326609705, -0.02328990261},
    {"tensor_split", {{7}}, [](In x) { return tensor_split(x[0], 3)[1] * tensor_split(x[0], std::vector<std::int64_t>{2, 4})[1]; }, 0.5830265849, 1.551129936},
    {"pixel_shuffle", {{2, 8, 2, 3}}, [](In x) { return pixel_shuffle(x[0], 2); }, -2.375485802, -13.40976089},
    {"pixel_unshuffle", {{2, 4, 6}}, [](In x) { return pixel_unshuffle(x[0], 2); }, -0.5661552247, -5.898068812},
    {"channel_shuffle", {{2, 6, 2, 1}}, [](In x) { return channel_shuffle(x[0], 3); }, 0.2666009057, -1.113886705},
    {"unfold", {{2, 3, 5, 6}}, [](In x) { return unfold(x[0], {2, 3}, {.dilation = {2, 1}, .padding = {1, 0}, .stride = {1, 2}}); }, 1.079606087, -1.288700313},
    {"fold", {{2, 12, 12}}, [](In x) { return fold(x[0], {4, 5}, 2); }, 3.931237147, -15.41878596},
    {"fold padded", {{1, 12, 4}}, [](In x) { return fold(x[0], 3, 2, {.padding = 1, .stride = 2}); }, 16.19195283, -0.5144909619},
    {"grid_sample zeros", {{2, 3, 4, 5}, {2, 3, 4, 2}}, [](In x) { return grid_sample(x[0], x[1] * 0.9, {.padding_mode = GridSamplePadding::zeros, .align_corners = true}); }, 0.4574550948, 2.060058468},
    {"grid_sample zeros", {{2, 3, 4, 5}, {2, 3, 4, 2}}, [](In x) { return grid_sample(x[0], x[1] * 0.9, {.padding_mode = GridSamplePadding::zeros, .align_corners = false}); }, 0.01462318983, 0.5397864051},
    {"grid_sample border", {{2, 3, 4, 5}, {2, 3, 4, 2}}, [](In x) { return grid_sample(x[0], x[1] * 0.9, {.padding_mode = GridSamplePadding::border, .align_corners = true}); }, -3.04645443, -7.848840604},
    {"grid_sample border", {{2, 3, 4, 5}, {2, 3, 4, 2}}, [](In x) { return grid_sample(x[0], x[1] * 0.9, {.padding_mode = GridSamplePadding::border, .align_corners = false}); }, -3.741645636, -3.185670925},
    {"grid_sample reflection", {{2, 3, 4, 5}, {2, 3, 4, 2}}, [](In x) { return grid_sample(x[0], x[1] * 0.9, {.padding_mode = GridSamplePadding::reflection, .align_corners = true}); }, 0.9672302462, 15.07792876},
    {"grid_sample reflection", {{2, 3, 4, 5}, {2, 3, 4, 2}}, [](In x) { return grid_sample(x[0], x[1] * 0.9, {.padding_mode = GridSamplePadding::reflection, .align_corners = false}); }, 1.704277534, 23.904187},
    {"grid_sample nearest", {{2, 3, 4, 5}, {2, 3, 4, 2}}, [](In x) { return grid_sample(x[0], x[1] * 0.9, {.mode = GridSampleMode::nearest}); }, 0, 0},
    {"affine_grid", {{2, 2, 3}}, [](In x) { return affine_grid(x[0], {2, 1, 3, 4}); }, -8.319413474, -1.041309765},
    {"grid_sample bicubic", {{2, 3, 4, 5}, {2, 3, 4, 2}}, [](In x) { return grid_sample(x[0], x[1] * 0.9, {.mode = GridSampleMode::bicubic, .padding_mode = GridSamplePadding::zeros, .align_corners = true}); }, 1.331848557, 5.31057983},
    {"grid_sample bicubic", {{2, 3, 4, 5}, {2, 3, 4, 2}}, [](In x) { return grid_sample(x[0], x[1] * 0.9, {.mode = GridSampleMode::bicubic, .padding_mode = GridSamplePadding::zeros, .align_corners = false}); }, 0.2670561601, 0.2658552983},
    {"grid_sample bicubic", {{2, 3, 4, 5}, {2, 3, 4, 2}}, [](In x) { return grid_sample(x[0], x[1] * 0.9, {.mode = GridSampleMode::bicubic, .padding_mode = GridSamplePadding::border, .align_corners = true}); }, -3.180012044, -5.128009402},
    {"grid_sample bicubic", {{2, 3, 4, 5}, {2, 3, 4, 2}}, [](In x) { return grid_sample(x[0], x[1] * 0.9, {.mode = GridSampleMode::bicubic, .padding_mode = GridSamplePadding::border, .align_corners = false}); }, -4.122330269, 2.264710652},
    {"grid_sample bicubic", {{2, 3, 4, 5}, {2, 3, 4, 2}}, [](In x) { return grid_sample(x[0], x[1] * 0.9, {.mode = GridSampleMode::bicubic, .padding_mode = GridSamplePadding::reflection, .align_corners = true}); }, 3.918986639, 7.539711412},
    {"grid_sample bicubic", {{2, 3, 4, 5}, {2, 3, 4, 2}}, [](In x) { return grid_sample(x[0], x[1] * 0.9, {.mode = GridSampleMode::bicubic, .padding_mode = GridSamplePadding::reflection, .align_corners = false}); }, 2.242121198, 23.35539547},
    {"grid_sample nearest", {{2, 3, 4, 5}, {2, 3, 4, 2}}, [](In x) { return grid_sample(x[0], x[1] * 0.7, {.mode = GridSampleMode::nearest}); }, 0.5527331958, 0.5464215429},
    {"grid_sample volume", {{2, 2, 3, 4, 5}, {2, 2, 3, 2, 3}}, [](In x) { return grid_sample(x[0], x[1] * 0.7, {.padding_mode = GridSamplePadding::zeros, .align_corners = true}); }, -0.3403999096, 3.149159535},
    {"grid_sample volume", {{2, 2, 3, 4, 5}, {2, 2, 3, 2, 3}}, [](In x) { return grid_sample(x[0], x[1] * 0.7, {.padding_mode = GridSamplePadding::zeros, .align_corners = false}); }, 0.09708996814, 0.2524622537},
    {"grid_sample volume", {{2, 2, 3, 4, 5}, {2, 2, 3, 2, 3}}, [](In x) { return grid_sample(x[0], x[1] * 0.7, {.padding_mode = GridSamplePadding::border, .align_corners = true}); }, -0.9077962996, 10.43995497},
    {"grid_sample volume", {{2, 2, 3, 4, 5}, {2, 2, 3, 2, 3}}, [](In x) { return grid_sample(x[0], x[1] * 0.7, {.padding_mode = GridSamplePadding::border, .align_corners = false}); }, -2.605494131, -9.166074315},
    {"grid_sample volume", {{2, 2, 3, 4, 5}, {2, 2, 3, 2, 3}}, [](In x) { return grid_sample(x[0], x[1] * 0.7, {.padding_mode = GridSamplePadding::reflection, .align_corners = true}); }, -0.5498898823, 1.235906123},
    {"grid_sample volume", {{2, 2, 3, 4, 5}, {2, 2, 3, 2, 3}}, [](In x) { return grid_sample(x[0], x[1] * 0.7, {.padding_mode = GridSamplePadding::reflection, .align_corners = false}); }, -1.650053166, -5.264256929},
    {"grid_sample nearest volume", {{2, 2, 3, 4, 5}, {2, 2, 3, 2, 3}}, [](In x) { return grid_sample(x[0], x[1] * 0.7, {.mode = GridSampleMode::nearest, .padding_mode = GridSamplePadding::zeros, .align_corners = true}); }, 2.307533733, 0.05200658871},
    {"grid_sample nearest volume", {{2, 2, 3, 4, 5}, {2, 2, 3, 2, 3}}, [](In x) { return grid_sample(x[0], x[1] * 0.7, {.mode = GridSampleMode::nearest, .padding_mode = GridSamplePadding::border, .align_corners = false}); }, -2.032825304, 2.334864949},
    {"grid_sample nearest volume", {{2, 2, 3, 4, 5}, {2, 2, 3, 2, 3}}, [](In x) { return grid_sample(x[0], x[1] * 0.7, {.mode = GridSampleMode::nearest, .padding_mode = GridSamplePadding::reflection, .align_corners = true}); }, 3.620962713, -0.04066429271},
    {"affine_grid volume", {{2, 3, 4}}, [](In x) { return affine_grid(x[0], {2, 1, 2, 3, 4}, false); }, -7.353253043, -0.4079712503},
    {"affine_grid volume", {{2, 3, 4}}, [](In x) { return affine_grid(x[0], {2, 1, 2, 3, 4}, true); }, -7.336068562, -0.7657055916},
    {"cholesky", {{2, 3, 3}}, [](In x) { return linalg::cholesky(spd(x[0])); }, -0.6849541164, 0.3838292141},
    {"solve", {{2, 3, 3}, {3, 2}}, [](In x) { return linalg::solve(spd(x[0]) + x[0], x[1]); }, -0.2381767224, -0.7104070554},
    {"solve vector", {{3, 3}, {3}}, [](In x) { return linalg::solve(spd(x[0]) + x[0], x[1]); }, 0.2151793387, 0.05707714819},
    {"inv", {{2, 3, 3}}, [](In x) { return linalg::inv(spd(x[0]) + x[0]); }, -0.04298143421, -0.2179237096},
    {"det", {{2, 3, 3}}, [](In x) { return linalg::det(spd(x[0]) + x[0]) + std::get<1>(linalg::slogdet(spd(x[0]) - 9 * x[0])); }, 712.6763131, 171.1370071},
    {"qr", {{2, 4, 3}}, [](In x) { return qr_parts(x[0] + eye(4, 3, {.dtype = kFloat64})); }, -1.549579958, -1.936646568},
    {"qr wide", {{2, 3, 5}}, [](In x) { return qr_of_wide(x[0], "reduced"); }, 1.978140891, 0.2850904421},
    {"qr complete", {{2, 3, 5}}, [](In x) { return qr_of_wide(x[0], "complete"); }, 1.978140891, 0.2850904421},
    {"qr complete", {{2, 3, 3}}, [](In x) { return qr_of_wide(x[0], "complete"); }, 1.246894014, -5.38282817},
    {"qr wide, q", {{2, 3, 5}}, [](In x) { return std::get<0>(linalg::qr(x[0] + eye(3, 5, {.dtype = kFloat64}))); }, 1.118579089, 0.3462644891},
    {"qr wide, r", {{2, 3, 5}}, [](In x) { return std::get<1>(linalg::qr(x[0] + eye(3, 5, {.dtype = kFloat64}))); }, -1.150082251, -7.239681896},
    {"eigh", {{2, 3, 3}}, [](In x) { return eigh_parts(spd(x[0])); }, -8.820500642, -3.260371915},
    {"svd", {{2, 4, 3}}, [](In x) { return svd_parts(x[0] + eye(4, 3, {.dtype = kFloat64})); }, 2.543385966, 0.8843500735},
    {"svd full", {{2, 4, 3}}, [](In x) { return svd_parts(x[0] + eye(4, 3, {.dtype = kFloat64}), true); }, 2.543385966, 0.8843500735},
    {"svd full", {{2, 3, 5}}, [](In x) { return svd_parts(x[0] + eye(3, 5, {.dtype = kFloat64}), true); }, 3.813779131, 1.268003286},
    {"svdvals", {{2, 3, 4}}, [](In x) { return linalg::svdvals(x[0] + eye(3, 4, {.dtype = kFloat64})) + linalg::eigvalsh(spd(x[0])); }, -12.43650133, 2.495400575},
    {"pinv", {{2, 4, 3}}, [](In x) { return linalg::pinv(x[0] + eye(4, 3, {.dtype = kFloat64})); }, -0.2077097727, -0.5220474345},
    {"lstsq", {{4, 3}, {4, 2}}, [](In x) { return linalg::lstsq(x[0] + eye(4, 3, {.dtype = kFloat64}), x[1]); }, 0.7568675617, 0.8394939849},
    {"matrix_power", {{2, 3, 3}}, [](In x) { return linalg::matrix_power(x[0], 5) + linalg::matrix_power(spd(x[0]), -2); }, -25.39989165, -199.7459644},
    {"matrix_norm", {{2, 3, 4}}, [](In x) { return linalg::matrix_norm(x[0] + eye(3, 4, {.dtype = kFloat64})) + linalg::matrix_norm(x[0] + eye(3, 4, {.dtype = kFloat64}), "nuc") + linalg::matrix_norm(x[0], 1.0) + linalg::matrix_norm(x[0], -INFINITY) + linalg::matrix_norm(x[0] + eye(3, 4, {.dtype = kFloat64}), 2.0); }, 37.96729854, 2.181885692},
    {"norm", {{3, 4}}, [](In x) { return linalg::norm(x[0]) + sum(linalg::norm(x[0], 3.0, 1)) + linalg::vector_norm(x[0], 1); }, 25.67355699, 1.834307236},
    {"index_reduce prod", {{3, 4}, {3, 4}}, [](In x) { return index_reduce(x[0], 0, slices, x[1], "prod", true); }, -2.388610364, 4.17949414},
    {"index_reduce prod", {{3, 4}, {3, 4}}, [](In x) { return index_reduce(x[0], 0, slices, x[1], "prod", false); }, -0.03375805344, 3.068437652},
    {"index_reduce mean", {{3, 4}, {3, 4}}, [](In x) { return index_reduce(x[0], 0, slices, x[1], "mean", true); }, 0.7606136182, 4.207459385},
    {"index_reduce mean", {{3, 4}, {3, 4}}, [](In x) { return index_reduce(x[0], 0, slices, x[1], "mean", false); }, -0.2848134469, 2.161092823},
    {"index_reduce amax", {{3, 4}, {3, 4}}, [](In x) { return index_reduce(x[0], 0, slices, x[1], "amax", true); }, -0.3142943, 3.370927364},
    {"index_reduce amax", {{3, 4}, {3, 4}}, [](In x) { return index_reduce(x[0], 0, slices, x[1], "amax", false); }, -0.6038902283, 2.650985029},
    {"index_reduce amin", {{3, 4}, {3, 4}}, [](In x) { return index_reduce(x[0], 0, slices, x[1], "amin", true); }, 1.856269619, 5.279880981},
    {"index_reduce amin", {{3, 4}, {3, 4}}, [](In x) { return index_reduce(x[0], 0, slices, x[1], "amin", false); }, 0.03426333453, 1.671200617},
    {"index_reduce dim", {{2, 3}, {2, 2}}, [](In x) { return index_reduce(x[0], -1, tensor({2, 2}), x[1], "mean"); }, 1.594614411, 2.599303568},
    {"renorm", {{3, 4}}, [](In x) { return renorm(x[0], 2, 0, 2.5) + renorm(x[0], 3, -1, 1.5); }, 4.189606, 6.871281798},
    {"norm names", {{3, 4}}, [](In x) { return norm(x[0], "fro") + sum(norm(x[0], "fro", 1)) + norm(x[0] + eye(3, 4, {.dtype = kFloat64}), "nuc"); }, 19.479415, 2.915065812},
    {"cholesky upper", {{2, 3, 3}}, [](In x) { return cholesky(spd(x[0]), true); }, 2.940363942, -0.4122968824},
    {"as_strided", {{3, 4}}, [](In x) { return as_strided(sin(x[0]).t(), {2, 3, 2}, {3, 1, 2}, 1); }, 1.403311529, -0.1938446236},
  };
  return all;
}

std::vector<Tensor> leaves(const Case& c) {
  std::vector<Tensor> x;
  for (const Shape& shape : c.shapes) {
    x.push_back(numbers(shape, static_cast<int>(x.size())));
    x.back().set_requires_grad();
  }
  return x;
}

void check_near(double actual, double expected) {
  CHECK(std::abs(actual - expected) <= 1e-8 * (1 + std::abs(expected)));
}

}  // namespace

TEST_CASE("values and gradients are PyTorch's") {
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    const std::vector<Tensor> x = leaves(c);
    const Tensor sum_of = checksum(c.f(x));
    check_near(sum_of.item<double>(), c.value);
    CHECK(sum_of.requires_grad() == !std::isnan(c.gradient));
    if (!sum_of.requires_grad()) continue;
    sum_of.backward();
    double gradient = 0;
    for (const Tensor& t : x)
      if (t.grad().defined()) gradient += checksum(t.grad()).item<double>();
    check_near(gradient, c.gradient);
  }
}

TEST_CASE("gradients can be taken twice") {
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    const std::vector<Tensor> x = leaves(c);
    // Nearest samples do not depend on the grid.
    if (std::isnan(c.gradient) || std::string(c.name).starts_with("grid_sample nearest")) continue;
    CHECK(autograd::gradcheck(c.f, x, {.atol = 1e-4, .second_order = true}));
  }
}

TEST_CASE("NaN, infinities and equal elements are treated as in PyTorch") {
  const double nan = NAN, inf = INFINITY;
  const Tensor x = tensor({1.0, nan, 3.0, 2.0});
  check_close(median(x), {nan}, 0);
  check_close(nanmedian(x), {2}, 0);
  check_close(quantile(x, 0.5), {nan}, 0);
  check_close(nanquantile(x, 0.25), {1.5}, 0);
  check_close(nansum(x), {6}, 0);
  check_close(nanmean(x), {2}, 0);
  check_close(cummax(x, 0).values, {1, nan, nan, nan}, 0);
  check_equal(cummax(tensor({1, 3, 3, 2}), 0).indices, tensor({0, 1, 2, 2}));
  check_equal(mode(tensor({3, 1, 3, 1, 2})).values, tensor(1));
  check_equal(mode(tensor({3, 1, 3, 1, 2})).indices, tensor(3));
  check_close(nan_to_num(tensor({nan, inf, -inf, 1.0}), 7, 8), {7, 8, -3.4028234663852886e38, 1},
              1e-7);
  check_close(logsumexp(tensor({-inf, -inf})), {-inf}, 0);
  check_close(logsumexp(tensor({inf, 1.0})), {inf}, 0);
  check_close(logaddexp(tensor({-inf, inf}), tensor({-inf, 0.0})), {-inf, inf}, 0);
  check_close(xlogy(tensor({0.0, 0.0, 2.0}), tensor({0.0, nan, 0.0})), {0, nan, -inf}, 0);
  check_close(heaviside(tensor({-1.0, 0.0, 2.0}), tensor({0.5, 0.5, 0.5})), {0, 0.5, 1}, 0);
  check_close(copysign(tensor({1.0, -2.0}), tensor({-0.0, 0.0})), {-1, 2}, 0);
  check_equal(signbit(tensor({-0.0, 0.0, -1.0, inf})), tensor({true, false, true, false}));
  check_equal(isin(tensor({1, 2, 3}), tensor({2, 5}), true), tensor({true, false, true}));
  check_equal(searchsorted(tensor({1.0, 2.0, 2.0, nan}), tensor({2.0, nan}), {.right = true}),
              tensor({3, 4}));
  check_equal(bincount(tensor({1, 1, 4}), {}, 2), tensor({0, 2, 0, 0, 1}));
  check_equal(diff(tensor({true, false, false})), tensor({true, false}));
  CHECK_THROWS_AS(bincount(tensor({-1, 2})), ValueError);
  CHECK_THROWS_AS(einsum("ij,jk", {x, x}), ShapeError);
  CHECK_THROWS_AS(einsum("i->j", {x}), ValueError);
  CHECK_THROWS_AS(scatter_reduce(x, 0, tensor({0}), x, "max"), ValueError);
  CHECK_THROWS_AS(repeat_interleave(x, tensor({1, 2})), ShapeError);
}

TEST_CASE("grid_sample and affine_grid: sizes, NaN and errors") {
  const Tensor volume = arange(1, 9).reshape({1, 1, 2, 2, 2}).to(kFloat32);
  const auto points = [](std::vector<double> at) {
    const auto n = static_cast<std::int64_t>(at.size());
    Shape shape = Shape::filled(static_cast<int>(n) + 2, 1);
    shape[static_cast<int>(n) + 1] = n;
    return from_vector(at, shape).to(kFloat32);
  };
  const auto at = [&](double x, double y, double z, GridSampleMode mode) {
    return grid_sample(volume, points({x, y, z}), {.mode = mode, .align_corners = true});
  };
  // x is the last dimension; of two equally near pixels the even one is taken.
  check_close(at(1, -1, -1, GridSampleMode::bilinear), {2}, 0);
  check_close(at(-1, -1, 1, GridSampleMode::bilinear), {5}, 0);
  check_close(at(0, 0, 0, GridSampleMode::bilinear), {4.5}, 0);
  check_close(at(0, 0.1, 1, GridSampleMode::nearest), {7}, 0);
  check_close(at(NAN, NAN, NAN, GridSampleMode::bilinear), {1}, 0);
  // Outside is 0 whatever lies in the image, and so is the gradient of a nearest pixel's point.
  const Tensor far = points({3, -5, 0}).requires_grad_();
  const Tensor infinite = full({1, 1, 2, 2, 2}, INFINITY);
  for (GridSampleMode mode : {GridSampleMode::bilinear, GridSampleMode::nearest})
    check_equal(grid_sample(infinite, far, {.mode = mode}), zeros({1, 1, 1, 1, 1}));
  check_equal(grid_sample(infinite, points({-1, 1.2, 0})), full({1, 1, 1, 1, 1}, INFINITY));
  grid_sample(volume, far, {.mode = GridSampleMode::nearest}).sum().backward();
  check_equal(far.grad(), zeros_like(far));
  CHECK(grid_sample(zeros({0, 2, 2, 2, 2}), zeros({0, 1, 3, 4, 3})).shape() ==
        Shape{0, 2, 1, 3, 4});
  CHECK(grid_sample(zeros({1, 0, 2, 2, 2}), zeros({1, 1, 3, 4, 3})).shape() ==
        Shape{1, 0, 1, 3, 4});
  const GridSampleOptions bicubic{.mode = GridSampleMode::bicubic};
  CHECK(grid_sample(zeros({1, 2, 2, 2}), zeros({1, 0, 4, 2}), bicubic).shape() ==
        Shape{1, 2, 0, 4});
  CHECK(affine_grid(zeros({0, 3, 4}), {0, 1, 2, 3, 4}).shape() == Shape{0, 2, 3, 4, 3});

  CHECK_THROWS_WITH_AS(grid_sample(volume, points({0, 0, 0}), bicubic),
                       doctest::Contains("use bilinear for volumes"), ShapeError);
  CHECK_THROWS_WITH_AS(grid_sample(volume, points({0, 0})), doctest::Contains("[N, d, h, w, 3]"),
                       ShapeError);
  CHECK_THROWS_AS(grid_sample(zeros({1, 1, 2}), zeros({1, 1, 1})), ShapeError);
  CHECK_THROWS_WITH_AS(grid_sample(zeros({1, 1, 2, 0, 2}), points({0, 0, 0})),
                       doctest::Contains("with pixels"), ShapeError);
  CHECK_THROWS_AS(grid_sample(volume, points({0, 0, 0}).to(kFloat64)), DTypeError);
  CHECK_THROWS_WITH_AS(affine_grid(zeros({1, 3, 4}), {1, 1, 3, 4}), doctest::Contains("[N, 3, 4]"),
                       ShapeError);
  CHECK_THROWS_AS(affine_grid(zeros({1, 2, 3}), {1, 1, 2, 3, 4}), ShapeError);
  CHECK_THROWS_AS(affine_grid(zeros({1, 3, 4}), {1, 1, -1, 3, 4}), ShapeError);
}

TEST_CASE("multinomial draws categories as often as their weights say") {
  Generator generator(3);
  const Tensor p = tensor({{0.0, 1.0, 3.0, 0.0}, {2.0, 2.0, 0.0, 4.0}});
  const Tensor drawn = multinomial(p, 4000, true, &generator);
  for (int row = 0; row < 2; ++row) {
    const Tensor share = bincount(drawn[row], {}, 4).to(kFloat64) / 4000;
    check_close(share, (p[row] / sum(p[row])).to_vector<double>(), 0, 0.03);
  }
  const Tensor order = multinomial(p, 2, false, &generator);
  CHECK(sort(order[0]).values.to_vector<double>() == std::vector<double>{1, 2});
  std::int64_t first = 0;
  for (int i = 0; i < 200; ++i)
    first += multinomial(p[1], 1, false, &generator).item<std::int64_t>() == 3;
  CHECK((first > 70 && first < 130));
  Generator again(3);
  check_equal(multinomial(p, 4000, true, &again), drawn);
}

TEST_CASE("multinomial refuses what are no weights") {
  for (const bool replacement : {false, true}) {
    for (const double bad : {-1.0, double(NAN), double(INFINITY)}) {
      const Tensor p = ones({2, 3});
      p[1][2] = bad;
      CHECK_THROWS_AS(multinomial(p, 1, replacement), ValueError);
      CHECK_THROWS_AS(multinomial(p[1], 1, replacement), ValueError);
    }
    CHECK_THROWS_AS(multinomial(tensor({{1.0, 0.0}, {0.0, 0.0}}), 1, replacement), ValueError);
    CHECK(multinomial(ones({0, 3}), 1, replacement).shape() == Shape{0, 1});
  }
  check_equal(multinomial(tensor({0.0, 1.0}), 2), tensor({1, 0}));
}

TEST_CASE("determinants of singular matrices have derivatives of any order") {
  const auto twice = [](const Tensor& x) {
    const Tensor leaf = x.clone().set_requires_grad();
    const Tensor first = autograd::grad({sum(linalg::det(leaf))}, {leaf}, {}, true, true)[0];
    const Tensor second = autograd::grad({checksum(first)}, {leaf})[0];
    return std::pair(first.detach(), second);
  };
  const auto check_sums = [&](const Tensor& x, double first, double second) {
    const auto [g, h] = twice(x);
    check_near(checksum(g).item<double>(), first);
    check_near(checksum(h).item<double>(), second);
  };
  // PyTorch's numbers.
  const Tensor regular = numbers({3, 3}, 0), singular = regular.clone();
  singular[2].copy_(regular[0] + regular[1] * 2);
  check_sums(regular, 11.17884599, 3.756777327);
  check_sums(singular, 11.60219931, 9.234651172);
  check_sums(stack({regular, singular}), 5.425598672, 12.9914285);
  // PyTorch's second one has lost digits here: it divides by the determinant, which is 1e-13.
  const Tensor near = singular.clone();
  near[2][1].add_(1e-13);
  check_sums(near, 11.60219931, 9.234651172);

  // Below a rank of n - 1 PyTorch's are NaN. The derivatives of x00 x11 - x01 x10 in full:
  const auto of_zeros = twice(zeros({2, 2}, {.dtype = kFloat64}));
  check_close(of_zeros.first, {0, 0, 0, 0}, 0);
  const auto weight = [](int i) { return std::cos(0.9 * i + 0.2); };
  check_close(of_zeros.second, {weight(3), -weight(2), -weight(1), weight(0)}, 1e-14);
  for (const Tensor& x : {singular, outer(regular[0], regular[1]), regular * 0}) {
    const std::vector<Tensor> leaves{x.clone().set_requires_grad()};
    CHECK(autograd::gradcheck([](In t) { return linalg::det(t[0]); }, leaves,
                              {.atol = 1e-4, .second_order = true}));
  }
  // Zeros of all kinds among 2 x 3 matrices, one of float32, none, and one of one number.
  const Tensor batch = stack({regular, singular, zeros_like(regular), outer(regular[0], regular[1]),
                              eye(3, {.dtype = kFloat64}), regular * 1e-8});
  const auto all = twice(batch.reshape({2, 3, 3, 3}));
  const Tensor weights = all.first;
  CHECK(weights.shape() == Shape{2, 3, 3, 3});
  check_close(all.first[0][0], twice(regular).first, 1e-10, 1e-12);
  check_close(all.first[1][1], eye(3, {.dtype = kFloat64}), 1e-12, 1e-12);
  CHECK(isfinite(all.second).all().item<bool>());
  CHECK(isfinite(twice(batch.to(kFloat32)).second).all().item<bool>());
  CHECK(twice(zeros({0, 3, 3})).second.shape() == Shape{0, 3, 3});
  CHECK(twice(zeros({2, 0, 0})).second.shape() == Shape{2, 0, 0});
  check_close(twice(zeros({1, 1})).first, {1}, 0);
}

TEST_CASE("qr and svd: gradients that do not exist, and vectors that are not determined") {
  const Tensor x = numbers({4, 3}, 0).set_requires_grad();
  const auto [q, r] = linalg::qr(x, "complete");
  CHECK_THROWS_WITH_AS(sum(r).backward(), doctest::Contains("use the mode reduced"), AutogradError);
  CHECK_THROWS_AS(linalg::qr(x, "full"), ValueError);
  // The fourth vector adds nothing.
  const auto [u, s, vh] = linalg::svd(x);
  const auto gradient = [&](const Tensor& y) { return autograd::grad({sum(y)}, {x}, {}, true)[0]; };
  check_close(gradient(u.narrow(-1, 3, 1) * 5), zeros({4, 3}, {.dtype = kFloat64}), 0);
  check_close(gradient(square(square(u))), gradient(square(square(u.narrow(-1, 0, 3)))), 1e-12);
  for (const Shape& shape : {Shape{0, 3, 5}, Shape{2, 3, 0}, Shape{2, 0, 3}}) {
    CAPTURE(shape);
    const Tensor none = zeros(shape, {.dtype = kFloat64}).set_requires_grad();
    const auto [q0, r0] = linalg::qr(none);
    CHECK(autograd::grad({sum(q0) + sum(r0)}, {none})[0].shape() == shape);
  }
}

TEST_CASE("linalg: singular matrices, ranks and batches") {
  const Tensor singular = tensor({{1.0, 2.0}, {2.0, 4.0}}), good = tensor({{2.0, 1.0}, {1.0, 3.0}});
  CHECK_THROWS_WITH_AS(linalg::inv(singular), doctest::Contains("[linalg_inv]"), ValueError);
  CHECK_THROWS_AS(linalg::cholesky(singular - 3), ValueError);
  CHECK_THROWS_AS(linalg::cholesky(good.to(kFloat16)), DTypeError);
  CHECK(linalg::det(singular).item<double>() == 0);
  const Tensor pair = stack({singular, good}).set_requires_grad();
  const Tensor volumes = linalg::det(pair).sum();
  check_close(autograd::grad({volumes}, {pair}, {}, true)[0],
              tensor({{{4.0, -2.0}, {-2.0, 1.0}}, {{3.0, -1.0}, {-1.0, 2.0}}}), 1e-5, 1e-6);
  CHECK(linalg::matrix_rank(singular).item<std::int64_t>() == 1);
  CHECK(linalg::matrix_rank(zeros({2, 3, 4})).shape() == Shape{2});
  check_close(linalg::matrix_power(good, 0), {1, 0, 0, 1}, 0);
  const auto [q, r] = linalg::qr(ones({2, 3}), "complete");
  CHECK((q.shape() == Shape{2, 2} && r.shape() == Shape{2, 3}));
  check_close(matmul(q, r), ones({2, 3}), 1e-6, 1e-6);
  const auto [u, s, vh] = linalg::svd(ones({3, 2}));
  CHECK((u.shape() == Shape{3, 3} && s.shape() == Shape{2} && vh.shape() == Shape{2, 2}));
  CHECK(linalg::solve(good.expand({4, 2, 2}), ones({4, 2})).shape() == Shape{4, 2});
  check_close(linalg::solve(good, matmul(good, good)), good, 1e-6, 1e-6);
  CHECK(linalg::cholesky(zeros({0, 3, 3})).shape() == Shape{0, 3, 3});
  CHECK(linalg::det(zeros({0, 0})).item<double>() == 1);
}
