// Options by PyTorch's strings, which mean what the enums do.
#include <doctest/doctest.h>
#include <ferrite/ferrite.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

using namespace ferrite;

namespace {

using Values = std::vector<double>;

template <class F>
std::string message_of(const F& f) {
  try {
    f();
  } catch (const ValueError& e) {
    return e.what();
  }
  return "";
}

/// Checks f(module) of two modules of the same weights.
template <class M>
void check_same(M a, M b, const Tensor& x) {
  b.load_state_dict(a.state_dict());
  CHECK(equal(a(x), b(x)));
}

}  // namespace

TEST_CASE("losses take their reduction as a string") {
  const Tensor x = randn({3, 4}), y = randn({3, 4}), labels = tensor({0, 3, 1});
  CHECK(equal(mse_loss(x, y, "none"), mse_loss(x, y, Reduction::none)));
  CHECK(equal(F::l1_loss(x, y, "sum"), l1_loss(x, y, Reduction::Sum)));
  const std::string name = "sum";
  CHECK(equal(mse_loss(x, y, name), mse_loss(x, y, Reduction::sum)));
  CHECK(equal(nn::MSELoss({.reduction = "sum"})(x, y), mse_loss(x, y, Reduction::sum)));
  CHECK(equal(nn::MSELoss(Reduction::sum)(x, y), mse_loss(x, y, "sum")));
  CHECK(equal(
      cross_entropy(x, labels, {.reduction = "sum", .label_smoothing = 0.1}),
      nn::CrossEntropyLoss({.reduction = Reduction::sum, .label_smoothing = 0.1})(x, labels)));
  CHECK(nll_loss(log_softmax(x, 1), labels, {}, "none").shape() == Shape{3});
  CHECK(kl_div(x, softmax(y, 1), {.reduction = "batchmean"}).numel() == 1);
  CHECK(nn::HuberLoss({.reduction = "none"})(x, y).shape() == x.shape());
  CHECK(message_of([&] { mse_loss(x, y, "average"); }) ==
        "[reduction] expected one of \"mean\", \"sum\", \"none\", \"batchmean\", got \"average\"");
  CHECK_THROWS_AS(mse_loss(x, y, "batchmean"), ValueError);
  switch (CrossEntropyOptions{.reduction = "none"}.reduction) {
    case Reduction::none:
      break;
    default:
      CHECK(false);
  }
}

TEST_CASE("layers and functions take their modes as strings") {
  const Tensor x = randn({1, 2, 5, 5});
  for (const auto& [name, mode] :
       {std::pair("zeros", PadMode::constant), std::pair("reflect", PadMode::reflect),
        std::pair("replicate", PadMode::replicate), std::pair("circular", PadMode::circular)})
    check_same(nn::Conv2d(2, 3, 3, {.padding = 1, .padding_mode = name}),
               nn::Conv2d(2, 3, 3, {.padding = 1, .padding_mode = mode}), x);
  CHECK_THROWS_AS(nn::Conv2d(2, 3, 3, {.padding_mode = "mirror"}), ValueError);
  CHECK(equal(F::pad(x, {1, 1}, "reflect"), pad(x, {1, 1}, PadMode::reflect)));

  CHECK(equal(gelu(x, "tanh"), gelu(x, GeluApproximation::tanh)));
  CHECK(equal(nn::GELU({.approximate = "tanh"})(x), gelu(x, "tanh")));
  CHECK(equal(nn::GELU("tanh")(x), nn::GELU(GeluApproximation::tanh)(x)));
  CHECK(equal(nn::GELU()(x), gelu(x)));

  const Tensor steps = randn({4, 1, 2});
  nn::RNN by_name(2, 3, {.num_layers = 2, .nonlinearity = "relu", .bias = false});
  nn::RNN by_enum(2, 3, {.num_layers = 2, .bias = false}, nn::Nonlinearity::relu);
  by_enum.load_state_dict(by_name.state_dict());
  CHECK(equal(by_name(steps).output, by_enum(steps).output));
  CHECK(by_name(steps).output.min().item<float>() >= 0);
  CHECK(nn::RNNCell(2, 3, {.nonlinearity = "relu"})(randn({8, 2})).min().item<float>() >= 0);
  CHECK_THROWS_AS(nn::LSTM(2, 3, {.nonlinearity = "relu"}), ValueError);
  CHECK_THROWS_AS(nn::GRUCell(2, 3, {.nonlinearity = "relu"}), ValueError);

  const Tensor indices = tensor({{0, 2}, {1, 1}}), w = randn({3, 4});
  CHECK(equal(F::embedding_bag(indices, w, {}, {.mode = "sum"}),
              embedding_bag(indices, w, {}, {.mode = BagMode::sum})));
  check_same(nn::EmbeddingBag(3, 4, {.mode = "max"}),
             nn::EmbeddingBag(3, 4, {.mode = BagMode::max}), indices);

  const Tensor grid = rand({1, 3, 3, 2}) * 3 - 1.5;
  CHECK(equal(
      grid_sample(x, grid, {.mode = "nearest", .padding_mode = "border"}),
      grid_sample(x, grid,
                  {.mode = GridSampleMode::nearest, .padding_mode = GridSamplePadding::border})));
  CHECK(equal(quantile(x, 0.3, {}, false, "lower"),
              quantile(x, 0.3, {}, false, Interpolation::lower)));
  CHECK(equal(stft(randn({32}).clone(), 8, {.pad_mode = "reflect"}).abs() * 0,
              stft(randn({32}), 8).abs() * 0));

  Generator a(3), b(3);
  const Tensor v = empty({4, 4}), u = empty({4, 4});
  nn::init::kaiming_normal_(v, 0, "fan_out", "relu", &a);
  nn::init::kaiming_normal_(u, 0, kFanOut, nn::init::Nonlinearity::relu, &b);
  CHECK(equal(u, v));
  CHECK(nn::init::calculate_gain("conv2d") == 1);
  CHECK(nn::init::calculate_gain("relu") == std::sqrt(2.0));
}

TEST_CASE("schedulers take their modes as strings") {
  using namespace ferrite::optim;
  const Tensor w = zeros({2}, requires_grad());
  const auto rates = [&](const auto& make) {
    SGD sgd({w}, {.lr = 0.1, .momentum = 0.9});
    auto scheduler = make(sgd);
    Values result;
    for (int i = 0; i < 12; ++i) {
      if constexpr (requires { scheduler->step(1.0); })
        scheduler->step(1.0 - 0.01 * i);
      else
        scheduler->step();
      result.push_back(sgd.lr());
    }
    return result;
  };
  const auto check = [&]<class S>(std::type_identity<S>, const auto& by_name, const auto& by_enum,
                                  const auto& other) {
    const auto make = [](const auto& options) {
      return [options](Optimizer& o) { return std::make_unique<S>(o, options); };
    };
    CHECK(rates(make(by_name)) == rates(make(by_enum)));
    CHECK(rates(make(by_name)) != rates(make(other)));
  };
  check(
      std::type_identity<OneCycleLR>(),
      OneCycleLROptions{.max_lr = 1, .total_steps = 20, .anneal_strategy = "linear"},
      OneCycleLROptions{.max_lr = 1, .total_steps = 20, .anneal_strategy = AnnealStrategy::linear},
      OneCycleLROptions{.max_lr = 1, .total_steps = 20, .anneal_strategy = "cos"});
  check(std::type_identity<SWALR>(), SWALROptions{.swa_lr = 1, .anneal_strategy = "linear"},
        SWALROptions{.swa_lr = 1, .anneal_strategy = AnnealStrategy::linear},
        SWALROptions{.swa_lr = 1});
  check(std::type_identity<CyclicLR>(),
        CyclicLROptions{.base_lr = 0.1, .max_lr = 1, .step_size_up = 2, .mode = "triangular2"},
        CyclicLROptions{
            .base_lr = 0.1, .max_lr = 1, .step_size_up = 2, .mode = CyclicMode::triangular2},
        CyclicLROptions{.base_lr = 0.1, .max_lr = 1, .step_size_up = 2});
  using P = ReduceLROnPlateauOptions;
  check(std::type_identity<ReduceLROnPlateau>(),
        P{.patience = 0, .threshold = 0.5, .threshold_mode = "abs"},
        P{.patience = 0, .threshold = 0.5, .threshold_mode = P::ThresholdMode::abs},
        P{.patience = 0, .threshold = 0.001, .threshold_mode = "rel"});
}
