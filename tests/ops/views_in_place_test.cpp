// Methods that change the sizes and strides of a tensor itself.
#include <doctest/doctest.h>

#include "ferrite/autograd/engine.h"
#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/tensor.h"
#include "ferrite/nn/layers.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/tests/support/message.h"

using namespace ferrite;
using namespace ferrite::test;

TEST_CASE("shapes change in place, for all handles") {
  Tensor x = arange(6, kFloat32).reshape({2, 3});
  const Tensor same = x, view = x.select(0, 1);
  void* const memory = x.data_ptr();
  CHECK(&x.unsqueeze_(0) == &x);
  CHECK(same.shape() == Shape{1, 2, 3});
  CHECK(x.transpose_(1, -1).shape() == Shape{1, 3, 2});
  CHECK_FALSE(x.is_contiguous());
  CHECK(x.squeeze_().shape() == Shape{3, 2});
  CHECK(x.t_().shape() == Shape{2, 3});
  CHECK(x.is_contiguous());
  CHECK(x.unsqueeze_(-1).unsqueeze_(0).squeeze_({0, -1}).shape() == Shape{2, 3});
  CHECK(x.unsqueeze_(1).squeeze_(1).swapaxes_(0, 1).swapdims_(0, 1).shape() == Shape{2, 3});
  CHECK(x.data_ptr() == memory);
  CHECK(x.to_vector<float>() == std::vector<float>{0, 1, 2, 3, 4, 5});
  CHECK(view.shape() == Shape{3});
  x.t_().fill_(7);
  CHECK(view.to_vector<float>() == std::vector<float>(3, 7));
}

TEST_CASE("shapes that change in place are on the tape") {
  const Tensor w = tensor({1.0, 2.0, 3.0}).requires_grad_();
  Tensor y = w * w;
  y.retain_grad();
  const Tensor before = y * 2;  // saved w alone
  y.unsqueeze_(1);
  const Tensor scale = tensor({{10.0, 20.0}, {30.0, 40.0}, {50.0, 60.0}});
  ((y * scale).sum() + before.sum()).backward();
  CHECK(w.grad().to_vector<double>() == std::vector<double>{64, 288, 672});
  CHECK(y.grad().shape() == Shape{3, 1});
  CHECK(y.grad().to_vector<double>() == std::vector<double>{30, 70, 110});

  // Values that a node has saved keep their shape.
  const Tensor v = tensor({{1.0, 2.0}, {3.0, 4.0}}).requires_grad_();
  Tensor z = v * 1;
  const Tensor square = z * z;
  z.t_();
  square.sum().backward();
  CHECK(v.grad().to_vector<double>() == std::vector<double>{2, 4, 6, 8});
}

TEST_CASE("a view whose shape changes follows its base, and the base the view") {
  const Tensor w = tensor({{1.0, 2.0}, {3.0, 4.0}}).requires_grad_();
  const Tensor base = w * 1;
  Tensor row = base[1];
  row.unsqueeze_(0);
  base.mul_(2);
  (row * tensor({{5.0, 7.0}})).sum().backward({}, true);
  CHECK(w.grad().to_vector<double>() == std::vector<double>{0, 0, 10, 14});
  w.set_grad({});
  row.mul_(tensor({{3.0, 4.0}}));
  base.sum().backward();
  CHECK(w.grad().to_vector<double>() == std::vector<double>{2, 2, 6, 8});
}

TEST_CASE("leaves change their shape under no_grad alone") {
  const Tensor w = ones({2, 3}).requires_grad_();
  CHECK(contains(message_of<AutogradError>([&] { w.unsqueeze_(0); }),
                 "[unsqueeze_] float32[2, 3] on cpu requires a gradient and is a leaf"));
  CHECK(w.shape() == Shape{2, 3});
  const Tensor used = (w * w).sum();
  no_grad([&] { w.t_(); });
  CHECK(w.shape() == Shape{3, 2});
  CHECK(w.requires_grad());
  CHECK_THROWS_AS(used.backward(), AutogradError);
  (w * w).sum().backward();
  CHECK(w.grad().shape() == Shape{3, 2});
  // A result keeps its history under no_grad, too.
  w.set_grad({});
  const Tensor y = w * 3;
  no_grad([&] { y.unsqueeze_(0); });
  y.sum().backward();
  CHECK(equal(w.grad(), full({3, 2}, 3)));
}

TEST_CASE("shapes in place: errors") {
  const Tensor x = zeros({2, 3, 4});
  CHECK(contains(message_of<IndexError>([&] { x.unsqueeze_(5); }), "[unsqueeze_]"));
  CHECK(contains(message_of<IndexError>([&] { x.transpose_(0, 3); }), "[transpose_]"));
  CHECK(contains(message_of<ShapeError>([&] { x.t_(); }), "[t_]"));
  CHECK_THROWS_AS(Tensor().squeeze_(), ValueError);
  CHECK(x.shape() == Shape{2, 3, 4});
}
