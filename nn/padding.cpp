#include "ferrite/nn/padding.h"

#include "ferrite/nn/repr.h"

namespace ferrite::nn {

namespace {

template <std::size_t n>
Tensor padded(const Tensor& input, const std::array<std::int64_t, n>& amounts, PadMode mode,
              double value = 0) {
  return pad(input, {amounts.begin(), amounts.end()}, mode, value);
}

template <std::size_t n>
std::string repr_amounts(const std::array<std::int64_t, n>& amounts) {
  return fmt::format("({})", fmt::join(amounts, ", "));
}

}  // namespace

template <PadMode mode, int N>
Tensor PadNd<mode, N>::forward(const Tensor& input) {
  return padded(input, amounts_, mode);
}

template <PadMode mode, int N>
std::string PadNd<mode, N>::extra_repr() const {
  return repr_amounts(amounts_);
}

template <int N>
Tensor ConstantPadNd<N>::forward(const Tensor& input) {
  return padded(input, this->amounts_, PadMode::constant, value_);
}

template <int N>
std::string ConstantPadNd<N>::extra_repr() const {
  return fmt::format("padding={}, value={}", repr_amounts(this->amounts_), value_);
}

template class PadNd<PadMode::constant, 1>;
template class PadNd<PadMode::reflect, 1>;
template class PadNd<PadMode::replicate, 1>;
template class PadNd<PadMode::circular, 1>;
template class ConstantPadNd<1>;
template class PadNd<PadMode::constant, 2>;
template class PadNd<PadMode::reflect, 2>;
template class PadNd<PadMode::replicate, 2>;
template class PadNd<PadMode::circular, 2>;
template class ConstantPadNd<2>;
template class PadNd<PadMode::constant, 3>;
template class PadNd<PadMode::reflect, 3>;
template class PadNd<PadMode::replicate, 3>;
template class PadNd<PadMode::circular, 3>;
template class ConstantPadNd<3>;

}  // namespace ferrite::nn
