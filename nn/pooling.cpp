#include "ferrite/nn/pooling.h"

#include "ferrite/nn/repr.h"

namespace ferrite::nn {

MaxPool2d::MaxPool2d(Pair kernel_size, const MaxPool2dOptions& options)
    : options_{.kernel_size = kernel_size,
               .stride = options.stride.value_or(kernel_size),
               .padding = options.padding,
               .dilation = options.dilation,
               .ceil_mode = options.ceil_mode} {}

Tensor MaxPool2d::forward(const Tensor& input) { return max_pool2d(input, options_); }

std::string MaxPool2d::extra_repr() const {
  return fmt::format("kernel_size={}, stride={}, padding={}, dilation={}, ceil_mode={}",
                     repr_short(options_.kernel_size), repr_short(options_.stride),
                     repr_short(options_.padding), repr_short(options_.dilation),
                     repr(options_.ceil_mode));
}

AvgPool2d::AvgPool2d(Pair kernel_size, const AvgPool2dOptions& options)
    : options_{.kernel_size = kernel_size,
               .stride = options.stride.value_or(kernel_size),
               .padding = options.padding,
               .ceil_mode = options.ceil_mode,
               .count_include_pad = options.count_include_pad,
               .divisor_override = options.divisor_override} {}

Tensor AvgPool2d::forward(const Tensor& input) { return avg_pool2d(input, options_); }

std::string AvgPool2d::extra_repr() const {
  return fmt::format("kernel_size={}, stride={}, padding={}", repr_short(options_.kernel_size),
                     repr_short(options_.stride), repr_short(options_.padding));
}

Tensor AdaptiveAvgPool2d::forward(const Tensor& input) {
  return adaptive_avg_pool2d(input, output_size_);
}

std::string AdaptiveAvgPool2d::extra_repr() const { return "output_size=" + repr(output_size_); }

}  // namespace ferrite::nn
