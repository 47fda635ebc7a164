// Clones of modules, copies on other tensors, and modules that wrap others.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <utility>

#include "ferrite/ops/reduce.h"
#include "ferrite/tests/nn/small_modules.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

class Uncloneable : public nn::Module {};

class Sub : public Affine {};

}  // namespace

TEST_CASE("a clone is independent and complete") {
  Net net;
  net.first.requires_grad_(false);
  net.eval();
  net.first.scale.set_grad(ones({2}));
  const Tensor x = tensor({1.0, 2.0});
  const Tensor before = net(x);
  const std::unique_ptr<Net> copy = net.clone();
  CHECK(copy->str() == net.str());
  CHECK(!copy->is_training());
  CHECK(!copy->first.scale.requires_grad());
  CHECK(!copy->first.scale.grad().defined());
  CHECK(copy->num_parameters() == 23);
  check_equal((*copy)(x), before);

  const StateDict a = net.state_dict(), b = copy->state_dict();
  REQUIRE(names(a) == names(b));
  for (const auto& [name, t] : a) CHECK(!b.at(name).shares_storage(t));
  // In the copy, the registry refers to the members of the copy.
  CHECK(copy->named_parameters()[1].second.is_same(copy->first.scale));
  CHECK(copy->children()[0] == &copy->first);
  CHECK(copy->children()[4] == &copy->first);
  copy->first.scale.fill_(100);
  copy->options.push_back(3);
  check_equal(net(x), before);
  net.first.scale.detach().fill_(0);
  check_close(copy->first.scale, {100, 100});
}

TEST_CASE("clones through the base class, of shared parts, and from virtual devices") {
  Tied tied;
  CHECK(tied.parameters().size() == 3);
  tied.to("cpu:0");
  const std::unique_ptr<nn::Module> copy = static_cast<nn::Module&>(tied).clone();
  auto& other = dynamic_cast<Tied&>(*copy);
  CHECK(other.a.scale.is_same(other.b.scale));
  CHECK(!other.a.scale.is_same(tied.a.scale));
  CHECK(other.a.scale.device() == Device("cpu:0"));
  CHECK_THROWS_WITH_AS(Uncloneable().clone(), doctest::Contains("Cloneable<Uncloneable>"), Error);
  CHECK_THROWS_WITH_AS(Sub().clone(), doctest::Contains("Sub derives from Affine"), Error);
}

TEST_CASE("a copy with other tensors: one call per tensor, same hooks and modes") {
  Net net;
  net.first.scale.detach().fill_(2);
  net.list().eval();
  int hooked = 0;
  nn::Module* seen = nullptr;
  net.first.register_forward_hook([&](nn::Module& module, const Tensor&, const Tensor&) {
    ++hooked;
    seen = &module;
  });
  Tensor doubled;  // the copy's tensors may be on the tape
  int asked = 0;
  const std::unique_ptr<nn::Module> made = net.copy_with([&](const Tensor& t) {
    ++asked;
    const Tensor other = t.dtype() == kFloat32 ? t * 2 : t;
    if (t.is_same(net.first.scale)) doubled = other;
    return other;
  });
  auto& copy = dynamic_cast<Net&>(*made);
  CHECK(asked == std::ssize(net.parameters()) + std::ssize(net.buffers()));
  CHECK(copy.first.scale.is_same(doubled));
  CHECK(copy.children()[4] == &copy.first);
  CHECK(names(copy.named_parameters()) == names(net.named_parameters()));
  CHECK(copy.is_training());
  CHECK(!copy.list().is_training());
  CHECK(net.first.scale.is_leaf());
  check_close(net.first.scale, {2, 2});

  sum(copy.first(ones({2}))).backward();
  CHECK(hooked == 1);
  CHECK(seen == &copy.first);
  check_close(net.first.scale.grad(), {2, 2});
  // The copy also has hooks that are registered later.
  net.first.register_forward_hook([&](nn::Module&, const Tensor&, const Tensor&) { hooked += 10; });
  copy.first(ones({2}));
  CHECK(hooked == 12);

  Tied tied;
  const std::unique_ptr<nn::Module> shared =
      tied.copy_with([](const Tensor& t) { return t.clone(); });
  auto& other = dynamic_cast<Tied&>(*shared);
  CHECK(other.a.scale.is_same(other.b.scale));
  CHECK(!other.a.scale.is_same(tied.a.scale));
  Wrapper wrapper(net);
  CHECK_THROWS_WITH_AS(wrapper.copy_with([](const Tensor& t) { return t; }),
                       doctest::Contains("not its own"), Error);
}

TEST_CASE("a wrapper has the parameters, buffers, submodules and names of the wrapped module") {
  Net net;
  Wrapper wrapper(net);
  CHECK(names(wrapper.named_parameters()) == names(net.named_parameters()));
  CHECK(names(wrapper.named_buffers()) == names(net.named_buffers()));
  CHECK(names(wrapper.state_dict()) == names(net.state_dict()));
  CHECK(wrapper.parameters()[0].impl() == net.parameters()[0].impl());
  CHECK(wrapper.num_parameters() == net.num_parameters());
  CHECK(wrapper.modules().size() == net.modules().size() + 1);
  CHECK(&wrapper.get_submodule("") == &wrapper);
  CHECK(&wrapper.get_submodule("list.1") == &net.get_submodule("list.1"));
  CHECK_THROWS_WITH_AS(wrapper.get_submodule("lost.1"), doctest::Contains("'list.1'"), IndexError);
  CHECK(wrapper.str() ==
        "Wrapper(\n  (module): Net(\n    (first): Affine()\n    (maybe): Affine()\n"
        "    (list): ModuleList(\n      (0): Affine()\n      (1): Affine()\n    )\n"
        "    (owned): Affine()\n    (again): Affine()\n  )\n)");
  check_equal(wrapper(ones({2})), net(ones({2})));

  wrapper.eval();
  CHECK_FALSE(net.first.is_training());
  CHECK(wrapper.requires_grad_(false, "list.0") == 2);
  CHECK_FALSE(net.get_submodule("list.0").parameters()[0].requires_grad());
  wrapper.to(kFloat64);
  CHECK(net.first.scale.dtype() == kFloat64);
  CHECK_THROWS_WITH_AS(wrapper.clone(), doctest::Contains("wraps a Net that is not its own"),
                       Error);
  CHECK_THROWS_WITH_AS(wrapper.wrap_module(net), doctest::Contains("wraps a Net already"),
                       ValueError);

  // A wrapper of a wrapper, after a move.
  Wrapper moved = std::move(wrapper), outer(static_cast<nn::Module&>(moved));
  CHECK(names(outer.state_dict()) == names(net.state_dict()));
  CHECK_THROWS_WITH_AS(outer.wrap_module(outer), doctest::Contains("cannot wrap itself"),
                       ValueError);

  // It accepts names with and without PyTorch's prefix.
  Net other;
  other.first.scale.detach().fill_(7);
  for (const char* prefix : {"", "module."}) {
    net.first.scale.detach().fill_(0);
    CHECK(outer.load_state_dict(other.state_dict(prefix)).complete());
    check_close(net.first.scale.to(kFloat32), {7, 7});
  }
  StateDict mixed = other.state_dict("module.");
  mixed.insert("first.scale", ones({2}));
  CHECK_THROWS_AS(outer.load_state_dict(mixed), ValueError);
  // If the wrapped module has a child of that name, the prefix is not stripped.
  struct Holder : nn::Cloneable<Holder> {
    Holder() { register_module("module", affine); }
    Affine affine;
  } holder;
  CHECK(Wrapper(holder).load_state_dict(Affine(3).state_dict("module.")).complete());
  check_close(holder.affine.scale, {3, 3});
}
