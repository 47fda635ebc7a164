// Fused layers, compared with the same layers run one by one.
#include "ferrite/nn/fused.h"

#include <doctest/doctest.h>

#include <functional>

#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

struct Layers : nn::Cloneable<Layers> {
  Layers() {
    register_module("conv", conv);
    register_module("bn", bn);
    register_module("linear", linear);
  }
  nn::Conv2d conv{2, 3, 3, {.padding = 1}};
  nn::BatchNorm2d bn{3};
  nn::Linear linear{5, 4};
};

using Function = std::function<Tensor(Layers&, const Tensor& x, const Tensor& residual)>;
using T = const Tensor&;

struct Case {
  const char* name;
  Shape input;
  Function fused, apart;
};

const MaxPool2dOptions kPool{.kernel_size = 3, .stride = 2, .padding = 1};
Tensor last(T x) { return x.contiguous(kChannelsLast); }

const std::vector<Case> kCases{
    {"linear_relu",
     {6, 5},
     [](Layers& l, T x, T) { return linear_relu(l.linear, x); },
     [](Layers& l, T x, T) { return relu(l.linear(x)); }},
    {"linear_gelu",
     {6, 5},
     [](Layers& l, T x, T) { return linear_gelu(l.linear, x); },
     [](Layers& l, T x, T) { return gelu(l.linear(x)); }},
    {"conv_relu",
     {2, 2, 4, 5},
     [](Layers& l, T x, T) { return conv_relu(l.conv, x); },
     [](Layers& l, T x, T) { return relu(l.conv(x)); }},
    {"conv_relu_max_pool",
     {2, 2, 4, 5},
     [](Layers& l, T x, T) { return conv_relu_max_pool(l.conv, x, kPool); },
     [](Layers& l, T x, T) { return max_pool2d(relu(l.conv(x)), kPool); }},
    {"Sequential of convolution, ReLU and pooling",
     {2, 2, 4, 5},
     [](Layers& l, T x, T) {
       nn::ReLU relu;
       nn::MaxPool2d pool(3, kPool);
       nn::Module* const modules[] = {&l.conv, &relu, &pool};
       return run_in_order(modules, x);
     },
     [](Layers& l, T x, T) { return max_pool2d(relu(l.conv(x)), kPool); }},
    {"bn_relu",
     {2, 3, 4, 5},
     [](Layers& l, T x, T) { return bn_relu(l.bn, x); },
     [](Layers& l, T x, T) { return relu(l.bn(x)); }},
    {"bn_relu_max_pool",
     {2, 3, 4, 5},
     [](Layers& l, T x, T) { return bn_relu_max_pool(l.bn, last(x), kPool); },
     [](Layers& l, T x, T) { return max_pool2d(relu(l.bn(x)), kPool); }},
    {"conv_bn",
     {2, 2, 4, 5},
     [](Layers& l, T x, T) { return conv_bn(l.conv, l.bn, x); },
     [](Layers& l, T x, T) { return l.bn(l.conv(x)); }},
    {"conv_bn_relu",
     {2, 2, 4, 5},
     [](Layers& l, T x, T) { return conv_bn_relu(l.conv, l.bn, x); },
     [](Layers& l, T x, T) { return relu(l.bn(l.conv(x))); }},
    {"conv_bn_relu_max_pool",
     {2, 2, 4, 5},
     [](Layers& l, T x, T) { return conv_bn_relu_max_pool(l.conv, l.bn, last(x), kPool); },
     [](Layers& l, T x, T) { return max_pool2d(relu(l.bn(l.conv(x))), kPool); }},
    {"Sequential of convolution, norm, ReLU and pooling",
     {2, 2, 4, 5},
     [](Layers& l, T x, T) {
       nn::ReLU relu;
       nn::MaxPool2d pool(3, kPool);
       nn::Module* const modules[] = {&l.conv, &l.bn, &relu, &pool};
       return run_in_order(modules, last(x));
     },
     [](Layers& l, T x, T) { return max_pool2d(relu(l.bn(l.conv(x))), kPool); }},
    {"conv_bn_add_relu",
     {2, 2, 4, 5},
     [](Layers& l, T x, T residual) { return conv_bn_add_relu(l.conv, l.bn, x, residual); },
     [](Layers& l, T x, T residual) { return relu(l.bn(l.conv(x)) + residual); }},
};

void check_alike(const Case& c, Layers& layers, Layers& copy) {
  Generator generator(3);
  const Tensor values = randn(c.input, {.dtype = kFloat64}, &generator);
  const Tensor added = randn({2, 3, 4, 5}, {.dtype = kFloat64}, &generator);
  const auto leaf = [](T t) { return t.clone().set_requires_grad(); };
  const Tensor x = leaf(values), residual = leaf(added), same_x = leaf(values),
               same_residual = leaf(added);
  const Tensor out = c.fused(layers, x, residual), expected = c.apart(copy, same_x, same_residual);
  check_close(out, expected, 1e-13, 1e-14);
  out.backward(ones_like(out) * out.detach());
  expected.backward(ones_like(expected) * expected.detach());
  check_close(x.grad(), same_x.grad(), 1e-12, 1e-13);
  REQUIRE(residual.grad().defined() == same_residual.grad().defined());
  if (residual.grad().defined()) check_close(residual.grad(), same_residual.grad(), 1e-12, 1e-13);
  for (std::size_t i = 0; i < layers.parameters().size(); ++i) {
    const Tensor grad = layers.parameters()[i].grad(), same = copy.parameters()[i].grad();
    REQUIRE(grad.defined() == same.defined());
    if (grad.defined()) check_close(grad, same, 1e-12, 1e-13);
  }
  for (std::size_t i = 0; i < layers.buffers().size(); ++i)
    check_close(layers.buffers()[i], copy.buffers()[i], 1e-13, 1e-14);
}

}  // namespace

TEST_CASE(
    "fused layers agree with the layers one by one, in training and eval, with and without hooks") {
  for (const Case& c : kCases)
    for (const bool training : {true, false})
      for (const char* hooked : {"", "conv", "bn", "linear"}) {
        CAPTURE(c.name);
        CAPTURE(training);
        CAPTURE(hooked);
        Layers layers;
        layers.to(kFloat64);
        layers.train(training);
        const auto copy = layers.clone();
        if (*hooked)  // the hook changes the input of the next layer
          for (nn::Module* module :
               {static_cast<nn::Module*>(&layers), static_cast<nn::Module*>(copy.get())})
            module->get_submodule(hooked).register_forward_hook(
                [](nn::Module&, const Tensor&, const Tensor& out) { return out * 2 - 0.1; });
        check_alike(c, layers, *copy);
      }
}

TEST_CASE("a fused residual must be defined and have the output's shape") {
  Layers layers;
  const Tensor x = ones({2, 2, 4, 5});
  CHECK_THROWS_WITH_AS(conv_bn_add_relu(layers.conv, layers.bn, x, Tensor()),
                       doctest::Contains("call conv_bn_relu"), ValueError);
  CHECK_THROWS_AS(conv_bn_add_relu(layers.conv, layers.bn, x, ones({2, 3, 4})), ShapeError);
}
