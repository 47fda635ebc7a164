// Ops whose results depend on values: each is written so that it computes the same for inputs
// unlike the examples, or is refused by the names of op and module.
#include <doctest/doctest.h>

#include <functional>
#include <utility>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/generator.h"
#include "ferrite/nn/containers.h"
#include "ferrite/nn/onnx/onnx.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/arrange.h"
#include "ferrite/ops/blend.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/complex.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/embedding_bag.h"
#include "ferrite/ops/fft.h"
#include "ferrite/ops/grid_sample.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/linalg.h"
#include "ferrite/ops/loss.h"
#include "ferrite/ops/place.h"
#include "ferrite/ops/products.h"
#include "ferrite/ops/quantile.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/rotary.h"
#include "ferrite/ops/unary.h"
#include "ferrite/ops/views.h"
#include "ferrite/tests/data/files.h"
#include "ferrite/tests/support/message.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

using Op = std::function<Tensor(const Tensor&)>;

class Part : public nn::Cloneable<Part> {
 public:
  explicit Part(Op op) : op_(std::move(op)) {}
  /// 0 for every example, so that nothing differs between the runs that are recorded.
  Tensor forward(const Tensor& x) override { return op_(relu(x - 100)); }

 private:
  Op op_;
};

class Whole : public nn::Cloneable<Whole> {
 public:
  explicit Whole(const Op& op) : part(op) { register_module("part", part); }
  Tensor forward(const Tensor& x) override { return part(x); }
  Part part;
};

/// The error of save(), or "" if the file computes what the network does.
std::string outcome(const Op& op, int opset = 17) {
  const TempDir dir;
  Whole net(op);
  const NoGradGuard no_grad;
  manual_seed(4);
  const Tensor example = randn({4, 6});
  try {
    onnx::save(net, example, dir / "net.onnx", {.opset = opset});
  } catch (const ValueError& error) {
    CHECK(dir.count() == 0);
    return error.what();
  }
  const auto loaded = onnx::load(dir / "net.onnx");
  for (const Tensor& x : {example, randint(100, 104, {4, 6}).to(kFloat32)}) {
    const Tensor expected = net(x), got = (*loaded)(x);
    if (got.shape() != expected.shape() || got.dtype() != expected.dtype())
      return fmt::format("{} instead of {}", got.describe(), expected.describe());
    if (!allclose(got.to(kFloat64), expected.to(kFloat64), 1e-5, 1e-6, true)) return "other values";
  }
  return "";
}

Tensor whole_numbers(const Tensor& z) { return z.to(kInt64); }

}  // namespace

TEST_CASE("integers have bitwise operators from opset 18 on") {
  const auto masked = [](const Tensor& z) {
    return ((whole_numbers(z) & 6) | 8) ^ whole_numbers(z);
  };
  CHECK(outcome(masked, 18) == "");
  CHECK(contains(outcome(masked, 17),
                 "bitwise_and in 'part' cannot be exported: of integers it "
                 "needs opset 18"));
}

TEST_CASE("ops that depend on values are exported, or refused by op and module") {
  const std::pair<std::string, Op> exported[] = {
      {"remainder", [](const Tensor& z) { return remainder(z - 1.5, 0.7); }},
      {"remainder of a negative divisor", [](const Tensor& z) { return (z - 1.5) % -0.7; }},
      {"remainder of tensors", [](const Tensor& z) { return remainder(3 - z, z - 1.25); }},
      {"remainder of integers",
       [](const Tensor& z) { return remainder(1 - whole_numbers(z), whole_numbers(z) - 5); }},
      {"fmod", [](const Tensor& z) { return fmod(1.5 - z, 0.7); }},
      {"fmod of integers", [](const Tensor& z) { return fmod(whole_numbers(z) - 2, 2); }},
      {"one_hot", [](const Tensor& z) { return one_hot(whole_numbers(z), 5); }},
      {"one_hot, averaged",
       [](const Tensor& z) {
         return one_hot(whole_numbers(z), 5).to(kFloat32).mean({0, 1});
       }},
      {"nonzero", [](const Tensor& z) { return nonzero(z); }},
      {"nonzero of bool", [](const Tensor& z) { return nonzero(z > 1); }},
      {"masked_select", [](const Tensor& z) { return masked_select(z * 2, z > 1) + 1; }},
      {"masked_select, summed", [](const Tensor& z) { return masked_select(z, z > 1).sum(); }},
      {"detach", [](const Tensor& z) { return z.detach() + z.t().detach().t(); }},
      {"zeros_like", [](const Tensor& z) { return zeros_like(z) + z + full_like(z, 2); }},
      {"rotary_embedding",
       [](const Tensor& z) {
         return rotary_embedding(z.reshape({1, 1, 4, 6}));
       }},
      {"grid_sample",
       [](const Tensor& z) {
         return grid_sample(z.reshape({1, 1, 4, 6}), z.slice(1, 0, 2).reshape({1, 2, 2, 2}) / 4);
       }},
      {"a table by positions",
       [](const Tensor& z) {
         return arange(10).to(kFloat32).reshape({5, 2}).index({whole_numbers(z)});
       }},
      {"elements by a mask", [](const Tensor& z) { return z.index({z > 1}) * 2; }},
      {"rows by a mask", [](const Tensor& z) { return z.index({z.select(1, 0) > 1}) * 2; }},
  };
  for (const auto& [name, op] : exported) {
    CAPTURE(name);
    CHECK(outcome(op) == "");
  }

  const Tensor positions = from_vector<std::int64_t>({0, 2, 1, 2}, {4, 1});
  const auto row = [](const Tensor& z) { return z.select(0, 0); };
  const std::pair<std::string, Op> refused[] = {
      {"item()", [](const Tensor& z) { return z + z.sum().item<double>(); }},
      {"item()", [](const Tensor& z) { return z.sum().is_nonzero() ? z : z * 2; }},
      {"item()",
       [](const Tensor& z) {
         Tensor most = z.max();
         const NoGradGuard no_grad;
         return most.detach().item<float>() > 1 ? z : z * 2;
       }},
      {"to_vector()",
       [](const Tensor& z) {
         return from_vector<float>(z.to_vector<float>(), {4, 6});
       }},
      {"equal", [](const Tensor& z) { return equal(z, z * 2) ? z : z * 2; }},
      {"allclose", [](const Tensor& z) { return allclose(z, z * 2) ? z : z * 2; }},
      {"one_hot", [](const Tensor& z) { return one_hot(whole_numbers(z)); }},
      {"reshape",
       [](const Tensor& z) {
         return masked_select(z, z >= 0).reshape({-1, 1}) + z.sum();
       }},
      {"bincount", [](const Tensor& z) { return bincount(whole_numbers(z).flatten()); }},
      {"unique", [](const Tensor& z) { return unique(z).values; }},
      {"scatter_add", [](const Tensor& z) { return histc(z, 4, 0, 4); }},
      {"sort", [](const Tensor& z) { return median(z); }},
      {"topk", [](const Tensor& z) { return kthvalue(z, 2).values; }},
      {"mode", [](const Tensor& z) { return mode(z).values; }},
      {"sort", [](const Tensor& z) { return quantile(z, 0.3); }},
      {"sort", [](const Tensor& z) { return sort(z).values; }},
      {"topk", [](const Tensor& z) { return topk(z, 2).indices; }},
      {"searchsorted",
       [](const Tensor& z) {
         return searchsorted(from_vector<float>({0, 1, 2}, {3}), z);
       }},
      {"searchsorted",
       [](const Tensor& z) {
         return bucketize(z, from_vector<float>({0, 1, 2}, {3}));
       }},
      {"searchsorted",
       [](const Tensor& z) {
         return isin(z, from_vector<float>({1, 2}, {2}));
       }},
      {"floor_divide", [](const Tensor& z) { return floor_divide(z, 2); }},
      {"count_nonzero", [](const Tensor& z) { return count_nonzero(z); }},
      {"prod", [](const Tensor& z) { return prod(z, 1); }},
      {"cumprod", [](const Tensor& z) { return cumprod(z, 1); }},
      {"cummax", [](const Tensor& z) { return cummax(z, 1).values; }},
      {"logcumsumexp", [](const Tensor& z) { return logcumsumexp(z, 1); }},
      {"scatter",
       [&](const Tensor& z) {
         return scatter(zeros({4, 6}), 1, positions, z.slice(1, 0, 1));
       }},
      {"scatter_",
       [&](const Tensor& z) {
         return zeros({4, 6}).scatter_(1, whole_numbers(z.slice(1, 0, 1)), 1.);
       }},
      {"scatter_add",
       [&](const Tensor& z) {
         return scatter_add(zeros({4, 6}), 1, positions, z);
       }},
      {"scatter_reduce",
       [&](const Tensor& z) {
         return scatter_reduce(zeros({4, 6}), 1, positions, z, "amax");
       }},
      {"index_add",
       [&](const Tensor& z) {
         return index_add(zeros({4, 6}), 0, positions.flatten(), z);
       }},
      {"scatter_",
       [&](const Tensor& z) {
         Tensor out = zeros({4});
         out.index({whole_numbers(row(z))}) = 1;
         return out;
       }},
      {"diagonal", [](const Tensor& z) { return diagonal(z); }},
      {"unfold", [](const Tensor& z) { return z.unfold(1, 2, 2); }},
      {"complex", [](const Tensor& z) { return real(complex(z, z)); }},
      {"fft", [](const Tensor& z) { return real(fft::fft(z)); }},
      {"det", [](const Tensor& z) { return linalg::det(z.slice(1, 0, 4)); }},
      {"hypot", [](const Tensor& z) { return hypot(z, z); }},
      {"copysign", [](const Tensor& z) { return copysign(z - 1, 2 - z); }},
      {"atan2", [](const Tensor& z) { return atan2(z, z + 1); }},
      {"repeat_interleave",
       [&](const Tensor& z) { return repeat_interleave(z, whole_numbers(row(z)), 1); }},
      {"embedding_bag",
       [](const Tensor& z) {
         return embedding_bag(whole_numbers(z), ones({5, 2}));
       }},
      {"bernoulli", [](const Tensor& z) { return bernoulli(sigmoid(z)); }},
      {"rand_like", [](const Tensor& z) { return multinomial(sigmoid(z), 2); }},
      {"nll_loss", [&](const Tensor& z) { return nll_loss(z, positions.flatten()); }},
  };
  for (const auto& [name, op] : refused) {
    CAPTURE(name);
    CHECK(contains(outcome(op), fmt::format("{} in 'part' cannot be exported", name)));
  }
}
