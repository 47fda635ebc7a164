#include "ferrite/kernels/conv.h"

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ferrite/core/parallel_for.h"
#include "ferrite/kernels/conv_problem.h"
#include "ferrite/kernels/cpu/conv/plan.h"
#include "ferrite/kernels/cpu/pack.h"
#include "ferrite/kernels/elementwise.h"

namespace ferrite::kernels {

namespace {

constexpr std::pair<std::string_view, ConvAlgorithm> kAlgorithms[] = {
    {"automatic", ConvAlgorithm::automatic},
    {"direct", ConvAlgorithm::direct},
    {"winograd_2x2", ConvAlgorithm::winograd_2x2},
    {"winograd_4x4", ConvAlgorithm::winograd_4x4}};

ConvAlgorithm algorithm_of_environment() {
  const char* text = std::getenv("FERRITE_CONV_ALGORITHM");
  if (!text) return ConvAlgorithm::automatic;
  std::string names;
  for (const auto& [name, value] : kAlgorithms) {
    if (name == text) return value;
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  FERRITE_CHECK(false, ValueError, "conv2d",
                "FERRITE_CONV_ALGORITHM is \"{}\"; it must be one of {}", text, names);
  return ConvAlgorithm::automatic;
}

std::atomic<ConvAlgorithm>& algorithm() {
  static std::atomic<ConvAlgorithm> instance = algorithm_of_environment();
  return instance;
}

}  // namespace

ConvAlgorithm conv_algorithm() { return algorithm().load(std::memory_order_relaxed); }
void set_conv_algorithm(ConvAlgorithm value) {
  algorithm().store(value, std::memory_order_relaxed);
}

namespace {

bool prints_plans() {
  static const bool prints = [] {
    const char* text = std::getenv("FERRITE_CONV_PLAN");
    return text && *text && std::string_view(text) != "0";
  }();
  return prints;
}

void print_once(const std::string& line) {
  static auto& mutex = *new std::mutex;
  static auto& printed = *new std::set<std::string>;
  const std::lock_guard lock(mutex);
  if (printed.insert(line).second) std::fprintf(stderr, "%s\n", line.c_str());
}

}  // namespace

std::string conv_plan(ConvPass pass, const View& input, const View& weight, const View& out,
                      const ConvParams& params) {
  const cpu::ConvCall call = cpu::without_skipped_pixels({pass, input, weight, out, {}, params});
  return cpu::to_string(call, cpu::plan_of(call));
}

namespace cpu {

void run_conv(const ConvCall& given) {
  const ConvCall call = without_skipped_pixels(given);
  const ConvPlan plan = plan_of(call);
  if (prints_plans()) print_once(to_string(call, plan));
  dispatch_floating(call.out.dtype, "conv2d", [&]<class S>() { run_conv<S>(call, plan.method); });
}

void conv2d(const View& out, const View& input, const View& weight, const View& bias,
            const ConvParams& params) {
  if (out.numel > 0) run_conv({ConvPass::forward, input, weight, out, bias, params});
}

void conv2d_stats(const View& out, const View& mean, const View& m2, const View& input,
                  const View& weight, const View& bias, const ConvParams& params, bool*) {
  conv2d(out, input, weight, bias, params);
  channel_stats(channel_layout(out), mean, m2, out);
}

void conv2d_data(const View& grad_input, const View& grad, const View& weight, const View& bias,
                 const ConvParams& params) {
  if (grad_input.numel > 0) run_conv({ConvPass::data, grad_input, weight, grad, bias, params});
}

void conv2d_data_add(const View& grad_input, const View& grad, const View& weight,
                     const ConvParams& params) {
  if (grad_input.numel == 0) return;
  const Scratch<std::byte> memory(static_cast<std::int64_t>(bytes_spanned(grad_input)));
  View part = grad_input;
  part.data = memory.data();
  conv2d_data(part, grad, weight, View(), params);
  cpu::binary(BinaryOp::add, grad_input, grad_input, part);
}

void conv2d_weight(const View& grad_weight, const View& grad_bias, const View& input,
                   const View& grad, const ConvParams& params) {
  // The engines add up the bias's gradient of a row in floats, of which few share a long one.
  constexpr std::int64_t kLongRow = 8192;
  const bool apart = grad_bias.data && (grad.sizes[3] > kLongRow || grad_weight.numel == 0);
  if (grad_weight.numel > 0)
    run_conv({ConvPass::weight, input, grad_weight, grad, apart ? View() : grad_bias, params});
  if (apart) channel_sum(grad_bias, grad);
}

void channel_sum(const View& out, const View& grad) {
  dispatch_floating(out.dtype, "conv2d", [&]<class S>() {
    using T = Compute<S>;
    // Pixels that are added up in T. A float would lose digits over the length of a sequence.
    constexpr std::int64_t kBlock = 32;
    const std::int64_t images = grad.sizes[0], channels = grad.sizes[1], width = grad.sizes[3];
    const std::int64_t grain = std::max<std::int64_t>(1, (images + 15) / 16);
    const std::int64_t parts = images > 0 ? (images - 1) / grain + 1 : 0;
    const Scratch<double> partial(std::max<std::int64_t>(1, parts) * channels);
    std::fill_n(partial.data(), parts * channels, 0.0);
    parallel_for(images, grain, [&](std::int64_t begin, std::int64_t end) {
      double* sums = partial.data() + begin / grain * channels;
      const Scratch<T> block(channels);
      const auto add = [&](const S* from, std::int64_t pixels) {
        std::fill_n(block.data(), channels, T(0));
        if (grad.strides[1] == 1) {
          for (std::int64_t x = 0; x < pixels; ++x)
            for (std::int64_t c = 0; c < channels; ++c)
              block.data()[c] += static_cast<T>(from[x * grad.strides[3] + c]);
        } else {
          for (std::int64_t c = 0; c < channels; ++c)
            for (std::int64_t x = 0; x < pixels; ++x)
              block.data()[c] += static_cast<T>(from[x * grad.strides[3] + c * grad.strides[1]]);
        }
        for (std::int64_t c = 0; c < channels; ++c) sums[c] += static_cast<double>(block.data()[c]);
      };
      for (std::int64_t n = begin; n < end; ++n)
        for (std::int64_t y = 0; y < grad.sizes[2]; ++y)
          for (std::int64_t x = 0; x < width; x += kBlock)
            add(grad.as<S>() + n * grad.strides[0] + y * grad.strides[2] + x * grad.strides[3],
                std::min(kBlock, width - x));
    });
    for (std::int64_t c = 0; c < channels; ++c) {
      double sum = 0;
      for (std::int64_t p = 0; p < parts; ++p) sum += partial.data()[p * channels + c];
      out.as<S>()[c * out.strides[0]] = static_cast<S>(static_cast<T>(sum));
    }
  });
}

void add_channels(const View& out, const View& bias, Activation activation) {
  const std::int64_t channels = out.sizes[1], width = out.sizes[3];
  dispatch_floating(out.dtype, "conv2d", [&]<class S>() {
    using T = Compute<S>;
    parallel_for(
        out.sizes[0] * channels * out.sizes[2], 64, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t row = begin; row < end; ++row) {
            const std::int64_t y = row % out.sizes[2], c = row / out.sizes[2] % channels;
            const std::int64_t n = row / out.sizes[2] / channels;
            const T add = bias.data ? static_cast<T>(bias.as<S>()[c * bias.strides[0]]) : T(0);
            S* const line =
                out.as<S>() + n * out.strides[0] + c * out.strides[1] + y * out.strides[2];
            for (std::int64_t x = 0; x < width; ++x) {
              const T sum = static_cast<T>(line[x * out.strides[3]]) + add;
              line[x * out.strides[3]] =
                  static_cast<S>(activation == Activation::relu && sum < T(0) ? T(0) : sum);
            }
          }
        });
  });
}

}  // namespace cpu

}  // namespace ferrite::kernels
