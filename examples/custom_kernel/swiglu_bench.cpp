// The benchmark: compares the fused op with the same computation by Ferrite's ops, forward and
// backward.
//
//   custom_kernel_bench [device] [MiB of an operand]
#include <chrono>
#include <functional>
#include <iostream>
#include <vector>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "kernels.h"
#include "swiglu.h"

using namespace ferrite;

namespace {

/// Seconds per call. On a CUDA device they are measured by events, which exclude the host's time.
double seconds_of(const Device& device, const std::function<void()>& call, int calls = 20) {
  const Stream stream = current_stream(device);
  call();
  stream.synchronize();
  Event begin, end;
  const auto start = std::chrono::steady_clock::now();
  if (device.is_cuda()) begin.record(stream);
  for (int i = 0; i < calls; ++i) call();
  if (device.is_cuda()) end.record(stream);
  stream.synchronize();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  return (device.is_cuda() ? end.elapsed_ms(begin) * 1e-3 : elapsed.count()) / calls;
}

void run(const Device& device, double mib) {
  const Shape shape{static_cast<std::int64_t>(mib * (1 << 20) / 4)};
  const Tensor gate = randn(shape, {.device = device}), value = randn(shape, {.device = device}),
               grad = randn(shape, {.device = device});
  gate.set_requires_grad();
  value.set_requires_grad();
  const auto plain = [](const Tensor& g, const Tensor& v) { return g * sigmoid(g) * v; };
  const auto step = [&](auto&& op) {
    op(gate, value).backward(grad);
    gate.set_grad({});
    value.set_grad({});
  };
  const auto print = [&](const char* what, double seconds, double operands) {
    std::cout << what << ": " << seconds * 1e6 << " microseconds";
    if (operands > 0)
      std::cout << ", " << operands * static_cast<double>(grad.nbytes()) / seconds * 1e-9
                << " GB/s";
    std::cout << '\n';
  };
  std::cout << device.str() << ", operands of " << mib << " MiB\n";
  no_grad([&] {
    print("fused forward", seconds_of(device, [&] { swiglu::swiglu(gate, value); }), 3);
    print("Ferrite's ops", seconds_of(device, [&] { plain(gate, value); }), 0);
  });
  print("fused forward and backward", seconds_of(device, [&] { step(swiglu::swiglu); }), 8);
  print("Ferrite's ops", seconds_of(device, [&] { step(plain); }), 0);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(Device(argc > 1               ? argv[1]
               : cuda::is_available() ? "cuda:0"
                                      : "cpu"),
        argc > 2 ? std::stod(argv[2]) : 64);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
