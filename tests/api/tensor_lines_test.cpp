// Lines as a libtorch user types them, with `torch::` as `ferrite::`. Each must compile and run;
// what they compute is tested in tensor_values_test.cpp and with the ops. Those that C++ does not
// allow here are in refused_lines.txt, with what the compiler says.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <sstream>

#include "ferrite/autograd/engine.h"
#include "ferrite/autograd/grad_mode.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/rearrange.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/softmax.h"
#include "ferrite/ops/unary.h"
#include "ferrite/ops/views.h"

using namespace ferrite;
using namespace ferrite::indexing;

TEST_CASE("tensors are created as in libtorch") {
  Tensor t;
  t = zeros({2, 3});
  t = zeros({2, 3}, kInt64);
  t = zeros({2, 3}, kLong);
  t = zeros({2, 3}, kShort);
  t = zeros({2, 3}, kInt16);
  t = zeros({2, 3}, kChar);
  t = zeros({2, 3}, kInt8);
  t = zeros({2, 3}, kFloat32);
  t = zeros({2, 3}, kCPU);
  t = zeros({2, 3}, "cpu");
  t = zeros({2, 3}, Device(kCPU));
  t = zeros({2, 3}, dtype(kInt));
  t = zeros({2, 3}, dtype(kFloat32).device(kCPU).requires_grad(true));
  t = zeros({2, 3}, requires_grad());
  t = zeros({2, 3}, requires_grad(false));
  t = zeros({2, 3}, TensorOptionsBuilder().dtype(kDouble));
  t = zeros({2, 3}, {.dtype = kFloat64, .requires_grad = true});
  t = zeros(2, 3);
  t = zeros(5);
  t = zeros({});
  t = ones({2, 3});
  t = ones({2, 3}, kByte);
  t = ones(2, 3);
  t = full({2, 3}, 7);
  t = full({2, 3}, 1.5, kDouble);
  t = full({2, 3}, true, kBool);
  t = empty({2, 3});
  t = empty({2, 3}, kHalf);
  t = empty(2, 3);
  t = rand({2, 3});
  t = rand({2, 3}, kDouble);
  t = rand(2, 3);
  t = randn({2, 3});
  t = randn({2, 3}, "cpu:0");
  t = randn({2, 3}, device(Device("cpu:0")).dtype(kBFloat16));
  t = randn({2, 3}, requires_grad());
  t = randn(2, 3);
  t = randint(10, {2, 3});
  t = randint(0, 10, {2, 3});
  t = randint(0, 10, {2, 3}, kInt);
  t = randint(10, {3}, kFloat);
  t = randperm(5);
  t = randperm(5, kInt);
  t = arange(5);
  t = arange(5, kFloat);
  t = arange(0, 5);
  t = arange(0, 5, kFloat32);
  t = arange(0, 5, 2);
  t = arange(0, 1, 0.25);
  t = arange(0, 6, 2, kDouble);
  t = linspace(0, 1, 5);
  t = linspace(0, 1, 5, kDouble);
  t = eye(3);
  t = eye(3, kInt);
  t = eye(3, 4);
  t = eye(3, 4, kDouble);
  t = tensor(5);
  t = tensor(5.0, kDouble);
  t = tensor(1.5);
  t = tensor(true);
  t = tensor({1, 2, 3});
  t = tensor({1, 2, 3}, kFloat);
  t = tensor({1.0, 2.0}, requires_grad());
  t = tensor({1.0, 2.0}, dtype(kDouble).requires_grad(true));
  t = tensor({{1, 2}, {3, 4}});
  t = tensor({{1.0, 2.0}, {3.0, 4.0}}, kDouble);
  t = tensor({{{1, 2}, {3, 4}}, {{5, 6}, {7, 8}}});
  t = tensor(std::vector<float>{1, 2, 3});
  t = tensor(std::vector<std::int64_t>{1, 2, 3}, kInt);
  t = zeros_like(t);
  t = zeros_like(t, kLong);
  t = ones_like(t);
  t = ones_like(t, t.options());
  t = ones_like(t, t.options().dtype(kFloat));
  t = full_like(t, 3);
  t = empty_like(t);
  t = rand_like(t);
  t = randn_like(t);
  t = zeros({2}, t.options());
  t = zeros({2}, t.options().dtype(kLong));
  t = t.new_zeros({2, 2});
  t = t.new_ones({2, 2});
  t = t.new_full({2, 2}, 3);
  t = t.new_empty({2, 2});
  t = t.new_zeros({2, 2}, kFloat);
  float values[] = {1, 2, 3, 4, 5, 6};
  t = from_blob(values, {2, 3});
  t = from_blob(values, {2, 3}, kFloat32).clone();
}

TEST_CASE("properties have libtorch's names") {
  Tensor t = randn({2, 3}, requires_grad());
  Shape s = t.sizes();
  s = t.size();
  s = t.strides();
  std::int64_t n = t.size(0) + t.size(-1) + t.numel() + t.stride(0) + t.dim() + t.ndimension();
  n += t.element_size() + t.storage_offset() + static_cast<std::int64_t>(t.nbytes());
  CHECK(n > 0);
  bool b = t.sizes() == Shape{2, 3} && t.dtype() == kFloat && t.scalar_type() == kFloat32;
  CHECK(b);
  CHECK(t.device() == Device(kCPU));
  CHECK(t.device().type() == kCPU);
  CHECK(t.device().is_cpu());
  CHECK(t.get_device() == -1);
  b = t.is_cuda() || t.is_cpu() || t.is_contiguous() || t.defined() || t.is_floating_point();
  CHECK(b);
  b = t.requires_grad() && t.is_leaf();
  CHECK(b);
  float* p = t.data_ptr<float>();
  CHECK(p == t.data_ptr());
  t.requires_grad_(false);
  t.requires_grad_();
  t.set_requires_grad(true);
  float f = t.sum().item<float>();
  f = t.sum().item();
  double d = t.sum().item();
  d += t.sum().item();
  f += t.sum().item().toFloat();
  const int i = t.argmax().item().toInt() + static_cast<int>(t.argmax().item().toLong());
  CHECK(i >= 0);
  CHECK(f + d == f + d);
  CHECK(t.sum().item().to<float>() == t.sum().item());
}

TEST_CASE("conversions have libtorch's names") {
  const Tensor t = randn({2, 3});
  Tensor u = t.to(kDouble);
  u = t.to(kCPU);
  u = t.to("cpu:0").to(Device(kCPU));
  u = t.to(kCPU, kHalf);
  u = t.to(Device("cpu"), kFloat, true);
  u = t.to(kLong, true);
  u = t.to(u);
  u = t.to(u.options());
  u = t.type_as(u);
  u = t.toType(kInt);
  u = t.cpu();
  u = t.half();
  u = t.bfloat16();
  u = t.byte();
  u = t.float_();
  u = t.double_();
  u = t.int_();
  u = t.long_();
  u = t.bool_();
  u = t.clone();
  u = t.contiguous();
  u = t.detach();
  u = t.data();
  u = t.to(kFloat).detach_();
  u.copy_(t);
}

TEST_CASE("shapes change as in libtorch") {
  const Tensor x = randn({2, 3, 4});
  Tensor y = x.view({2, 12});
  y = x.view(-1);
  y = x.view({-1, 4});
  y = x.view(-1, 4);
  y = x.view(2, 3, 2, 2);
  y = x.reshape({6, 4});
  y = x.reshape(6, -1);
  y = x.reshape({-1});
  y = x.flatten();
  y = x.flatten(1);
  y = x.transpose(0, 1);
  y = x.permute({2, 0, 1});
  y = x.permute(2, 0, 1);
  y = x.select(0, 0).t().t();
  y = x.mT();
  y = x.unsqueeze(0);
  y = y.squeeze();
  y = x.unsqueeze(-1).squeeze(-1);
  y = x.select(0, 0).t();
  y = x.expand({5, 2, 3, 4});
  y = x.expand(5, -1, -1, -1);
  y = x.unsqueeze(0).expand_as(y);
  y = x.broadcast_to({5, 2, 3, 4});
  y = x.view_as(x);
  y = x.reshape_as(x);
  y = x.repeat({2, 1, 1});
  y = x.repeat(2, 1, 1);
  y = x.tile({2});
  y = x.repeat_interleave(2, 1);
  y = x.repeat_interleave(tensor({1, 2}), 0);
  y = x.swapaxes(0, 1).swapdims(0, 1).ravel();
  const Tensor matrices = x.matmul(x.mT()) + 1;
  y = matrices.det() + matrices.logdet() + std::get<1>(matrices.slogdet());
  y = matrices.inverse().matrix_power(2) + matrices.pinverse();
  auto [u, s, v] = x.svd();
  y = x.diag_embed();
  y = x[0].diag();
  y = x.rot90().rot90(1, {1, 2});
  y = x.tensor_split(2, 1)[0];
  y = x.flip({0});
  y = x.flip(0, 1);
  y = x.roll(1, 0);
  y = x.roll({1, 2}, {0, 1});
  y = x.movedim(0, 2);
  y = x.unflatten(2, {2, 2});
  y = x.narrow(1, 0, 2);
  y = x.slice(0, 0, 1);
  y = x.slice(2, 0, 4, 2);
  y = x.select(1, 2);
  y = x[0];
  y = x[0][1];
  y = x[-1][0][2];
  y = x.diagonal(0, 1, 2);
  y = x.tril();
  y = x.triu(1);
  y = x.unfold(2, 2, 1);
  std::vector<Tensor> parts = x.split(1, 0);
  parts = x.split({1, 2}, 1);
  parts = x.split_with_sizes({1, 2}, 1);
  parts = x.chunk(2, 2);
  parts = x.unbind(0);
  y = cat({x, x}, 0);
  y = cat(parts, 0);
  y = stack({x, x});
  y = stack(parts, -1);
}

TEST_CASE("arithmetic is written as in libtorch") {
  Tensor x = rand({2, 3}) + 0.5, y = rand({2, 3}) + 0.5, z;
  z = x + y - x * y / 2;
  z = 1 + x - 2 * y / 3.0;
  z = -x;
  z = x.add(y);
  z = x.add(1);
  z = x.add(y, 2);
  z = x.sub(y);
  z = x.sub(0.5);
  z = x.mul(2);
  z = x.mul(y);
  z = x.div(255);
  z = x.div(y);
  z = x.pow(2);
  z = x.pow(y);
  z = pow(2, x);
  z = x.neg().abs().sign().square();
  z = x.floor() + x.ceil() + x.round() + x.trunc();
  z = x.exp().log().sqrt().rsqrt().reciprocal();
  z = x.exp2() + x.expm1() + x.log1p() + x.log2();
  z = x.sin() + x.cos() + x.tan() + x.tanh() + x.erf();
  z = x.sigmoid() + x.relu();
  z = x.clamp(0, 1);
  z = x.clamp_min(0);
  z = x.clamp_max(1);
  z = x.clamp({}, 1);
  z = x.floor_divide(0.3) + x.remainder(0.3) + x.fmod(0.3);
  z = x.floor_divide(y) + x.remainder(y) + x.fmod(y);
  z = x.atan2(y);
  z = x.asin() + x.acos() + x.atan() + x.sinh() + x.cosh() + x.asinh() + x.acosh() + x.atanh();
  z = x.log10() + x.erfc() + x.sinc() + x.deg2rad() + x.rad2deg() + x.frac() + x.logit(1e-3);
  z = x.nan_to_num().positive().sgn();
  z = x.signbit();
  z = x.hypot(y) + x.copysign(y) + x.copysign(-1) + x.logaddexp(y) + x.logaddexp2(y);
  z = x.xlogy(y) + x.xlogy(2) + x.heaviside(y);
  z = x.lerp(y, 0.5) + x.lerp(y, y) + x.addcmul(y, y) + x.addcdiv(y, y, 0.5);
  z = x.inner(y) + x.cross(x)[0][0];
  z = x.kron(y);
  z = x[0].addmv(y.t().matmul(y), y[0]) + y[0].outer(y[0]).addr(y[0], y[0])[0];
  z = zeros({2, 2, 2}).baddbmm(ones({2, 2, 2}), ones({2, 2, 2}));
  z = zeros({2, 2}).addbmm(ones({2, 2, 2}), ones({2, 2, 2}));
  z = complex(x, y).conj().imag() + polar(x, y).real() + x.real() + complex(x, y).angle();
  z = (complex(x, y) * std::complex<double>(0, 1)).to(kComplexDouble).abs().to(x);
  z = view_as_real(view_as_complex(stack({x, y}, -1))).select(-1, 0);
  z = fft::irfft(fft::rfft(x, {}, 1, "ortho"), x.size(1), 1, "ortho") + fft::fft2(x).real();
  z = fft::ifftn(fft::fftn(x, {2, 3}, {0, 1})).real() + fft::fftshift(x, 1);
  z = x.maximum(y) + x.minimum(y);
  z = x.max(y) + x.min(y);
  z = max(x, y) + min(x, y);
  z = x % 2 + x % y;
  z = where(x > 1, 1.0, 0.0);
  z = where(x > 1, 1, 0);
  z = x.matmul(y.t()) + x.mm(y.t());
  z = x.unsqueeze(0).bmm(y.t().unsqueeze(0));
  z = x.mv(y[0]) + x[0].dot(y[0]) + x[0].outer(y[0])[0][0];
  z = zeros({2, 2}).addmm(x, y.t());
  z = x.softmax(1);
  z = x.softmax(-1, kDouble);
  z = x.log_softmax(1);
  x += 1;
  x -= 1;
  x *= 2;
  x /= 2;
  x += y;
  x -= y * 0.1;
  x.add_(y).sub_(y).mul_(2).div_(2);
  x.add_(1).sub_(1);
  x.add_(y, 0.1);
  x.abs_().sqrt_().square_().clamp_(0.1, 1);
  x.exp_().log_().neg_().neg_();
  x.pow_(2);
  x.exp2_().log2_().expm1_().log1p_().reciprocal_().reciprocal_();
  x.sin_().cos_().tan_().erf_().abs_().rsqrt_();
  x.floor_().ceil_().round_().trunc_().sign_();
  x.cumsum_(1);
  x.cumprod_(1).frac_().asin_().sinh_().atan_().cosh_().log10_().tan_().asinh_().atanh_().acos_();
  x.acosh_().nan_to_num_().erfc_().logit_(0.1).sinc_().deg2rad_().rad2deg_().sgn_();
  x.lerp_(y, 0.5).lerp_(y, y).addcmul_(y, y).addcdiv_(y, y, 0.5);
  x.relu_().sigmoid_().tanh_();
  x.zero_();
  x.fill_(3);
  x.fill_(tensor(2.5));
  x.normal_();
  x.normal_(0, 0.1);
  x.uniform_();
  x.uniform_(-1, 1);
  x.bernoulli_(0.3);
}

TEST_CASE("comparisons and masks are written as in libtorch") {
  const Tensor x = randn({2, 3}), y = randn({2, 3});
  Tensor m;
  m = x > 0;
  m = x >= 0.5;
  m = x < y;
  m = x <= y;
  m = x == y;
  m = x != y;
  m = x == 0;
  m = x != 0;
  m = 0 < x;
  m = 1 >= x;
  m = (x > 0) & (y > 0);
  m = (x > 0) | (y > 0);
  m = (x > 0) ^ (y > 0);
  m = ~(x > 0);
  m = !(x > 0);
  m &= y > 0;
  m |= y > 0;
  m ^= y > 0;
  m = x.eq(0);
  m = x.eq(y);
  m = x.ne(0);
  m = x.gt(0) & x.lt(1) & x.ge(0) & x.le(1);
  m = x.gt(y) & x.lt(y) & x.ge(y) & x.le(y);
  m = m.logical_and(m).logical_or(m).logical_xor(m).logical_not();
  m = x.isnan() | x.isinf() | x.isfinite();
  m = m.bitwise_and(m).bitwise_or(m).bitwise_xor(m).bitwise_not();
  Tensor z = where(x > 0, x, y);
  z = where(x > 0, x, 0.0);
  z = x.where(x > 0, y);
  z = x.where(x > 0, 0);
  z = x.masked_fill(x < 0, 0);
  z = x.masked_select(x > 0);
  z = x.nonzero();
  CHECK((x == x).all().item<bool>());
  CHECK_FALSE((x != x).any().item<bool>());
  CHECK((x.equal(x) && x.allclose(x) && x.isclose(x).all().item<bool>()));
  CHECK(x.eq(x).sum().item<int>() == 6);
}

TEST_CASE("reductions are written as in libtorch") {
  const Tensor x = randn({2, 3, 4});
  Tensor y = x.sum();
  y = x.sum(1);
  y = x.sum({0, 1});
  y = x.sum(-1, true);
  y = x.sum(kDouble);
  y = x.mean();
  y = x.mean(1);
  y = x.mean({1, 2}, true);
  y = x.to(kLong).mean(kFloat);
  y = x.std();
  y = x.std(1);
  y = x.std(1, false);
  y = x.std(false);
  y = x.var({1}, true, true);
  y = x.var(false);
  y = x.max();
  y = x.min();
  auto [values, indices] = x.max(1);
  values = x.min(1, true).values;
  std::tie(values, indices) = x.max(-1);
  std::tie(values, indices) = x.sort();
  std::tie(values, indices) = x.sort(0, true);
  std::tie(values, indices) = x.sort(true, 0, true);
  std::tie(values, indices) = x.topk(2);
  y = x.amax(1) + x.amin({1});
  y = x.argmax();
  y = x.argmax(1);
  y = x.argmin(-1, true);
  y = x.argsort(1);
  y = x.argsort(true, 1, true);
  y = x.norm();
  y = x.norm(2);
  y = x.norm(1, 1);
  y = x.norm(2, {0, 1}, true);
  y = x.norm("fro");
  y = x.renorm(2, 0, 1.5);
  y = x.prod();
  y = x.prod(1);
  y = (x > 0).any();
  y = (x > 0).any(1);
  y = (x > 0).all();
  y = (x > 0).all(1, true);
  y = x.count_nonzero();
  y = x.cumsum(1);
  y = x.cumprod(1) + x.logcumsumexp(1);
  std::tie(values, indices) = x.cummax(1);
  std::tie(values, indices) = x.cummin(1);
  std::tie(values, indices) = x.median(1);
  std::tie(values, indices) = x.nanmedian(1);
  std::tie(values, indices) = x.kthvalue(2, 1);
  std::tie(values, indices) = x.mode(1);
  y = x.median() + x.nanmedian() + x.logsumexp() + x.nansum() + x.nanmean() + x[0].trace();
  y = x.quantile(0.5) + x.nanquantile(0.5);
  y = x.quantile(tensor({0.1, 0.9}), 1) + x.nanquantile(tensor({0.1, 0.9}), 1);
  y = x.diff() + x.diff(1, -1);
  y = x.histc(10);
  y = zeros({3}, kLong).bincount();
  y = x.sum_to_size({3, 1});
}

TEST_CASE("indexing is written as in libtorch") {
  Tensor x = randn({4, 5, 6}), y;
  const Tensor mask = x > 0, rows = tensor({0, 2});
  y = x.index({0});
  y = x.index({0, 1, 2});
  y = x.index({Slice(), 0});
  y = x.index({Slice(1, 3)});
  y = x.index({Slice(None, 2)});
  y = x.index({Slice(1, None)});
  y = x.index({Slice(None, None, 2)});
  y = x.index({"...", 0});
  y = x.index({Ellipsis, 0});
  y = x.index({0, "...", Slice(0, 2)});
  y = x.index({None});
  y = x.index({Slice(), None, 0});
  y = x.index({mask});
  y = x.index({rows});
  y = x.index({Slice(), rows});
  y = x.index({rows, rows});
  y = x.index({rows, Slice(), rows});
  y = x.index({-1, Slice(1, -1)});
  y = x.index({true});
  y = x[mask];
  y = x[rows];
  y = x[Slice(1, 3)];
  y = x[None];
  const std::vector<TensorIndex> indices = {Slice(1, None), 0};
  y = x.index(indices);
  x[0] = 1;
  x[0] = y[0].sum();
  x[0][1] = zeros({6});
  x[0] = x[1];
  x.select(0, 1) = 2.5;
  x.slice(0, 0, 2) = zeros({2, 5, 6});
  x.narrow(1, 0, 2) = 0;
  x.index({0}) = 1;
  x.index({Slice(), 1}) = zeros({6});
  x.index({"...", 0}) = 3;
  x.index({mask}) = 0;
  x.index({rows}) = ones({2, 5, 6});
  x[mask] = -1;
  x[rows] = 2;
  x[0] += 1;
  x[mask] += 1;
  x.index({rows}) *= 2;
  x.index({Slice(0, 2)}) -= 1;
  x.index_put_({0}, 1);
  x.index_put_({mask}, 0.5);
  x.index_put_({rows}, zeros({2, 5, 6}));
  x.index_put_({rows, Slice(), 1}, ones({5}), true);
  x.index_put_({Slice(), Slice(), 0}, tensor(2.0));
  y = x.index_select(0, rows);
  y = x.gather(0, zeros({1, 5, 6}, kLong));
  x.scatter_(0, zeros({1, 5, 6}, kLong), 1.0);
  x.scatter_(0, zeros({1, 5, 6}, kLong), ones({1, 5, 6}));
  x.scatter_add_(0, zeros({1, 5, 6}, kLong), ones({1, 5, 6}));
  x.index_add_(0, rows, ones({2, 5, 6}));
  y = x.scatter(0, zeros({1, 5, 6}, kLong), 1.0);
  y = x.scatter_add(0, zeros({1, 5, 6}, kLong), ones({1, 5, 6}));
  y = x.scatter_reduce(0, zeros({1, 5, 6}, kLong), ones({1, 5, 6}), "amax");
  x.scatter_reduce_(0, zeros({1, 5, 6}, kLong), ones({1, 5, 6}), "mean", false);
  y = x.index_reduce(0, tensor({0, 0}), ones({2, 5, 6}), "amin");
  x.index_reduce_(0, tensor({0, 0}), ones({2, 5, 6}), "mean", false);
  y = x.take(tensor({0, -1}));
  y = x.take_along_dim(zeros({4, 5, 1}, kLong), 2);
  y = x.index_copy(0, tensor({1}), ones({1, 5, 6}));
  x.index_copy_(0, tensor({1}), ones({1, 5, 6}));
  y = x.index_fill(0, tensor({1}), 2);
  x.index_fill_(0, tensor({1}), 2);
  y = x.masked_scatter(x > 0, x);
  x.masked_scatter_(x > 0, ones({120}));
  y = ones({3}).multinomial(2);
  y = x.index_add(0, rows, ones({2, 5, 6}), 2);
  x.masked_fill_(mask, 0);
}

TEST_CASE("autograd is written as in libtorch") {
  Tensor w = randn({3, 2}, requires_grad());
  Tensor x = ones({2, 3});
  Tensor loss = x.mm(w).pow(2).mean();
  loss.backward();
  Tensor g = w.grad();
  CHECK(w.grad().sizes() == w.sizes());
  w.grad().zero_();
  w.mutable_grad() = zeros({3, 2});
  w.mutable_grad() = Tensor();
  CHECK_FALSE(w.grad().defined());
  w.set_grad(g);
  {
    NoGradGuard no_grad;
    w -= 0.1 * w.grad();
    w.sub_(w.grad(), 0.1);
    w[0] = 1;
  }
  Tensor h = w * 2;
  h.retain_grad();
  h.register_hook([](const Tensor& grad) { return grad * 2; });
  h.sum().backward();
  g = h.grad();
  const Tensor off = w.detach().clone().requires_grad_();
  CHECK(off.is_leaf());
}

TEST_CASE("printing is written as in libtorch") {
  const Tensor x = ones({2, 2});
  std::ostringstream out;
  out << x << x.sizes() << x.dtype() << x.device() << x.strides() << x.sum().item() << x[0];
  CHECK(fmt::format("{} {} {} {:.2f} {}", x.sizes(), x.dtype(), x.device(), x.sum().item(), x[0]) ==
        "[2, 2] float32 cpu 4.00 tensor([1., 1.])");
  CHECK(fmt::format("{}", x) == x.str());
  set_default_dtype(kDouble);
  CHECK(get_default_dtype() == kDouble);
  set_default_dtype(kFloat);
}
