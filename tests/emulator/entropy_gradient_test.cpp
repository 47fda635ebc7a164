// The gradient of a cross-entropy that comes with its forward pass.
#include <doctest/doctest.h>

#include <utility>
#include <vector>

#include "ferrite/core/error.h"
#include "ferrite/core/generator.h"
#include "ferrite/core/stream.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/loss.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/cuda.h"

using namespace ferrite;

namespace {

const Device kCuda("cuda:0");

struct Sample {
  Tensor logits, target;
};

Sample draw(DType dtype, std::int64_t rows, std::int64_t classes) {
  manual_seed(rows + classes);
  Tensor target = randint(0, classes, {rows});
  target.data<std::int64_t>()[0] = -100;  // ignored
  return {randn({rows, classes}).to(dtype).to(kCuda), target.to(kCuda)};
}

/// The gradient of a function of the logits, from a pass that begins at its result with or without
/// a gradient.
Tensor gradient(const Sample& s, const CrossEntropyOptions& options, bool given) {
  const Tensor x = s.logits.clone().set_requires_grad();
  const Tensor loss = cross_entropy(x.mul(1), s.target, options);
  loss.backward(given ? ones({}, {.dtype = loss.dtype(), .device = kCuda}) : Tensor());
  return x.grad().to("cpu");
}

}  // namespace

TEST_CASE("the gradient with the forward pass has the bits of the backward's") {
  for (const DType dtype : {kFloat32, kFloat16, kBFloat16, kFloat64})
    for (const auto& [rows, classes] :
         std::vector<std::pair<std::int64_t, std::int64_t>>{{256, 10}, {5, 16}, {1, 1}, {33, 3}})
      for (const double smoothing : {0.0, 0.1})
        for (const bool weighted : {false, true}) {
          INFO(dtype, " ", rows, " ", classes, " ", smoothing, " ", weighted);
          const Sample s = draw(dtype, rows, classes);
          CrossEntropyOptions options{.label_smoothing = smoothing};
          if (weighted) options.weight = rand({classes}).to(kCuda);
          const Tensor got = gradient(s, options, false), expected = gradient(s, options, true);
          test::check_equal(got, expected);
        }
}

TEST_CASE("the gradient with the forward pass is the node's: it is kept, released and checked") {
  const Sample s = draw(kFloat32, 8, 10);
  const auto fresh = [&] { return s.logits.clone().set_requires_grad(); };
  SUBCASE("twice") {
    const Tensor x = fresh(), loss = cross_entropy(x, s.target);
    loss.backward({}, /*retain_graph=*/true);
    const Tensor once = x.grad().clone();
    loss.backward();
    test::check_equal(x.grad().to("cpu"), once.mul(2).to("cpu"));
    CHECK_THROWS_AS(loss.backward(), AutogradError);
  }
  SUBCASE("logits that were changed") {
    const Tensor y = fresh().mul(1), loss = cross_entropy(y, s.target);
    y.add_(1);
    CHECK_THROWS_AS(loss.backward(), AutogradError);
  }
  SUBCASE("a target that was changed") {
    const Tensor target = s.target.clone(), loss = cross_entropy(fresh(), target);
    target.fill_(0);
    CHECK_THROWS_AS(loss.backward(), AutogradError);
  }
  SUBCASE("a pass on another stream than the loss's") {
    const Tensor x = fresh(), y = fresh();
    cross_entropy(x, s.target).backward();
    current_stream(kCuda).synchronize();
    const test::DeferredStreams deferred;
    Tensor loss;
    {
      const Stream side = Stream::create(kCuda);
      const StreamGuard guard(side);
      loss = cross_entropy(y, s.target);
    }
    loss.backward();
    test::check_equal(y.grad().to("cpu"), x.grad().to("cpu"));
  }
}
