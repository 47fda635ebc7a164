// InferenceMode, as c10::InferenceMode of PyTorch.
#include <doctest/doctest.h>

#include <thread>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/autocast.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/tests/autograd/util.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

/// f(), under InferenceMode.
template <class F>
auto in_inference_mode(F f) {
  const InferenceMode guard;
  return f();
}

}  // namespace

TEST_CASE("under InferenceMode nothing is recorded, and new tensors are inference tensors") {
  const Tensor w = leaf({1, 2});
  CHECK_FALSE(inference_mode());
  {
    const InferenceMode guard;
    CHECK(inference_mode());
    CHECK_FALSE(grad_enabled());
    const Tensor y = w * 2;
    CHECK_FALSE(y.requires_grad());
    CHECK(y.is_inference());
    CHECK(y.select(0, 1).is_inference());
    CHECK(values(y) == Values{2, 4});
    CHECK_THROWS_WITH_AS(y.version(), doctest::Contains("inference tensor"), ValueError);
    y.add_(1);
    CHECK(values(y) == Values{3, 5});
    const EnableGradGuard enable;
    CHECK_FALSE((w * 2).requires_grad());
  }
  CHECK_FALSE(inference_mode());
  CHECK(grad_enabled());
  CHECK_FALSE((w * 2).is_inference());
}

TEST_CASE("InferenceMode nests, can be turned off, and is its thread's") {
  const Tensor w = leaf({1, 2});
  const InferenceMode guard;
  {
    const InferenceMode off(false);
    CHECK_FALSE(inference_mode());
    CHECK((w * 2).requires_grad());
    const InferenceMode again;
    CHECK_FALSE((w * 2).requires_grad());
  }
  CHECK(inference_mode());
  CHECK_FALSE(grad_enabled());
  bool other = true;
  std::thread([&] { other = inference_mode() || (w * 2).is_inference(); }).join();
  CHECK_FALSE(other);
}

TEST_CASE("inference tensors do not enter autograd later") {
  const Tensor w = leaf({1, 2});
  const Tensor y = in_inference_mode([&] { return w * 2; });
  CHECK_THROWS_WITH_AS(y * w, doctest::Contains("inference tensor"), AutogradError);
  CHECK_THROWS_WITH_AS(y.select(0, 1) * w, doctest::Contains("clone()"), AutogradError);
  CHECK_THROWS_AS(y.set_requires_grad(), AutogradError);
  CHECK_THROWS_AS(y.add_(1), AutogradError);
  CHECK_THROWS_AS(y.select(0, 1).zero_(), AutogradError);
  no_grad([&] {
    CHECK_THROWS_AS(y.add_(1), AutogradError);
    CHECK(values(y * w) == Values{2, 8});  // nothing is saved
  });
  CHECK(values(y) == Values{2, 4});

  // What does not save it may use it, and a clone is a normal tensor.
  sum(y + w).backward();
  CHECK(values(w.grad()) == Values{1, 1});
  const Tensor copy = y.clone();
  CHECK_FALSE(copy.is_inference());
  sum(copy * w).backward();
  CHECK(values(w.grad()) == Values{3, 5});
}

TEST_CASE("under InferenceMode normal tensors stay normal, and changes of them count") {
  const Tensor x = tensor({1., 2.}), w = leaf({3, 4});
  const Tensor y = x * w;  // saves x
  const std::uint32_t before = x.version();
  {
    const InferenceMode guard;
    const Tensor view = x.select(0, 1);
    CHECK_FALSE(view.is_inference());
    view.mul_(10);
  }
  CHECK(x.version() == before + 1);
  CHECK_THROWS_AS(sum(y).backward(), AutogradError);
}
