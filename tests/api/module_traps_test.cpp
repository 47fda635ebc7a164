// What libtorch users write in modules, and what would go wrong in silence.
#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ferrite/core/warning.h"
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

TEST_CASE("clone names the child to which the object holds a reference or a pointer") {
  Referring referring;
  CHECK_NOTHROW(referring(ones({2})));
  CHECK_THROWS_WITH(referring.clone(),
                    "[clone] Referring holds a reference or a pointer to its child 'fc', which in "
                    "the copy would be that of the original; hold the Linear itself as a member "
                    "and register that, or find it by get<Linear>(\"fc\")");
  CHECK_THROWS_AS(referring.copy_with([](const Tensor& t) { return t; }), Error);
  nn::Sequential net{Referring()};
  CHECK_THROWS_AS(net.clone(), Error);
  CHECK_THROWS_AS(Pointing().clone(), Error);
}

TEST_CASE("a moved module that points to a child of its own warns before it is used") {
  std::vector<std::string> warnings;
  const auto before =
      set_warning_handler([&](std::string_view warning) { warnings.emplace_back(warning); });
  const auto one_of = [&](const std::string& type, const std::string& member) {
    const std::vector<std::string> given = std::exchange(warnings, {});
    REQUIRE(given.size() == 1);
    CHECK(given[0] == "[move] " + type + " seems to hold a reference or a pointer to its member '" +
                          member +
                          "', which after the move is that of the object it was moved from; set it "
                          "anew in the move constructor, or use the member itself");
  };
  const Tensor x = ones({2});
  struct Called : Pointing {};
  Called first;
  first(x);  // has its path from here on
  Called called = std::move(first);
  CHECK(warnings.empty());
  CHECK_THROWS_AS(called(x), Error);  // the weight has left the layer it points to
  one_of("Called", "fc");
  called.parameters();
  CHECK(warnings.empty());  // once for each type

  struct Asked : Pointing {};
  Asked asked;
  Asked again = std::move(asked);
  Asked twice = std::move(again);  // what it points to is now twice removed
  twice.parameters();
  one_of("Asked", "fc");

  struct Listed : Pointing {};
  nn::Sequential net;
  net.push_back(Listed());
  one_of("Listed", "fc");

  struct Assigned : Pointing {};
  Assigned assigned, given;
  assigned = std::move(given);  // its own pointer is overwritten, too
  assigned.state_dict();
  one_of("Assigned", "fc");

  struct Held : Pointing {};
  class Holder : public nn::Cloneable<Holder> {
   public:
    Holder() { register_module("part", part_); }
    Tensor forward(const Tensor& input) override { return part_(input); }

   private:
    Held part_;
  };
  Holder holder;
  Holder other = std::move(holder);
  CHECK_THROWS_AS(other(x), Error);
  one_of("Held", "fc");
  set_warning_handler(before);
}

TEST_CASE("modules are moved with references to what the registry owns, or pointers set anew") {
  const Tensor x = ones({2});
  Referring referring;
  const Tensor y = referring(x);
  Referring moved = std::move(referring);
  CHECK(moved(x).item<float>() == y.item<float>());
  moved.parameters()[0].detach().zero_();
  moved.parameters()[1].detach().fill_(4);
  CHECK(moved(x).item<float>() == 4);

  Following following;
  nn::Sequential net(std::move(following));
  net.parameters()[0].detach().zero_();
  net.parameters()[1].detach().fill_(5);
  CHECK(net(x).item<float>() == 5);
  std::vector<Following> list;
  for (int i = 0; i < 5; ++i) list.emplace_back();  // moves them as it grows
  for (Following& f : list) CHECK_NOTHROW(f(x));
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
