#include "ferrite/kernels/cuda/launch.cuh"
#include "ferrite/kernels/lstm.h"

namespace ferrite::kernels::cuda {

namespace {

constexpr int kLstmThreads = 256;

template <class C>
__device__ __forceinline__ C sigmoid(C x) {
  return C(1) / (C(1) + std::exp(-x));
}

/// An element of [N, H], and its input gate in [N, 4 * H].
struct CellPlace {
  std::int64_t at, gate;

  __device__ CellPlace(std::int64_t width)
      : at(std::int64_t{blockIdx.x} * kLstmThreads + threadIdx.x),
        gate(at / width * 4 * width + at % width) {}
};

template <class T>
__global__ void __launch_bounds__(kLstmThreads)
    lstm_cell_kernel(std::int64_t count, std::int64_t width, T* gates, const T* c_prev, T* c,
                     T* h) {
  using C = Compute<T>;
  const CellPlace p(width);
  if (p.at >= count) return;
  T* const g = gates + p.gate;
  const C in = sigmoid(static_cast<C>(g[0])), forget = sigmoid(static_cast<C>(g[width])),
          cell = std::tanh(static_cast<C>(g[2 * width])),
          out = sigmoid(static_cast<C>(g[3 * width])),
          next = forget * static_cast<C>(c_prev[p.at]) + in * cell;
  g[0] = static_cast<T>(in);
  g[width] = static_cast<T>(forget);
  g[2 * width] = static_cast<T>(cell);
  g[3 * width] = static_cast<T>(out);
  c[p.at] = static_cast<T>(next);
  h[p.at] = static_cast<T>(out * std::tanh(next));
}

template <class T>
__global__ void __launch_bounds__(kLstmThreads)
    lstm_gradient_kernel(std::int64_t count, std::int64_t width, T* grad_sums, Compute<T>* grad_c,
                         const T* grad_h, const T* gates, const T* c_prev, const T* c) {
  using C = Compute<T>;
  const CellPlace p(width);
  if (p.at >= count) return;
  const T* const g = gates + p.gate;
  const C in = static_cast<C>(g[0]), forget = static_cast<C>(g[width]),
          cell = static_cast<C>(g[2 * width]), out = static_cast<C>(g[3 * width]),
          bent = std::tanh(static_cast<C>(c[p.at])), by_h = static_cast<C>(grad_h[p.at]),
          by_c = grad_c[p.at] + by_h * out * (C(1) - bent * bent);
  T* const to = grad_sums + p.gate;
  to[0] = static_cast<T>(by_c * cell * in * (C(1) - in));
  to[width] = static_cast<T>(by_c * static_cast<C>(c_prev[p.at]) * forget * (C(1) - forget));
  to[2 * width] = static_cast<T>(by_c * in * (C(1) - cell * cell));
  to[3 * width] = static_cast<T>(by_h * bent * out * (C(1) - out));
  grad_c[p.at] = by_c * forget;
}

}  // namespace

void lstm_cell(const Stream& stream, const View& gates, const View& c_prev, const View& c,
               const View& h) {
  dispatch_floating(gates.dtype, "lstm_cell", [&]<class T>() {
    launch({"lstm_cell", stream, blocks_for(c.numel, kLstmThreads), kLstmThreads},
           lstm_cell_kernel<T>, c.numel, c.sizes[1], gates.as<T>(), c_prev.as<T>(), c.as<T>(),
           h.as<T>());
  });
}

void lstm_cell_backward(const Stream& stream, const View& grad_sums, const View& grad_c,
                        const View& grad_h, const View& gates, const View& c_prev, const View& c) {
  dispatch_floating(gates.dtype, "lstm_cell", [&]<class T>() {
    launch({"lstm_gradient", stream, blocks_for(c.numel, kLstmThreads), kLstmThreads},
           lstm_gradient_kernel<T>, c.numel, c.sizes[1], grad_sums.as<T>(), grad_c.as<Compute<T>>(),
           grad_h.as<T>(), gates.as<T>(), c_prev.as<T>(), c.as<T>());
  });
}

}  // namespace ferrite::kernels::cuda
