// The networks of torch_models.py in the C++ frontend, written like libtorch's users do.
#pragma once

#include <torch/torch.h>

#include <cstdint>

#include "ferrite/benchmarks/training/inputs.h"

namespace bench {

class Network : public torch::nn::Module {
 public:
  virtual torch::Tensor forward(const torch::Tensor& x) = 0;
};

class LeNet5 : public Network {
 public:
  LeNet5()
      : conv1(register_module("conv1",
                              torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 6, 5).padding(2)))),
        conv2(register_module("conv2", torch::nn::Conv2d(torch::nn::Conv2dOptions(6, 16, 5)))),
        fc1(register_module("fc1", torch::nn::Linear(400, 120))),
        fc2(register_module("fc2", torch::nn::Linear(120, 84))),
        fc3(register_module("fc3", torch::nn::Linear(84, 10))) {}

  torch::Tensor forward(const torch::Tensor& images) override {
    torch::Tensor x = torch::max_pool2d(torch::relu(conv1(images)), 2);
    x = torch::max_pool2d(torch::relu(conv2(x)), 2);
    x = torch::flatten(x, 1);
    return fc3(torch::relu(fc2(torch::relu(fc1(x)))));
  }

 private:
  torch::nn::Conv2d conv1, conv2;
  torch::nn::Linear fc1, fc2, fc3;
};

class D2LLeNet : public Network {
 public:
  torch::Tensor forward(const torch::Tensor& images) override {
    torch::Tensor x = torch::avg_pool2d(torch::relu(torch::conv2d(images, w1, b1)), 2);
    x = torch::avg_pool2d(torch::relu(torch::conv2d(x, w2, b2)), 2);
    x = torch::relu(torch::addmm(b3, torch::flatten(x, 1), w3));
    return torch::addmm(b4, x, w4);
  }

 private:
  torch::Tensor parameter(const char* name, at::IntArrayRef shape) {
    return register_parameter(name,
                              shape.size() > 1 ? torch::randn(shape) * 0.01 : torch::zeros(shape));
  }

  torch::Tensor w1 = parameter("W1", {20, 1, 3, 3}), b1 = parameter("b1", {20}),
                w2 = parameter("W2", {50, 20, 5, 5}), b2 = parameter("b2", {50}),
                w3 = parameter("W3", {800, 128}), b3 = parameter("b3", {128}),
                w4 = parameter("W4", {128, 10}), b4 = parameter("b4", {10});
};

inline torch::nn::Conv2d conv(std::int64_t inputs, std::int64_t outputs, std::int64_t kernel,
                              std::int64_t stride = 1) {
  torch::nn::Conv2d layer(torch::nn::Conv2dOptions(inputs, outputs, kernel)
                              .stride(stride)
                              .padding(kernel / 2)
                              .bias(false));
  torch::nn::init::kaiming_normal_(layer->weight, 0, torch::kFanOut, torch::kReLU);
  return layer;
}

class BasicBlockImpl : public torch::nn::Module {
 public:
  BasicBlockImpl(std::int64_t inputs, std::int64_t outputs, std::int64_t stride)
      : conv1(register_module("conv1", conv(inputs, outputs, 3, stride))),
        conv2(register_module("conv2", conv(outputs, outputs, 3))),
        bn1(register_module("bn1", torch::nn::BatchNorm2d(outputs))),
        bn2(register_module("bn2", torch::nn::BatchNorm2d(outputs))) {
    if (stride != 1 || inputs != outputs)
      downsample = register_module(
          "downsample",
          torch::nn::Sequential(conv(inputs, outputs, 1, stride), torch::nn::BatchNorm2d(outputs)));
  }

  torch::Tensor forward(const torch::Tensor& x) {
    torch::Tensor out = bn1(conv1(x)).relu_();
    out = bn2(conv2(out));
    out += downsample.is_empty() ? x : downsample->forward(x);
    return out.relu_();
  }

 private:
  torch::nn::Conv2d conv1, conv2;
  torch::nn::BatchNorm2d bn1, bn2;
  torch::nn::Sequential downsample{nullptr};
};
TORCH_MODULE(BasicBlock);

/// In torchvision's form, or with the stem for small images.
class ResNet18 : public Network {
 public:
  ResNet18(std::int64_t classes, std::int64_t channels, bool small)
      : small_(small),
        conv1(register_module("conv1", small ? conv(channels, 64, 3) : conv(channels, 64, 7, 2))),
        bn1(register_module("bn1", torch::nn::BatchNorm2d(64))),
        layers(register_module("layers", torch::nn::Sequential())),
        fc(register_module("fc", torch::nn::Linear(512, classes))) {
    std::int64_t inputs = 64;
    for (int i = 0; i < 4; ++i) {
      const std::int64_t outputs = std::int64_t{64} << i;
      layers->push_back(BasicBlock(inputs, outputs, i == 0 ? 1 : 2));
      layers->push_back(BasicBlock(outputs, outputs, 1));
      inputs = outputs;
    }
  }

  torch::Tensor forward(const torch::Tensor& images) override {
    torch::Tensor x = bn1(conv1(images)).relu_();
    if (!small_) x = torch::max_pool2d(x, 3, 2, 1);
    x = torch::adaptive_avg_pool2d(layers->forward(x), {1, 1});
    return fc(torch::flatten(x, 1));
  }

 private:
  bool small_;
  torch::nn::Conv2d conv1;
  torch::nn::BatchNorm2d bn1;
  torch::nn::Sequential layers;
  torch::nn::Linear fc;
};

inline std::shared_ptr<Network> make_network(const Task& task) {
  if (task.name == "lenet5") return std::make_shared<LeNet5>();
  if (task.name == "d2l") return std::make_shared<D2LLeNet>();
  return std::make_shared<ResNet18>(task.classes, task.channels, task.size < 100);
}

}  // namespace bench
