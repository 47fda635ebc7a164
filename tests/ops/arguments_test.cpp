// Arguments beside tensors that ops cannot take, empty tensors, and members of undefined tensors.
#include <doctest/doctest.h>

#include <climits>
#include <cmath>
#include <functional>
#include <sstream>

#include "ferrite/autograd/engine.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/conv.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/dropout.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/loss.h"
#include "ferrite/ops/norm.h"
#include "ferrite/ops/pool.h"
#include "ferrite/ops/rearrange.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/softmax.h"
#include "ferrite/ops/views.h"
#include "ferrite/tests/ops/op_table.h"
#include "ferrite/tests/ops/outcome.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

using T = const Tensor&;
constexpr double kNaN = NAN, kInf = INFINITY;

struct Refused {
  const char *type, *op;
  std::function<void()> call;
};

void check_refused(const std::vector<Refused>& calls) {
  for (const Refused& c : calls) {
    const std::string result = outcome(c.call);
    CHECK_MESSAGE(is_error(result, c.type, c.op), std::string(c.op) << ": " << result);
  }
}

}  // namespace

TEST_CASE("dimensions out of range, of what is no operation") {
  const Tensor x = make_input({{2, 3}}, kFloat32, {});
  for (const int d : {2, -3, INT_MAX, INT_MIN})
    check_refused({{"IndexError", "size", [&] { x.size(d); }},
                   {"IndexError", "stride", [&] { x.stride(d); }}});
}

TEST_CASE("options out of range") {
  const Tensor x = make_input({{2, 3}}, kFloat32, {}),
               image = make_input({{1, 2, 4, 4}}, kFloat32, {});
  const Tensor weight = make_input({{2, 2, 2, 2}}, kFloat32, {});
  const Tensor labels = zeros({2}, {.dtype = kInt64});
  const Tensor eight = zeros({1, 1, 1, 1, 1, 1, 1, 1}), integers = labels;
  check_refused({
      {"ValueError", "arange", [] { arange(0, 5, 0); }},
      {"ValueError", "arange", [] { arange(0, 5, -1); }},
      {"ValueError", "arange", [] { arange(kNaN); }},
      {"ValueError", "arange", [] { arange(0, 1e300, 1e-300); }},
      {"ValueError", "linspace", [] { linspace(0, 1, -1); }},
      {"ValueError", "eye", [] { eye(-1); }},
      {"ValueError", "randint", [] { randint(3, 3, {2}); }},
      {"ValueError", "randperm", [] { randperm(-1); }},
      {"ValueError", "normal", [] { normal(0, -1, {2}); }},
      {"DTypeError", "rand", [] { rand({2}, {.dtype = kInt64}); }},
      {"DTypeError", "randn", [] { randn({2}, {.dtype = kBool}); }},
      {"ShapeError", "empty",
       [] {
         zeros({2, -1});
       }},
      {"ShapeError", "empty", [] { zeros({INT64_MAX / 2}); }},
      {"ShapeError", "tensor",
       [] {
         tensor({{1, 2}, {3}});
       }},
      {"ValueError", "uniform_", [&] { x.uniform_(1, 0); }},
      {"ValueError", "uniform_", [&] { x.uniform_(0, kInf); }},
      {"ValueError", "normal_", [&] { x.normal_(0, kNaN); }},
      {"ValueError", "bernoulli_", [&] { x.bernoulli_(1.5); }},
      {"ValueError", "dropout", [&] { dropout(x, kNaN); }},
      {"ValueError", "dropout", [&] { dropout(x, -0.1, false); }},
      {"ValueError", "dropout_", [&] { dropout_(x, 2); }},
      {"ValueError", "dropout2d", [&] { dropout2d(image, 2); }},
      {"ValueError", "softplus", [&] { softplus(x, 0); }},
      {"ValueError", "hardtanh", [&] { hardtanh(x, 1, -1); }},
      {"ValueError", "clamp", [&] { clamp(x, std::nullopt); }},
      {"ValueError", "isclose", [&] { isclose(x, x, -1); }},
      {"ValueError", "pow", [&] { pow(integers, -1); }},
      {"ValueError", "pow_", [&] { pow_(integers, -1); }},
      {"DTypeError", "pow_", [&] { pow_(integers, 0.5); }},
      {"DTypeError", "pow_", [&] { pow_(integers, zeros({2})); }},
      {"ShapeError", "pow_", [&] { pow_(zeros({2}), x.t()); }},
      {"ShapeError", "view",
       [&] {
         x.view({-1, -1});
       }},
      {"ShapeError", "view",
       [&] {
         x.view({4, -1});
       }},
      {"ShapeError", "view", [&] { x.t().view({6}); }},
      {"ShapeError", "reshape",
       [&] {
         x.reshape({-2, 3});
       }},
      {"ShapeError", "shape", [&] { eight.unsqueeze(0); }},
      {"ShapeError", "expand",
       [&] {
         x.expand({2, 4});
       }},
      {"ShapeError", "expand",
       [&] {
         x.expand({-1, 2, 3});
       }},
      {"ShapeError", "t", [&] { image.t(); }},
      {"ValueError", "permute",
       [&] {
         x.permute({0, 0});
       }},
      {"IndexError", "select", [&] { x.select(0, 2); }},
      {"IndexError", "select", [&] { x.select(0, INT64_MIN); }},
      {"ValueError", "slice", [&] { x.slice(0, 0, 2, 0); }},
      {"IndexError", "narrow", [&] { x.narrow(0, 1, INT64_MAX); }},
      {"IndexError", "narrow", [&] { x.narrow(0, INT64_MIN, 1); }},
      {"ValueError", "unfold", [&] { x.unfold(0, 1, 0); }},
      {"ValueError", "unfold", [&] { x.unfold(0, 3, 1); }},
      {"ValueError", "diagonal", [&] { diagonal(x, 0, 1, 1); }},
      {"ValueError", "flip",
       [&] {
         flip(x, {0, -2});
       }},
      {"ValueError", "roll",
       [&] {
         roll(x, {1, 1}, {0});
       }},
      {"ValueError", "pad", [&] { pad(x, {1}); }},
      {"ShapeError", "pad",
       [&] {
         pad(x, {1, 1, 1, 1, 1, 1});
       }},
      {"ShapeError", "pad",
       [&] {
         pad(x, {-2, -2});
       }},
      {"", "pad",
       [&] {
         pad(x, {3, 0}, PadMode::reflect);
       }},
      {"", "pad",
       [&] {
         pad(x, {INT64_MAX, 1});
       }},
      {"", "pad",
       [&] {
         pad(x, {INT64_MAX, INT64_MAX}, PadMode::replicate);
       }},
      {"ValueError", "cat", [] { cat(std::span<const Tensor>()); }},
      {"ValueError", "stack", [] { stack(std::span<const Tensor>()); }},
      {"ShapeError", "shape",
       [&] {
         stack({eight, eight});
       }},
      {"ValueError", "split", [&] { split(x, 0); }},
      {"ShapeError", "split",
       [&] {
         split(x, {1, 2});
       }},
      {"ShapeError", "split",
       [&] {
         split(x, {-1, 3});
       }},
      {"ValueError", "chunk", [&] { chunk(x, 0); }},
      {"ValueError", "repeat",
       [&] {
         repeat(x, {-1, 1});
       }},
      {"ShapeError", "repeat", [&] { repeat(x, {2}); }},
      {"ShapeError", "repeat",
       [&] {
         repeat(x, {INT64_MAX, INT64_MAX});
       }},
      {"ValueError", "sum",
       [&] {
         sum(x, {0, -2});
       }},
      {"ShapeError", "sum_to",
       [&] {
         sum_to(x, {2, 2});
       }},
      {"ValueError", "norm", [&] { norm(x, kNaN); }},
      {"ValueError", "topk", [&] { topk(x, 4); }},
      {"ValueError", "topk", [&] { topk(x, -1); }},
      {"ValueError", "one_hot", [&] { one_hot(labels, 0); }},
      {"IndexError", "embedding", [&] { embedding(labels, x, 2); }},
      {"ValueError", "conv2d", [&] { conv2d(image, weight, {}, {.stride = 0}); }},
      {"ValueError", "conv2d", [&] { conv2d(image, weight, {}, {.padding = -1}); }},
      {"ValueError", "conv2d",
       [&] {
         conv2d(image, weight, {}, {.dilation = {1, 0}});
       }},
      {"ValueError", "conv2d", [&] { conv2d(image, weight, {}, {.groups = 0}); }},
      {"ShapeError", "conv2d", [&] { conv2d(image, weight, {}, {.groups = 3}); }},
      {"ValueError", "conv2d", [&] { conv2d(image, weight, {}, {.dilation = INT64_MAX}); }},
      {"ValueError", "conv2d", [&] { conv2d(image, weight, {}, {.padding = INT64_MAX}); }},
      {"", "conv_transpose2d", [&] { conv_transpose2d(image, weight, {}, {.output_padding = 1}); }},
      {"", "conv_transpose2d", [&] { conv_transpose2d(image, weight, {}, {.stride = INT64_MAX}); }},
      {"ValueError", "max_pool2d", [&] { max_pool2d(image, 0); }},
      {"ValueError", "max_pool2d", [&] { max_pool2d(image, 2, 2, 2); }},
      {"ShapeError", "max_pool2d", [&] { max_pool2d(image, 5); }},
      {"ValueError", "avg_pool2d", [&] { avg_pool2d(image, 2, -1); }},
      {"ValueError", "adaptive_avg_pool2d", [&] { adaptive_avg_pool2d(image, 0); }},
      {"ShapeError", "group_norm", [&] { group_norm(image, 3); }},
      {"ValueError", "group_norm", [&] { group_norm(image, 0); }},
      {"ValueError", "layer_norm", [&] { layer_norm(x, {3}, {}, {}, -1); }},
      {"ShapeError", "layer_norm", [&] { layer_norm(x, {}); }},
      {"ValueError", "batch_norm", [&] { batch_norm(x, {}, {}); }},
      {"ValueError", "cross_entropy", [&] { cross_entropy(x, labels, {.label_smoothing = 2}); }},
      {"ValueError", "smooth_l1_loss", [&] { smooth_l1_loss(x, x, {.beta = -1}); }},
      {"ValueError", "huber_loss", [&] { huber_loss(x, x, {.delta = 0}); }},
  });
}

TEST_CASE("extreme numbers that are allowed") {
  const Tensor x = make_input({{2, 3}}, kFloat32, {});
  const std::function<Tensor()> calls[] = {
      [&] { return x.slice(0, INT64_MIN, INT64_MAX, INT64_MAX); },
      [&] { return x.unfold(0, 1, INT64_MAX); },
      [&] { return diagonal(x, INT64_MIN); },
      [&] { return diagonal(x, INT64_MAX); },
      [&] { return tril(x, INT64_MIN); },
      [&] { return triu(x, INT64_MAX); },
      [&] {
        return roll(x, {INT64_MAX, INT64_MIN}, {0, 1});
      },
      [&] { return split(x, INT64_MAX)[0]; },
      [&] { return chunk(x, INT64_MAX)[0]; },
      [&] { return arange(INT64_MIN, INT64_MAX, INT64_MAX); },
      [&] { return full({2}, INFINITY, {.dtype = kFloat16}) * 1e300; },
  };
  for (const auto& call : calls) {
    x.set_grad({});
    x.set_requires_grad();
    const std::string result = outcome([&] {
      const Tensor out = call();
      out.to_vector<double>();
      if (out.requires_grad()) sum(out).backward();
    });
    CHECK_MESSAGE(result.empty(), result);
  }
}

TEST_CASE("members of an undefined tensor") {
  const Tensor u;
  CHECK_FALSE(u.defined());
  CHECK(u.str() == "tensor(undefined)");
  CHECK(u.describe() == "an undefined tensor");
  const auto hook = [](T) { return Tensor(); };
  const Tensor x = zeros({2});
  check_refused({
      {"ValueError", "shape", [&] { u.shape(); }},
      {"ValueError", "strides", [&] { u.strides(); }},
      {"ValueError", "dim", [&] { u.dim(); }},
      {"ValueError", "numel", [&] { u.numel(); }},
      {"ValueError", "dtype", [&] { u.dtype(); }},
      {"ValueError", "device", [&] { u.device(); }},
      {"ValueError", "dtype", [&] { u.itemsize(); }},
      {"ValueError", "storage_offset", [&] { u.storage_offset(); }},
      {"ValueError", "is_contiguous", [&] { u.is_contiguous(); }},
      {"ValueError", "suggest_memory_format", [&] { u.suggest_memory_format(); }},
      {"ValueError", "data_ptr", [&] { u.data_ptr(); }},
      {"ShapeError", "item", [&] { u.item<float>(); }},
      {"ValueError", "to_vector", [&] { u.to_vector<float>(); }},
      {"ValueError", "storage", [&] { u.storage(); }},
      {"ValueError", "version", [&] { u.version(); }},
      {"ValueError", "set_data", [&] { u.set_data(x); }},
      {"ValueError", "set_data", [&] { x.set_data(u); }},
      {"ValueError", "requires_grad", [&] { u.requires_grad(); }},
      {"ValueError", "set_requires_grad", [&] { u.set_requires_grad(); }},
      {"ValueError", "is_leaf", [&] { u.is_leaf(); }},
      {"ValueError", "grad", [&] { u.grad(); }},
      {"ValueError", "set_grad", [&] { u.set_grad(x); }},
      {"ValueError", "grad_fn_name", [&] { u.grad_fn_name(); }},
      {"AutogradError", "backward", [&] { u.backward(); }},
      {"ValueError", "detach", [&] { u.detach(); }},
      {"ValueError", "retain_grad", [&] { u.retain_grad(); }},
      {"ValueError", "register_hook", [&] { u.register_hook(hook); }},
      {"ValueError", "register_post_accumulate_grad_hook",
       [&] { u.register_post_accumulate_grad_hook([](T) {}); }},
      {"ValueError", "empty_like", [&] { empty_like(u); }},
      {"ValueError", "as_strided", [&] { as_strided(u, {1}, {1}, 0); }},
      {"ValueError", "shape", [&] { view_as(x, u); }},
      {"ValueError", "shape", [&] { reshape_as(x, u); }},
      {"ValueError", "shape", [&] { expand_as(x, u); }},
  });
  std::ostringstream text;
  text << u;
  CHECK(text.str() == "tensor(undefined)");
}
