// Modules for the tests of nn::Module.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ferrite/core/state_dict.h"
#include "ferrite/nn/containers.h"
#include "ferrite/nn/module.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"

namespace ferrite::test {

inline std::vector<std::string> names(const std::vector<nn::NamedTensor>& tensors) {
  std::vector<std::string> out;
  for (const auto& [name, t] : tensors) out.push_back(name);
  return out;
}
inline std::vector<std::string> names(const StateDict& dict) {
  return names(std::vector<nn::NamedTensor>(dict.begin(), dict.end()));
}
using Names = std::vector<std::string>;

/// y = scale x + shift, with a buffer of each kind.
class Affine : public nn::Cloneable<Affine> {
 public:
  explicit Affine(double value = 1) : scale(full({2}, value)), shift(zeros({2})) {
    calls_ = zeros({}, {.dtype = kInt64});
    scratch_ = zeros({2});
    register_buffer("calls", calls_);
    register_buffer("scratch", scratch_, false);
    register_parameter("scale", scale);
    register_parameter("shift", shift);
    register_parameter("absent", absent_);
  }
  Tensor forward(const Tensor& x) override {
    calls_.add_(1);
    return x * scale + shift;
  }

  Tensor scale, shift;

 private:
  Tensor calls_, scratch_, absent_;
};

/// Children of every kind: members, an optional one, owned ones, a nested container.
class Net : public nn::Cloneable<Net> {
 public:
  Net() : list_(Affine(3), Affine(4)) {
    register_module("first", first);
    register_module("maybe", maybe_.emplace(2));
    register_module("list", list_);
    register_module("owned", std::make_unique<Affine>(5));
    register_module("again", first);
    add_parameter("extra", ones({3}));
  }
  Tensor forward(const Tensor& x) override {
    return list_[1](list_[0]((*maybe_)(first(x)))) + static_cast<double>(options.size());
  }

  nn::ModuleList& list() { return list_; }

  Affine first;
  std::vector<int> options = {1, 2};

 private:
  std::optional<Affine> maybe_;
  nn::ModuleList list_;
};

/// Two children with one weight.
class Tied : public nn::Cloneable<Tied> {
 public:
  Tied() : nn::Cloneable<Tied>() {
    b.scale = a.scale;
    register_module("a", a);
    register_module("b", b);
  }
  Affine a, b;
};

/// Refers to a module that it does not own, like classes that train a model on several devices.
class Wrapper : public nn::Cloneable<Wrapper> {
 public:
  explicit Wrapper(nn::Module& module) : wrapped_(module) { wrap_module(module); }
  Tensor forward(const Tensor& x) override { return wrapped_(x); }
  using nn::Module::wrap_module;

 private:
  nn::Module& wrapped_;
};

}  // namespace ferrite::test
