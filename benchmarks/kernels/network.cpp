// Products, convolutions, batch norm and pooling, on the layers of LeNet-5 and ResNet-18.
#include "ferrite/benchmarks/kernels/cases.h"
#include "ferrite/kernels/conv.h"
#include "ferrite/kernels/matmul.h"
#include "ferrite/kernels/norm.h"
#include "ferrite/kernels/pool.h"
#include "ferrite/ops/views.h"

namespace ferrite::bench {

namespace {

double bytes(const Tensor& t) { return static_cast<double>(t.nbytes()); }

MemoryFormat format(const Spec& s) { return s.channels_last ? kChannelsLast : kContiguous; }

std::int64_t output_size(std::int64_t input, const Spec& s) {
  return (input + 2 * s.padding - s.kernel) / s.stride + 1;
}

struct Convolution {
  Convolution(const Spec& s, const Device& device)
      : x(random_values(s.shape, s.dtype, device, format(s))),
        w(random_values({s.outputs, s.shape[1], s.kernel, s.kernel}, s.dtype, device, format(s))),
        y(random_values(
            {s.shape[0], s.outputs, output_size(s.shape[2], s), output_size(s.shape[3], s)},
            s.dtype, device, format(s))),
        params{.stride = {s.stride, s.stride}, .padding = {s.padding, s.padding}} {}

  Run run(std::function<void(const Stream&, const Convolution&)> call) const {
    return {[call, c = *this](const Stream& stream) { call(stream, c); },
            bytes(x) + bytes(w) + bytes(y),
            2 * static_cast<double>(y.numel()) * static_cast<double>(w.numel() / w.shape()[0])};
  }

  Tensor x, w, y;
  kernels::ConvParams params;
};

void add_convolutions(std::vector<Op>& ops) {
  const auto add = [&](const char* name,
                       std::function<void(const Stream&, const Convolution&)> call) {
    ops.push_back({"conv", name, nullptr, [call](const Spec& s, const Device& device) {
                     return Convolution(s, device).run(call);
                   }});
  };
  add("conv2d", [](const Stream& s, const Convolution& c) {
    kernels::conv2d(s, c.y, c.x, c.w, {}, c.params);
  });
  add("conv2d_data", [](const Stream& s, const Convolution& c) {
    kernels::conv2d_data(s, c.x, c.y, c.w, {}, c.params);
  });
  add("conv2d_weight", [](const Stream& s, const Convolution& c) {
    kernels::conv2d_weight(s, c.w, {}, c.x, c.y, c.params);
  });
}

void add_products(std::vector<Op>& ops) {
  // As a linear layer: [m, k] times the transpose of [outputs, k].
  ops.push_back({"matmul", "linear", nullptr, [](const Spec& s, const Device& device) {
                   const Tensor x = random_values(s.shape, s.dtype, device),
                                w = random_values({s.outputs, s.shape[1]}, s.dtype, device).t(),
                                out = random_values({s.shape[0], s.outputs}, s.dtype, device);
                   return Run{[=](const Stream& stream) { kernels::matmul(stream, out, x, w); },
                              bytes(x) + bytes(w) + bytes(out),
                              2 * static_cast<double>(out.numel() * s.shape[1])};
                 }});
}

struct BatchNorm {
  BatchNorm(const Spec& s, const Device& device)
      : x(random_values(s.shape, s.dtype, device, format(s))),
        y(random_values(s.shape, s.dtype, device, format(s))),
        grad(random_values(s.shape, s.dtype, device, format(s))) {
    const std::int64_t n = s.shape[0], c = s.shape[1], plane = s.shape[2] * s.shape[3];
    layout = s.channels_last ? kernels::ChannelLayout{n * plane, c, 1}
                             : kernels::ChannelLayout{n, c, plane};
    for (Tensor* t :
         {&mean, &m2, &invstd, &running_mean, &running_var, &weight, &bias, &sum_dy, &sum_dy_xhat})
      *t = random_values({c}, s.dtype == kFloat64 ? kFloat64 : kFloat32, device);
  }

  kernels::ChannelLayout layout;
  Tensor x, y, grad, mean, m2, invstd, running_mean, running_var, weight, bias, sum_dy, sum_dy_xhat;
};

void add_batch_norm(std::vector<Op>& ops) {
  // Two passes over the data, because the mean must be known before normalising: read, read, write.
  ops.push_back({"norm", "batch_norm", nullptr, [](const Spec& s, const Device& device) {
                   const BatchNorm b(s, device);
                   return Run{[b](const Stream& stream) {
                                kernels::channel_stats(stream, b.layout, b.mean, b.m2, b.x);
                                kernels::batch_norm_train(
                                    stream, b.layout, b.y, b.x, b.mean, b.invstd, {b.mean, b.m2},
                                    {b.running_mean, b.running_var}, 1e-5, b.weight, b.bias, {},
                                    kernels::NormActivation::none, {});
                              },
                              3 * bytes(b.x)};
                 }});
  // Both operands twice, and the gradient.
  ops.push_back({"norm", "batch_norm_backward", nullptr, [](const Spec& s, const Device& device) {
                   const BatchNorm b(s, device);
                   return Run{[b](const Stream& stream) {
                                kernels::batch_norm_backward_reduce(stream, b.layout, b.sum_dy,
                                                                    b.sum_dy_xhat, b.grad, b.x,
                                                                    b.mean, b.invstd, {}, {}, {});
                                kernels::batch_norm_backward_apply(
                                    stream, b.layout, b.y, b.grad, b.x, b.mean, b.invstd, b.weight,
                                    b.sum_dy, b.sum_dy_xhat, {}, b.layout.count(), {});
                              },
                              5 * bytes(b.x)};
                 }});
}

struct Pooling {
  Pooling(const Spec& s, const Device& device) {
    const auto axis = [&](std::int64_t input) {
      return kernels::PoolAxis{.input = input,
                               .output = output_size(input, s),
                               .kernel = s.kernel,
                               .stride = s.stride,
                               .padding = s.padding};
    };
    pool = {.batch = s.shape[0],
            .channels = s.shape[1],
            .h = axis(s.shape[2]),
            .w = axis(s.shape[3]),
            .channels_last = s.channels_last};
    const Shape small{s.shape[0], s.shape[1], pool.h.output, pool.w.output};
    x = random_values(s.shape, s.dtype, device, format(s));
    y = random_values(small, s.dtype, device, format(s));
    code = empty(small, {.dtype = pool.code_dtype(), .device = device, .memory_format = format(s)});
    kernels::max_pool2d(current_stream(device), pool, y, code, x, {});
  }

  kernels::Pool2d pool;
  Tensor x, y, code;
};

void add_pooling(std::vector<Op>& ops) {
  const auto add = [&](const char* name, bool codes,
                       std::function<void(const Stream&, const Pooling&)> call) {
    ops.push_back({"pool", name, nullptr, [=](const Spec& s, const Device& device) {
                     const Pooling p(s, device);
                     return Run{[call, p](const Stream& stream) { call(stream, p); },
                                bytes(p.x) + bytes(p.y) + (codes ? bytes(p.code) : 0)};
                   }});
  };
  add("max_pool2d", true, [](const Stream& s, const Pooling& p) {
    kernels::max_pool2d(s, p.pool, p.y, p.code, p.x, {});
  });
  add("max_pool2d_backward", true, [](const Stream& s, const Pooling& p) {
    kernels::max_pool2d_backward(s, p.pool, p.x, p.y, p.code, {}, {}, {});
  });
  add("avg_pool2d", false,
      [](const Stream& s, const Pooling& p) { kernels::avg_pool2d(s, p.pool, p.y, p.x); });
  add("avg_pool2d_backward", false,
      [](const Stream& s, const Pooling& p) { kernels::avg_pool2d_backward(s, p.pool, p.x, p.y); });
}

}  // namespace

void add_network_ops(std::vector<Op>& ops) {
  add_products(ops);
  add_convolutions(ops);
  add_batch_norm(ops);
  add_pooling(ops);
}

std::vector<Spec> network_specs(std::int64_t batch) {
  std::vector<Spec> specs;
  const std::int64_t lenet = 8 * batch;
  for (const auto& [m, k, n] : {std::array{lenet, std::int64_t{400}, std::int64_t{120}},
                                std::array{lenet, std::int64_t{120}, std::int64_t{84}},
                                std::array{batch, std::int64_t{512}, std::int64_t{1000}}})
    specs.push_back({.family = "matmul", .op = "linear", .shape = {m, k}, .outputs = n});

  struct Layer {
    std::int64_t n, in, size, out, kernel, stride, padding;
  };
  const Layer convolutions[] = {{lenet, 1, 28, 6, 5, 1, 2},     {lenet, 6, 14, 16, 5, 1, 0},
                                {batch, 3, 224, 64, 7, 2, 3},   {batch, 64, 56, 64, 3, 1, 1},
                                {batch, 64, 56, 128, 3, 2, 1},  {batch, 64, 56, 128, 1, 2, 0},
                                {batch, 128, 28, 128, 3, 1, 1}, {batch, 256, 14, 256, 3, 1, 1},
                                {batch, 512, 7, 512, 3, 1, 1}};
  const Layer pools[] = {{lenet, 6, 28, 6, 2, 2, 0}, {batch, 64, 112, 64, 3, 2, 1}};
  const Layer means[] = {{lenet, 6, 28, 6, 2, 2, 0}, {batch, 512, 7, 512, 7, 1, 0}};
  const Layer norms[] = {
      {batch, 64, 112}, {batch, 64, 56}, {batch, 128, 28}, {batch, 256, 14}, {batch, 512, 7}};
  const auto add = [&](const char* family, const char* op, const Layer& l) {
    for (const bool channels_last : {false, true})
      specs.push_back({.family = family,
                       .op = op,
                       .shape = {l.n, l.in, l.size, l.size},
                       .channels_last = channels_last,
                       .outputs = l.out,
                       .kernel = l.kernel,
                       .stride = l.stride,
                       .padding = l.padding});
  };
  for (const Layer& l : convolutions)
    for (const char* op : {"conv2d", "conv2d_data", "conv2d_weight"})
      // The gradient of an image is not needed in training.
      if (l.in > 3 || op != std::string("conv2d_data")) add("conv", op, l);
  for (const Layer& l : norms)
    for (const char* op : {"batch_norm", "batch_norm_backward"}) add("norm", op, l);
  for (const Layer& l : pools)
    for (const char* op : {"max_pool2d", "max_pool2d_backward"}) add("pool", op, l);
  for (const Layer& l : means)
    for (const char* op : {"avg_pool2d", "avg_pool2d_backward"}) add("pool", op, l);
  return specs;
}

}  // namespace ferrite::bench
