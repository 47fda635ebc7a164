// What save() refuses, what it leaves behind, and what load() makes of damaged files.
#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <sstream>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/device.h"
#include "ferrite/core/generator.h"
#include "ferrite/data/inspect/command.h"
#include "ferrite/data/inspect/contents.h"
#include "ferrite/data/onnx/onnx_tensors.h"
#include "ferrite/nn/layers.h"
#include "ferrite/nn/onnx/onnx.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/norm.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/unary.h"
#include "ferrite/tests/data/files.h"
#include "ferrite/tests/support/message.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

/// A network made of a function.
class Function : public nn::Cloneable<Function> {
 public:
  explicit Function(std::function<Tensor(const Tensor&)> f) : f_(std::move(f)) {}
  Tensor forward(const Tensor& x) override { return f_(x); }

 private:
  std::function<Tensor(const Tensor&)> f_;
};

class Net : public nn::Cloneable<Net> {
 public:
  Net() {
    register_module("conv", conv);
    register_module("bn", bn);
    register_module("dropout", dropout);
    register_module("fc", fc);
  }
  Tensor forward(const Tensor& x) override { return fc(dropout(relu(bn(conv(x)))).mean({2, 3})); }

  nn::Conv2d conv{2, 4, 3};
  nn::BatchNorm2d bn{4};
  nn::Dropout dropout{0.5};
  nn::Linear fc{4, 3};
};

std::string saved(const TempDir& dir, const onnx::SaveOptions& options = {}) {
  manual_seed(5);
  Net net;
  onnx::save(net, randn({2, 2, 5, 5}), dir / "net.onnx", options);
  return read_file(dir / "net.onnx");
}

std::string load_error(const std::filesystem::path& path) {
  return message_of<Error>([&] { onnx::load(path); });
}

void replace(std::string& text, std::string_view old, std::string_view other) {
  REQUIRE(old.size() == other.size());
  const auto at = text.find(old);
  REQUIRE(at != std::string::npos);
  text.replace(at, old.size(), other);
}

}  // namespace

TEST_CASE("networks whose computation is not in their ops are refused, and leave no file") {
  const TempDir dir;
  const auto error = [&](std::function<Tensor(const Tensor&)> f, bool dynamic = false) {
    Function net(std::move(f));
    const std::string message = message_of<ValueError>([&] {
      onnx::save(net, randn({2, 3}), dir / "net.onnx", {.dynamic_batch = dynamic});
    });
    CHECK(dir.count() == 0);
    return message;
  };
  CHECK(
      contains(error([](const Tensor& x) { return x * x.sum().item<double>(); }),
               "item() in the network itself cannot be exported: it reads values that depend on"));
  CHECK(contains(
      error([calls = 0](const Tensor& x) mutable { return ++calls % 2 == 1 ? relu(x) : tanh(x); }),
      "op 0 is relu in the network itself for the example, and tanh"));
  CHECK(contains(error([](const Tensor& x) {
                   const Tensor half = x.narrow(1, 0, 1);
                   half.mul_(2);
                   return x + 1;
                 }),
                 "changed in place"));
  CHECK(contains(error([](const Tensor& x) { return x / static_cast<double>(x.size(0)); }, true),
                 "div in the network itself cannot be exported: its scalar depends"));
  CHECK(contains(error([](const Tensor& x) { return x + randn({3}); }), "depends on the input"));
  CHECK(contains(error(
                     [](const Tensor& x) {
                       return x.reshape({2, 3});
                     },
                     true),
                 "does not run with a batch of 3"));
  CHECK(contains(error([calls = 0](const Tensor& x) mutable {
                   return ++calls % 2 == 1 ? clamp_min(x, -1) : clamp_max(x, 1);
                 }),
                 "op 0 is clamp(min) in the network itself for the example, and clamp(max)"));
  // What is the same for all inputs that are tried is not the same for all.
  CHECK(contains(error([](const Tensor& x) { return where(count_nonzero(x > 100) > 0, x, x * 2); }),
                 "count_nonzero in the network itself cannot be exported"));
  CHECK(contains(error([](const Tensor& x) { return trunc(x * 1e-3) + x; }),
                 "trunc in the network itself cannot be exported"));
  CHECK(contains(error([](const Tensor& x) { return floor_divide(x, 1000) + x; }),
                 "floor_divide in the network itself cannot be exported"));
  CHECK(contains(error([](const Tensor& x) {
                   return cat({x, x + 100}, 1).argsort(1).slice(1, 3).to(kFloat32) + x;
                 }),
                 "argsort in the network itself cannot be exported"));
  CHECK(contains(error([](const Tensor& x) {
                   return local_response_norm(x.reshape({1, 3, 2}), 2).reshape({2, 3});
                 }),
                 "its size is 2, and a window of an even size"));
  CHECK(
      contains(error([](const Tensor& x) { return from_vector<float>(x.to_vector<float>(), {6}); }),
               "to_vector() in the network itself cannot be exported: it reads values"));

  Function plain([](const Tensor& x) { return x; });
  const auto refused = [&](const onnx::SaveOptions& options) {
    return message_of<ValueError>([&] {
      onnx::save(plain, ones({2, 3}), dir / "net.onnx", options);
    });
  };
  CHECK(contains(refused({.opset = 9}), "expected an opset from 17 to 20, got 9"));
  CHECK(contains(refused({.input_names = {"a", "b"}}), "2 input_names for 1 inputs"));
  CHECK(contains(refused({.input_names = {"x"}, .output_names = {"x"}}), "given twice"));
  CHECK(contains(refused({.dynamic_batch = true, .batch_dims = {2}}), "no dimension 2"));
  CHECK(dir.count() == 0);
}

TEST_CASE("modes are restored, also after an error, and names are those of the module") {
  const TempDir dir;
  Net net;
  net.bn.eval();
  onnx::save(net, randn({2, 2, 5, 5}), dir / "net.onnx");
  CHECK((net.is_training() && net.conv.is_training() && !net.bn.is_training()));
  CHECK_THROWS_AS(onnx::save(net, randn({2, 3, 5, 5}), dir / "net.onnx"), ShapeError);
  CHECK((net.is_training() && !net.bn.is_training()));

  const auto loaded = onnx::load(dir / "net.onnx");
  for (const auto& [name, tensor] : net.named_parameters()) {
    CAPTURE(name);
    CHECK(loaded->get_parameter(name).requires_grad());
    CHECK(loaded->get_parameter(name).to_vector<float>() == tensor.to_vector<float>());
  }
  CHECK(loaded->parameters().size() == net.parameters().size());
  CHECK(loaded->get_buffer("bn.running_mean").numel() == 4);

  // Gradients are those of the network in the same mode.
  net.eval();
  const Tensor x = randn({3, 2, 5, 5});
  onnx::save(net, x, dir / "net.onnx", {.dynamic_batch = true});
  const auto trained = onnx::load(dir / "net.onnx");
  (net(x) * net(x)).sum().backward();
  ((*trained)(x) * (*trained)(x)).sum().backward();
  for (const auto& [name, tensor] : net.named_parameters()) {
    CAPTURE(name);
    CHECK(allclose(trained->get_parameter(name).grad(), tensor.grad(), 1e-4, 1e-5));
  }
  CHECK(contains(message_of<ShapeError>([&] {
                   (*trained)(randn({3, 2, 6, 5}));
                 }),
                 "input 'input': expected [*, 2, 5, 5], got"));
  CHECK(contains(message_of<DTypeError>([&] {
                   (*trained)(ones({3, 2, 5, 5}, kInt64));
                 }),
                 "input 'input': expected float32"));
}

TEST_CASE("names of parameters are taken first") {
  class Named : public nn::Cloneable<Named> {
   public:
    Named() {
      for (const char* name : {"input", "sizes", "output", "constant"})
        add_parameter(name, randn({3}));
    }
    Tensor forward(const Tensor& x) override {
      const Tensor wide = x.reshape({3, 1}) + get_parameter("sizes");
      return wide.sum({0}) * get_parameter("input") + get_parameter("output") * x -
             get_parameter("constant");
    }
  };
  const TempDir dir;
  Named net;
  const Tensor x = randn({3});
  onnx::save(net, x, dir / "net.onnx");
  const auto loaded = onnx::load(dir / "net.onnx");
  for (const auto& [name, tensor] : net.named_parameters()) {
    CAPTURE(name);
    CHECK(equal(loaded->get_parameter(name), tensor));
  }
  CHECK(loaded->input_names() == std::vector<std::string>{"input_1"});
  CHECK(loaded->output_names() == std::vector<std::string>{"output_1"});
  CHECK(allclose((*loaded)(x), net(x)));
  CHECK(contains(message_of<ValueError>(
                     [&] { onnx::save(net, x, dir / "net.onnx", {.input_names = {"sizes"}}); }),
                 "the name 'sizes' of an input or output is empty, given twice or that of a"));
}

TEST_CASE("networks are written whatever the thread's default device is") {
  const TempDir dir;
  manual_seed(5);
  Net net;
  net.eval();
  nn::LocalResponseNorm lrn(3);
  nn::AdaptiveAvgPool2d pool(3);
  nn::LayerNorm plain({5, 5}, {.elementwise_affine = false});
  const Tensor x = randn({2, 2, 5, 5});
  const DefaultDeviceScope scope("cpu:1");
  for (nn::Module* const module : std::initializer_list<nn::Module*>{&net, &lrn, &pool, &plain}) {
    CAPTURE(module->name());
    const auto forward = [&](const std::vector<Tensor>& in) {
      return std::vector{(*module)(in[0])};
    };
    onnx::save(*module, forward, {x}, dir / "net.onnx", {.dynamic_batch = true});
    CHECK(allclose((*onnx::load(dir / "net.onnx"))(x), (*module)(x), 1e-4, 1e-5));
  }
}

TEST_CASE("a batch norm that does not see the channels of the convolution is not folded") {
  class Unbatched : public nn::Cloneable<Unbatched> {
   public:
    Unbatched() {
      register_module("conv", conv);
      register_module("bn", bn);
      const NoGradGuard no_grad;
      bn.running_mean.copy_(randn({4}));
      bn.running_var.copy_(rand({4}) + 0.5);
    }
    Tensor forward(const Tensor& x) override { return bn(conv(x)); }
    nn::Conv2d conv{2, 4, 3};
    nn::BatchNorm1d bn{4};  // of the rows: the input has no batch
  };
  const TempDir dir;
  Unbatched net;
  const Tensor x = randn({2, 6, 6});
  onnx::save(net, x, dir / "net.onnx", {.fold_batch_norm = true});
  net.eval();
  CHECK(allclose((*onnx::load(dir / "net.onnx"))(x), net(x), 1e-4, 1e-5));
}

TEST_CASE("batch norms are folded into convolutions where asked") {
  const TempDir dir;
  saved(dir);
  const auto nodes = [&] {
    for (const auto& [name, text] : data::read_onnx_contents(dir / "net.onnx").facts)
      if (name == "nodes") return std::stoi(text);
    return -1;
  };
  const int all = nodes();
  saved(dir, {.fold_batch_norm = true});
  CHECK(nodes() == all - 1);
  CHECK(onnx::load(dir / "net.onnx")->parameters().size() == 4);
}

TEST_CASE("weights beside the file are found in its folder alone") {
  const TempDir dir;
  nn::Linear net(40, 30);
  const Tensor x = randn({2, 40});
  onnx::save(net, x, dir / "net.onnx", {.external_data = true});
  CHECK(std::filesystem::file_size(dir / "net.onnx.data") == 40 * 30 * 4);
  const NoGradGuard no_grad;
  CHECK(equal((*onnx::load(dir / "net.onnx"))(x), net(x)));

  std::string text = read_file(dir / "net.onnx");
  const std::string whole = read_file(dir / "net.onnx.data");
  write_file(dir / "net.onnx.data", whole.substr(1));
  CHECK(contains(load_error(dir / "net.onnx"),
                 "'net.onnx.data' at byte 4799: the data of tensor 'weight'"));
  std::filesystem::remove(dir / "net.onnx.data");
  CHECK(contains(load_error(dir / "net.onnx"), "net.onnx.data"));
  for (const char* outside : {"../net.ox.dta", "/tmp/net.data", "a/../../x.da"}) {
    std::string moved = text;
    std::string name = outside;
    name.resize(13, 'a');
    replace(moved, "net.onnx.data", name);
    write_file(dir / "moved.onnx", moved);
    CHECK(contains(load_error(dir / "moved.onnx"), "which is not a file in the model's folder"));
  }
  // A link that leaves the folder.
  const TempDir other;
  write_file(other / "secret", whole);
  std::filesystem::create_symlink(other / "secret", dir / "net.onnx.data");
  CHECK(contains(load_error(dir / "net.onnx"), "which is not a file in the model's folder"));
}

TEST_CASE("damaged files are typed errors") {
  const TempDir dir;
  const std::string good = saved(dir);
  const auto error = [&](const std::string& bytes) {
    write_file(dir / "bad.onnx", bytes);
    return load_error(dir / "bad.onnx");
  };
  CHECK(contains(error(""), "no ONNX model"));
  CHECK(contains(error("PK\3\4 not a model"), "no ONNX model, or the file is damaged"));
  for (std::size_t length = 1; length < good.size(); length += 41) {
    CAPTURE(length);
    CHECK(error(good.substr(0, length)).starts_with("[onnx::load] '"));
  }
  std::string changed = good;
  replace(changed,
          "\x22\x12"
          "BatchNormalization",
          "\x22\x12"
          "BatchNormalizatioX");
  CHECK(contains(error(changed),
                 "node '/bn/BatchNormalization' is of type BatchNormalizatioX, which is not read"));
  changed = good;
  replace(changed, "epsilon", "epsiloX");
  CHECK(contains(error(changed), "attribute epsiloX is not read"));
  // A node that reads its own result, or what comes later, is a cycle.
  changed = good;
  const std::string relu_output = "Relu_output_0", conv_output = "Conv_output_0";
  replace(changed, conv_output, relu_output);
  CHECK(contains(error(changed), "defines"));
  // The shape of a weight says more than there is.
  changed = good;
  const auto bias = changed.rfind("fc.bias");
  REQUIRE(bias != std::string::npos);
  const std::string dims("\x08\x03", 2);
  const auto at = changed.rfind(dims, bias);
  REQUIRE(at != std::string::npos);
  changed[at + 1] = 0x7f;
  CHECK(contains(error(changed),
                 "tensor 'fc.bias': float32 [127] has 12 bytes of data instead of 508"));
}

TEST_CASE("ferrite-inspect reads what is in a file") {
  const TempDir dir;
  saved(dir);
  const auto contents = inspect::read_contents(dir / "net.onnx");
  CHECK(inspect::name(contents.format) == "onnx");
  CHECK(contents.tensors.at("conv.weight").shape() == Shape{4, 2, 3, 3});
  CHECK(contents.metadata.at("input.input") == "FLOAT[2, 2, 5, 5]");
  CHECK(contents.metadata.at("opset.ai.onnx") == "17");
  std::ostringstream out, err;
  CHECK(inspect::run({(dir / "net.onnx").string(), "--json"}, out, err) == 0);
  CHECK(contains(out.str(), "\"name\": \"fc.weight\""));

  // The weights go into every other format, and come back the same; a network cannot be made of
  // them.
  for (const char* name : {"net.safetensors", "net.pth", "net.npz"}) {
    CAPTURE(std::string(name));
    const std::string from = (dir / "net.onnx").string(), to = (dir / name).string();
    CHECK(inspect::run({from, "--convert", to}, out, err) == 0);
    CHECK(inspect::run({to, "--diff", from}, out, err) == 0);
    CHECK(inspect::run({to, "--convert", (dir / "other.onnx").string()}, out, err) == 1);
  }
  CHECK(contains(err.str(), "onnx::save writes one"));
}
