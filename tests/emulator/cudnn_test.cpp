// Ferrite's attention as graphs for cuDNN, computed as they are wired, against float64.
#include "ferrite/kernels/cuda/vendor/cudnn.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/cuda.h"
#include "ferrite/core/cuda_graph.h"
#include "ferrite/core/generator.h"
#include "ferrite/core/stream.h"
#include "ferrite/emulator/emulator.h"
#include "ferrite/kernels/vendor.h"
#include "ferrite/ops/attention.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/unary.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using test::check_close;
using test::check_equal;
namespace vendor = kernels::cuda::vendor;

namespace {

const Device kCuda("cuda:0");

/// While it lives there is a cuDNN, whose plans are made at the first call.
struct WithCudnn {
  WithCudnn() {
    emulator::set_cudnn(true);
    cudnn::set_benchmark(true);
  }
  ~WithCudnn() {
    emulator::set_cudnn(false);
    cudnn::set_benchmark(false);
  }
};

bool has_cudnn() {
  if (!cudnn::is_available()) MESSAGE("skipped: the build had no headers of cuDNN");
  return cudnn::is_available();
}

struct Case {
  std::int64_t batch, heads, groups, queries, keys, width, values;
  bool causal = false, turned = true;
};
const std::vector<Case> kCases = {
    {2, 2, 2, 20, 20, 16, 16, true},
    {1, 3, 3, 9, 21, 24, 8},
    {2, 4, 2, 13, 13, 8, 16, true, false},
    {1, 4, 1, 6, 11, 16, 16},
};

Tensor noise(const Shape& shape, DType dtype) {
  static Generator generator(5);
  return randn(shape, {.dtype = kFloat64}, &generator).to(dtype).to(kFloat64);
}

/// The operands, float64 on the host: heads of a step are neighbours, or those of a batch.
std::vector<Tensor> operands(const Case& c, DType dtype) {
  const auto make = [&](std::int64_t heads, std::int64_t rows, std::int64_t columns) {
    return c.turned ? noise({c.batch, rows, heads, columns}, dtype).transpose(1, 2)
                    : noise({c.batch, heads, rows, columns}, dtype);
  };
  return {make(c.heads, c.queries, c.width), make(c.groups, c.keys, c.width),
          make(c.groups, c.keys, c.values), make(c.heads, c.queries, c.values)};
}

struct Results {
  Tensor out, lse, query, key, value;
};

/// By the kernels: forward and backward, each by cuDNN if it is asked to; CHECKs that it is.
Results run(const Case& c, const std::vector<Tensor>& in, bool forward, bool backward) {
  const Stream stream = current_stream(in[0].device());
  const auto like = [](const Tensor& t) { return empty_like(t); };
  const bool wide = in[0].dtype() == kFloat64;
  Results r{like(in[3]),
            empty({c.batch, c.heads, c.queries},
                  {.dtype = wide ? kFloat64 : kFloat32, .device = in[0].device()}),
            like(in[0]), like(in[1]), like(in[2])};
  kernels::AttentionOperands o{in[0], in[1], in[2]};
  o.scale = 0.3;
  o.causal = c.causal;
  const kernels::AttentionGradients gradients{r.query, r.key, r.value};
  emulator::set_cudnn(forward);
  CHECK((!forward || vendor::attention(stream, o, r.out, r.lse)));
  if (!forward) kernels::attention(stream, o, r.out, r.lse);
  emulator::set_cudnn(backward);
  CHECK((!backward || vendor::attention_backward(stream, o, gradients, in[3], r.out, r.lse)));
  if (!backward) kernels::attention_backward(stream, o, gradients, in[3], r.out, r.lse);
  emulator::set_cudnn(true);
  return r;
}

void check(const Results& actual, const Results& exact, DType dtype) {
  const double rounding = test::rounding_of(dtype), near = std::min(8 * rounding, 0.04);
  check_close(actual.out, exact.out, near, near);
  check_close(actual.lse, exact.lse, 1e-5, 1e-5);
  for (const auto& [a, e] : {std::pair(actual.query, exact.query), std::pair(actual.key, exact.key),
                             std::pair(actual.value, exact.value)})
    check_close(a, e, 16 * rounding, 16 * rounding * e.abs().max().item<double>());
}

}  // namespace

TEST_CASE("cuDNN's attention forward and backward, alone and with our own kernels") {
  const WithCudnn with;
  if (!has_cudnn()) return;
  for (const Case& c : kCases)
    for (const DType dtype : {kFloat16, kBFloat16}) {
      const std::vector<Tensor> in = operands(c, dtype);
      const Results exact = run(c, in, false, false);
      std::vector<Tensor> on_device;
      for (const Tensor& t : in) on_device.push_back(t.to(dtype).to(kCuda));
      check(run(c, on_device, true, true), exact, dtype);
      check(run(c, on_device, true, false), exact, dtype);
      check(run(c, on_device, false, true), exact, dtype);
    }
}

TEST_CASE("cuDNN's attention in a captured graph: plans are made for it, replays read anew") {
  const WithCudnn with;
  if (!has_cudnn()) return;
  cudnn::set_benchmark(false);
  const Case c = kCases[0];
  std::vector<Tensor> in;
  for (const Tensor& t : operands(c, kBFloat16)) in.push_back(t.to(kBFloat16).to(kCuda));
  Tensor q = in[0].clone().set_requires_grad(), y;
  const auto step = [&] {
    y = scaled_dot_product_attention(q, in[1], in[2], {.is_causal = true});
    y.backward(in[3]);
  };
  cuda::Graph graph(kCuda);
  graph.capture(step);
  no_grad([&] { q.copy_(in[3]); });
  for (int i = 0; i < 2; ++i) {
    q.grad().zero_();
    graph.replay();
  }
  const Tensor replayed = y.detach().clone(), gradient = q.grad().clone();
  q.grad().zero_();
  emulator::set_cudnn(false);
  step();
  const double rounding = test::rounding_of(kBFloat16);
  check_close(replayed, y, 4 * rounding, 4 * rounding);
  check_close(gradient, q.grad(), 8 * rounding, 8 * rounding);
}

TEST_CASE("cuDNN computes attention without mask and dropout, in 16 bits, that recurs") {
  const WithCudnn with;
  if (!has_cudnn()) return;
  Case c{1, 5, 5, 7, 7, 8, 8};
  const Stream stream = current_stream(kCuda);
  const auto takes = [&](DType dtype, auto&& change) {
    std::vector<Tensor> in;
    for (const Tensor& t : operands(c, dtype)) in.push_back(t.to(dtype).to(kCuda));
    const Tensor lse = empty({c.batch, c.heads, c.queries}, {.dtype = kFloat32, .device = kCuda});
    kernels::AttentionOperands o{in[0], in[1], in[2]};
    change(o);
    return vendor::attention(stream, o, in[3], lse);
  };
  const auto as_is = [](kernels::AttentionOperands&) {};
  CHECK(takes(kFloat16, as_is));
  CHECK_FALSE(takes(kFloat32, as_is));
  CHECK_FALSE(takes(kFloat16, [](auto& o) { o.dropout = 0.5; }));
  CHECK_FALSE(takes(kFloat16, [](auto& o) { o.mask = o.query; }));
  // Of memory that is not aligned for cuDNN.
  CHECK_FALSE(takes(kFloat16, [](auto& o) {
    o.query.data = static_cast<char*>(o.query.data) + 2;
    o.query.sizes[3] -= 8;
  }));
  cudnn::set_enabled(false);
  CHECK_FALSE(takes(kFloat16, as_is));
  cudnn::set_enabled(true);

  cudnn::set_benchmark(false);
  c.queries = 8;
  int calls = 0;
  while (calls < 1000 && !takes(kFloat16, as_is)) ++calls;
  CHECK(calls > 10);
  CHECK(calls < 1000);
}
