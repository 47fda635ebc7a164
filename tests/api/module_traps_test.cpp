// What libtorch users write in modules, and what would go wrong in silence.
#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "ferrite/nn/containers.h"
#include "ferrite/nn/linear.h"
#include "ferrite/nn/pooling.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"

using namespace ferrite;

namespace {

class ByValue : public nn::Cloneable<ByValue> {
 public:
  Tensor forward(Tensor x) {
    x = x * 2;
    return x;
  }
};

/// Inherits forward().
class Inherits : public nn::Cloneable<Inherits, ByValue> {};

class Optional : public nn::Cloneable<Optional> {
 public:
  Tensor forward(const Tensor& x, double factor = 3) { return x * factor; }
};

class Nothing : public nn::Cloneable<Nothing> {};

class Referring : public nn::Cloneable<Referring> {
 public:
  Referring() : fc_(register_module("fc", std::make_unique<nn::Linear>(2, 1))) {}
  Tensor forward(const Tensor& x) override { return fc_(x); }

 private:
  nn::Linear& fc_;
};

class Pointing : public nn::Cloneable<Pointing> {
 public:
  Pointing() { register_module("fc", fc_); }
  Tensor forward(const Tensor& x) override { return (*last_)(x); }
  nn::Linear& fc() { return fc_; }

 private:
  nn::Linear fc_{2, 1};
  nn::Linear* last_ = &fc_;
};

/// Sets its pointer anew when it is moved.
class Following : public nn::Cloneable<Following> {
 public:
  Following() { register_module("fc", fc_); }
  Following(const Following& other) : Cloneable(other), fc_(other.fc_) {}
  Following(Following&& other) noexcept : Cloneable(std::move(other)), fc_(std::move(other.fc_)) {}
  Tensor forward(const Tensor& x) override { return (*last_)(x); }

 private:
  nn::Linear fc_{2, 1};
  nn::Linear* last_ = &fc_;
};

/// Refers to a part of its child, to a tensor that the registry owns and, in a lambda, to itself;
/// `sibling_` refers to another child.
class Linked : public nn::Cloneable<Linked> {
 public:
  class Using : public nn::Cloneable<Using> {
   public:
    explicit Using(nn::Linear& other) : other_(&other) {}
    Tensor forward(const Tensor& x) override { return (*other_)(x); }

   private:
    nn::Linear* other_;
  };

  Linked() {
    register_module("part", part_);
    register_module("fc", fc_);
    register_module("sibling", sibling_);
    scaled_ = [this](const Tensor& x) { return x * scale_; };
  }
  Tensor forward(const Tensor& x) override {
    return scaled_((*weight_ * x).sum() + sibling_(x)) + part_(x);
  }

 private:
  Pointing part_;
  nn::Linear fc_{2, 1};
  Using sibling_{fc_};
  Tensor* weight_ = &part_.fc().weight;
  Tensor& scale_ = add_parameter("scale", ones({1}));
  std::function<Tensor(const Tensor&)> scaled_;
};

/// Whether what `module` computes is a matter of its own parameters alone, which become 0 and then
/// what they were; `other` then computes the same as before.
bool computes_with_own(nn::Module& module, nn::Module& other) {
  const Tensor x = ones({2}), expected = module(x).clone(), kept = other(x).clone();
  std::vector<Tensor> values;
  for (Tensor& p : module.parameters()) {
    values.push_back(p.detach().clone());
    p.detach().zero_();
  }
  const bool own = module(x).item<float>() == 0 && other(x).item<float>() == kept.item<float>();
  for (std::size_t i = 0; i < values.size(); ++i) module.parameters()[i].detach().copy_(values[i]);
  return own && module(x).item<float>() == expected.item<float>();
}

}  // namespace

TEST_CASE("forward(Tensor) is found through Module, in a Sequential and with hooks") {
  const Tensor x = ones({2});
  nn::Sequential net{ByValue(), Inherits(), Optional()};
  CHECK(net(x).to_vector<float>() == std::vector<float>{12, 12});
  nn::Module& first = net[0];
  CHECK(first(x)[0].item() == 2);
  int calls = 0;
  const auto hook = first.register_forward_hook(
      [&](nn::Module&, const Tensor&, const Tensor& out) { calls += out[0].item() == 2; });
  CHECK(net(x)[0].item() == 12);
  CHECK(calls == 1);
  CHECK(net.clone()->forward(x)[0].item() == 12);
}

TEST_CASE("hooks see a part of a tensor as an input") {
  nn::Linear fc(2, 1);
  Shape seen;
  const auto hook =
      fc.register_forward_pre_hook([&](nn::Module&, const Tensor& input) { seen = input.shape(); });
  fc(ones({3, 2})[0]);
  CHECK(seen == Shape{2});
}

TEST_CASE("a module without forward() of one tensor says how to write one") {
  Nothing nothing;
  nn::Module& module = nothing;
  CHECK_THROWS_WITH(module(ones({2})),
                    "[module] Nothing has no forward() that can be called with one tensor: write "
                    "Tensor forward(const Tensor&) or Tensor forward(Tensor), and derive from "
                    "nn::Cloneable<Nothing>");
}

TEST_CASE_TEMPLATE("references and pointers to parts of a module are those of its clone", M,
                   Referring, Pointing, Following, Linked) {
  M module;
  const auto clone = module.clone();
  CHECK(computes_with_own(*clone, module));
  CHECK(computes_with_own(module, *clone));
  nn::Sequential net{M()};
  const auto other = net.clone();
  CHECK(computes_with_own(*other, net));
  const auto replica = module.copy_with([](const Tensor& t) { return t * 2; });
  const Tensor y = (*replica)(ones({2}));
  for (Tensor& p : module.parameters()) p.detach().zero_();
  CHECK((*replica)(ones({2})).template item<float>() == y.template item<float>());
}

TEST_CASE_TEMPLATE("references and pointers to parts of a module are those of a moved one", M,
                   Referring, Pointing, Following, Linked) {
  const Tensor x = ones({2});
  auto first = std::make_unique<M>();
  const float expected = (*first)(x).template item<float>();  // has its path from here on
  auto moved = std::make_unique<M>(std::move(*first));
  M again = std::move(*moved);  // before a first use
  moved.reset();
  first.reset();
  CHECK(again(x).template item<float>() == expected);
  M other;
  CHECK(computes_with_own(again, other));

  nn::Sequential net(std::move(again));
  CHECK(computes_with_own(net, other));
  std::vector<M> list;
  for (int i = 0; i < 5; ++i) list.emplace_back();  // moves them as it grows
  for (M& m : list) CHECK(computes_with_own(m, other));

  if constexpr (std::is_move_assignable_v<M>) {
    auto given = std::make_unique<M>();
    const float value = (*given)(x).template item<float>();
    other = std::move(*given);
    given.reset();
    CHECK(other(x).template item<float>() == value);
    CHECK(computes_with_own(other, net));
  }
}

TEST_CASE("the kernel of a pooling layer is one number or a pair") {
  const Tensor x = ones({1, 1, 6, 6});
  const auto shape = [&](nn::Module&& pool) { return pool(x).shape(); };
  const std::int64_t height = 3;
  CHECK(shape(nn::MaxPool2d(2)) == Shape({1, 1, 3, 3}));
  CHECK(shape(nn::MaxPool2d({3, 2})) == Shape({1, 1, 2, 3}));
  CHECK(shape(nn::MaxPool2d({height, 2})) == Shape({1, 1, 2, 3}));
  CHECK(shape(nn::MaxPool2d(3, 1)) == Shape({1, 1, 4, 4}));
  CHECK(shape(nn::MaxPool2d{3, 1}) == Shape({1, 1, 4, 4}));
  CHECK(shape(nn::MaxPool2d({3, 2}, {1, 2})) == Shape({1, 1, 4, 3}));
  CHECK(shape(nn::MaxPool2d({3, 2}, {.stride = 1})) == Shape({1, 1, 4, 5}));
  CHECK(shape(nn::AvgPool2d({3, 2})) == Shape({1, 1, 2, 3}));
  CHECK(shape(nn::AvgPool2d{3, 1}) == Shape({1, 1, 4, 4}));
  CHECK(shape(nn::AvgPool2d({3, 2}, {1, 2})) == Shape({1, 1, 4, 3}));
}
