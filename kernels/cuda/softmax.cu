// Normalisation along a dimension in one pass over the input and one over the output (Milakov and
// Gimelshein, "Online normalizer calculation for softmax", 2018).
#include <cmath>
#include <limits>

#include "ferrite/core/dtype.h"
#include "ferrite/kernels/cuda/axis_rows.cuh"
#include "ferrite/kernels/cuda/online_sum.cuh"
#include "ferrite/kernels/softmax.h"

namespace ferrite::kernels::cuda {

namespace {

template <class T>
struct Softmax {
  using E = Compute<T>;
  static constexpr int kInputs = 1;
  bool log;

  __device__ OnlineSum<E> empty() const { return {}; }
  template <int V>
  __device__ void take(OnlineSum<E>& state, const Pack<T, V> (&x)[1]) const {
    state.take(x[0]);
  }
  __device__ OnlineSum<E> combine(const OnlineSum<E>& a, const OnlineSum<E>& b) const {
    return join(a, b);
  }
  struct Prepared {
    E top, factor;
  };
  __device__ Prepared prepare(const OnlineSum<E>& state) const {
    return {state.top, log ? std::log(state.sum) : 1 / state.sum};
  }
  template <int V>
  __device__ Pack<T, V> write(const Prepared& p, const Pack<T, V> (&x)[1]) const {
    Pack<T, V> y;
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const E shifted = static_cast<E>(x[0].v[v]) - p.top;
      y.v[v] = static_cast<T>(log ? shifted - p.factor : std::exp(shifted) * p.factor);
    }
    return y;
  }
};

/// softmax: y (g - sum(g y)); log_softmax: g - exp(y) sum(g). The inputs are g and y.
template <class T>
struct SoftmaxBackward {
  using E = Compute<T>;
  static constexpr int kInputs = 2;
  bool log;

  __device__ E empty() const { return 0; }
  template <int V>
  __device__ void take(E& sum, const Pack<T, V> (&x)[2]) const {
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const E g = static_cast<E>(x[0].v[v]);
      sum += log ? g : g * static_cast<E>(x[1].v[v]);
    }
  }
  __device__ E combine(E a, E b) const { return a + b; }
  __device__ E prepare(E sum) const { return sum; }
  template <int V>
  __device__ Pack<T, V> write(E sum, const Pack<T, V> (&x)[2]) const {
    Pack<T, V> out;
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const E g = static_cast<E>(x[0].v[v]), y = static_cast<E>(x[1].v[v]);
      out.v[v] = static_cast<T>(log ? g - std::exp(y) * sum : y * (g - sum));
    }
    return out;
  }
};

}  // namespace

void softmax(const Stream& stream, SoftmaxKind kind, const View& out, const View& in, int dim) {
  dispatch_floating(out.dtype, "softmax", [&]<class T>() {
    run_along_axis<T>(stream, "softmax", Softmax<T>{kind == SoftmaxKind::log}, out, {&in}, dim);
  });
}

void softmax_backward(const Stream& stream, SoftmaxKind kind, const View& out, const View& grad,
                      const View& y, int dim) {
  dispatch_floating(out.dtype, "softmax_backward", [&]<class T>() {
    run_along_axis<T>(stream, "softmax_backward", SoftmaxBackward<T>{kind == SoftmaxKind::log}, out,
                      {&grad, &y}, dim);
  });
}

}  // namespace ferrite::kernels::cuda
