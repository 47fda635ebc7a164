// Optimizer steps and related operations, over many parameters at once.
#include "ferrite/benchmarks/kernels/cases.h"
#include "ferrite/kernels/copy.h"
#include "ferrite/kernels/multi_tensor.h"
#include "ferrite/kernels/optim.h"

namespace ferrite::bench {

namespace {

constexpr std::int64_t kParameters = 62;  // as many as ResNet-18 has

Shape flat(std::int64_t numel) { return {numel}; }

/// The requested number of elements, in tensors of equal sizes.
struct Parameters {
  explicit Parameters(const Spec& spec, const Device& device)
      : step(empty({kParameters}, {.dtype = kInt64, .device = device})),
        lr(empty({}, {.dtype = kFloat64, .device = device})),
        number(empty({}, {.dtype = kFloat64, .device = device})) {
    kernels::fill(current_stream(device), step, 0);
    kernels::fill(current_stream(device), lr, 1e-3);
    kernels::fill(current_stream(device), number, 1.0);
    const std::int64_t each = std::max<std::int64_t>(spec.shape.numel() / kParameters, 1);
    batch.dtype = arrays.dtype = spec.dtype;
    batch.lr = lr.data<double>();
    for (std::int64_t i = 0; i < kParameters; ++i) {
      kernels::OptimTensor t{.numel = each, .step = step.data<std::int64_t>() + i};
      const auto make = [&] {
        tensors.push_back(random_values({each}, spec.dtype, device));
        return tensors.back().data_ptr();
      };
      t.param = make(), t.grad = make(), t.state[0] = make(), t.state[1] = make();
      batch.tensors.push_back(t);
      arrays.arrays.push_back({t.param, each});
    }
    bytes = static_cast<double>(kParameters * each) * static_cast<double>(itemsize(spec.dtype));
  }

  std::vector<Tensor> tensors;
  Tensor step, lr, number;
  kernels::OptimBatch batch;
  kernels::FlatTensors arrays;
  double bytes = 0;  // of one operand
};

using Call = std::function<void(const Stream&, const Parameters&)>;

void add(std::vector<Op>& ops, const char* name, double operands, Call call) {
  ops.push_back({"optim", name, flat, [=](const Spec& spec, const Device& device) {
                   const Parameters p(spec, device);
                   return Run{[=](const Stream& stream) { call(stream, p); }, operands * p.bytes};
                 }});
}

}  // namespace

void add_optimizer_ops(std::vector<Op>& ops) {
  // Parameter and momentum are read and written, the gradient is read.
  add(ops, "sgd_momentum", 5, [](const Stream& s, const Parameters& p) {
    kernels::sgd(s, p.batch, {.momentum = 0.9, .dampening = 0, .weight_decay = 5e-4});
  });
  add(ops, "adam", 7, [](const Stream& s, const Parameters& p) {
    kernels::adam(s, p.batch, {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0});
  });
  add(ops, "grad_norm", 1, [](const Stream& s, const Parameters& p) {
    kernels::sum_of_powers(s, p.arrays, 2, p.number);
  });
  add(ops, "scale_all", 2,
      [](const Stream& s, const Parameters& p) { kernels::scale_all(s, p.arrays, p.lr); });
}

}  // namespace ferrite::bench
