// cuDNN's convolutions and attention on a GPU against the host's, in float64.
#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <string>

#include "ferrite/core/cuda.h"
#include "ferrite/kernels/attention.h"
#include "ferrite/kernels/conv.h"
#include "ferrite/kernels/cuda/vendor/cudnn.h"
#include "ferrite/kernels/norm.h"
#include "ferrite/kernels/vendor.h"
#include "ferrite/tests/kit/doctest_context.h"
#include "ferrite/tests/kit/kernel_case.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/cuda.h"

using namespace ferrite;
using kernels::Activation;
using kernels::ConvParams;
using kernels::View;
using kit::KernelCase;
using kit::Layout;
using kit::Operand;
namespace vendor = kernels::cuda::vendor;

namespace {

/// While it lives cuDNN is used, with these settings.
class Settings {
 public:
  explicit Settings(bool tf32 = false, bool benchmark = false, bool deterministic = false) {
    cudnn::set_enabled(true);
    cudnn::set_allow_tf32(tf32);
    cudnn::set_benchmark(benchmark);
    cudnn::set_deterministic(deterministic);
  }
  ~Settings() {
    cudnn::set_enabled(enabled_);
    cudnn::set_allow_tf32(tf32_);
    cudnn::set_benchmark(benchmark_);
    cudnn::set_deterministic(deterministic_);
  }
  Settings(const Settings&) = delete;
  Settings& operator=(const Settings&) = delete;

 private:
  const bool enabled_ = cudnn::is_enabled(), tf32_ = cudnn::allow_tf32(),
             benchmark_ = cudnn::benchmark(), deterministic_ = cudnn::deterministic();
};

bool has_cudnn() {
  if (!cudnn::is_available()) {
    MESSAGE("skipped: this build has no cuDNN, or it cannot be loaded");
    return false;
  }
  return test::has_cuda(1);
}

struct Problem {
  std::int64_t n, c, h, w, o, kernel;
  ConvParams p;

  std::int64_t extent(std::size_t i) const {
    return ((i ? w : h) + 2 * p.padding[i] - p.dilation[i] * (kernel - 1) - 1) / p.stride[i] + 1;
  }
  Shape input() const { return {n, c, h, w}; }
  Shape weight() const { return {o, c / p.groups, kernel, kernel}; }
  Shape out() const { return {n, o, extent(0), extent(1)}; }
};

Problem draw(KernelCase& c) {
  const std::int64_t groups = c.pick<std::int64_t>({1, 1, 1, 2});
  Problem k{c.integer(1, 5),
            groups * c.pick<std::int64_t>({1, 3, 8, 16, 20, 64}),
            0,
            0,
            groups * c.pick<std::int64_t>({1, 6, 8, 32, 50, 64}),
            c.pick<std::int64_t>({1, 2, 3, 5}),
            {}};
  k.p.groups = groups;
  for (std::size_t i = 0; i < 2; ++i) {
    k.p.stride[i] = c.pick<std::int64_t>({1, 1, 2, 3});
    k.p.padding[i] = c.integer(0, 2);
    k.p.dilation[i] = c.pick<std::int64_t>({1, 1, 2});
    (i ? k.w : k.h) = k.p.dilation[i] * (k.kernel - 1) + 1 + c.integer(0, 14);
  }
  return k;
}

/// Error of sums of `depth` products below 1 in float, in the library's order, possibly by FFT or
/// Winograd's transforms; with TF32, of inputs rounded to 10 bits.
kit::Tolerance tolerance(std::int64_t depth, bool tf32) {
  const auto terms = static_cast<double>(depth);
  return {.atol = tf32 ? 1e-3 * std::sqrt(terms) + 1e-3 : 4e-7 * (terms + 16)};
}

struct Tally {
  int asked = 0, taken = 0;
};

/// One pass, at random; counts the passes that cuDNN has run.
void check_pass(KernelCase& c, std::map<std::string, Tally>& tally, bool tf32) {
  const DType dtype = c.pick({kFloat32, kFloat16, kBFloat16});
  const Layout layout = c.pick({Layout::contiguous, Layout::channels_last, Layout::any});
  const kit::OperandOptions options{.layout = layout, .low = -1, .high = 1};
  const Problem k = draw(c);
  ConvParams p = k.p;
  const int pass = static_cast<int>(c.integer(0, 2));
  const Operand weight =
      pass == 2 ? c.output(k.weight(), dtype, options) : c.input(k.weight(), dtype, options);
  const Operand input =
      pass == 1 ? c.output(k.input(), dtype, options) : c.input(k.input(), dtype, options);
  const Operand out =
      pass == 0 ? c.output(k.out(), dtype, options) : c.input(k.out(), dtype, options);
  const Operand bias = pass == 0 && c.coin() ? c.input({k.o}, dtype) : Operand();
  if (pass == 0) p.activation = c.pick({Activation::none, Activation::relu});
  const char* const passes[] = {"forward ", "data ", "weight "};
  Tally& counts = tally[passes[pass] + std::string(name(dtype))];
  c.run([&](const Stream& stream, const kit::Side& at) {
    if (stream.device().is_cuda()) {
      ++counts.asked;
      const bool taken = pass == 0 ? vendor::conv2d(stream, at(out), at(input), at(weight),
                                                    at(bias), p, vendor::ConvEpilogue::fused)
                         : pass == 1
                             ? vendor::conv2d_data(stream, at(input), at(out), at(weight), p)
                             : vendor::conv2d_weight(stream, at(weight), at(input), at(out), p);
      counts.taken += taken;
      if (taken) return;
    }
    if (pass == 0)
      kernels::conv2d(stream, at(out), at(input), at(weight), at(bias), p);
    else if (pass == 1)
      kernels::conv2d_data(stream, at(input), at(out), at(weight), {}, p);
    else
      kernels::conv2d_weight(stream, at(weight), {}, at(input), at(out), p);
  });
  const std::int64_t taps = k.kernel * k.kernel;
  const std::int64_t depth = pass == 0   ? k.c / p.groups * taps
                             : pass == 1 ? k.o / p.groups * taps
                                         : k.n * k.extent(0) * k.extent(1);
  c.check(pass == 0 ? out : pass == 1 ? input : weight, tolerance(depth, tf32));
}

void check_passes(const char* name, int cases, bool tf32) {
  std::map<std::string, Tally> tally;
  kit::for_each_case(name, cases, [&](KernelCase& c) { check_pass(c, tally, tf32); });
  for (const auto& [what, counts] : tally) {
    INFO(what, ": ", counts.taken, " of ", counts.asked, " taken");
    CHECK((counts.asked == 0 || counts.taken > 0));
  }
}

}  // namespace

TEST_CASE("cuDNN's convolutions: every pass, dtype and layout") {
  if (!has_cudnn()) return;
  const Settings settings;
  check_passes("cudnn", 300, false);
}

TEST_CASE("cuDNN's convolutions with TF32") {
  if (!has_cudnn()) return;
  const Settings settings(true);
  check_passes("cudnn tf32", 60, true);
}

TEST_CASE("cuDNN's convolutions, the fastest plan of several") {
  if (!has_cudnn()) return;
  const Settings settings(false, true);
  check_passes("cudnn benchmark", 60, false);
}

TEST_CASE("cuDNN's convolutions with the sums of their channels") {
  if (!has_cudnn()) return;
  const Settings settings(true);
  Tally counts;
  kit::for_each_case("cudnn sums", 80, [&](KernelCase& c) {
    const DType dtype = c.pick({kFloat32, kFloat16, kBFloat16});
    const Layout layout = c.pick({Layout::contiguous, Layout::channels_last});
    const kit::OperandOptions options{.layout = layout, .low = -1, .high = 1};
    const Problem k = draw(c);
    const Operand input = c.input(k.input(), dtype, options);
    const Operand weight = c.input(k.weight(), dtype, options);
    const Operand out = c.output(k.out(), dtype, options);
    const Operand mean = c.output({k.o}, kFloat32), m2 = c.output({k.o}, kFloat32);
    c.run([&](const Stream& stream, const kit::Side& at) {
      if (stream.device().is_cuda()) {
        ++counts.asked;
        if (vendor::conv2d_sums(stream, at(out), at(mean), at(m2), at(input), at(weight), k.p)) {
          ++counts.taken;
          return kernels::stats_of_sums(stream, at(mean), at(m2), k.n * k.extent(0) * k.extent(1));
        }
      }
      kernels::conv2d_stats(stream, at(out), at(mean), at(m2), at(input), at(weight), {}, k.p,
                            nullptr);
    });
    const std::int64_t depth = k.c / k.p.groups * k.kernel * k.kernel;
    const kit::Tolerance close = tolerance(depth, true);
    c.check(out, close);
    const double rounding = close.atol + 2 * test::rounding_of(dtype) * std::sqrt(depth);
    c.check(mean, {.rtol = 1e-3, .atol = rounding});
    const auto values = static_cast<double>(k.n * k.extent(0) * k.extent(1));
    c.check(m2, {.rtol = 1e-2, .atol = values * rounding * std::sqrt(static_cast<double>(depth))});
  });
  INFO(counts.taken, " of ", counts.asked, " taken");
  CHECK((counts.asked == 0 || counts.taken > 0));
}

TEST_CASE("cuDNN's convolutions, deterministic: the same bits every time") {
  if (!has_cudnn()) return;
  const Settings settings(true, false, true);
  const Tensor input = empty({16, 32, 20, 20}, {.device = "cuda:0"}),
               grad = empty({16, 64, 20, 20}, {.device = "cuda:0"});
  std::vector<float> values(16 * 64 * 400);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>((i * 7919) % 2003) / 2003.0F - 0.5F;
  grad.copy_(from_vector(values, {16, 64, 20, 20}));
  values.resize(16 * 32 * 400);
  input.copy_(from_vector(values, {16, 32, 20, 20}));
  const ConvParams p{.padding = {1, 1}};
  std::vector<float> first;
  for (int i = 0; i < 5; ++i) {
    const Tensor weight = empty({64, 32, 3, 3}, {.device = "cuda:0"});
    kernels::conv2d_weight(current_stream("cuda:0"), weight, View(), input, grad, p);
    const auto bits = weight.cpu().to_vector<float>();
    if (first.empty()) first = bits;
    CHECK(bits == first);
  }
}

TEST_CASE("cuDNN's attention, forward and backward") {
  if (!has_cudnn()) return;
  const Settings settings(false, true);  // its plans are made at once
  Tally counts;
  kit::for_each_case("cudnn attention", 12, [&](KernelCase& c) {
    const DType dtype = c.pick({kFloat16, kBFloat16});
    const std::int64_t b = c.integer(1, 2), heads = c.pick<std::int64_t>({1, 2, 4}),
                       groups = c.coin() ? heads : 1, queries = c.integer(2, 200),
                       keys = c.integer(2, 200), width = c.pick<std::int64_t>({8, 40, 64, 128});
    const bool causal = c.coin();
    // One case in ten is of memory that is not for cuDNN.
    const kit::OperandOptions options{
        .misalignment = c.integer(0, 9) == 0 ? 1 : 0, .low = -1, .high = 1};
    const Shape by_query{b, heads, queries, width}, by_key{b, groups, keys, width};
    const Operand query = c.input(by_query, dtype, options), key = c.input(by_key, dtype, options),
                  value = c.input(by_key, dtype, options), grad = c.input(by_query, dtype, options);
    const Operand out = c.output(by_query, dtype, options),
                  lse = c.output({b, heads, queries}, kFloat32, options),
                  grad_query = c.output(by_query, dtype, options),
                  grad_key = c.output(by_key, dtype, options),
                  grad_value = c.output(by_key, dtype, options);
    c.run([&](const Stream& stream, const kit::Side& at) {
      kernels::AttentionOperands o{at(query), at(key), at(value)};
      o.scale = 0.3;
      o.causal = causal;
      const kernels::AttentionGradients to{at(grad_query), at(grad_key), at(grad_value)};
      if (stream.device().is_cuda()) {
        ++counts.asked;
        if (vendor::attention(stream, o, at(out), at(lse)) &&
            vendor::attention_backward(stream, o, to, at(grad), at(out), at(lse))) {
          ++counts.taken;
          return;
        }
      }
      kernels::attention(stream, o, at(out), at(lse));
      kernels::attention_backward(stream, o, to, at(grad), at(out), at(lse));
    });
    // Weights and their gradients are rounded to the type before products.
    const double rounding = test::rounding_of(dtype);
    c.check(lse, {.rtol = 1e-4, .atol = 1e-4});
    c.check(out, {.rtol = 4 * rounding, .atol = 4 * rounding});
    for (const Operand& gradient : {grad_query, grad_key, grad_value})
      c.check(gradient, {.rtol = 16 * rounding,
                         .atol = 16 * rounding * std::sqrt(static_cast<double>(queries))});
  });
  INFO(counts.taken, " of ", counts.asked, " taken");
  CHECK((counts.asked == 0 || counts.taken > 0));
}
