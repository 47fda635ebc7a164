// The CUDA kernels of swiglu. nvcc compiles this file for GPUs; g++ compiles the same file against
// the emulator, which runs it on the CPU.
#include <cmath>

#include "ferrite/kernels/cuda/elementwise.cuh"
#include "kernels.h"

namespace swiglu::cuda {

using namespace ferrite;
using namespace ferrite::kernels::cuda;

namespace {

constexpr int kThreads = 256;

/// Computes in float, or in double for float64.
template <class C>
__device__ C sigmoid(C x) {
  return C(1) / (C(1) + std::exp(-x));
}

struct Forward {
  template <class C>
  __device__ C operator()(C gate, C value) const {
    return gate * sigmoid(gate) * value;
  }
};

template <class C>
__device__ void differentiate(C& grad_gate, C& grad_value, C grad, C gate, C value) {
  const C s = sigmoid(gate), swish = gate * s;
  grad_gate = grad * value * (s + swish * (C(1) - s));
  grad_value = grad * swish;
}

/// Each thread handles V adjacent elements: one 16-byte load per operand if they are aligned.
template <int V, class T>
__global__ void __launch_bounds__(kThreads)
    backward_kernel(std::int64_t n, T* grad_gate, T* grad_value, const T* grad, const T* gate,
                    const T* value) {
  using C = Compute<T>;
  const std::int64_t at = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * V;
  if (at + V <= n) {
    const Pack<T, V> d = load_pack<V>(grad + at), g = load_pack<V>(gate + at),
                     v = load_pack<V>(value + at);
    Pack<T, V> dg, dv;
#pragma unroll
    for (int i = 0; i < V; ++i) {
      C to_gate, to_value;
      differentiate<C>(to_gate, to_value, d.v[i], g.v[i], v.v[i]);
      dg.v[i] = static_cast<T>(to_gate);
      dv.v[i] = static_cast<T>(to_value);
    }
    store_pack<V>(grad_gate + at, dg);
    store_pack<V>(grad_value + at, dv);
    return;
  }
  for (std::int64_t i = at; i < n; ++i) {  // the last, incomplete pack
    C to_gate, to_value;
    differentiate<C>(to_gate, to_value, grad[i], gate[i], value[i]);
    grad_gate[i] = static_cast<T>(to_gate);
    grad_value[i] = static_cast<T>(to_value);
  }
}

}  // namespace

// One output: Ferrite's map() handles loads, the tail and all layouts.
void forward(const Stream& stream, const View& out, const View& gate, const View& value) {
  dispatch_floating(out.dtype, "swiglu", [&]<class T>() {
    map<T, T, T>(stream, "swiglu", Forward(), out, gate, value);
  });
}

// Two outputs in one pass need their own kernel.
void backward(const Stream& stream, const View& grad_gate, const View& grad_value, const View& grad,
              const View& gate, const View& value) {
  dispatch_floating(grad.dtype, "swiglu", [&]<class T>() {
    constexpr int kPack = pack_size<T>();
    bool aligned = true;
    for (const View* v : {&grad_gate, &grad_value, &grad, &gate, &value})
      aligned = aligned && is_aligned(v->as<T>(), kPack);
    const auto run = [&]<int V>() {
      launch({"swiglu_backward", stream, blocks_for(grad.numel, kThreads * V), kThreads},
             backward_kernel<V, T>, grad.numel, grad_gate.as<T>(), grad_value.as<T>(), grad.as<T>(),
             gate.as<T>(), value.as<T>());
    };
    if (aligned)
      run.template operator()<kPack>();
    else
      run.template operator()<1>();
  });
}

}  // namespace swiglu::cuda
