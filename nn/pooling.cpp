#include "ferrite/nn/pooling.h"

#include "ferrite/nn/repr.h"

namespace ferrite::nn {

namespace {

template <class Options>
Options complete(const Options& options, Pair kernel_size, const char* layer) {
  Options all = ops::with_kernel_size(options, kernel_size, layer);
  if (!all.stride) all.stride = kernel_size;
  return all;
}

}  // namespace

MaxPool2d::MaxPool2d(Pair kernel_size, const MaxPool2dOptions& options)
    : options_(complete(options, kernel_size, "MaxPool2d")) {}

Tensor MaxPool2d::forward(const Tensor& input) { return max_pool2d(input, options_); }

std::string MaxPool2d::extra_repr() const {
  return fmt::format("kernel_size={}, stride={}, padding={}, dilation={}, ceil_mode={}",
                     repr_short(*options_.kernel_size), repr_short(*options_.stride),
                     repr_short(options_.padding), repr_short(options_.dilation),
                     repr(options_.ceil_mode));
}

AvgPool2d::AvgPool2d(Pair kernel_size, const AvgPool2dOptions& options)
    : options_(complete(options, kernel_size, "AvgPool2d")) {}

Tensor AvgPool2d::forward(const Tensor& input) { return avg_pool2d(input, options_); }

std::string AvgPool2d::extra_repr() const {
  return fmt::format("kernel_size={}, stride={}, padding={}", repr_short(*options_.kernel_size),
                     repr_short(*options_.stride), repr_short(options_.padding));
}

Tensor AdaptiveAvgPool2d::forward(const Tensor& input) {
  return adaptive_avg_pool2d(input, output_size_);
}

std::string AdaptiveAvgPool2d::extra_repr() const { return "output_size=" + repr(output_size_); }

}  // namespace ferrite::nn
