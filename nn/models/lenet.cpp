#include "ferrite/nn/models/lenet.h"

#include <array>

#include "ferrite/nn/fused.h"
#include "ferrite/nn/init.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/pool.h"

namespace ferrite::nn {

LeNet5::LeNet5(const LeNet5Options& options)
    : conv1(options.in_channels, 6, 5, {.padding = 2}),
      conv2(6, 16, 5),
      fc1(16 * 5 * 5, 120),
      fc2(120, 84),
      fc3(84, options.classes),
      options_(options) {
  register_module("conv1", conv1);
  register_module("conv2", conv2);
  register_module("fc1", fc1);
  register_module("fc2", fc2);
  register_module("fc3", fc3);
}

Tensor LeNet5::activate(const Tensor& x) const {
  switch (options_.activation) {
    case LeNet5Options::Activation::relu:
      return relu(x);
    case LeNet5Options::Activation::tanh:
      return tanh(x);
    case LeNet5Options::Activation::sigmoid:
      return sigmoid(x);
  }
  return x;
}

Tensor LeNet5::hidden(Linear& layer, const Tensor& x) const { return activate(layer(x)); }

Tensor LeNet5::hidden(Conv2d& layer, const Tensor& x) const {
  if (options_.activation == LeNet5Options::Activation::relu) return conv_relu(layer, x);
  return activate(layer(x));
}

Tensor LeNet5::pooled(Conv2d& layer, const Tensor& x) const {
  if (options_.activation == LeNet5Options::Activation::relu &&
      options_.pooling == LeNet5Options::Pooling::max)
    return conv_relu_max_pool(layer, x, {.kernel_size = 2});
  const Tensor out = hidden(layer, x);
  return options_.pooling == LeNet5Options::Pooling::max ? max_pool2d(out, 2) : avg_pool2d(out, 2);
}

Tensor LeNet5::forward(const Tensor& input) {
  const Tensor x = pooled(conv2, pooled(conv1, input)).flatten(1);
  if (options_.activation == LeNet5Options::Activation::relu)
    return linear_relu_chain(std::array{&fc1, &fc2, &fc3}, x);
  return fc3(hidden(fc2, hidden(fc1, x)));
}

std::vector<Tensor> lenet_parameters(double scale) {
  std::vector<Tensor> params;
  for (const Shape& shape : {Shape{20, 1, 3, 3}, Shape{20}, Shape{50, 20, 5, 5}, Shape{50},
                             Shape{800, 128}, Shape{128}, Shape{128, 10}, Shape{10}}) {
    const Tensor t = empty(shape);
    params.push_back((shape.size() > 1 ? init::normal_(t, 0, scale) : init::zeros_(t)));
    params.back().set_requires_grad();
  }
  return params;
}

Tensor lenet(const Tensor& X, std::span<const Tensor> params) {
  FERRITE_CHECK(params.size() == 8, ValueError, "lenet",
                "expected the parameters W1, b1, ... W4, b4, got {} tensors", params.size());
  const Tensor h1 = avg_pool2d(conv2d_relu(X, params[0], params[1]), 2);
  const Tensor h2 = avg_pool2d(conv2d_relu(h1, params[2], params[3]), 2);
  const Tensor h3 = addmm_relu(params[5], h2.flatten(1), params[4]);
  return addmm(params[7], h3, params[6]);
}

D2LLeNet::D2LLeNet(double scale) {
  const std::vector<Tensor> params = lenet_parameters(scale);
  const std::array<std::pair<const char*, Tensor*>, 8> members = {{{"W1", &W1},
                                                                   {"b1", &b1},
                                                                   {"W2", &W2},
                                                                   {"b2", &b2},
                                                                   {"W3", &W3},
                                                                   {"b3", &b3},
                                                                   {"W4", &W4},
                                                                   {"b4", &b4}}};
  for (std::size_t i = 0; i < members.size(); ++i) {
    *members[i].second = params[i];
    register_parameter(members[i].first, *members[i].second);
  }
}

Tensor D2LLeNet::forward(const Tensor& X) {
  return lenet(X, std::array{W1, b1, W2, b2, W3, b3, W4, b4});
}

std::optional<std::int64_t> D2LLeNet::multiply_adds(std::span<const Tensor> inputs,
                                                    std::span<const Tensor>) const {
  // Outputs of 26 x 26 and 9 x 9 for each filter, and each weight of the linear layers once.
  return inputs[0].size(0) * (26 * 26 * W1.numel() + 9 * 9 * W2.numel() + W3.numel() + W4.numel());
}

}  // namespace ferrite::nn
