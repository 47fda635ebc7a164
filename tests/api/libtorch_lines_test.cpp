// Lines as libtorch's examples and its users have them (the DCGAN, MNIST, autograd, transfer
// learning and custom data set programs, saving, options), with `torch::` as `ferrite::`. Each must
// compile and run; what C++ does not allow here is in refused_lines.txt.
#include <doctest/doctest.h>
#include <ferrite/ferrite.h>

#include <filesystem>
#include <iostream>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

using namespace ferrite;
using namespace ferrite::indexing;

namespace {

const std::filesystem::path kFolder = std::filesystem::temp_directory_path();

struct Discriminator : nn::Cloneable<Discriminator> {
  Discriminator()
      : conv1(nn::Conv2d(1, 4, 4, {.stride = 2, .padding = 1, .bias = false})),
        conv2(4, 8, 4, {.stride = 2, .padding = 1, .bias = false}),
        batch_norm(8),
        conv3(8, 1, 7, {.bias = false}) {
    register_module("conv1", conv1);
    register_module("conv2", conv2);
    register_module("batch_norm", batch_norm);
    register_module("conv3", conv3);
  }
  Tensor forward(Tensor x) {
    x = leaky_relu(conv1(x), 0.2);
    x = leaky_relu(batch_norm(conv2(x)), 0.2);
    return sigmoid(conv3(x)).view({-1});
  }
  nn::Conv2d conv1, conv2;
  nn::BatchNorm2d batch_norm;
  nn::Conv2d conv3;
};

struct Squares : data::DatasetOf<std::tuple<Tensor, Tensor>> {
  std::tuple<Tensor, Tensor> get(std::int64_t i) const override {
    return {full({2}, static_cast<double>(i)), tensor(i * i)};
  }
  std::int64_t size() const override { return 6; }
};

}  // namespace

TEST_CASE("several results are taken apart as libtorch's tuples") {
  const Tensor x = randn({3, 4});
  Tensor a, b, c;
  a = std::get<0>(x.max(1));
  b = std::get<1>(x.max(1));
  a = std::get<0>(max(x, 1, /*keepdim=*/true));
  auto [values, indices] = x.max(/*dim=*/1, /*keepdim=*/true);
  auto sorted = x.sort(0);
  a = std::get<0>(sorted) + std::get<1>(sorted);
  std::get<0>(sorted) = a;
  CHECK(sorted.values.is_same(a));
  const auto fixed = x.sort(0);
  CHECK(std::get<1>(fixed).is_same(fixed.indices));
  const Tensor& kept = std::get<0>(x.max(1));  // a value, which lives on
  CHECK(kept.numel() == 3);
  std::tuple<Tensor, Tensor> top = x.topk(2);
  CHECK(equal(std::get<0>(top), x.topk(2).values));
  std::tie(a, b) = x.max(1);
  std::tie(a, std::ignore) = x.min(1);
  std::tie(std::ignore, b) = x.min(1);
  std::tie(a, b) = x.kthvalue(1, 1);
  a = std::get<0>(x.mode(1)) + std::get<0>(x.median(1)) + std::get<0>(x.cummax(1))[0][0];
  a = std::get<0>(unique(x));
  a = std::get<1>(unique(x, {.return_inverse = true}));
  std::tie(a, b, c) = unique(x, {.return_inverse = true, .return_counts = true});
  auto [u, s, v] = linalg::svd(x);
  auto [q, r] = linalg::qr(x);
  std::tie(a, b) = std_mean(x);
  std::tie(a, b) = x.aminmax();
  auto [pooled, positions] = max_pool2d_with_indices(randn({1, 1, 4, 4}), {.kernel_size = 2});
  nn::MultiheadAttention attention(4, 2);
  auto [output, weights] = attention(x, x, x);
  CHECK(output.sizes() == std::get<0>(attention(x, x, x)).sizes());
}

TEST_CASE("tensors have libtorch's ways in and out") {
  Tensor x = rand({2, 3}) + 0.5;
  Tensor t = from_blob(x.data_ptr(), {2, 3}, dtype(kFloat32));
  t = from_blob(x.data_ptr(), {2, 3}, TensorOptions{.dtype = kFloat32, .device = kCPU});
  t = from_blob(x.data_ptr<float>(), {2, 3}, dtype(kFloat32).requires_grad(true)).clone();
  CHECK(t.requires_grad());
  int freed = 0;
  {
    const auto deleter = [&](void* p) { freed += p == x.data_ptr(); };
    const Tensor blob = from_blob(x.data_ptr(), {2, 3}, deleter, kFloat);
    const Tensor other = from_blob(x.data_ptr(), {6}, deleter, dtype(kFloat).device(kCPU));
    CHECK(equal(from_blob(x.data_ptr(), {6}, [](void*) {}), other));
    CHECK(equal(blob, other.view({2, 3})));
    CHECK(freed == 0);
  }
  CHECK(freed == 2);
  CHECK(randn(3, requires_grad()).requires_grad());
  CHECK(zeros(x.size(0), kLong).dtype() == kLong);
  CHECK((ones(2, kCPU) + rand(2, "cpu") + empty(2, x.device()).zero_()).sizes() == Shape{2});
  CHECK(rand_like(x, dtype(kDouble)).dtype() == kDouble);
  CHECK(randn_like(x, requires_grad()).requires_grad());
  CHECK(empty_like(x, kInt).sizes() == x.sizes());
  auto accessor = x.accessor<float, 2>();
  accessor[1][0] = 2;
  CHECK(x[1][0].item<float>() == 2);
  float* p = x.mutable_data_ptr<float>();
  const float* q = x.const_data_ptr<float>();
  CHECK(p == q);
  const std::vector<float> copied(x.data_ptr<float>(), x.data_ptr<float>() + x.numel());
  CHECK(copied[3] == 2);
  CHECK(x.sizes().vec() == std::vector<std::int64_t>{2, 3});
  const std::vector<std::int64_t> sizes(x.sizes().begin(), x.sizes().end());
  CHECK((x > 0).all().is_nonzero());
  CHECK(!(x < 0).any().is_nonzero());
  t = zeros({2, 3}, x.device()).uniform_(0.8, 1.2);
  t = empty({3}, x.device()).fill_(1);
  t = randn({2, 100, 1, 1}, Device(kCPU));
  t = vstack({x, x});
  t = hstack({x, x});
  t = dstack({x, x});
  t = cartesian_prod({arange(2), arange(3)});
  t = block_diag({x, x});
  t = meshgrid({arange(2), arange(3)}, "ij")[0];
  t = meshgrid({arange(2), arange(3)})[1];
  t = broadcast_tensors({ones({2, 1}), ones({3})})[1];
  CHECK(t.sizes() == Shape{2, 3});
  t = einsum("ij,kj->ik", {x, x});
  t = x.index({Slice(), 0}) + x.index({Ellipsis, Slice(None, 2)}).sum();
  x.index_put_({0, 1}, 5);
  x.index_put_({x > 100}, tensor(1.0f));
  x.index({0, "..."}) += 1;
  x[x > 3] = 3;
  x[x > 2] *= 0.5;
  x[Slice(1, 2)] *= 2;
  Tensor undefined;
  CHECK(!undefined.defined());
  t.reset();
  CHECK(!t.defined());
  std::swap(x, t);
  std::ostringstream out;
  out << t << '\n' << t.dtype() << t.device() << t.sizes() << t.slice(0, 0, 1);
}

TEST_CASE("the lines of the autograd tutorial") {
  auto x = ones({2, 2}, requires_grad());
  auto y = x + 2;
  std::ostringstream out;
  out << y << y.grad_fn_name();
  auto z = y * y * 3;
  z.mean().backward();
  out << x.grad();
  x.mutable_grad().reset();
  CHECK(!x.grad().defined());
  Tensor seen;
  auto handle = x.register_hook([&](Tensor grad) { seen = grad; });
  auto doubled = x.register_hook([](const Tensor& grad) { return grad * 2; });
  (x * 3).sum().backward();
  CHECK(seen[0][0].item<float>() == 3);
  CHECK(x.grad()[0][0].item<float>() == 6);
  handle.remove();
  doubled.remove();
  auto gradients = autograd::grad({(x * x).sum()}, {x});
  gradients = autograd::grad({x * x}, {x}, /*grad_outputs=*/{ones_like(x)}, /*retain_graph=*/true,
                             /*create_graph=*/true);
  CHECK(gradients[0].requires_grad());
  CHECK(GradMode::is_enabled());
  {
    InferenceMode guard;
    CHECK(!GradMode::is_enabled());
    CHECK(!(x * 2).requires_grad());
    AutoGradMode enable(true);
    CHECK(!(x * 2).requires_grad());
  }
  {
    InferenceMode off(false);
    CHECK(GradMode::is_enabled());
  }
  GradMode::set_enabled(false);
  CHECK(!(x * 2).requires_grad());
  GradMode::set_enabled(true);
}

TEST_CASE("the lines of the DCGAN program") {
  manual_seed(0);
  Device device(cuda::is_available() ? kCUDA : kCPU);
  nn::Sequential generator(nn::ConvTranspose2d(10, 8, 4, {.bias = false}), nn::BatchNorm2d(8),
                           nn::ReLU(),
                           nn::ConvTranspose2d(8, 4, 3, {.stride = 2, .padding = 1, .bias = false}),
                           nn::Functional([](const Tensor& x) { return relu(x); }),
                           nn::ConvTranspose2d(4, 1, 4, {.stride = 4, .bias = false}), nn::Tanh());
  Discriminator discriminator;
  generator.to(device);
  discriminator.to(device);
  optim::Adam generator_optimizer(generator.parameters(),
                                  optim::AdamOptions{.lr = 2e-4, .betas = {0.5, 0.5}});
  optim::Adam discriminator_optimizer(discriminator.parameters(), {.lr = 5e-4});
  discriminator.zero_grad();
  Tensor real_images = rand({2, 1, 28, 28}, device);
  Tensor real_labels = empty({2}, device).uniform_(0.8, 1.0);
  Tensor real_output = discriminator(real_images);
  Tensor d_loss_real = binary_cross_entropy(real_output, real_labels);
  d_loss_real.backward();
  Tensor noise = randn({2, 10, 1, 1}, device);
  Tensor fake_images = generator.forward(noise);
  Tensor fake_labels = zeros({2}, device);
  Tensor fake_output = discriminator(fake_images.detach());
  Tensor d_loss_fake = binary_cross_entropy(fake_output, fake_labels);
  d_loss_fake.backward();
  Tensor d_loss = d_loss_real + d_loss_fake;
  discriminator_optimizer.step();
  generator.zero_grad();
  fake_labels.fill_(1);
  binary_cross_entropy(discriminator(fake_images), fake_labels).backward();
  generator_optimizer.step();
  CHECK(d_loss.item<float>() > 0);
  for (const auto& pair : discriminator.named_parameters()) {
    CHECK(!pair.key().empty());
    nn::init::normal_(pair.value(), 0.0, 0.02);
  }
  for (auto& [name, parameter] : discriminator.named_parameters())
    if (name.ends_with("bias")) nn::init::constant_(parameter, 0);
  nn::LeakyReLU leaky({.negative_slope = 0.2});
  CHECK(leaky(tensor(-1.0)).item<float>() == -0.2f);
  nn::init::kaiming_normal_(discriminator.conv1.weight, 0.0, kFanOut);
}

TEST_CASE("the lines of the MNIST program") {
  nn::Sequential model(nn::Flatten(), nn::Linear(2, 4), nn::LogSoftmax(1));
  optim::SGD optimizer(model.parameters(), optim::SGDOptions{.lr = 0.01, .momentum = 0.5});
  data::DataLoader loader(Squares(), {.batch_size = 3, .shuffle = true});
  model.train();
  for (auto& [inputs, squares] : loader) {
    auto targets = squares % 4;
    optimizer.zero_grad();
    auto output = model(inputs);
    auto loss = nll_loss(output, targets);
    loss.backward();
    optimizer.step();
  }
  NoGradGuard no_grad;
  model.eval();
  double test_loss = 0;
  std::int64_t correct = 0;
  for (auto& [inputs, squares] : loader) {
    auto targets = squares % 4;
    auto output = model(inputs);
    test_loss += nll_loss(output, targets, /*weight=*/{}, Reduction::Sum).item<double>();
    auto pred = output.argmax(1);
    correct += pred.eq(targets).sum().item<std::int64_t>();
  }
  CHECK(correct >= 0);
  CHECK(test_loss >= 0);
  const Tensor x = randn({2, 3}), y = randn({2, 3});
  CHECK(nn::MSELoss({.reduction = Reduction::Sum})(x, y).item<float>() ==
        mse_loss(x, y, Reduction::Sum).item<float>());
  CHECK(nn::L1Loss({.reduction = Reduction::None})(x, y).sizes() == x.sizes());
  CHECK(nn::CrossEntropyLoss({.reduction = Reduction::None})(x, tensor({0, 2})).dim() == 1);
  CHECK(F::l1_loss(x, y, Reduction::Mean).item<float>() == nn::L1Loss()(x, y).item<float>());
  CHECK(F::normalize(x).sizes() == x.sizes());
  CHECK(F::normalize(x, 2, 1).norm(2, 1)[0].item<float>() == doctest::Approx(1));
  CHECK(F::pad(x, {1, 1}, "replicate").size(1) == 5);
  CHECK(F::interpolate(x.view(1, 1, 2, 3), 4).sizes() == Shape{1, 1, 4, 4});
  CHECK(F::interpolate(x.view(1, 1, 2, 3), {.scale_factor = 2, .mode = "nearest"}).size(3) == 6);
}

TEST_CASE("modules, tensors and optimizers are saved and loaded whole") {
  nn::Linear model(2, 3), other(2, 3);
  optim::Adam adam(model.parameters(), 1e-3), fresh(other.parameters(), 0.5);
  model(ones({1, 2})).sum().backward();
  adam.step();
  const Tensor x = randn({2, 3});
  for (const char* extension : {".safetensors", ".pt"}) {
    const auto path = [&](const char* name) {
      return kFolder / (std::string("ferrite_lines_") + name + extension);
    };
    save(model, path("model"));
    load(other, path("model"));
    CHECK(equal(model.weight, other.weight));
    save(adam, path("adam"));
    load(fresh, path("adam"));
    CHECK(fresh.lr() == 1e-3);
    save(x, path("tensor"));
    Tensor y;
    load(y, path("tensor"));
    CHECK(equal(x, y));
    save({x, x + 1}, path("tensors"));
    std::vector<Tensor> several;
    load(several, path("tensors"));
    CHECK(several.size() == 2);
    CHECK(equal(several[1], x + 1));
    save(several, path("tensors"));
    CHECK_THROWS_AS(load(y, path("tensors")), ValueError);
    CHECK(load(path("model")).size() == 2);
    for (const char* name : {"model", "adam", "tensor", "tensors"})
      std::filesystem::remove(path(name));
  }
}

TEST_CASE("optimizers, devices and layers are set up as in libtorch") {
  nn::Linear model(2, 3);
  optim::SGD sgd(model.parameters(), 0.1);
  optim::Optimizer& optimizer = sgd;
  for (auto& group : optimizer.param_groups()) group.lr *= 0.1;
  for (auto& group : optimizer.param_groups()) group["lr"] = 0.25;
  CHECK(sgd.param_groups()[0].options().lr == 0.25);
  sgd.add_param_group({{zeros({2}, requires_grad())}, {.lr = 0.1}});
  CHECK(optimizer.param_groups().size() == 2);
  set_num_threads(get_num_threads());
  CHECK(std::string(version()) == FERRITE_VERSION);
  CHECK(FERRITE_VERSION_MAJOR >= 0);
  set_default_device(kCPU);
  CHECK(get_default_device() == Device(kCPU));
  {
    DefaultDeviceScope scope("cpu:0");
    CHECK(nn::Linear(2, 2).weight.device() == Device("cpu:0"));
  }
  { cuda::CUDAGuard guard(-1); }
  optim::SGD groups({{{ones({2}, requires_grad())}}, {{ones({3}, requires_grad())}, {.lr = 0.3}}},
                    {.lr = 0.1, .momentum = 0.9});
  CHECK(groups.param_groups()[0].lr == 0.1);
  CHECK(groups.param_groups()[1].lr == 0.3);
  CHECK(groups.param_groups()[1].momentum == 0.9);
  const std::vector<Tensor> of_one = {ones({2}, requires_grad())};
  CHECK(optim::SGD({{of_one}}, {.lr = 0.2}).param_groups()[0].lr == 0.2);
  CHECK(optim::SGD({{{of_one[0]}}, {{ones({3}, requires_grad())}}}, {.lr = 0.2})
            .parameters()
            .size() == 2);
  const data::DistributedSampler sampler(10, {.num_replicas = 2, .rank = 1});
  CHECK(sampler.size() == 5);
  nn::Transformer transformer(8, 2, 1, 1, 16);
  CHECK(transformer(randn({3, 1, 8}), randn({2, 1, 8})).sizes() == Shape{2, 1, 8});
  auto embedding = nn::Embedding::from_pretrained(randn({10, 3}));
  CHECK(embedding(tensor({1, 2})).sizes() == Shape{2, 3});
  nn::Conv2d same(1, 2, 3, {.padding = "same"}), valid(1, 2, 3, {.padding = "valid"});
  CHECK(same(randn({1, 1, 5, 5})).sizes() == Shape{1, 2, 5, 5});
  CHECK(valid(randn({1, 1, 5, 5})).sizes() == Shape{1, 2, 3, 3});
  CHECK_THROWS_AS(nn::Conv2d(1, 2, 3, {.padding = "full"}), ValueError);
  nn::Sequential net;
  net.add_module("conv", nn::Conv2d(1, 2, 3));
  net.add_module("relu", nn::ReLU());
  CHECK(net.size() == 2);
  auto& added = net[0].register_module("extra", nn::Linear(2, 1));
  CHECK(net.get<nn::Linear>("conv.extra").weight.is_same(added.weight));
  net[0].add_module("act", nn::ReLU());
  net[0].add_module("owned", std::make_unique<nn::Tanh>());
  CHECK(net[0].children().size() == 3);
  CHECK(net.parameters(false).empty());
  CHECK(net[0].named_parameters(false).size() == 2);
  CHECK(net.parameters("*.bias").size() == 2);
  std::string paths;
  net.apply([&](const std::string& path, nn::Module&) { paths += path + " "; });
  for (const auto& module : net.named_children()) paths += module.key() + module.value()->name();
  CHECK(paths ==
        " conv conv.extra conv.act conv.owned relu convConv2d"
        "reluReLU");
  nn::LSTM lstm(2, 3);
  auto [output, state] = lstm(randn({4, 1, 2}));
  auto [h, c] = state;
  CHECK(output.sizes() == Shape{4, 1, 3});
  CHECK(h.sizes() == c.sizes());
}
