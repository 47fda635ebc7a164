// Every layer and model that can be exported: its file read back here, and, where there is a Python
// with onnxruntime, checked by ONNX and run by it; with the example's batch size, and with others.
#include <doctest/doctest.h>

#include <cstdlib>
#include <map>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/generator.h"
#include "ferrite/data/npy.h"
#include "ferrite/nn/layers.h"
#include "ferrite/nn/models/registry.h"
#include "ferrite/nn/onnx/onnx.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/norm.h"
#include "ferrite/ops/rearrange.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/softmax.h"
#include "ferrite/ops/unary.h"
#include "ferrite/tests/data/files.h"
#include "ferrite/tests/nn/layer_table.h"
#include "ferrite/tests/paths.h"
#include "ferrite/tests/support/message.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

/// A Python that has onnxruntime, or "" with the reason.
std::string onnx_python() {
  const std::filesystem::path root = std::filesystem::path(bin_dir()).parent_path();
  for (const std::string& python :
       {(root / "onnx/bin/python").string(), (root.parent_path() / "onnx/bin/python").string(),
        std::string("python3")})
    if (std::system((python + " -c 'import onnx, onnxruntime' 2>/dev/null").c_str()) == 0)
      return python;
  MESSAGE("onnxruntime: skipped, as no python3 has it (scripts/install_python.sh onnx)");
  return "";
}

/// Exported networks, with what they computed here.
class Cases {
 public:
  /// Exports, and reads back. `inputs` are those of the runs, the example first.
  void add(const std::string& name, nn::Module& model, const onnx::detail::Forward& forward,
           const std::vector<std::vector<Tensor>>& inputs, const onnx::SaveOptions& options) {
    CAPTURE(name);
    const std::string stem = fmt::format("case{:03}", count_++);
    const auto path = dir_ / (stem + ".onnx");
    onnx::save(model, forward, inputs[0], path, options);
    names_[stem] = name;
    model.eval();
    const NoGradGuard no_grad;
    const auto network = onnx::load(path);
    for (std::size_t run = 0; run < inputs.size(); ++run) {
      const std::vector<Tensor> expected = forward(inputs[run]);
      const std::vector<Tensor> got = network->run(inputs[run]);
      REQUIRE(got.size() == expected.size());
      for (std::size_t i = 0; i < got.size(); ++i) {
        CHECK(got[i].dtype() == expected[i].dtype());
        REQUIRE(got[i].shape() == expected[i].shape());
        CHECK(close(got[i], expected[i]));
        data::save_npy(expected[i].contiguous(),
                       dir_ / fmt::format("{}.{}.out.{}.npy", stem, run, i));
      }
      for (std::size_t i = 0; i < inputs[run].size(); ++i)
        data::save_npy(inputs[run][i].contiguous(),
                       dir_ / fmt::format("{}.{}.in.{}.npy", stem, run, i));
    }
  }

  void add(const std::string& name, nn::Module& model, const std::vector<Tensor>& runs,
           const onnx::SaveOptions& options = {}) {
    std::vector<std::vector<Tensor>> inputs;
    for (const Tensor& t : runs) inputs.push_back({t});
    add(
        name, model, [&](const std::vector<Tensor>& in) { return std::vector{model(in[0])}; },
        inputs, options);
  }

  ~Cases() {
    const std::string python = onnx_python();
    if (python.empty()) return;
    const std::string out = (dir_ / "out").string();
    const int status = std::system((python + " " + source_dir() + "/tests/onnx/run_models.py " +
                                    dir_.path().string() + " >" + out + " 2>&1")
                                       .c_str());
    std::string text = read_file(out);
    for (const auto& [stem, name] : names_)
      if (const auto at = text.find(stem + ":"); at != std::string::npos)
        text.replace(at, stem.size(), name);
    CHECK_MESSAGE(status == 0, text);
  }

 private:
  static bool close(const Tensor& a, const Tensor& b) {
    if (a.numel() == 0) return true;
    if (!is_floating(a.dtype())) return equal(a, b);
    const double most = std::max(1.0, amax(abs(b)).item<double>());
    return allclose(a, b, 0, 1e-5 * most, true);
  }

  TempDir dir_;
  int count_ = 0;
  std::map<std::string, std::string> names_;
};

/// Running statistics and factors as after a training.
void disturb(nn::Module& model) {
  const NoGradGuard no_grad;
  Generator random(3);
  for (nn::BatchNorm* const bn : model.modules<nn::BatchNorm>()) {
    if (!bn->running_mean.defined()) continue;
    bn->running_mean.copy_(randn(bn->running_mean.shape(), {}, &random) * 0.2);
    bn->running_var.copy_(rand(bn->running_var.shape(), {}, &random) + 0.5);
    if (!bn->weight.defined()) continue;
    bn->weight.copy_(rand(bn->weight.shape(), {}, &random) + 0.5);
    if (bn->bias.defined()) bn->bias.copy_(randn(bn->bias.shape(), {}, &random) * 0.1);
  }
}

/// What cannot be exported, and what the error says.
const std::map<std::string, std::string>& refused() {
  static const std::map<std::string, std::string> all{
      {"BatchNorm2d, plain",
       "batch_norm in the network itself cannot be exported: it computes with"},
      {"EmbeddingBag", "embedding_bag in the network itself cannot be exported"},
      {"Unfold", "unfold in the network itself cannot be exported"},
      {"Fold", "index_add in the network itself cannot be exported"},
      {"AdaptiveMaxPool1d", "its windows differ in size"},
      {"AdaptiveMaxPool2d", "its windows differ in size"},
      {"AdaptiveMaxPool3d", "its windows differ in size"},
      {"LPPool1d", "lp_pool1d in the network itself cannot be exported"},
      {"LPPool2d", "lp_pool2d in the network itself cannot be exported"},
      {"LPPool3d", "lp_pool3d in the network itself cannot be exported"},
      {"LSTM, projected", "its hidden states are projected (proj_size)"},
      {"CTCLoss", "in 'loss' cannot be exported"},
      {"AdaptiveLogSoftmaxWithLoss", "in 'loss' cannot be exported"},
      {"FractionalMaxPool2d", "random_samples: expected [3, 3, 2]"},
      {"FractionalMaxPool3d", "random_samples: expected [3, 3, 3]"},
      {"MaxUnpool1d", "in 'unpool' cannot be exported"},
      {"MaxUnpool2d", "in 'unpool' cannot be exported"},
      {"MaxUnpool3d", "in 'unpool' cannot be exported"},
      {"CrossEntropyLoss", "cross_entropy in 'loss' cannot be exported"},
      {"NLLLoss", "nll_loss in 'loss' cannot be exported"},
  };
  return all;
}

/// Layers with a batch of their own: targets of losses, or a first dimension that is none.
bool has_fixed_batch(const Layer& layer) {
  for (const char* part : {"Loss", "LSTM", "GRU", "RNN", "Attention", "Transformer", "Bilinear",
                           "CosineSimilarity", "PairwiseDistance", "unbatched", "Unflatten"})
    if (layer.name.find(part) != std::string::npos) return true;
  return false;
}

Layer with_batch(Layer layer, std::int64_t batch) {
  layer.input[0] = batch;
  return layer;
}

}  // namespace

TEST_CASE("every layer is exported, or refused by name") {
  Cases cases;
  for (const Layer& layer : layer_table()) {
    CAPTURE(layer.name);
    manual_seed(1);
    const auto model = layer.make();
    disturb(*model);
    const auto input = [&](std::int64_t batch) {
      return make_input(with_batch(layer, batch), kFloat32, Device());
    };
    const auto known = refused().find(layer.name);
    try {
      if (has_fixed_batch(layer))
        cases.add(layer.name, *model, {input(layer.input[0])});
      else
        cases.add(layer.name, *model, {input(layer.input[0]), input(1), input(7)},
                  {.dynamic_batch = true});
      CHECK(known == refused().end());
    } catch (const Error& error) {
      CHECK_MESSAGE(known != refused().end(), std::string(error.what()));
      if (known != refused().end()) CHECK(contains(error.what(), known->second));
    }
  }
}

TEST_CASE("image models, of any batch size") {
  Cases cases;
  for (const std::string name :
       {"resnet18", "resnet50", "resnext50_32x4d", "wide_resnet50_2", "alexnet", "vgg11",
        "vgg11_bn", "squeezenet1_1", "mobilenet_v2", "efficientnet_b0", "vit_b_16"}) {
    manual_seed(2);
    const std::int64_t size = name == "alexnet" ? 80 : 48;
    const auto model = nn::make_image_model(
        name,
        {.classes = 5, .image_size = size, .small_images = name == "vit_b_16", .width = 0.125});
    disturb(*model);
    const auto images = [&](std::int64_t n) { return randn({n, 3, size, size}); };
    for (const bool fold : {false, true}) {
      if (fold && name != "resnet18" && name != "mobilenet_v2" && name != "vgg11_bn") continue;
      cases.add(name, *model, {images(2), images(1), images(3)},
                {.dynamic_batch = true, .fold_batch_norm = fold});
    }
  }
}

namespace {

/// A network of several inputs and outputs, with layers that the table has for one batch size
/// alone.
class Translator : public nn::Cloneable<Translator> {
 public:
  Translator() {
    register_module("words", words_);
    register_module("lstm", lstm_);
    register_module("gru", gru_);
    register_module("rnn", rnn_);
    register_module("transformer", transformer_);
    register_module("attention", attention_);
  }
  using Module::forward;
  std::tuple<Tensor, Tensor, Tensor> forward(const Tensor& source, const Tensor& target,
                                             const Tensor& state) {
    const Tensor x = words_(source);
    const nn::LSTMOutput encoded = lstm_(x, {state, state});
    const nn::GRUOutput second = gru_(encoded.output);
    const nn::RNNOutput third = rnn_(second.output.transpose(0, 1));
    const auto attended = attention_(third.output.transpose(0, 1), x, x);
    const Tensor out = transformer_(attended.output, target, {});
    return {out, encoded.state.c, attended.weights};
  }

 private:
  nn::Embedding words_{11, 8};
  nn::LSTM lstm_{8, 4, {.num_layers = 2, .batch_first = true, .bidirectional = true}};
  nn::GRU gru_{8, 6, {.batch_first = true}};
  nn::RNN rnn_{6, 8, {}, nn::Nonlinearity::relu};
  nn::MultiheadAttention attention_{8, 2, {.batch_first = true}};
  nn::Transformer transformer_{{.d_model = 8,
                                .nhead = 2,
                                .num_encoder_layers = 1,
                                .num_decoder_layers = 1,
                                .dim_feedforward = 12,
                                .activation = "gelu",
                                .batch_first = true}};
};

/// Ops that no layer of the table uses, with sizes computed from the batch.
class Ops : public nn::Cloneable<Ops> {
 public:
  using Module::forward;
  std::vector<Tensor> forward(const Tensor& x, const Tensor& index) {  // [N, 4, 6], [N, 3]
    const std::int64_t n = x.size(0);
    const Tensor causal = tril(ones({6, 6}, {.dtype = kBool}));
    Tensor y = x.clone();
    y.add_(1).mul_(0.5);
    return {x.view({n * 4, 6}).matmul(x.view({n * 4, 6}).t()).sum({1}),
            x.reshape({n, 2, 2, 6}).permute({2, 0, 3, 1}).flatten(2),
            softmax(x.matmul(x.transpose(1, 2))
                        .masked_fill(causal.slice(0, 0, 4).slice(1, 0, 4) == false, -1e9),
                    -1),
            gather(x.select(1, 2), 1, index),
            cat({x, x.narrow(2, 1, 2), zeros({n, 4, 1})}, -1),
            stack({x.select(2, 0), x.select(2, -1)}, 1),
            where(x > 0, x, x * 0.25) + y,
            ferrite::std(x, {1, 2}, 1, true) / (var(x, -1) + norm(x, 2, {2})).unsqueeze(1),
            x.unsqueeze(1).expand({n, 3, 4, 6}).reshape({3 * n, 24}),
            argmax(x, 2).to(kFloat32) - index.to(kFloat32).mean({1}, true),
            pow(abs(x) + 1, 1.5) - rsqrt(square(x) + 1) + log1p(abs(x)) - expm1(x * 0.1),
            pad(x, {1, 2, 0, 1}, PadMode::constant, 2) * 3 - 1,
            roll(flip(x, {1}), {2}, {2}),
            cumsum(x, 1),
            x.slice(0, 0, n - 0).slice(2, 0, 6, 2),
            clamp(x, -0.5, std::nullopt),
            where(any(x > 1.5, 2, true), x, x * 2),
            where(all(x > -1), x, all(x, 1, true).to(kFloat32)),
            maximum(x, 1 - x),
            x.split(std::vector<std::int64_t>{1, 5}, 2)[1],
            rms_norm(x, {6}),
            one_hot(index, 6),
            x % 0.7 + remainder(x, -0.3) + fmod(x, 0.7),
            index % -4 + fmod(index, 4),
            nonzero(x > 0),
            masked_select(x, x > 0.5),
            x.index({x.select(2, 0) > 0}),
            where(x.detach() > 0, x, 0),
            max(x, 1).values,
            min(x, -1, true).indices,
            logsumexp(x, {0, 2}),
            logsumexp(x, {1}, true),
            where(((x > 0) & (x < 1)) | ~(x > -1), x, 0),
            where((x > 0) ^ true, x, 0)};
  }
};

}  // namespace

TEST_CASE("several inputs and outputs, recurrent layers and attention, of any batch size") {
  manual_seed(3);
  Cases cases;
  Translator model;
  const auto inputs = [&](std::int64_t n) {
    return std::vector{randint(0, 11, {n, 5}), randn({n, 3, 8}), randn({4, n, 4})};
  };
  for (const int opset : {17, 20})
    cases.add(fmt::format("translator in opset {}", opset), model,
              [&](const std::vector<Tensor>& in) {
                return onnx::detail::tensors_in(model(in[0], in[1], in[2]));
              },
              {inputs(2), inputs(1), inputs(4)},
              {.opset = opset,
               .dynamic_batch = true,
               .batch_dims = {0, 0, 1},
               .input_names = {"source", "target", "state"},
               .output_names = {"out", "cell", "weights"}});
  Ops ops;
  const auto tensors = [&](std::int64_t n) {
    return std::vector{randn({n, 4, 6}), randint(0, 6, {n, 3})};
  };
  for (const int opset : {17, 18, 20})
    cases.add(fmt::format("ops in opset {}", opset), ops,
              [&](const std::vector<Tensor>& in) { return ops(in[0], in[1]); },
              {tensors(2), tensors(1), tensors(5)}, {.opset = opset, .dynamic_batch = true});
}
