#include "ferrite/tests/nn/layer_table.h"

#include <cmath>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/nn/layers.h"
#include "ferrite/nn/models/lenet.h"
#include "ferrite/nn/models/resnet.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/creation.h"

namespace ferrite::test {

namespace {

/// A loss as a layer: compares its input with a target that moves with the module.
template <class Loss>
class Against : public nn::Cloneable<Against<Loss>> {
 public:
  Against(Loss loss, Tensor target) : loss_(std::move(loss)), target_(std::move(target)) {
    this->register_module("loss", loss_);
    this->register_buffer("target", target_);
  }
  Tensor forward(const Tensor& input) override { return loss_(input, target_); }

 private:
  Loss loss_;
  Tensor target_;
};

template <class M, class... Args>
std::function<std::unique_ptr<nn::Module>()> maker(Args... args) {
  return [=] { return std::make_unique<M>(args...); };
}

template <class Loss>
std::function<std::unique_ptr<nn::Module>()> loss(std::function<Loss()> make,
                                                  std::function<Tensor()> target) {
  return [=] { return std::make_unique<Against<Loss>>(make(), target()); };
}

std::vector<Layer> layers() {
  using namespace nn;
  const Shape image{2, 4, 6, 5}, rows{3, 4};
  return {
      {"Linear", maker<Linear>(5, 3), {4, 5}},
      {"Linear without bias", maker<Linear>(5, 3, LinearOptions{.bias = false}), {2, 4, 5}},
      {"Embedding", maker<Embedding>(6, 3, EmbeddingOptions{.padding_idx = 2}), {4, 3}, 6},
      {"Flatten", maker<Flatten>(), image},
      {"Identity", maker<Identity>(), image},
      {"Conv2d", maker<Conv2d>(4, 6, 3, nn::Conv2dOptions{.stride = 2, .padding = 1}), image},
      {"Conv2d in groups",
       maker<Conv2d>(4, 6, Pair{3, 2},
                     nn::Conv2dOptions{.padding = Padding::same, .groups = 2, .bias = false}),
       image},
      {"ConvTranspose2d",
       maker<ConvTranspose2d>(
           4, 6, 3,
           nn::ConvTranspose2dOptions{.stride = 2, .padding = 1, .output_padding = 1, .groups = 2}),
       image},
      {"BatchNorm1d", maker<BatchNorm1d>(4, BatchNormOptions{.momentum = 0.3}), {5, 4}},
      {"BatchNorm1d of sequences", maker<BatchNorm1d>(4), {3, 4, 6}},
      {"BatchNorm2d", maker<BatchNorm2d>(4), image},
      {"BatchNorm2d, averaging", maker<BatchNorm2d>(4, BatchNormOptions{.momentum = {}}), image},
      {"BatchNorm2d, plain",
       maker<BatchNorm2d>(4, BatchNormOptions{.affine = false, .track_running_stats = false}),
       image},
      {"LayerNorm", maker<LayerNorm>(Shape{6, 5}), image},
      {"GroupNorm", maker<GroupNorm>(2, 4), image},
      {"GroupNorm, plain",
       maker<GroupNorm>(4, 4, GroupNormOptions{.eps = 0.01, .affine = false}),
       {3, 4, 7}},
      {"MaxPool2d", maker<MaxPool2d>(3, Pair(2), Pair(1)), image},
      {"AvgPool2d", maker<AvgPool2d>(2), image},
      {"AdaptiveAvgPool2d", maker<AdaptiveAvgPool2d>(Pair{2, 3}), image},
      {"Upsample", maker<Upsample>(InterpolateOptions{.scale_factor = 2}), image},
      {"Upsample, bilinear",
       maker<Upsample>(InterpolateOptions{.size = {9, 4}, .mode = InterpolateMode::bilinear}),
       image},
      {"ReLU", maker<ReLU>(), image},
      {"LeakyReLU", maker<LeakyReLU>(0.2), image},
      {"Sigmoid", maker<Sigmoid>(), image},
      {"Tanh", maker<Tanh>(), image},
      {"SiLU", maker<SiLU>(), image},
      {"GELU", maker<GELU>(), image},
      {"GELU by tanh", maker<GELU>(GeluApproximation::tanh), image},
      {"Softmax", maker<Softmax>(1), image},
      {"LogSoftmax", maker<LogSoftmax>(-1), rows},
      {"Dropout", maker<Dropout>(0.3), image},
      {"Dropout1d", maker<Dropout1d>(0.4), {3, 4, 7}},
      {"Dropout2d", maker<Dropout2d>(0.4), image},
      {"LSTM", maker<LSTM>(4, 3, RNNOptions{.num_layers = 2, .dropout = 0.3}), {5, 2, 4}},
      {"GRU", maker<GRU>(4, 3, RNNOptions{.batch_first = true, .bidirectional = true}), {2, 5, 4}},
      {"LSTMCell", maker<LSTMCell>(4, 3), rows},
      {"GRUCell", maker<GRUCell>(4, 3, RNNCellOptions{.bias = false}), rows},
      {"MultiheadAttention",
       maker<MultiheadAttention>(4, 2, MultiheadAttentionOptions{.dropout = 0.2}),
       {5, 2, 4}},
      {"Sequential",
       [] {
         return std::make_unique<Sequential>(Linear(4, 6), ReLU({.inplace = true}), Dropout(0.2),
                                             Linear(6, 2), Tanh());
       },
       rows},
  };
}

void add_losses(std::vector<Layer>& table) {
  using namespace nn;
  const Shape rows{3, 4};
  const auto labels = [] { return tensor({1, 3, 0}); };
  const auto values = [] { return make_values({3, 4}, kFloat32, {}, 3); };
  const auto shares = [] {
    return tensor({{0.1, 0.9, 1.0, 0.0}, {0.5, 0.2, 0.7, 0.3}, {1., 0., 1., 0.}});
  };
  const auto weight = [] { return tensor({0.5, 1.0, 2.0, 1.5}); };
  table.push_back(
      {"CrossEntropyLoss",
       loss<CrossEntropyLoss>(
           [=] { return CrossEntropyLoss({.weight = weight(), .label_smoothing = 0.1}); }, labels),
       rows});
  table.push_back(
      {"NLLLoss", loss<NLLLoss>([=] { return NLLLoss({.weight = weight()}); }, labels), rows});
  table.push_back(
      {"BCEWithLogitsLoss",
       loss<BCEWithLogitsLoss>([=] { return BCEWithLogitsLoss({.pos_weight = weight()}); }, shares),
       rows});
  table.push_back({"MSELoss", loss<MSELoss>([] { return MSELoss(); }, values), rows});
  table.push_back({"L1Loss", loss<L1Loss>([] { return L1Loss(Reduction::sum); }, values), rows});
  table.push_back({"SmoothL1Loss",
                   loss<SmoothL1Loss>([] { return SmoothL1Loss({.beta = 0.5}); }, values), rows});
}

void add_models(std::vector<Layer>& table) {
  const Shape image{3, 4, 6, 5};
  for (const std::int64_t stride : {1, 2}) {
    table.push_back({.name = "BasicBlock",
                     .make = maker<nn::BasicBlock>(4, 4, stride),
                     .input = image,
                     .is_model = true,
                     .has_kinks = true});
    table.push_back({.name = "Bottleneck",
                     .make = maker<nn::Bottleneck>(4, 3, stride),
                     .input = image,
                     .is_model = true,
                     .has_kinks = true});
  }
  using Options = nn::LeNet5Options;
  table.push_back({.name = "LeNet5",
                   .make = maker<nn::LeNet5>(),
                   .input = {2, 1, 28, 28},
                   .is_model = true,
                   .has_kinks = true});
  table.push_back({.name = "LeNet5 of 1998",
                   .make = maker<nn::LeNet5>(Options{.activation = Options::Activation::tanh,
                                                     .pooling = Options::Pooling::average}),
                   .input = {2, 1, 28, 28},
                   .is_model = true});
  table.push_back({.name = "D2LLeNet",
                   .make = maker<nn::D2LLeNet>(0.1),
                   .input = {1, 1, 28, 28},
                   .is_model = true,
                   .has_kinks = true});
}

}  // namespace

const std::vector<Layer>& layer_table() {
  static const std::vector<Layer> table = [] {
    std::vector<Layer> t = layers();
    add_losses(t);
    add_models(t);
    return t;
  }();
  return table;
}

Tensor make_values(const Shape& shape, DType dtype, const Device& device, int seed) {
  NoGradGuard guard;
  std::vector<double> values;
  for (std::int64_t i = 0; i < shape.numel(); ++i)
    values.push_back(
        4 * std::fmod(0.37 + 0.618033988749895 * static_cast<double>(i + 7 * seed), 1.0) - 2);
  return from_vector(values, shape).to(device, dtype);
}

Tensor make_input(const Layer& layer, DType dtype, const Device& device) {
  if (layer.classes == 0) return make_values(layer.input, dtype, device);
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < layer.input.numel(); ++i) indices.push_back(i * i % layer.classes);
  return from_vector(indices, layer.input).to(device);
}

}  // namespace ferrite::test
