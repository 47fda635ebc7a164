// Lines of modules as a libtorch or PyTorch user types them. Each must compile and run; what they
// compute is tested in tests/nn.
#include <doctest/doctest.h>

#include <iostream>
#include <memory>
#include <sstream>
#include <string>

#include "ferrite/ferrite.h"

using namespace ferrite;

namespace {

struct NetImpl : nn::Cloneable<NetImpl> {
  NetImpl(int64_t in, int64_t out) : fc1(in, 8), fc2(8, out) {
    register_module("fc1", fc1);
    register_module("fc2", fc2);
    register_parameter("scale", scale);
    register_buffer("steps", steps);
  }
  Tensor forward(Tensor x) {
    x = relu(fc1(x));
    x = dropout(x, 0.5, is_training());
    return fc2.forward(x) * scale;
  }
  nn::Linear fc1, fc2;
  Tensor scale = ones({1});
  Tensor steps = zeros({}, kLong);
};

struct Nested : nn::Cloneable<Nested> {
  Nested() { register_module("net", net); }
  Tensor forward(const Tensor& x) override { return net.forward(x); }
  nn::Sequential net{nn::Linear(4, 3), nn::ReLU()};
};

}  // namespace

TEST_CASE("layers are made as in torch::nn") {
  nn::Linear a(4, 2);
  nn::Linear b(4, 2, {.bias = false});
  nn::Linear b2(4, 2, false);
  auto c = nn::Linear(4, 2);
  auto p = std::make_unique<nn::Linear>(4, 2);
  auto q = std::make_shared<nn::Linear>(4, 2);
  nn::Conv2d conv1(1, 8, 3);
  nn::Conv2d conv2(1, 8, {3, 5});
  nn::Conv2d conv3(1, 8, 3, {.stride = 2, .padding = 1});
  nn::Conv2d conv4(4, 8, 3, {.padding = {1, 2}, .groups = 2, .bias = false});
  nn::ConvTranspose2d up(8, 4, 2, {.stride = 2});
  nn::BatchNorm1d bn1(8);
  nn::BatchNorm2d bn2(8, {.momentum = 0.01});
  nn::LayerNorm ln({8});
  nn::LayerNorm ln2({4, 8}, {.eps = 1e-6});
  nn::GroupNorm gn(2, 8);
  nn::MaxPool2d pool1(2);
  nn::MaxPool2d pool2(3, {.stride = 2, .padding = 1});
  nn::AvgPool2d pool3(2);
  nn::AdaptiveAvgPool2d pool4({1, 1});
  nn::AdaptiveAvgPool2d pool5(1);
  nn::Dropout drop;
  nn::Dropout drop2(0.25);
  nn::Dropout2d drop3(0.25);
  nn::Embedding embedding(10, 4);
  nn::Embedding embedding2(10, 4, {.padding_idx = 0});
  nn::LSTM lstm(4, 8);
  nn::LSTM lstm2(4, 8, {.num_layers = 2, .batch_first = true, .bidirectional = true});
  nn::GRU gru(4, 8, {.batch_first = true});
  nn::LSTMCell cell(4, 8);
  nn::GRUCell cell2(4, 8);
  nn::MultiheadAttention attention(8, 2);
  nn::Flatten flatten;
  nn::Flatten flatten2({.start_dim = 1});
  nn::Identity identity;
  nn::ReLU relu1;
  nn::ReLU relu2({.inplace = true});
  nn::LeakyReLU leaky(0.1);
  nn::GELU gelu1;
  nn::Tanh tanh1;
  nn::Sigmoid sigmoid1;
  nn::Softmax softmax1(1);
  nn::LogSoftmax log_softmax1(1);
  nn::CrossEntropyLoss criterion;
  nn::CrossEntropyLoss criterion2({.label_smoothing = 0.1});
  nn::NLLLoss nll;
  nn::MSELoss mse;
  nn::MSELoss mse2(Reduction::sum);
  nn::L1Loss l1;
  nn::BCEWithLogitsLoss bce;
  nn::SmoothL1Loss smooth;
  CHECK(conv3(zeros({1, 1, 8, 8})).sizes() == Shape{1, 8, 4, 4});
}

TEST_CASE("modules are called, read and changed as in torch::nn") {
  NetImpl net(4, 2);
  const Tensor x = randn({3, 4});
  Tensor y = net(x);
  y = net.forward(x);
  y = net.fc1(x);
  y = net.fc1.weight;
  y = net.fc1.bias;
  nn::MSELoss criterion;
  Tensor loss = criterion(net(x), zeros({3, 2}));
  loss.backward();
  y = net.fc1.weight.grad();
  net.zero_grad();
  net.zero_grad(true);
  net.train();
  net.train(false);
  net.eval();
  CHECK(!net.is_training());
  net.to(kCPU);
  net.to(Device("cpu"));
  net.to("cpu");
  net.to(kFloat64);
  net.to(kFloat);
  net.to(kCPU, kFloat32);
  net.to(MemoryFormat::channels_last);
  net.cpu();
  net.requires_grad_(false);
  net.requires_grad_();
  for (auto& p : net.parameters()) p.requires_grad_(true);
  for (const auto& p : net.named_parameters()) CHECK(!p.first.empty());
  for (const auto& [name, p] : net.named_parameters()) CHECK(p.defined());
  for (auto& b : net.buffers()) CHECK(b.dim() == 0);
  for (const auto& [name, b] : net.named_buffers()) CHECK(name == "steps");
  for (auto* m : net.modules()) m->train();
  for (auto* m : net.children()) m->eval();
  for (const auto& [name, m] : net.named_children()) CHECK(m != nullptr);
  for (const auto& [name, m] : net.named_modules()) CHECK(m != nullptr);
  net.apply([](nn::Module& m) { m.eval(); });
  net.apply<nn::Linear>([](nn::Linear& l) { nn::init::xavier_uniform_(l.weight); });
  for (auto* l : net.modules<nn::Linear>()) nn::init::zeros_(l->bias);
  {
    NoGradGuard no_grad;
    net.get<nn::Linear>("fc1").weight.fill_(1);
  }
  net.get_submodule("fc1").to(kFloat);
  y = net.get_parameter("fc1.weight");
  y = net.get_buffer("steps");
  net.fc2 = nn::Linear(8, 3);
  net.replace("fc2", nn::Linear(8, 5));
  CHECK(net(x).size(1) == 5);
  auto copy = net.clone();
  y = (*copy)(x);
  auto dict = net.state_dict();
  net.load_state_dict(dict);
  net.load_state_dict(dict, {.strict = false});
  for (const auto& [name, t] : dict) CHECK(t.defined());
  CHECK(dict.contains("fc1.weight"));
  CHECK(dict.size() == 6);
  y = dict.at("fc1.weight");
  CHECK(net.name() == "NetImpl");
  std::ostringstream out;
  out << net << net.fc1;
  CHECK(net.num_parameters() > 0);
  std::int64_t count = 0;
  for (const auto& p : net.parameters())
    if (p.requires_grad()) count += p.numel();
  CHECK(count == net.num_trainable_parameters());
}

TEST_CASE("containers are built and walked as in torch::nn") {
  nn::Sequential a(nn::Linear(4, 8), nn::ReLU(), nn::Linear(8, 2));
  nn::Sequential b{nn::Linear(4, 8), nn::ReLU()};
  nn::Sequential named({{"fc", nn::Linear(4, 8)}, {"act", nn::ReLU()}});
  nn::Linear shared(4, 4);
  nn::Sequential c(shared, nn::Tanh());
  nn::Sequential d;
  d.push_back(nn::Linear(4, 2));
  d.push_back("head", nn::Linear(2, 2));
  d.append(nn::ReLU()).append(nn::Dropout(0.1));
  d = nn::Sequential(nn::Linear(4, 2));
  const Tensor x = randn({3, 4});
  Tensor y = a(x);
  y = a.forward(x);
  y = a[0](x);
  y = a[0].as<nn::Linear>().weight;
  y = named.get<nn::Linear>("fc").weight;
  CHECK(a.size() == 3);
  CHECK(!a.empty());
  for (auto& layer : a) layer.eval();
  nn::ModuleList list;
  list.push_back(nn::Linear(4, 4));
  list.append(nn::Linear(4, 4));
  nn::ModuleList list2(nn::Linear(4, 4), nn::Linear(4, 4));
  y = x;
  for (auto& layer : list) y = relu(layer(y));
  for (std::size_t i = 0; i < list2.size(); ++i) y = list2[i](y);
  nn::ModuleDict heads;
  heads.insert("a", nn::Linear(4, 2));
  y = heads["a"](x);
  CHECK(heads.contains("a"));
  nn::ParameterList weights;
  weights.append(zeros({2}));
  y = weights[0];
  nn::ParameterDict table;
  table.insert("w", zeros({2}));
  y = table["w"];
  Nested nested;
  y = nested(x);
  y = nested.net[0](x);
  CHECK(nested.named_parameters()[0].first == "net.0.weight");
}

TEST_CASE("hooks, initialisers and utilities are called as in torch::nn") {
  nn::Sequential net(nn::Linear(4, 4), nn::ReLU());
  const Tensor x = randn({2, 4});
  auto h1 = net.register_forward_hook([](nn::Module&, const Tensor&, const Tensor&) {});
  auto h2 = net.register_forward_pre_hook([](nn::Module&, const Tensor& in) { return in * 2; });
  auto h3 = net.register_full_backward_hook(
      [](nn::Module&, std::span<Tensor>, std::span<const Tensor>) {});
  net(x).sum().backward();
  h1.remove();
  h2.remove();
  h3.remove();
  Tensor w = empty({4, 4});
  nn::init::xavier_uniform_(w);
  nn::init::xavier_normal_(w, 2.0);
  nn::init::kaiming_uniform_(w);
  nn::init::kaiming_normal_(w, 0, nn::init::FanMode::fan_out);
  nn::init::normal_(w, 0, 0.02);
  nn::init::uniform_(w, -0.1, 0.1);
  nn::init::constant_(w, 0.5);
  nn::init::zeros_(w);
  nn::init::ones_(w);
  nn::init::orthogonal_(w);
  nn::init::trunc_normal_(w, 0, 0.02);
  auto normed = nn::utils::weight_norm(nn::Linear(4, 2));
  auto spectral = nn::utils::spectral_norm(nn::Linear(4, 2));
  Tensor y = nn::functional_call(net, net.state_dict(), x);
  std::ostringstream out;
  out << nn::summary(net, {2, 4});
  autograd::set_detect_anomaly(true);
  autograd::set_detect_anomaly(false);
  { autograd::DetectAnomalyGuard guard; }
  nn::ResNet18 resnet({.classes = 10, .width = 8});
  resnet.fc = nn::Linear(64, 3);
  y = resnet(randn({2, 3, 64, 64}));
  CHECK(y.size(1) == 3);
  y = resnet.conv1.weight;
  y = resnet.layer1[0](zeros({1, 8, 8, 8}));
  resnet.layer4.requires_grad_(false);
  nn::LeNet5 lenet;
  y = lenet(zeros({1, 1, 28, 28}));
}

TEST_CASE("functions are called as in torch::nn::functional") {
  const Tensor x = randn({2, 4}), image = randn({1, 2, 8, 8}), labels = zeros({2}, kLong);
  const Tensor kernel = randn({3, 2, 3, 3}), bias = zeros({3});
  Tensor y = relu(x);
  y = leaky_relu(x, 0.1);
  y = gelu(x);
  y = silu(x);
  y = sigmoid(x);
  y = tanh(x);
  y = softmax(x, 1);
  y = softmax(x, -1);
  y = log_softmax(x, 1);
  y = dropout(x, 0.5, true);
  y = linear(x, randn({3, 4}), bias);
  y = linear(x, randn({3, 4}));
  y = conv2d(image, kernel, bias);
  y = conv2d(image, kernel, {}, {.stride = 2, .padding = 1});
  y = max_pool2d(image, 2);
  y = max_pool2d(image, 3, 2);
  y = max_pool2d(image, 3, 2, 1);
  y = avg_pool2d(image, 2);
  y = adaptive_avg_pool2d(image, 1);
  y = adaptive_avg_pool2d(image, {2, 2});
  y = layer_norm(x, {4});
  y = cross_entropy(x, labels);
  y = cross_entropy(x, labels, {.label_smoothing = 0.1});
  y = nll_loss(log_softmax(x, 1), labels);
  y = mse_loss(x, zeros({2, 4}));
  y = mse_loss(x, zeros({2, 4}), Reduction::sum);
  y = l1_loss(x, zeros({2, 4}));
  y = smooth_l1_loss(x, zeros({2, 4}));
  y = huber_loss(x, zeros({2, 4}));
  y = binary_cross_entropy_with_logits(x, zeros({2, 4}));
  y = binary_cross_entropy(sigmoid(x), zeros({2, 4}));
  y = kl_div(log_softmax(x, 1), softmax(x, 1));
  y = one_hot(labels, 4);
  y = pad(image, {1, 1, 1, 1});
  y = interpolate(image, {.scale_factor = 2});
  y = embedding(labels, randn({10, 4}));
  CHECK(y.sizes() == Shape{2, 4});
}
