// Gradients of gradients of what layers are made of, and options that are refused. Values are
// PyTorch's in tests/nn/layers_pytorch_test.cpp.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "ferrite/autograd/engine.h"
#include "ferrite/autograd/gradcheck.h"
#include "ferrite/nn/functional.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/pool.h"
#include "ferrite/ops/rearrange.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/unary.h"
#include "ferrite/tests/ops/op_table.h"
#include "ferrite/tests/ops/outcome.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

using In = const std::vector<Tensor>&;

struct Twice {
  const char* name;
  autograd::GradcheckFunction function;
  std::vector<Shape> shapes;
  Fill fill = Fill::real;
};

void check_twice(const std::vector<Twice>& cases) {
  for (const Twice& c : cases) {
    std::vector<Tensor> inputs;
    for (const Shape& shape : c.shapes) {
      inputs.push_back(make_input({shape, c.fill}, kFloat64, {}, static_cast<int>(inputs.size())));
      inputs.back().set_requires_grad();
    }
    const std::string result =
        outcome([&] { autograd::gradcheck(c.function, inputs, {.second_order = true}); });
    CHECK_MESSAGE(result.empty(), c.name << ": " << result);
  }
}

Tensor statistic(double value) { return full({2}, value, {.dtype = kFloat64}); }

}  // namespace

TEST_CASE("norms are differentiable twice") {
  const auto batch = [](In x, const BatchNormFuncOptions& o) {
    return batch_norm(x[0], o.training ? Tensor() : statistic(0.1),
                      o.training ? Tensor() : statistic(0.7), x[1], x[2], o);
  };
  const std::vector<Shape> shapes{{3, 2, 2}, {2}, {2}};
  check_twice({
      {"batch_norm, training", [=](In x) { return batch(x, {.training = true}); }, shapes},
      {"batch_norm, evaluating", [=](In x) { return batch(x, {}); }, shapes},
      {"batch_norm_relu", [=](In x) { return batch(x, {.training = true, .relu = true}); }, shapes},
      {"batch_norm_add_relu",
       [=](In x) { return batch(x, {.training = true, .residual = x[3], .relu = true}); },
       {{3, 2, 2}, {2}, {2}, {3, 2, 2}}},
      {"batch_norm without parameters",
       [](In x) { return batch_norm(x[0].transpose(0, 1), {}, {}, {}, {}, {.training = true}); },
       {{2, 5}}},
      {"layer_norm",
       [](In x) {
         return layer_norm(x[0], {2, 3}, x[1], x[2]);
       },
       {{2, 2, 3}, {2, 3}, {2, 3}}},
      {"layer_norm of one row",
       [](In x) {
         return layer_norm(x[0].t(), {4, 2});
       },
       {{2, 4}}},
      {"group_norm", [](In x) { return group_norm(x[0], 2, x[1], x[2]); }, {{2, 4, 2}, {4}, {4}}},
      {"instance_norm", [](In x) { return instance_norm(x[0], {}, {}, x[1]); }, {{2, 2, 3}, {2}}},
      {"local_response_norm", [](In x) { return local_response_norm(x[0], 3); }, {{1, 4, 3}}},
  });
}

TEST_CASE("a norm has the same gradient with create_graph and without") {
  for (const DType dtype : {kFloat32, kBFloat16}) {
    const Tensor x = make_input({{4, 3, 5}}, dtype, {}), w = make_input({{3}}, dtype, {}, 1);
    x.set_requires_grad(), w.set_requires_grad();
    for (const bool training : {true, false}) {
      std::vector<Tensor> grads[2];
      for (const bool graph : {false, true}) {
        const Tensor y = batch_norm(x, zeros({3}), ones({3}), w, w, training);
        grads[graph] =
            autograd::grad({y}, {x, w}, {make_input({{4, 3, 5}}, dtype, {}, 2)}, false, graph);
      }
      for (std::size_t i = 0; i < 2; ++i) {
        CHECK(grads[1][i].dtype() == dtype);
        check_close(grads[1][i], grads[0][i], 2 * rounding_of(dtype), rounding_of(dtype));
      }
    }
  }
}

TEST_CASE("convolutions, poolings and activations are differentiable twice") {
  check_twice({
      {"conv3d",
       [](In x) {
         return conv3d(x[0], x[1], x[2], {.stride = {2, 1, 1}, .padding = {1, 0, 1}});
       },
       {{1, 2, 3, 2, 3}, {2, 2, 2, 2, 2}, {2}}},
      {"conv_transpose3d",
       [](In x) {
         return conv_transpose3d(x[0], x[1], x[2], {.stride = {2, 1, 1}});
       },
       {{2, 2, 2, 2}, {2, 2, 2, 1, 2}, {2}}},
      {"max_pool3d", [](In x) { return max_pool3d(x[0], 2); }, {{1, 2, 2, 4}}},
      {"avg_pool3d", [](In x) { return avg_pool3d(x[0], 2, {.padding = 1}); }, {{1, 2, 3, 2}}},
      {"lp_pool1d", [](In x) { return lp_pool1d(x[0], 3, 2); }, {{2, 4}}, Fill::positive},
      {"max_unpool1d",
       [](In x) {
         return max_unpool1d(x[0], tensor({{1, 2}}), 2);
       },
       {{1, 2}}},
      {"celu", [](In x) { return celu(x[0], 0.7); }, {{7}}},
      {"selu", [](In x) { return selu(x[0]); }, {{7}}},
      {"mish", [](In x) { return mish(x[0]); }, {{7}}},
      {"hardswish", [](In x) { return hardswish(x[0]); }, {{7}}},
      {"hardsigmoid", [](In x) { return hardsigmoid(x[0]); }, {{7}}},
      {"softshrink", [](In x) { return softshrink(x[0]); }, {{7}}},
      {"threshold", [](In x) { return threshold(x[0], 0.1, 3); }, {{7}}},
      {"softsign", [](In x) { return softsign(x[0]); }, {{7}}},
      {"glu", [](In x) { return glu(x[0]); }, {{2, 4}}},
      {"prelu", [](In x) { return prelu(x[0], x[1]); }, {{3, 2}, {2}}},
      {"bilinear",
       [](In x) { return bilinear(x[0], x[1], x[2], x[3]); },
       {{2, 3}, {2, 2}, {2, 3, 2}, {2}}},
  });
}

TEST_CASE("losses of margins are differentiable twice") {
  check_twice({
      {"poisson_nll_loss",
       [](In x) { return poisson_nll_loss(x[0], x[1], {.log_input = false}); },
       {{4}, {4}},
       Fill::positive},
      {"gaussian_nll_loss",
       [](In x) { return gaussian_nll_loss(x[0], x[1], x[2]); },
       {{4}, {4}, {4}},
       Fill::positive},
      {"cosine_embedding_loss",
       [](In x) {
         return cosine_embedding_loss(x[0], x[1], tensor({1., -1.}));
       },
       {{2, 3}, {2, 3}}},
      {"triplet_margin_loss",
       [](In x) { return triplet_margin_loss(x[0], x[1], x[2], {.margin = 2}); },
       {{2, 3}, {2, 3}, {2, 3}}},
      {"multi_margin_loss",
       [](In x) {
         return multi_margin_loss(x[0], tensor({1, 0}), {.p = 2});
       },
       {{2, 3}}},
      {"soft_margin_loss", [](In x) { return soft_margin_loss(x[0], x[1]); }, {{4}, {4}}},
  });
}

TEST_CASE("ctc_loss: sequences that do not fit, empty ones, and one without a batch") {
  const Tensor x = log_softmax(make_input({{2, 2, 3}}, kFloat64, {}), 2).detach();
  x.set_requires_grad();
  const Tensor targets = tensor({{1, 1}, {2, 1}});
  // The first needs a blank between its labels, and has no step for it.
  const Tensor losses = ctc_loss(x, targets, {2, 2}, {2, 2}, {.reduction = Reduction::none});
  CHECK(std::isinf(losses[0].item<double>()));
  check_close(losses[1], {-(x.index({0, 1, 2}) + x.index({1, 1, 1})).item<double>()}, 1e-12);
  sum(ctc_loss(x, targets, {2, 2}, {2, 2}, {.zero_infinity = true})).backward();
  check_close(x.grad().select(1, 0), std::vector<double>(6, 0));
  const Tensor none = ctc_loss(x, targets, {0, 0}, {0, 1}, {.reduction = Reduction::none});
  CHECK(none[0].item<double>() == 0);
  CHECK(std::isinf(none[1].item<double>()));
  CHECK(ctc_loss(x.select(1, 1), tensor({2, 1}), tensor(2), tensor(2)).item<double>() ==
        doctest::Approx(losses[1].item<double>() / 2));
  CHECK(ctc_loss(x.detach().to(kFloat16), targets, {2, 2}, {1, 1}).dtype() == kFloat16);
  CHECK_THROWS_AS(ctc_loss(x, targets, {3, 2}, {2, 2}), ValueError);
  CHECK_THROWS_AS(ctc_loss(x, targets, {2, 2}, {2, 3}), ValueError);
  CHECK_THROWS_AS(ctc_loss(x, tensor({{1, 3}, {0, 0}}), {2, 2}, {2, 2}), IndexError);
  CHECK_THROWS_AS(ctc_loss(x, tensor({1, 1, 2}), {2, 2}, {2, 2}), ShapeError);
  CHECK_THROWS_AS(ctc_loss(x, targets, {2, 2}, {2, 2}, {.blank = 3}), ValueError);
}

TEST_CASE("options of layers' ops that are refused") {
  const Tensor line = ones({2, 4, 6}), volume = ones({1, 4, 3, 3, 3}), rows = ones({3, 4});
  const Tensor kernel = ones({2, 4, 2, 2, 2}), row = ones({2, 4, 3});
  const auto check_refused = [](const char* type, const char* op, const std::function<void()>& f) {
    const std::string result = outcome(f);
    CHECK_MESSAGE(is_error(result, type, op), op << ": " << result);
  };
  check_refused("ValueError", "conv3d", [&] { conv3d(volume, kernel, {}, {.stride = 0}); });
  check_refused("ValueError", "conv3d",
                [&] { conv3d(volume, kernel, {}, {.stride = 2, .padding = Padding3d::same}); });
  check_refused("ShapeError", "conv3d", [&] { conv3d(volume, kernel, {}, {.dilation = 3}); });
  check_refused("ShapeError", "conv3d", [&] { conv3d(line, row); });
  check_refused("ShapeError", "conv1d", [&] { conv1d(volume, kernel); });
  check_refused("ValueError", "conv_transpose1d", [&] {
    conv_transpose1d(line, ones({4, 2, 3}), {}, {.output_padding = 1});
  });
  check_refused("ValueError", "conv_transpose3d", [&] {
    conv_transpose3d(volume, ones({4, 2, 2, 2, 2}), {}, {.output_padding = {1, 0, 0}});
  });
  check_refused("ValueError", "max_pool1d", [&] { max_pool1d(line, MaxPool1dOptions()); });
  check_refused("ValueError", "max_pool3d", [&] { max_pool3d(volume, 2, {.padding = 2}); });
  check_refused("ShapeError", "avg_pool3d", [&] { avg_pool3d(volume, 4); });
  check_refused("ShapeError", "max_pool3d", [&] { max_pool3d(line, 2); });
  check_refused("ValueError", "avg_pool1d", [&] { avg_pool1d(line, 2, {.divisor_override = 0}); });
  check_refused("ValueError", "adaptive_max_pool3d", [&] {
    adaptive_max_pool3d(volume, {0, 1, 1});
  });
  check_refused("ValueError", "lp_pool1d", [&] { lp_pool1d(line, 0, 2); });
  check_refused("ShapeError", "lp_pool1d", [&] { lp_pool1d(line, INFINITY, 99); });
  check_refused("ShapeError", "max_unpool1d", [&] {
    max_unpool1d(line, zeros({2, 4, 5}, kInt64), 2);
  });
  for (const std::int64_t size : {10, 14})  // 12, and less than a stride more or less
    check_refused("ValueError", "max_unpool1d", [&] {
      max_unpool1d(line, zeros({2, 4, 6}, kInt64), 2, {.output_size = size});
    });
  check_refused("IndexError", "max_unpool1d", [&] {
    max_unpool1d(line, full({2, 4, 6}, 12, kInt64), 2);
  });
  check_refused("ValueError", "celu", [&] { celu(rows, 0); });
  check_refused("ValueError", "softshrink", [&] { softshrink(rows, -1); });
  check_refused("ValueError", "rrelu", [&] { rrelu(rows, 1, 0.5); });
  check_refused("ShapeError", "glu", [&] { glu(ones({3})); });
  check_refused("ShapeError", "prelu", [&] { prelu(rows, ones({3})); });
  check_refused("ValueError", "local_response_norm", [&] { local_response_norm(line, 0); });
  check_refused("ShapeError", "instance_norm", [&] { instance_norm(ones({2, 3, 1})); });
  check_refused("ValueError", "instance_norm", [&] { instance_norm(line, ones({4})); });
  check_refused("ValueError", "gaussian_nll_loss", [&] { gaussian_nll_loss(rows, rows, -rows); });
  check_refused("ShapeError", "gaussian_nll_loss",
                [&] { gaussian_nll_loss(rows, rows, ones({4})); });
  check_refused("ValueError", "triplet_margin_loss",
                [&] { triplet_margin_loss(rows, rows, rows, {.margin = 0}); });
  check_refused("ValueError", "multi_margin_loss", [&] {
    multi_margin_loss(rows, tensor({1, 2, 3}), {.p = 3});
  });
  check_refused("IndexError", "multilabel_margin_loss", [&] {
    multilabel_margin_loss(rows, full({3, 4}, 4, kInt64));
  });
  check_refused("ShapeError", "channel_shuffle", [&] { channel_shuffle(line, 3); });
  check_refused("ShapeError", "embedding_bag", [&] {
    embedding_bag(tensor({1, 2}), ones({4, 2}));
  });
  check_refused("ValueError", "embedding_bag", [&] {
    embedding_bag(tensor({{1, 2}}), ones({4, 2}), {}, {.per_sample_weights = ones({1, 2})});
  });
}

TEST_CASE("bags begin with 0, and end where others begin") {
  const Tensor weight = ones({4, 2}), indices = tensor({1, 2, 3});
  for (const BagMode mode : {BagMode::sum, BagMode::mean, BagMode::max}) {
    const auto message = [&](const Tensor& offsets, bool last) {
      return outcome([&] {
        embedding_bag(indices, weight, offsets, {.mode = mode, .include_last_offset = last});
      });
    };
    const auto refused = [&](const Tensor& offsets, const char* why, bool last = false) {
      const std::string text = message(offsets, last);
      CAPTURE(text);
      CHECK(text.find("ValueError") != text.npos);
      CHECK(text.find("offsets") != text.npos);
      CHECK(text.find(why) != text.npos);
    };
    refused(tensor({1, 2}), "got 1 at position 0");
    refused(tensor({0, 2, 1}), "got 1 at position 2, after 2");
    refused(tensor({0, 4}), "up to the 3 indices; got 4 at position 1");
    refused(tensor({0, -1}), "got -1");
    refused(tensor({0, 2}), "expected 3, the number of indices", true);
    refused(zeros({0}, kInt64), "the end of the last bag", true);
    CHECK(embedding_bag(indices, weight, tensor({0, 3}), {.mode = mode}).shape() == Shape{2, 2});
    CHECK(embedding_bag(indices, weight, zeros({0}, kInt64), {.mode = mode}).shape() ==
          Shape{0, 2});
  }
}

TEST_CASE("bags of nothing are 0, and padding does not count") {
  const Tensor weight = tensor({{1., 2.}, {3., 4.}, {-5., -6.}});
  for (const BagMode mode : {BagMode::sum, BagMode::mean, BagMode::max}) {
    const Tensor out = embedding_bag(tensor({2, 1, 2}), weight, tensor({0, 0, 1}),
                                     {.mode = mode, .padding_idx = -1});
    check_close(out, {0, 0, 0, 0, 3, 4});
  }
  const Tensor lost = tensor({{1., 2.}, {INFINITY, NAN}});
  const Tensor factors = ones({1, 2}).set_requires_grad();
  embedding_bag(tensor({{0, 1}}), lost, {},
                {.mode = BagMode::sum, .per_sample_weights = factors, .padding_idx = 1})
      .sum()
      .backward();
  check_close(factors.grad(), {3, 0});
  CHECK(embedding_bag(zeros({0, 3}, kInt64), weight).shape() == Shape{0, 2});
  check_close(embedding_bag(zeros({1, 0}, kInt64), weight), {0, 0});
}

TEST_CASE("lp_pool of infinite norms is the largest or the smallest size") {
  const Tensor line = tensor({{1.0, -5.0, 2.0, -3.0, 4.0}});
  check_close(lp_pool1d(line, INFINITY, 2), {5, 3}, 0);
  check_close(lp_pool1d(line, -INFINITY, 2), {1, 2}, 0);
  check_close(lp_pool1d(line, INFINITY, 2, {.stride = 2, .ceil_mode = true}), {5, 3, 4}, 0);
  const Tensor image = randn({1, 2, 4, 6}), volume = randn({1, 2, 4, 4, 4});
  check_equal(lp_pool2d(image, INFINITY, {2, 3}), max_pool2d(abs(image), {2, 3}));
  check_equal(lp_pool3d(volume, INFINITY, 2), max_pool3d(abs(volume), 2));
}

TEST_CASE("gradients of paddings keep channels-last") {
  for (const PadMode mode : {PadMode::reflect, PadMode::replicate, PadMode::circular}) {
    const Tensor x = randn({2, 3, 4, 5}), grad = randn({2, 3, 7, 8});
    const auto gradient = [&](MemoryFormat format) {
      const Tensor leaf = x.to(format).clone().set_requires_grad();
      pad(leaf, {1, 2, 2, 1}, mode).backward(grad.to(format));
      CHECK(leaf.grad().is_contiguous(format));
      return leaf.grad();
    };
    check_equal(gradient(kChannelsLast), gradient(kContiguous));
  }
}
