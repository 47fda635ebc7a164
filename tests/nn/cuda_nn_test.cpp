// Every layer, loss and model on cuda:0, emulated or real, compared with the host: outputs,
// gradients and buffers, in training and evaluation, in every floating dtype and both memory
// formats.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>

#include "ferrite/core/generator.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/copy.h"
#include "ferrite/tests/nn/layer_table.h"
#include "ferrite/tests/paths.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/cuda.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

struct Setup {
  DType dtype = kFloat32;
  MemoryFormat format = kContiguous;
  bool training = true;
};

using Named = std::vector<std::pair<std::string, Tensor>>;

/// The floating-point results of two steps of `layer` on `device`.
Named run(const Layer& layer, const Setup& setup, const Device& device) {
  manual_seed(3);
  const std::unique_ptr<nn::Module> module = layer.make();
  module->to(device, setup.dtype).to(setup.format).train(setup.training);
  manual_seed(4);  // only the host's generator drew the weights
  Tensor x = make_input(layer, setup.dtype, device);
  if (x.dim() == 4) x = x.to(setup.format);
  if (layer.classes == 0) x.set_requires_grad();
  Named results;
  for (int step = 0; step < 2; ++step) {
    const Tensor y = (*module)(x);
    results.emplace_back(fmt::format("output {}", step), y.detach());
    if (y.requires_grad()) y.backward(make_values(y.shape(), y.dtype(), device, 5).to(y.dtype()));
  }
  if (layer.classes == 0) results.emplace_back("gradient of the input", x.grad());
  for (const auto& [name, p] : module->named_parameters())
    results.emplace_back("gradient of " + name, p.grad());
  for (const auto& [name, b] : module->named_buffers()) results.emplace_back(name, b);
  synchronize(device);
  return results;
}

/// "" if they agree. Both devices round to the dtype; a model rounds after each of its layers.
std::string compare(const Tensor& actual, const Tensor& expected, bool is_model) {
  if (actual.defined() != expected.defined())
    return actual.defined() ? "is defined" : "is undefined";
  if (!actual.defined()) return "";
  if (actual.dtype() != expected.dtype() || actual.shape() != expected.shape() ||
      actual.strides() != expected.strides())
    return fmt::format("got {} of strides {}, expected {} of strides {}", actual.describe(),
                       actual.strides(), expected.describe(), expected.strides());
  const std::vector<double> values = expected.to_vector<double>();
  // Values within a model, and the gradient that backward starts from, are about 1.
  double largest = is_model ? 1 : 0;
  for (double v : values)
    if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
  const double rounding = rounding_of(expected.dtype()) * (is_model ? 5 : 1);
  return difference(actual, values, 2 * rounding, rounding * largest);
}

void check(const Layer& layer, const Setup& setup) {
  const std::string what = fmt::format(
      "{} of {}, {}, {}", layer.name, setup.dtype, setup.training ? "training" : "evaluating",
      setup.format == kContiguous ? "contiguous" : "channels-last");
  const Named host = run(layer, setup, {}), device = run(layer, setup, "cuda:0");
  REQUIRE(device.size() == host.size());
  for (std::size_t i = 0; i < host.size(); ++i) {
    CHECK(device[i].first == host[i].first);
    const std::string text = compare(device[i].second, host[i].second, layer.is_model);
    CHECK_MESSAGE(text.empty(), what << ", " << host[i].first << ": " << text);
  }
}

void check_all(DType dtype) {
  REQUIRE_CUDA(1);
  for (const Layer& layer : layer_table())
    for (const MemoryFormat format : {kContiguous, kChannelsLast})
      for (const bool training : {true, false}) {
        if (format == kChannelsLast && layer.input.size() != 4) continue;
        if (layer.has_kinks && itemsize(dtype) == 2) continue;
        check(layer, {.dtype = dtype, .format = format, .training = training});
      }
}

}  // namespace

TEST_CASE("every layer on a CUDA device: float32") { check_all(kFloat32); }
TEST_CASE("every layer on a CUDA device: float64") { check_all(kFloat64); }
TEST_CASE("every layer on a CUDA device: float16") { check_all(kFloat16); }
TEST_CASE("every layer on a CUDA device: bfloat16") { check_all(kBFloat16); }

TEST_CASE("the table has every layer, loss and model") {
  namespace fs = std::filesystem;
  const fs::path root(source_dir());
  std::vector<fs::path> headers;
  for (const fs::path& folder : {root / "nn", root / "nn/models"})
    for (const auto& entry : fs::directory_iterator(folder))
      if (entry.path().extension() == ".h") headers.push_back(entry.path());
  // The first four only hold modules or parameters; decoders take two inputs
  // (transformer_test.cpp); cuda_resnet_test.cpp tests the blocks of the residual networks, and
  // models_test.cpp the other whole networks, whose parts are in the table.
  const std::vector<std::string> apart{"ModuleList",
                                       "ModuleDict",
                                       "ParameterList",
                                       "ParameterDict",
                                       "Transformer",
                                       "TransformerDecoder",
                                       "TransformerDecoderLayer",
                                       "FeatureNet",
                                       "ResNet",
                                       "ResNet18",
                                       "ResNet34",
                                       "ResNet50",
                                       "ResNet101",
                                       "ResNet152",
                                       "AlexNet",
                                       "VGG",
                                       "SqueezeNet",
                                       "MobileNetV2",
                                       "EfficientNet"};
  const std::regex layer(R"(\nclass (\w+) : public Cloneable<)");
  int layers = 0;
  for (const fs::path& header : headers) {
    std::ifstream in(header, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    for (std::sregex_iterator it(text.begin(), text.end(), layer), end; it != end; ++it) {
      const std::string name = (*it)[1];
      ++layers;
      const bool there =
          std::ranges::any_of(layer_table(), [&](const Layer& l) { return l.name == name; });
      CHECK_MESSAGE((there || std::ranges::count(apart, name) > 0), header.filename().string()
                                                                        << ": " << name);
    }
  }
  CHECK(layers > 25);
}
