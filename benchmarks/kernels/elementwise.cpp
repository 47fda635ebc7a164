// Elementwise kernels, and copies between layouts and dtypes.
#include "ferrite/kernels/elementwise.h"

#include "ferrite/benchmarks/kernels/cases.h"
#include "ferrite/core/cuda_backend.h"
#include "ferrite/core/generator.h"
#include "ferrite/kernels/copy.h"
#include "ferrite/kernels/dropout.h"
#include "ferrite/kernels/index.h"
#include "ferrite/kernels/random.h"
#include "ferrite/kernels/unary.h"
#include "ferrite/kernels/where.h"
#include "ferrite/ops/views.h"

namespace ferrite::bench {

namespace {

using kernels::BinaryOp;
using kernels::UnaryOp;

constexpr std::int64_t kWidth = 1024;

Shape flat(std::int64_t numel) { return {numel}; }
Shape rows(std::int64_t numel) { return {std::max<std::int64_t>(numel / kWidth, 1), kWidth}; }
Shape images(std::int64_t numel) {
  return {std::max<std::int64_t>(numel / (64 * 56 * 56), 1), 64, 56, 56};
}

using Call =
    std::function<void(const Stream&, const Tensor& out, const Tensor& a, const Tensor& b)>;

struct Adder {
  std::vector<Op>& ops;
  const char* family;

  /// out and `inputs` (at most 2) operands of the same shape.
  void operator()(const char* name, int inputs, Call call) const {
    ops.push_back({family, name, flat, [inputs, call](const Spec& s, const Device& device) {
                     const Tensor out = random_values(s.shape, s.dtype, device);
                     const Tensor a = inputs > 0 ? random_values(s.shape, s.dtype, device) : out;
                     const Tensor b = inputs > 1 ? random_values(s.shape, s.dtype, device) : out;
                     return Run{[=](const Stream& stream) { call(stream, out, a, b); },
                                static_cast<double>(out.nbytes()) * (inputs + 1)};
                   }});
  }
};

void add_unary(const Adder& add, const char* name, UnaryOp op) {
  add(name, 1, [op](const Stream& s, const Tensor& out, const Tensor& a, const Tensor&) {
    kernels::unary(s, op, out, a);
  });
}

void add_masked(std::vector<Op>& ops) {
  const auto mask_of = [](const Spec& s, const Device& device) {
    const Tensor mask = empty(s.shape, {.dtype = kBool, .device = device});
    kernels::bernoulli(current_stream(device), mask, PhiloxState{1, 0}, 0.5);
    return mask;
  };
  ops.push_back(
      {"where", "where", flat, [=](const Spec& s, const Device& device) {
         const Tensor out = random_values(s.shape, s.dtype, device),
                      a = random_values(s.shape, s.dtype, device),
                      b = random_values(s.shape, s.dtype, device), mask = mask_of(s, device);
         return Run{[=](const Stream& stream) { kernels::where(stream, out, mask, a, b); },
                    3.0 * static_cast<double>(out.nbytes()) + static_cast<double>(mask.nbytes())};
       }});
  ops.push_back(
      {"where", "masked_fill", flat, [=](const Spec& s, const Device& device) {
         const Tensor out = random_values(s.shape, s.dtype, device),
                      a = random_values(s.shape, s.dtype, device), mask = mask_of(s, device);
         return Run{[=](const Stream& stream) { kernels::masked_fill(stream, out, a, mask, 0); },
                    2.0 * static_cast<double>(out.nbytes()) + static_cast<double>(mask.nbytes())};
       }});
}

void add_copies(std::vector<Op>& ops) {
  const auto copied = [](const Tensor& out, const Tensor& in) {
    return Run{[=](const Stream& stream) { kernels::copy(stream, out, in); },
               static_cast<double>(out.nbytes()) + static_cast<double>(in.nbytes())};
  };
  // A copy by the driver on a GPU: the reference for kernels.
  ops.push_back({"device", "device_copy", flat, [](const Spec& s, const Device& device) {
                   const Tensor out = random_values(s.shape, s.dtype, device),
                                in = random_values(s.shape, s.dtype, device);
                   return Run{[=](const Stream& stream) {
                                if (device.is_cpu()) return kernels::copy(stream, out, in);
                                detail::cuda::copy_bytes(stream, out.data_ptr(), device,
                                                         in.data_ptr(), device, in.nbytes());
                              },
                              2.0 * static_cast<double>(out.nbytes())};
                 }});
  ops.push_back({"copy", "copy", flat, [=](const Spec& s, const Device& device) {
                   return copied(random_values(s.shape, s.dtype, device),
                                 random_values(s.shape, s.dtype, device));
                 }});
  ops.push_back({"copy",
                 "cast_to_float32",
                 flat,
                 [=](const Spec& s, const Device& device) {
                   return copied(random_values(s.shape, kFloat32, device),
                                 random_values(s.shape, s.dtype, device));
                 },
                 {kFloat16, kBFloat16}});
  ops.push_back({"copy",
                 "cast_from_float32",
                 flat,
                 [=](const Spec& s, const Device& device) {
                   return copied(random_values(s.shape, s.dtype, device),
                                 random_values(s.shape, kFloat32, device));
                 },
                 {kFloat16, kBFloat16}});
  ops.push_back({"copy", "transpose", rows, [=](const Spec& s, const Device& device) {
                   return copied(random_values({s.shape[1], s.shape[0]}, s.dtype, device),
                                 random_values(s.shape, s.dtype, device).t());
                 }});
  ops.push_back({"copy", "nchw_to_nhwc", images, [=](const Spec& s, const Device& device) {
                   return copied(random_values(s.shape, s.dtype, device, kChannelsLast),
                                 random_values(s.shape, s.dtype, device));
                 }});
  ops.push_back({"copy", "nhwc_to_nchw", images, [=](const Spec& s, const Device& device) {
                   return copied(random_values(s.shape, s.dtype, device),
                                 random_values(s.shape, s.dtype, device, kChannelsLast));
                 }});
}

void add_random(std::vector<Op>& ops) {
  const Adder add{ops, "random"};
  constexpr PhiloxState kState{7, 0};
  add("uniform", 0, [](const Stream& s, const Tensor& out, const Tensor&, const Tensor&) {
    kernels::uniform(s, out, kState, 0, 1);
  });
  add("normal", 0, [](const Stream& s, const Tensor& out, const Tensor&, const Tensor&) {
    kernels::normal(s, out, kState, 0, 1);
  });
  add("dropout", 1, [](const Stream& s, const Tensor& out, const Tensor& a, const Tensor&) {
    kernels::dropout(s, out, a, kState, 0.5);
  });
}

}  // namespace

void add_elementwise_ops(std::vector<Op>& ops) {
  add_copies(ops);
  const Adder add{ops, "elementwise"};
  add("fill", 0, [](const Stream& s, const Tensor& out, const Tensor&, const Tensor&) {
    kernels::fill(s, out, 1);
  });
  add("add", 2, [](const Stream& s, const Tensor& out, const Tensor& a, const Tensor& b) {
    kernels::binary(s, BinaryOp::add, out, a, b);
  });
  add("mul_scalar", 1, [](const Stream& s, const Tensor& out, const Tensor& a, const Tensor&) {
    kernels::binary(s, BinaryOp::mul, out, a, Scalar(1.5));
  });
  add("add_scaled", 2, [](const Stream& s, const Tensor& out, const Tensor& a, const Tensor& b) {
    kernels::add_scaled(s, out, a, b, 0.5);
  });
  ops.push_back({"elementwise", "add_row", rows, [](const Spec& s, const Device& device) {
                   const Tensor out = random_values(s.shape, s.dtype, device),
                                a = random_values(s.shape, s.dtype, device),
                                row = random_values({s.shape[1]}, s.dtype, device);
                   return Run{[=](const Stream& stream) {
                                kernels::binary(stream, BinaryOp::add, out, a, row.expand(s.shape));
                              },
                              2.0 * static_cast<double>(out.nbytes())};
                 }});
  ops.push_back(
      {"elementwise", "lt", flat, [](const Spec& s, const Device& device) {
         const Tensor out = empty(s.shape, {.dtype = kBool, .device = device}),
                      a = random_values(s.shape, s.dtype, device),
                      b = random_values(s.shape, s.dtype, device);
         return Run{[=](const Stream& stream) { kernels::binary(stream, BinaryOp::lt, out, a, b); },
                    2.0 * static_cast<double>(a.nbytes()) + static_cast<double>(out.nbytes())};
       }});
  const Adder unary{ops, "unary"};
  add_unary(unary, "relu", UnaryOp::relu), add_unary(unary, "exp", UnaryOp::exp);
  add_unary(unary, "tanh", UnaryOp::tanh), add_unary(unary, "gelu", UnaryOp::gelu);
  add_unary(unary, "silu", UnaryOp::silu);
  for (const auto& [name, op] :
       {std::pair{"relu_backward", UnaryOp::relu}, std::pair{"gelu_backward", UnaryOp::gelu}})
    unary(name, 2,
          [op = op](const Stream& s, const Tensor& out, const Tensor& grad, const Tensor& x) {
            kernels::unary_backward(s, op, out, grad, x);
          });
  add_masked(ops);
  add_random(ops);
}

}  // namespace ferrite::bench
