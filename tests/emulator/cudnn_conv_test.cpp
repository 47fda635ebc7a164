// Ferrite's convolutions as graphs for cuDNN, computed as they are wired, against the host's.
#include <doctest/doctest.h>

#include <vector>

#include "ferrite/core/cuda.h"
#include "ferrite/core/generator.h"
#include "ferrite/core/stream.h"
#include "ferrite/emulator/emulator.h"
#include "ferrite/emulator/ledger.h"
#include "ferrite/kernels/conv.h"
#include "ferrite/kernels/cuda/vendor/cudnn.h"
#include "ferrite/kernels/vendor.h"
#include "ferrite/nn/models/resnet.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using kernels::ConvParams;
namespace vendor = kernels::cuda::vendor;

namespace {

const Device kCuda("cuda:0");

struct WithCudnn {
  explicit WithCudnn(bool benchmark = false) {
    emulator::set_cudnn(true);
    cudnn::set_benchmark(benchmark);
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

Tensor noise(const Shape& shape, DType dtype) {
  static Generator generator(3);
  return randn(shape, {.dtype = kFloat32}, &generator).to(dtype);
}

struct Case {
  Shape input, weight;
  ConvParams params;
};
const std::vector<Case> kCases = {
    {{2, 8, 7, 6}, {16, 8, 3, 3}, {.stride = {2, 2}, .padding = {1, 1}}},
    {{1, 16, 5, 5}, {8, 8, 3, 2}, {.padding = {1, 0}, .dilation = {1, 2}, .groups = 2}},
    {{3, 8, 8, 8}, {24, 8, 1, 1}, {.stride = {2, 2}}},
};

Shape out_of(const Case& c) {
  Shape shape{c.input[0], c.weight[0]};
  for (std::size_t i = 0; i < 2; ++i) {
    const int d = static_cast<int>(i) + 2;
    const std::int64_t extent = c.params.dilation[i] * (c.weight[d] - 1) + 1;
    shape.push_back((c.input[d] + 2 * c.params.padding[i] - extent) / c.params.stride[i] + 1);
  }
  return shape;
}

}  // namespace

TEST_CASE("cuDNN's graphs compute every pass of a convolution, and add to a gradient") {
  const WithCudnn cudnn(/*benchmark=*/true);
  if (!has_cudnn()) return;
  const Stream stream = current_stream(kCuda);
  for (const DType dtype : {kFloat32, kFloat16, kBFloat16})
    for (const MemoryFormat format : {kContiguous, kChannelsLast})
      for (const Case& c : kCases) {
        CAPTURE(dtype);
        CAPTURE(c.input);
        CAPTURE(c.weight);
        const double rtol = test::rounding_of(dtype), atol = 2e-4;
        const auto cuda = [&](const Tensor& t) { return t.contiguous(format).to(kCuda); };
        const Tensor x = noise(c.input, dtype), w = noise(c.weight, dtype),
                     g = noise(out_of(c), dtype), before = noise(c.input, dtype);
        const Tensor y = empty(out_of(c), {.dtype = dtype}), dx = before.clone(),
                     dw = empty_like(w);
        kernels::conv2d(Stream(), y, x, w, {}, c.params);
        kernels::conv2d_data_add(Stream(), dx, g, w, c.params);
        kernels::conv2d_weight(Stream(), dw, {}, x, g, c.params);

        const Tensor x2 = cuda(x), w2 = cuda(w), g2 = cuda(g), dx2 = cuda(before);
        const Tensor y2 = cuda(empty_like(y)), dw2 = cuda(empty_like(w)), plain = empty_like(dx2);
        REQUIRE(vendor::conv2d(stream, y2, x2, w2, {}, c.params, vendor::ConvEpilogue::fused));
        REQUIRE(vendor::conv2d_data(stream, dx2, g2, w2, c.params, true));
        REQUIRE(vendor::conv2d_data(stream, plain, g2, w2, c.params));
        REQUIRE(vendor::conv2d_weight(stream, dw2, x2, g2, c.params));
        test::check_close(y2.cpu(), y, rtol, atol);
        test::check_close(dw2.cpu(), dw, rtol, atol);
        test::check_close(dx2.cpu(), dx, 2 * rtol, 4 * rtol + atol);
        test::check_close(plain.cpu().to(kFloat32) + before.to(kFloat32), dx.to(kFloat32), 2 * rtol,
                          8 * rtol + atol);

        const std::int64_t channels = c.weight[0];
        const Tensor sum = empty({channels}, {.device = kCuda}), squares = empty_like(sum);
        const bool taken = vendor::conv2d_sums(stream, y2, sum, squares, x2, w2, c.params);
        CHECK(taken == (dtype == kFloat16));
        if (!taken) continue;
        test::check_close(sum.cpu(), y.to(kFloat32).sum({0, 2, 3}), 1e-3, 0.1);
        test::check_close(squares.cpu(), (y.to(kFloat32) * y.to(kFloat32)).sum({0, 2, 3}), 1e-3,
                          0.1);
      }
}

TEST_CASE("a residual block by cuDNN gives the host's gradients, and adds none by a kernel") {
  const WithCudnn cudnn;
  if (!has_cudnn()) return;
  manual_seed(1);
  nn::BasicBlock host(8, 8), block(8, 8);
  block.load_state_dict(host.state_dict());
  block.to(kCuda).to(kChannelsLast);
  const Tensor values = noise({4, 8, 6, 6}, kFloat32);
  Tensor x = values.clone().set_requires_grad(true);
  Tensor y = values.contiguous(kChannelsLast).to(kCuda).set_requires_grad(true);
  // So that the block's input is not a leaf.
  (host(x * 2) * values).sum().backward();
  const Tensor loss = (block(y * 2) * values.to(kCuda)).sum();
  synchronize(kCuda);
  emulator::open_ledger();
  loss.backward();
  synchronize(kCuda);
  int elementwise = 0;
  for (const emulator::LedgerEntry& e : emulator::close_ledger()) elementwise += e.name == "binary";
  CHECK(elementwise == 2);  // the products with `values` and with 2
  test::check_close(y.grad().cpu(), x.grad(), 1e-4, 1e-4);
  const auto expected = host.named_parameters();
  for (std::size_t i = 0; const auto& [name, p] : block.named_parameters()) {
    CAPTURE(name);
    test::check_close(p.grad().cpu(), expected[i++].second.grad(), 1e-4, 2e-4);
  }
  CHECK(block.bn1.num_batches_tracked.cpu().item<std::int64_t>() == 1);
  test::check_close(block.bn2.running_var.cpu(), host.bn2.running_var, 1e-5, 1e-6);
}
