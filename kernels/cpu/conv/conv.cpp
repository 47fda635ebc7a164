#include <atomic>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

#include "ferrite/core/parallel_for.h"
#include "ferrite/kernels/conv_problem.h"
#include "ferrite/kernels/cpu/conv/engines.h"
#include "ferrite/kernels/cpu/pack.h"

namespace ferrite::kernels {

namespace {

/// The value whose name the environment has under `variable`; the first one if it has none.
template <class E, std::size_t n>
E of_environment(const char* variable, const std::pair<std::string_view, E> (&values)[n]) {
  const char* text = std::getenv(variable);
  if (!text) return values[0].second;
  std::string names;
  for (const auto& [name, value] : values) {
    if (name == text) return value;
    names += (names.empty() ? "" : ", ") + std::string(name);
  }
  FERRITE_CHECK(false, ValueError, "conv2d", "{} is \"{}\"; it must be one of {}", variable, text,
                names);
  return values[0].second;
}

std::atomic<ConvEngine>& engine() {
  static std::atomic<ConvEngine> instance =
      of_environment<ConvEngine>("FERRITE_CONV", {{"automatic", ConvEngine::automatic},
                                                  {"own", ConvEngine::own},
                                                  {"onednn", ConvEngine::onednn}});
  return instance;
}

std::atomic<ConvAlgorithm>& algorithm() {
  static std::atomic<ConvAlgorithm> instance = of_environment<ConvAlgorithm>(
      "FERRITE_CONV_ALGORITHM", {{"automatic", ConvAlgorithm::automatic},
                                 {"direct", ConvAlgorithm::direct},
                                 {"winograd_2x2", ConvAlgorithm::winograd_2x2},
                                 {"winograd_4x4", ConvAlgorithm::winograd_4x4}});
  return instance;
}

}  // namespace

ConvEngine conv_engine() { return engine().load(std::memory_order_relaxed); }
void set_conv_engine(ConvEngine value) { engine().store(value, std::memory_order_relaxed); }
ConvAlgorithm conv_algorithm() { return algorithm().load(std::memory_order_relaxed); }
void set_conv_algorithm(ConvAlgorithm value) {
  algorithm().store(value, std::memory_order_relaxed);
}
bool has_onednn() { return cpu::onednn::available(); }

namespace cpu {

namespace {

/// Ours is the faster one, but for groups of few channels that lie side by side.
bool asks_onednn(const View& input, const View& weight, const ConvParams& params) {
  switch (conv_engine()) {
    case ConvEngine::own:
      return false;
    case ConvEngine::onednn:
      return true;
    case ConvEngine::automatic:
      break;
  }
  return params.groups > 1 && weight.sizes[1] <= 2 && input.strides[1] == 1;
}

}  // namespace

void conv2d(const View& out, const View& input, const View& weight, const View& bias,
            const ConvParams& params) {
  if (out.numel == 0) return;
  if (asks_onednn(input, weight, params) && onednn::conv2d(out, input, weight, bias, params))
    return;
  own::conv2d(out, input, weight, bias, params);
}

void conv2d_stats(const View& out, const View& mean, const View& m2, const View& input,
                  const View& weight, const View& bias, const ConvParams& params) {
  conv2d(out, input, weight, bias, params);
  channel_stats(channel_layout(out), mean, m2, out);
}

void conv2d_data(const View& grad_input, const View& grad, const View& weight, const View& bias,
                 const ConvParams& params) {
  if (grad_input.numel == 0) return;
  if (asks_onednn(grad, weight, params) &&
      onednn::conv2d_data(grad_input, grad, weight, bias, params))
    return;
  own::conv2d_data(grad_input, grad, weight, bias, params);
}

void conv2d_weight(const View& grad_weight, const View& grad_bias, const View& input,
                   const View& grad, const ConvParams& params) {
  if (grad_weight.numel == 0) return;
  if (asks_onednn(input, grad_weight, params) &&
      onednn::conv2d_weight(grad_weight, grad_bias, input, grad, params))
    return;
  own::conv2d_weight(grad_weight, grad_bias, input, grad, params);
}

void channel_sum(const View& out, const View& grad) {
  dispatch_floating(out.dtype, "conv2d", [&]<class S>() {
    using T = Compute<S>;
    const std::int64_t images = grad.sizes[0], channels = grad.sizes[1];
    const std::int64_t grain = std::max<std::int64_t>(1, (images + 15) / 16);
    const std::int64_t parts = images > 0 ? (images - 1) / grain + 1 : 0;
    const Scratch<T> partial(std::max<std::int64_t>(1, parts) * channels);
    std::fill_n(partial.data(), parts * channels, T(0));
    parallel_for(images, grain, [&](std::int64_t begin, std::int64_t end) {
      T* sums = partial.data() + begin / grain * channels;
      const Scratch<T> row(channels);
      for (std::int64_t n = begin; n < end; ++n)
        for (std::int64_t y = 0; y < grad.sizes[2]; ++y) {
          const S* from = grad.as<S>() + n * grad.strides[0] + y * grad.strides[2];
          std::fill_n(row.data(), channels, T(0));
          if (grad.strides[1] == 1) {
            for (std::int64_t x = 0; x < grad.sizes[3]; ++x)
              for (std::int64_t c = 0; c < channels; ++c)
                row.data()[c] += static_cast<T>(from[x * grad.strides[3] + c]);
          } else {
            for (std::int64_t c = 0; c < channels; ++c)
              for (std::int64_t x = 0; x < grad.sizes[3]; ++x)
                row.data()[c] += static_cast<T>(from[x * grad.strides[3] + c * grad.strides[1]]);
          }
          for (std::int64_t c = 0; c < channels; ++c) sums[c] += row.data()[c];
        }
    });
    for (std::int64_t c = 0; c < channels; ++c) {
      T sum = 0;
      for (std::int64_t p = 0; p < parts; ++p) sum += partial.data()[p * channels + c];
      out.as<S>()[c * out.strides[0]] = static_cast<S>(sum);
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
