#include "ferrite/nn/pooling.h"

#include "ferrite/nn/repr.h"

namespace ferrite::nn {

namespace {

/// The options with the kernel's size, and the stride that follows from it.
template <class Options, class Sizes>
Options complete(const Options& options, const Sizes& kernel_size, const char* layer) {
  Options all = ops::with_kernel_size(options, kernel_size, layer);
  if (!all.stride) all.stride = kernel_size;
  return all;
}

constexpr const char* kMaxPool[] = {"MaxPool1d", "MaxPool2d", "MaxPool3d"};
constexpr const char* kAvgPool[] = {"AvgPool1d", "AvgPool2d", "AvgPool3d"};

}  // namespace

// ---- Maxima and means

template <int N>
MaxPoolNd<N>::MaxPoolNd(SizeOf<N> kernel_size, const MaxPoolOptions<N>& options)
    : options_(complete(options, kernel_size, kMaxPool[N - 1])) {}

template <int N>
Tensor MaxPoolNd<N>::forward(const Tensor& input) {
  if constexpr (N == 1)
    return max_pool1d(input, options_);
  else if constexpr (N == 2)
    return max_pool2d(input, options_);
  else
    return max_pool3d(input, options_);
}

template <int N>
std::pair<Tensor, Tensor> MaxPoolNd<N>::forward_with_indices(const Tensor& input) {
  if constexpr (N == 1)
    return max_pool1d_with_indices(input, options_);
  else if constexpr (N == 2)
    return max_pool2d_with_indices(input, options_);
  else
    return max_pool3d_with_indices(input, options_);
}

template <int N>
std::string MaxPoolNd<N>::extra_repr() const {
  return fmt::format("kernel_size={}, stride={}, padding={}, dilation={}, ceil_mode={}",
                     repr_short(*options_.kernel_size), repr_short(*options_.stride),
                     repr_short(options_.padding), repr_short(options_.dilation),
                     repr(options_.ceil_mode));
}

template <int N>
AvgPoolNd<N>::AvgPoolNd(SizeOf<N> kernel_size, const AvgPoolOptions<N>& options)
    : options_(complete(options, kernel_size, kAvgPool[N - 1])) {}

template <int N>
Tensor AvgPoolNd<N>::forward(const Tensor& input) {
  if constexpr (N == 1)
    return avg_pool1d(input, options_);
  else if constexpr (N == 2)
    return avg_pool2d(input, options_);
  else
    return avg_pool3d(input, options_);
}

template <int N>
std::string AvgPoolNd<N>::extra_repr() const {
  // PyTorch keeps a tuple of one size here.
  const auto text = [](const auto& sizes) {
    return N == 1 ? repr_sizes(sizes) : repr_short(sizes);
  };
  return fmt::format("kernel_size={}, stride={}, padding={}", text(*options_.kernel_size),
                     text(*options_.stride), text(options_.padding));
}

// ---- Adaptive ones

/// Where a size is not given, that of the input, if it has that dimension: the function checks.
template <AdaptivePool kind, int N>
SizeOf<N> AdaptivePoolNd<kind, N>::output_size(const Tensor& input) const {
  const auto size = [&](int d) {
    const bool has = input.defined() && input.dim() >= N;
    return output_size_.sizes[static_cast<std::size_t>(d)].value_or(has ? input.size(d - N) : 1);
  };
  if constexpr (N == 1)
    return size(0);
  else if constexpr (N == 2)
    return {size(0), size(1)};
  else
    return {size(0), size(1), size(2)};
}

template <AdaptivePool kind, int N>
Tensor AdaptivePoolNd<kind, N>::forward(const Tensor& input) {
  if constexpr (kind == AdaptivePool::avg && N == 1)
    return adaptive_avg_pool1d(input, output_size(input));
  else if constexpr (kind == AdaptivePool::avg && N == 2)
    return adaptive_avg_pool2d(input, output_size(input));
  else if constexpr (kind == AdaptivePool::avg)
    return adaptive_avg_pool3d(input, output_size(input));
  else if constexpr (N == 1)
    return adaptive_max_pool1d(input, output_size(input));
  else if constexpr (N == 2)
    return adaptive_max_pool2d(input, output_size(input));
  else
    return adaptive_max_pool3d(input, output_size(input));
}

template <AdaptivePool kind, int N>
std::pair<Tensor, Tensor> AdaptivePoolNd<kind, N>::forward_with_indices(
    const Tensor& input) requires(kind == AdaptivePool::max) {
  if constexpr (N == 1)
    return adaptive_max_pool1d_with_indices(input, output_size(input));
  else if constexpr (N == 2)
    return adaptive_max_pool2d_with_indices(input, output_size(input));
  else
    return adaptive_max_pool3d_with_indices(input, output_size(input));
}

template <AdaptivePool kind, int N>
std::string AdaptivePoolNd<kind, N>::extra_repr() const {
  std::string sizes;
  for (const auto& size : output_size_.sizes)
    sizes += (sizes.empty() ? "" : ", ") + (size ? fmt::format("{}", *size) : "None");
  return "output_size=" + (N == 1 ? sizes : "(" + sizes + ")");
}

// ---- Power means

template <int N>
Tensor LPPoolNd<N>::forward(const Tensor& input) {
  if constexpr (N == 1)
    return lp_pool1d(input, norm_type_, kernel_size_, options_);
  else if constexpr (N == 2)
    return lp_pool2d(input, norm_type_, kernel_size_, options_);
  else
    return lp_pool3d(input, norm_type_, kernel_size_, options_);
}

template <int N>
std::string LPPoolNd<N>::extra_repr() const {
  return fmt::format(
      "norm_type={}, kernel_size={}, stride={}, ceil_mode={}", norm_type_, repr_short(kernel_size_),
      options_.stride ? repr_short(*options_.stride) : "None", repr(options_.ceil_mode));
}

// ---- Unpooling

template <int N>
Tensor MaxUnpoolNd<N>::forward(const Tensor& input, const Tensor& indices,
                               OptionalSizeOf<N> output_size) {
  MaxUnpoolOptions<N> o = options_;
  o.output_size = output_size;
  if constexpr (N == 1)
    return max_unpool1d(input, indices, kernel_size_, o);
  else if constexpr (N == 2)
    return max_unpool2d(input, indices, kernel_size_, o);
  else
    return max_unpool3d(input, indices, kernel_size_, o);
}

template <int N>
std::string MaxUnpoolNd<N>::extra_repr() const {
  return fmt::format("kernel_size={}, stride={}, padding={}", repr_sizes(kernel_size_),
                     repr_sizes(SizeOf<N>(options_.stride.value_or(kernel_size_))),
                     repr_sizes(options_.padding));
}

template <int N>
std::pair<Tensor, Tensor> FractionalMaxPoolNd<N>::forward_with_indices(const Tensor& input) {
  if constexpr (N == 2)
    return fractional_max_pool2d_with_indices(input, kernel_size_, options_);
  else
    return fractional_max_pool3d_with_indices(input, kernel_size_, options_);
}
template class FractionalMaxPoolNd<2>;
template class FractionalMaxPoolNd<3>;

#define FERRITE_POOLS(N)                               \
  template class MaxPoolNd<N>;                         \
  template class AvgPoolNd<N>;                         \
  template class AdaptivePoolNd<AdaptivePool::avg, N>; \
  template class AdaptivePoolNd<AdaptivePool::max, N>; \
  template class LPPoolNd<N>;                          \
  template class MaxUnpoolNd<N>;
FERRITE_POOLS(1)
FERRITE_POOLS(2)
FERRITE_POOLS(3)
#undef FERRITE_POOLS

}  // namespace ferrite::nn
