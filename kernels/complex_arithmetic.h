// Products and quotients of complex numbers, for the kernels of kernels/complex.h.
#pragma once

#include "ferrite/core/host_device.h"

namespace ferrite::kernels {

/// Without the checks for NaN of std::complex's product, as in PyTorch.
template <class T>
struct Parts {
  T re, im;
};

template <class T>
FERRITE_HOST_DEVICE inline Parts<T> product(Parts<T> a, Parts<T> b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

template <class T>
FERRITE_HOST_DEVICE inline Parts<T> quotient(Parts<T> a, Parts<T> b) {
  // By the larger part of b; for the imaginary one it is (a / i) / (b / i).
  const auto size = [](T x) { return x < 0 ? -x : x; };
  const bool swaps = size(b.re) < size(b.im);
  const T x = swaps ? a.im : a.re, y = swaps ? -a.re : a.im;
  const T large = swaps ? b.im : b.re, small = swaps ? -b.re : b.im;
  const T ratio = large == 0 ? small : small / large;
  const T scale = large + small * ratio;
  return {(x + y * ratio) / scale, (y - x * ratio) / scale};
}

template <class T>
FERRITE_HOST_DEVICE inline bool are_equal(Parts<T> a, Parts<T> b) {
  return a.re == b.re && a.im == b.im;
}

}  // namespace ferrite::kernels
