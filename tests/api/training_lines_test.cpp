// Lines that set up a training, as users of PyTorch type them, with all namespaces in use. Each
// must compile and run; what they compute is tested with the parts.
#include <doctest/doctest.h>
#include <ferrite/ferrite.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

using namespace ferrite;
using namespace ferrite::nn;
using namespace ferrite::optim;
using namespace ferrite::parallel;

namespace {

template <class... T>
void use(const T&...) {}

}  // namespace

TEST_CASE("optimizers take their options by position or by name") {
  nn::Linear model(2, 3);
  const std::vector<Tensor> p = model.parameters();
  use(SGD(p, 0.1), SGD(p, 1), SGD(p, 0.1, 0.9), SGD(p, 0.1, 0.9, 0, 1e-4, true));
  use(SGD(p, {.lr = 0.1, .momentum = 0.9}), SGD(p, {}), SGD({p[0], p[1]}, 0.1));
  use(SGD({{{p[0]}, {.lr = 0.1}}, {{p[1]}, {.lr = 0.2}}}), SGD(model.parameters()));
  use(Adam(p), Adam(p, 1e-3), Adam(p, 1e-3, {0.9, 0.99}), Adam(p, 1e-3, {0.9, 0.99}, 1e-8, 0.1));
  use(AdamW(p, 1e-3), AdamW(p, {.weight_decay = 0.1}), RMSprop(p, 0.01), LARS(p, 0.1));
  use(LAMB(p, 1e-3), Lion(p, 1e-4), Lion(p, 1e-4, {0.9, 0.99}), Muon({p[0]}, 1e-3));
  use(std::make_unique<SGD>(p, 0.1), std::make_shared<Adam>(p, AdamOptions{.lr = 0.1}));

  const SGD sgd(p, 0.5, 0.9, 0, 1e-4, true);
  CHECK(sgd.options().lr == 0.5);
  CHECK(sgd.options().momentum == 0.9);
  CHECK(sgd.options().weight_decay == 1e-4);
  CHECK(sgd.options().nesterov);
  CHECK(SGD(p, 1).lr() == 1);
  CHECK(SGD(p, {}).lr() == SGDOptions().lr);
  const Adam adam(p, 0.1, {0.8, 0.7}, 1e-5);
  CHECK(adam.options().betas.second == 0.7);
  CHECK(adam.options().eps == 1e-5);
  CHECK_THROWS_AS(SGD(p, -1), ValueError);
}

TEST_CASE("groups are read and changed") {
  nn::Linear model(2, 3);
  SGD sgd({{{model.weight}, {.lr = 0.1}}, {{model.bias}, {.lr = 0.2}}});
  sgd.param_groups()[0].lr = 0.01;
  sgd.param_groups()[1].options().weight_decay = 0.5;
  for (auto& group : sgd.param_groups()) group.lr *= 2;
  CHECK(sgd.lr(0) == 0.02);
  CHECK(sgd.lr(1) == 0.4);
  CHECK(sgd.options(1).weight_decay == 0.5);
  CHECK(sgd.param_groups().size() == 2);
  CHECK(sgd.param_groups()[1].params()[0].is_same(model.bias));
  const Tensor other = zeros({2}, requires_grad());
  sgd.add_param_group({other}, {.lr = 1});
  SGD moved = std::move(sgd);
  CHECK(moved.param_groups()[0].params()[0].is_same(model.weight));
  CHECK(moved.param_groups()[2].params()[0].is_same(other));
  CHECK(std::as_const(moved).param_groups()[2].lr == 1);

  moved.set_lr(0);
  model(ones({1, 2})).sum().backward();
  moved.param_groups()[1].lr = 1;
  const Tensor bias = model.bias.detach().clone();
  moved.step();
  CHECK((bias - model.bias).sum().item<double>() ==
        doctest::Approx(3 * (1 + 0.5 * bias.mean().item<double>())));
}

TEST_CASE("schedulers take their options by position or by name") {
  nn::Linear model(2, 3);
  SGD o(model.parameters(), 0.1, 0.9);
  use(StepLR(o, 30, 0.1), StepLR(o, 30), StepLR(o, {30, 0.1}), StepLR(o, {.step_size = 30}));
  use(MultiStepLR(o, {30, 80}, 0.1), MultiStepLR(o, {30, 80}), MultiStepLR(o, {{30, 80}, 0.1}));
  use(MultiStepLR(o, {.milestones = {30, 80}}), MultiStepLR(o, std::vector<std::int64_t>{1, 2}));
  use(CosineAnnealingLR(o, 10), CosineAnnealingLR(o, 10, 0), CosineAnnealingLR(o, {.T_max = 10}));
  use(ExponentialLR(o, 0.9), LinearLR(o), LinearLR(o, 0.1, 1, 5), ConstantLR(o, 0.5, 4));
  use(LambdaLR(o, [](int epoch) { return 1.0 / (1 + epoch); }), PolynomialLR(o, 100, 0.9));
  use(OneCycleLR(o, 0.1, 100), OneCycleLR(o, {.max_lr = 0.1, .total_steps = 100}));
  use(CosineAnnealingWarmRestarts(o, 10), CosineAnnealingWarmRestarts(o, 10, 2));
  use(CyclicLR(o, 0.001, 0.1), SWALR(o, 0.05), WarmupLR(o, 100), WarmupLR(o, 100, 0.1));
  use(ReduceLROnPlateau(o, "min"), ReduceLROnPlateau(o, "max", 0.5, 3),
      ReduceLROnPlateau(o, {.factor = 0.5}), optim::lr_scheduler::StepLR(o, 10));
  CHECK_THROWS_AS(ReduceLROnPlateau(o, "least"), ValueError);
  CHECK_THROWS_AS(StepLR(o, 0), ValueError);

  SGD fresh(model.parameters(), 0.8);
  MultiStepLR scheduler(fresh, {1, 2}, 0.5);
  fresh.step();
  scheduler.step();
  CHECK(fresh.lr() == 0.4);
  scheduler.step();
  CHECK(fresh.lr() == 0.2);
}

TEST_CASE("layers and poolings take strides by position or by name") {
  const Tensor x = randn({1, 1, 8, 8}), w = randn({2, 1, 3, 3});
  CHECK(max_pool2d(x, 3, {.stride = 2}).shape() == max_pool2d(x, 3, 2).shape());
  CHECK(max_pool2d(x, {3, 2}).shape() == Shape{1, 1, 2, 4});
  CHECK(max_pool2d(x, {.kernel_size = 3, .stride = 2}).shape() == Shape{1, 1, 3, 3});
  CHECK(avg_pool2d(x, 3, {.stride = 2}).shape() == Shape{1, 1, 3, 3});
  CHECK(conv2d(x, w, {}, {.stride = 2}).shape() == conv2d(x, w, {}, 2).shape());
  CHECK(nn::MaxPool2d(2, {.stride = 1})(x).shape() == Shape{1, 1, 7, 7});
  CHECK(nn::MaxPool2d(2, 1)(x).shape() == Shape{1, 1, 7, 7});
  CHECK(nn::AvgPool2d(2)(x).shape() == Shape{1, 1, 4, 4});
  CHECK(nn::Conv2d(1, 8, 3, 1, 1)(x).shape() == Shape{1, 8, 8, 8});
  CHECK(nn::Conv2d(1, 8, 3, 2)(x).shape() == Shape{1, 8, 3, 3});
  CHECK(nn::Conv2d(1, 8, 3, {2, 1})(x).shape() == Shape{1, 8, 3, 6});
  CHECK(nn::Conv2d(1, 8, {3, 3}, {1, 1}, {1, 1}, 1, 1, false).parameters().size() == 1);
  CHECK(nn::ConvTranspose2d(1, 2, 2, 2)(x).shape() == Shape{1, 2, 16, 16});
  CHECK(max_pool2d(x, {.kernel_size = {3, 2}, .stride = {1, 2}}).shape() == Shape{1, 1, 6, 4});
  CHECK(nn::AvgPool2d(2, {.stride = {1, 2}})(x).shape() == Shape{1, 1, 7, 4});
  const MaxPool2dOptions pooling{.stride = 2};
  CHECK(nn::MaxPool2d(3, pooling)(x).shape() == max_pool2d(x, 3, pooling).shape());
  CHECK_THROWS_WITH_AS(max_pool2d(x, pooling), doctest::Contains("expected a kernel_size"),
                       ValueError);
  CHECK_THROWS_WITH_AS(max_pool2d(x, 2, {.kernel_size = 3}), doctest::Contains("given twice"),
                       ValueError);
  CHECK_THROWS_AS(nn::AvgPool2d(2, {.kernel_size = 3}), ValueError);
}

TEST_CASE("state dicts") {
  nn::Linear model(2, 3);
  StateDict d = model.state_dict();
  d["weight"] = ones({3, 2});
  d["extra"] = zeros({1});
  const Tensor weight = d["weight"];
  CHECK(weight.sum().item<double>() == 6);
  CHECK(d["extra"]->numel() == 1);
  d["renamed"] = d["extra"];
  CHECK(d["renamed"]->is_same(d["extra"]));
  d["renamed"] = d["renamed"];
  CHECK_THROWS_AS(d["renamed"] = d["absent"], IndexError);
  d.erase("renamed");
  CHECK(std::as_const(d)["bias"].numel() == 3);
  CHECK_THROWS_WITH_AS(use<Tensor>(d["weigth"]), doctest::Contains("closest name is 'weight'"),
                       IndexError);
  CHECK(model.load_state_dict(d, false).unexpected == std::vector<std::string>{"extra"});
  CHECK_THROWS_AS(model.load_state_dict(d, true), ValueError);
  CHECK_THROWS_AS(model.load_state_dict(d), ValueError);
  const auto path = std::filesystem::temp_directory_path() / "ferrite_training_lines.safetensors";
  save(d, path);
  CHECK(load(path, "cpu").size() == 3);
  CHECK(load(path, Device("cpu:1")).at("extra").device() == Device("cpu:1"));
  CHECK(model.load_state_dict(load(path), {.strict = false}).loaded == 2);
  std::filesystem::remove(path);
}

TEST_CASE("modules are moved and converted") {
  nn::Linear model(2, 3);
  CHECK(model.to("cpu:0").parameters()[0].device() == Device("cpu:0"));
  CHECK(model.cpu().parameters()[0].device() == Device());
  CHECK(model.half().parameters()[0].dtype() == kFloat16);
  CHECK(model.bfloat16().parameters()[0].dtype() == kBFloat16);
  CHECK(model.to(kFloat32).parameters()[0].dtype() == kFloat32);
  CHECK(model.double_().parameters()[0].dtype() == kFloat64);
  CHECK(model.float_().parameters()[0].dtype() == kFloat32);
  if (cuda::is_available())
    CHECK(model.cuda().parameters()[0].device().is_cuda());
  else
    CHECK_THROWS_AS(model.cuda(), DeviceError);
}

TEST_CASE("mixed precision by names") {
  const auto level = [](const amp::Options& options) { return amp::properties_of(options); };
  CHECK(level({.opt_level = "O1"}).opt_level == amp::O1);
  CHECK(level({.opt_level = std::string("O2")}).opt_level == amp::O2);
  CHECK(level({.opt_level = amp::O3}).opt_level == amp::O3);
  CHECK(level({.loss_scale = "dynamic"}).loss_scale.is_dynamic());
  CHECK(level({.loss_scale = std::string("dynamic")}).loss_scale.is_dynamic());
  CHECK(level({.loss_scale = 128}).loss_scale.value() == 128);
  CHECK(level({.loss_scale = "128.0"}).loss_scale.value() == 128);
  CHECK_THROWS_AS(level({.opt_level = "O4"}), ValueError);
  nn::Linear model(2, 3);
  SGD sgd(model.parameters(), 0.1);
  use(amp::initialize(model, sgd, "O0"));
  amp::GradScaler scaler;
  const amp::autocast region;
}

TEST_CASE("functions and utilities by the names of their modules") {
  nn::Linear model(2, 3);
  const Tensor x = randn({4, 2}), y = tensor({0, 1, 2, 0});
  F::cross_entropy(F::relu(model(x)), y).backward();
  nn::functional::softmax(x, 1);
  nn::utils::clip_grad_norm_(model.parameters(), 1.0);
  nn::utils::clip_grad_value_(model.parameters(), 1.0);
  const Tensor flat = nn::utils::parameters_to_vector(model.parameters());
  CHECK(flat.shape() == Shape{9});
  nn::utils::vector_to_parameters(flat * 0 + 2, model.parameters());
  CHECK(model.bias.sum().item<double>() == 6);
  CHECK(model.weight.sum().item<double>() == 12);
  CHECK_THROWS_AS(nn::utils::vector_to_parameters(ones({8}), model.parameters()), ShapeError);
  CHECK_THROWS_AS(nn::utils::parameters_to_vector({}), ValueError);
  use(optim::swa_utils::AveragedModel(model));
  backends::cudnn::set_benchmark(false);
}

TEST_CASE("devices by torch.cuda's names, with or without one") {
  cuda::synchronize();
  cuda::empty_cache();
  cuda::manual_seed(1);
  cuda::manual_seed_all(1);
  CHECK(cuda::max_memory_allocated() >= cuda::memory_allocated());
  CHECK(cuda::memory_summary().empty() != cuda::is_available());
  const Device first = try_gpu();
  CHECK(first.is_cuda() == cuda::is_available());
  CHECK(try_gpu(99) == Device());
  CHECK(try_all_gpus().size() == static_cast<std::size_t>(std::max(cuda::device_count(), 1)));
  CHECK(try_all_gpus()[0] == first);
  if (!cuda::is_available()) CHECK_THROWS_AS(cuda::get_device_name(0), DeviceError);
  const cuda::DeviceScope scope(first);
}

TEST_CASE("data parallelism by torch's names") {
  nn::Linear model(2, 3);
  const Tensor x = randn({4, 2});
  const std::vector<Tensor> parts = parallel::scatter(x, {"cpu:0", "cpu:1"});
  CHECK(parts[1].device() == Device("cpu:1"));
  CHECK(equal(parallel::gather({parts[0], parts[1]}, "cpu"), x));
  model.to("cpu:0");
  nn::DataParallel dp(model, {"cpu:0", "cpu:1"});
  CHECK(dp(x.to("cpu:0")).shape() == Shape{4, 3});
  CHECK(dist::get_rank() == 0);
  CHECK(dist::get_world_size() == 1);
  CHECK_FALSE(dist::is_initialized());
  CHECK_THROWS_AS(dist::all_reduce(x), ValueError);
  CHECK_THROWS_AS(parallel::DDP{model}, ValueError);
  CHECK_THROWS_AS(nn::parallel::DistributedDataParallel{model}, ValueError);
  CHECK_THROWS_AS(mp::spawn([](int) {}, 0), ValueError);
}
