#include "ferrite/kernels/cuda/launch.cuh"
#include "ferrite/kernels/lstm.h"
#include "ferrite/kernels/matmul.h"

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

void lstm_steps(const Stream& stream, const LstmSteps& s, const View& output) {
  const std::int64_t count = s.h.numel, width = s.h.sizes[1];
  const View weight = transposed(s.weight);
  View h = s.h, c = s.c;
  for (std::int64_t t = 0; t < s.count(); ++t) {
    const View gates = step_at(s.gates, s.place(t)), next_c = step_at(s.cells, s.place(t)),
               next_h = step_at(output, s.place(t));
    cuda::matmul(stream, gates, h, weight, {.beta = 1});
    dispatch_floating(gates.dtype, "lstm", [&]<class T>() {
      launch({"lstm_cell", stream, blocks_for(count, kLstmThreads), kLstmThreads},
             lstm_cell_kernel<T>, count, width, gates.as<T>(), c.as<T>(), next_c.as<T>(),
             next_h.as<T>());
    });
    h = next_h;
    c = next_c;
  }
}

void lstm_steps_backward(const Stream& stream, const LstmSteps& s, const View& grad_sums,
                         const View& grad_c, const View& grad_output) {
  const std::int64_t count = s.c.numel, width = s.c.sizes[1];
  for (std::int64_t t = s.count() - 1; t >= 0; --t) {
    const View sums = step_at(grad_sums, s.place(t)), by_h = step_at(grad_output, s.place(t)),
               gates = step_at(s.gates, s.place(t)), after = step_at(s.cells, s.place(t)),
               before = t > 0 ? step_at(s.cells, s.place(t - 1)) : s.c;
    if (t + 1 < s.count())
      cuda::matmul(stream, by_h, step_at(grad_sums, s.place(t + 1)), s.weight, {.beta = 1});
    dispatch_floating(gates.dtype, "lstm", [&]<class T>() {
      launch({"lstm_gradient", stream, blocks_for(count, kLstmThreads), kLstmThreads},
             lstm_gradient_kernel<T>, count, width, sums.as<T>(), grad_c.as<Compute<T>>(),
             by_h.as<T>(), gates.as<T>(), before.as<T>(), after.as<T>());
    });
  }
}

}  // namespace ferrite::kernels::cuda
