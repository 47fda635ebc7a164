#include "ferrite/tests/nn/layer_table.h"

#include <cmath>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/nn/layers.h"
#include "ferrite/nn/models/classic.h"
#include "ferrite/nn/models/gpt.h"
#include "ferrite/nn/models/lenet.h"
#include "ferrite/nn/models/mobile.h"
#include "ferrite/nn/models/resnet.h"
#include "ferrite/nn/models/vision_transformer.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/softmax.h"

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
      {"Functional",
       [] { return std::make_unique<Functional>([](const Tensor& x) { return x * 2; }); }, image},
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
      {"RMSNorm", maker<RMSNorm>(Shape{6, 5}, RMSNormOptions{.eps = 1e-4}), image},
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
      {"Upsample, linear",
       maker<Upsample>(InterpolateOptions{.size = 11, .mode = InterpolateMode::linear}),
       {3, 4, 7}},
      {"Upsample, bicubic",
       maker<Upsample>(
           InterpolateOptions{.scale_factor = {1.5, 0.7}, .mode = InterpolateMode::bicubic}),
       image},
      {"Upsample, trilinear",
       maker<Upsample>(InterpolateOptions{.scale_factor = 2, .mode = InterpolateMode::trilinear}),
       {2, 3, 2, 3, 4}},
      {"Upsample, area",
       maker<Upsample>(InterpolateOptions{.size = {3, 2}, .mode = InterpolateMode::area}), image},
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
      {"MultiheadAttention, appending",
       maker<MultiheadAttention>(
           4, 2,
           MultiheadAttentionOptions{
               .add_bias_kv = true, .add_zero_attn = true, .batch_first = true}),
       {2, 5, 4}},
      {"TransformerEncoderLayer",
       maker<TransformerEncoderLayer>(4, 2, TransformerLayerOptions{.dim_feedforward = 6}),
       {5, 2, 4}},
      {"TransformerEncoder",
       [] {
         return std::make_unique<TransformerEncoder>(TransformerEncoderLayer(4, 2,
                                                                             {.dim_feedforward = 6,
                                                                              .activation = "gelu",
                                                                              .batch_first = true,
                                                                              .norm_first = true}),
                                                     2, std::make_unique<LayerNorm>(4));
       },
       {2, 5, 4},
       0,
       true},
      {"RNN", maker<RNN>(4, 3, RNNOptions{.bidirectional = true}), {5, 2, 4}},
      {"RNNCell", maker<RNNCell>(4, 3, RNNCellOptions(), Nonlinearity::relu), rows},
      {"Unflatten", maker<Unflatten>(1, Shape{2, 2}), image},
      {"EmbeddingBag", maker<EmbeddingBag>(6, 3), {4, 3}, 6},
      {"PixelShuffle", maker<PixelShuffle>(2), image},
      {"PixelUnshuffle", maker<PixelUnshuffle>(1), image},
      {"ChannelShuffle", maker<ChannelShuffle>(2), image},
      {"Unfold", maker<Unfold>(3, FoldOptions{.padding = 1, .stride = 2}), image},
      {"Fold", maker<Fold>(Pair{5, 4}, 2), {2, 4, 12}},
      {"UpsamplingNearest2d", maker<UpsamplingNearest2d>(InterpolateOptions{.scale_factor = 2}),
       image},
      {"UpsamplingBilinear2d", maker<UpsamplingBilinear2d>(InterpolateOptions{.size = {9, 4}}),
       image},
      {"Sequential",
       [] {
         return std::make_unique<Sequential>(Linear(4, 6), ReLU({.inplace = true}), Dropout(0.2),
                                             Linear(6, 2), Tanh());
       },
       rows},
  };
}

/// Activations that need no options, and those of a few numbers.
void add_activations(std::vector<Layer>& table) {
  using namespace nn;
  const Shape image{2, 4, 6, 5};
  const std::vector<Layer> activations{
      {"ELU", maker<ELU>(0.7), image},
      {"CELU", maker<CELU>(1.3), image},
      {"SELU", maker<SELU>(), image},
      {"Hardtanh", maker<Hardtanh>(), image},
      {"ReLU6", maker<ReLU6>(), image},
      {"Hardshrink", maker<Hardshrink>(), image},
      {"Softshrink", maker<Softshrink>(), image},
      {"Tanhshrink", maker<Tanhshrink>(), image},
      {"Threshold", maker<Threshold>(0.3, 2.5), image},
      {"Softplus", maker<Softplus>(), image},
      {"Softsign", maker<Softsign>(), image},
      {"Hardswish", maker<Hardswish>(), image},
      {"Hardsigmoid", maker<Hardsigmoid>(), image},
      {"Mish", maker<Mish>(), image},
      {"GLU", maker<GLU>(1), image},
      {"LogSigmoid", maker<LogSigmoid>(), image},
      {"Softmin", maker<Softmin>(1), image},
      {"Softmax2d", maker<Softmax2d>(), image},
      {"PReLU", maker<PReLU>(4), image},
      {"RReLU", maker<RReLU>(), image},
      {"Dropout3d", maker<Dropout3d>(0.4), {2, 3, 2, 2, 3}},
      {"AlphaDropout", maker<AlphaDropout>(0.4), image},
      {"FeatureAlphaDropout", maker<FeatureAlphaDropout>(0.4), image},
  };
  table.insert(table.end(), activations.begin(), activations.end());
}

/// Layers that exist in one, two and three dimensions.
void add_dimensions(std::vector<Layer>& table) {
  using namespace nn;
  const Shape line{2, 4, 7}, image{2, 4, 6, 5}, volume{2, 4, 3, 4, 5};
  const std::vector<Layer> layers{
      {"Conv1d", maker<Conv1d>(4, 6, 3, Conv1dOptions{.stride = 2, .padding = 1}), line},
      {"Conv3d", maker<Conv3d>(4, 2, Triple{2, 3, 2}, Conv3dOptions{.padding = 1}), volume},
      {"Conv2d, circular",
       maker<Conv2d>(4, 2, 3, Conv2dOptions{.padding = 1, .padding_mode = PadMode::circular}),
       image},
      {"ConvTranspose1d",
       maker<ConvTranspose1d>(4, 6, 3, ConvTranspose1dOptions{.stride = 2, .groups = 2}), line},
      {"ConvTranspose3d",
       maker<ConvTranspose3d>(4, 2, Triple{2, 1, 2}, ConvTranspose3dOptions{.stride = {2, 1, 1}}),
       volume},
      {"MaxPool1d", maker<MaxPool1d>(3, 2, 1), line},
      {"MaxPool3d", maker<MaxPool3d>(Triple{2, 3, 2}), volume},
      {"AvgPool1d", maker<AvgPool1d>(3), line},
      {"AvgPool3d", maker<AvgPool3d>(Triple{2, 3, 2}), volume},
      {"AdaptiveAvgPool1d", maker<AdaptiveAvgPool1d>(3), line},
      {"AdaptiveAvgPool3d", maker<AdaptiveAvgPool3d>(Triple{2, 3, 4}), volume},
      {"AdaptiveMaxPool1d", maker<AdaptiveMaxPool1d>(3), line},
      {"AdaptiveMaxPool2d", maker<AdaptiveMaxPool2d>(Pair{2, 3}), image},
      {"AdaptiveMaxPool3d", maker<AdaptiveMaxPool3d>(Triple{2, 3, 4}), volume},
      {"LPPool1d", maker<LPPool1d>(2.0, 2), line},
      {"LPPool2d", maker<LPPool2d>(2.0, 2), image},
      {"LPPool3d", maker<LPPool3d>(2.0, 2), volume},
      {"BatchNorm3d", maker<BatchNorm3d>(4), volume},
      {"InstanceNorm1d", maker<InstanceNorm1d>(4), line},
      {"InstanceNorm2d",
       maker<InstanceNorm2d>(4, InstanceNormOptions{.affine = true, .track_running_stats = true}),
       image},
      {"InstanceNorm3d", maker<InstanceNorm3d>(4), volume},
      {"LocalResponseNorm", maker<LocalResponseNorm>(3), image},
      {"ZeroPad1d", maker<ZeroPad1d>(1), line},
      {"ZeroPad2d", maker<ZeroPad2d>(1), image},
      {"ZeroPad3d", maker<ZeroPad3d>(1), volume},
      {"ConstantPad1d", maker<ConstantPad1d>(1, 2.5), line},
      {"ConstantPad2d", maker<ConstantPad2d>(1, 2.5), image},
      {"ConstantPad3d", maker<ConstantPad3d>(1, 2.5), volume},
      {"ReflectionPad1d", maker<ReflectionPad1d>(1), line},
      {"ReflectionPad2d", maker<ReflectionPad2d>(1), image},
      {"ReflectionPad3d", maker<ReflectionPad3d>(1), volume},
      {"ReplicationPad1d", maker<ReplicationPad1d>(1), line},
      {"ReplicationPad2d", maker<ReplicationPad2d>(1), image},
      {"ReplicationPad3d", maker<ReplicationPad3d>(1), volume},
      {"CircularPad1d", maker<CircularPad1d>(1), line},
      {"CircularPad2d", maker<CircularPad2d>(1), image},
      {"CircularPad3d", maker<CircularPad3d>(1), volume},
  };
  table.insert(table.end(), layers.begin(), layers.end());
}

/// A module of two inputs, or of three, as a layer: the others move with it.
template <class M>
class Beside : public nn::Cloneable<Beside<M>> {
 public:
  Beside(M module, Tensor second, Tensor third = {})
      : module_(std::move(module)), second_(std::move(second)), third_(std::move(third)) {
    this->register_module("module", module_);
    this->register_buffer("second", second_);
    this->register_buffer("third", third_);
  }
  Tensor forward(const Tensor& input) override {
    if constexpr (requires(M & m, Tensor t) { m.forward(t, t, t); })
      return module_(input, second_, third_);
    else
      return module_(input, second_);
  }

 private:
  M module_;
  Tensor second_, third_;
};

/// Modules and losses of several inputs.
void add_pairs(std::vector<Layer>& table) {
  using namespace nn;
  const Shape rows{3, 4};
  const auto values = [](int seed) { return make_values({3, 4}, kFloat32, {}, seed); };
  const auto signs = [] {
    return tensor({{1., -1., 1., 1.}, {-1., 1., 1., -1.}, {1., 1., -1., 1.}});
  };
  const auto add = [&]<class M>(
                       const char* name, std::function<M()> make, std::function<Tensor()> second,
                       std::function<Tensor()> third = [] { return Tensor(); }) {
    table.push_back(
        {name, [=] { return std::make_unique<Beside<M>>(make(), second(), third()); }, rows});
  };
  const auto other = [=] { return values(5); };
  const auto positive = [] {
    return tensor({{0.1, 0.9, 1.0, 0.2}, {0.5, 0.2, 0.7, 0.3}, {1., 0.4, 1., 0.6}});
  };
  const auto labels = [] { return tensor({{3, 0, -1, 1}, {-1, 0, 0, 0}, {2, 1, 0, 3}}); };
  const auto classes = [] { return tensor({1, 3, 0}); };
  add("Bilinear", std::function([] { return Bilinear(4, 4, 2); }), other);
  add("CosineSimilarity", std::function([] { return CosineSimilarity(); }), other);
  add("PairwiseDistance", std::function([] { return PairwiseDistance(); }), other);
  add("HuberLoss", std::function([] { return HuberLoss({.delta = 0.5}); }), other);
  add("KLDivLoss", std::function([] { return KLDivLoss(); }), positive);
  add("PoissonNLLLoss", std::function([] { return PoissonNLLLoss(); }), positive);
  add("HingeEmbeddingLoss", std::function([] { return HingeEmbeddingLoss(); }), signs);
  add("SoftMarginLoss", std::function([] { return SoftMarginLoss(); }), signs);
  add("MultiMarginLoss", std::function([] { return MultiMarginLoss(); }), classes);
  add("MultiLabelMarginLoss", std::function([] { return MultiLabelMarginLoss(); }), labels);
  add("MultiLabelSoftMarginLoss", std::function([] { return MultiLabelSoftMarginLoss(); }),
      positive);
  add("GaussianNLLLoss", std::function([] { return GaussianNLLLoss(); }), other, positive);
  add("MarginRankingLoss", std::function([] { return MarginRankingLoss(); }), other, signs);
  add("CosineEmbeddingLoss", std::function([] { return CosineEmbeddingLoss(); }), other, [] {
    return tensor({1., -1., 1.});
  });
  add("TripletMarginLoss", std::function([] { return TripletMarginLoss(); }), other,
      [=] { return values(9); });
  add("TripletMarginWithDistanceLoss",
      std::function([] { return TripletMarginWithDistanceLoss(); }), other,
      [=] { return values(9); });
}

/// Losses of probabilities, the sigmoids of what comes in.
class OfSigmoid : public nn::Cloneable<OfSigmoid> {
 public:
  OfSigmoid() { register_module("loss", loss_), register_buffer("target", target_); }
  Tensor forward(const Tensor& input) override {
    return loss_(sigmoid(input), target_.to(input.dtype()));
  }

 private:
  nn::BCELoss loss_;
  Tensor target_ = tensor({{0.1, 0.9, 1.0, 0.0}, {0.5, 0.2, 0.7, 0.3}, {1., 0., 1., 0.}});
};

/// Of log probabilities of 3 steps of one sequence.
class OfSteps : public nn::Cloneable<OfSteps> {
 public:
  OfSteps() { register_module("loss", loss_), register_buffer("target", target_); }
  Tensor forward(const Tensor& input) override {
    return loss_(log_softmax(input, 1).unsqueeze(1), target_,
                 full_like(target_.select(0, 0), 3).slice(0, 0, 1),
                 full_like(target_.select(0, 0), 2).slice(0, 0, 1));
  }

 private:
  nn::CTCLoss loss_;
  Tensor target_ = tensor({{1, 2}});
};

/// The loss of 6 classes, of which the head has two.
class OfClasses : public nn::Cloneable<OfClasses> {
 public:
  OfClasses() { register_module("loss", loss_), register_buffer("target", target_); }
  Tensor forward(const Tensor& input) override { return loss_(input, target_).loss; }

 private:
  nn::AdaptiveLogSoftmaxWithLoss loss_{8, 6, {2, 4}, {.div_value = 2}};
  Tensor target_ = tensor({5, 0, 3});
};

/// The pooled elements, where they came from.
template <class Pool, class Unpool>
class BackFrom : public nn::Cloneable<BackFrom<Pool, Unpool>> {
 public:
  BackFrom() { this->register_module("unpool", unpool_); }
  Tensor forward(const Tensor& input) override {
    const auto [pooled, indices] = Pool(2).forward_with_indices(input);
    return unpool_(pooled, indices);
  }

 private:
  Unpool unpool_{2};
};

void add_composed(std::vector<Layer>& table) {
  using namespace nn;
  table.push_back({"BCELoss", maker<OfSigmoid>(), {3, 4}});
  table.push_back({"CTCLoss", maker<OfSteps>(), {3, 4}});
  table.push_back({"AdaptiveLogSoftmaxWithLoss", maker<OfClasses>(), {3, 8}});
  table.push_back({"FractionalMaxPool2d",
                   maker<FractionalMaxPool2d>(
                       2, FractionalMaxPool2dOptions{.output_size = {3, 2},
                                                     .random_samples = full({2, 3, 2}, 0.3)}),
                   {2, 3, 7, 5}});
  table.push_back({"FractionalMaxPool3d",
                   maker<FractionalMaxPool3d>(
                       2, FractionalMaxPool3dOptions{.output_size = {3, 2, 2},
                                                     .random_samples = full({2, 3, 3}, 0.3)}),
                   {2, 3, 5, 5, 4}});
  table.push_back({"MaxUnpool1d", maker<BackFrom<MaxPool1d, MaxUnpool1d>>(), {2, 4, 6}});
  table.push_back({"MaxUnpool2d", maker<BackFrom<MaxPool2d, MaxUnpool2d>>(), {2, 3, 4, 6}});
  table.push_back({"MaxUnpool3d", maker<BackFrom<MaxPool3d, MaxUnpool3d>>(), {2, 3, 2, 4, 6}});
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
  table.push_back({.name = "Fire",
                   .make = maker<nn::Fire>(4, 3, 5),
                   .input = image,
                   .is_model = true,
                   .has_kinks = true});
  table.push_back({.name = "SqueezeExcitation",
                   .make = maker<nn::SqueezeExcitation>(4, 2),
                   .input = image,
                   .is_model = true});
  table.push_back({"StochasticDepth", maker<nn::StochasticDepth>(0.4), image});
  const nn::GPTOptions gpt{
      .vocab_size = 6, .context_length = 3, .num_layers = 1, .num_heads = 2, .hidden_dim = 4};
  table.push_back({.name = "GPT",
                   .make = maker<nn::GPT>(gpt),
                   .input = {2, 3},
                   .classes = 6,
                   .is_model = true});
  const nn::VisionTransformerOptions vit{.classes = 3,
                                         .image_size = 4,
                                         .patch_size = 2,
                                         .num_layers = 1,
                                         .num_heads = 2,
                                         .hidden_dim = 4,
                                         .mlp_dim = 6};
  table.push_back({.name = "VisionTransformer",
                   .make = maker<nn::VisionTransformer>(vit),
                   .input = {2, 3, 4, 4},
                   .is_model = true});
  table.push_back({.name = "VisionEncoder",
                   .make = maker<nn::VisionEncoder>(vit),
                   .input = {2, 5, 4},
                   .is_model = true});
  table.push_back({.name = "EncoderBlock",
                   .make = maker<nn::EncoderBlock>(vit),
                   .input = {2, 5, 4},
                   .is_model = true});
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
    add_activations(t);
    add_dimensions(t);
    add_pairs(t);
    add_composed(t);
    add_losses(t);
    add_models(t);
    add_layer_options(t);
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
