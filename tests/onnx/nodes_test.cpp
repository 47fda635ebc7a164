// Models made node by node: what nodes compute, names, memory, and the device of a thread.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/device.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/attention.h"
#include "ferrite/ops/compare.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/rearrange.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/unary.h"
#include "ferrite/tests/onnx/model.h"
#include "ferrite/tests/support/message.h"

namespace ferrite::test {

TEST_CASE("Div of integers is exact, rounds towards zero, and gives 0 for a divisor of 0") {
  const auto divided = [](const Tensor& a, const Tensor& b) {
    Model model;
    model.input("a", a.dtype());
    model.input("b", b.dtype());
    model.node("Div", {"a", "b"}, "y");
    return model.load({"y"})->run({a, b})[0];
  };
  constexpr std::int64_t kBig = (std::int64_t{1} << 53) + 1;
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  using List = std::vector<std::int64_t>;
  CHECK(divided(list<std::int64_t>({kBig, kMost, -kMost, 7, -7, 7, -7, 6, -6, 5, 0}),
                list<std::int64_t>({1, 1, 2, 2, 2, -2, -2, -3, 3, 0, 0}))
            .to_vector<std::int64_t>() ==
        List{kBig, kMost, -(kMost / 2), 3, -3, -3, 3, -2, -2, 0, 0});
  const Tensor small = divided(list<std::int32_t>({-9, 9}), list<std::int32_t>({4, -4}));
  CHECK(small.dtype() == kInt32);
  CHECK(small.to_vector<std::int32_t>() == std::vector<std::int32_t>{-2, -2});
  const Tensor bytes = divided(list<std::uint8_t>({255, 3}), list<std::uint8_t>({2, 4}));
  CHECK(bytes.dtype() == kUInt8);
  CHECK(bytes.to_vector<std::uint8_t>() == std::vector<std::uint8_t>{127, 0});
}

TEST_CASE("Expand and Pad refuse results of more than 2^31 elements") {
  const auto error = [](const char* type, const Tensor& x, const std::vector<Tensor>& inputs) {
    Model model;
    model.input("x", kFloat32);
    std::vector<std::string> names{"x"};
    for (const Tensor& input : inputs) {
      names.push_back(input.defined() ? std::to_string(names.size()) : "");
      if (input.defined()) model.initializer(names.back(), input);
    }
    model.node(type, names, "y");
    const auto network = model.load({"y"});
    return message_of<ValueError>([&] { network->run({x}); });
  };
  using List = std::vector<std::int64_t>;
  constexpr std::int64_t kMany = 1 << 20;
  const Tensor column = ones({kMany, 1}, kFloat32);
  CHECK(contains(error("Expand", column, {list(List{1, kMany})}), "of more than 2^31 elements"));
  CHECK(error("Expand", column, {list(List{1, 2})}) == "no exception");
  const Tensor square = ones({2, 2}, kFloat32);
  CHECK(contains(error("Pad", square, {list(List{kMany, kMany, 0, 0})}), "2^31 elements"));
  // If the axis were padded by the last amount, the sum would not bound the size.
  const Tensor pads = list(List{-kMany, kMany, 0, 0});
  CHECK(contains(error("Pad", square, {pads, Tensor(), list(List{0, -2})}), "axis -2 is repeated"));
}

TEST_CASE("Flatten refuses sizes of 2^63 or more, which empty tensors may have") {
  const auto flat = [](std::int64_t axis) {
    Model model;
    model.input("x", kFloat32);
    set_integer(model.node("Flatten", {"x"}, "y"), "axis", axis);
    const Tensor x = empty({1, 1, 0}, kFloat32).expand({1LL << 32, 1LL << 32, 0});
    return model.load({"y"})->run({x})[0].shape();
  };
  CHECK(flat(1) == Shape{1LL << 32, 0});
  CHECK(flat(3) == Shape{0, 1});
  CHECK(contains(message_of<ValueError>([&] { flat(2); }), "a size of 2^63 or more"));
}

TEST_CASE("Range of integers is exact") {
  const auto range = [](std::int64_t begin, std::int64_t end, std::int64_t step) {
    Model model;
    for (const char* name : {"begin", "end", "step"}) model.input(name, kInt64);
    model.node("Range", {"begin", "end", "step"}, "y");
    const auto number = [](std::int64_t v) { return from_vector<std::int64_t>({v}, {}); };
    const Tensor y = model.load({"y"})->run({number(begin), number(end), number(step)})[0];
    return y.to_vector<std::int64_t>();
  };
  using List = std::vector<std::int64_t>;
  constexpr std::int64_t kBig = std::int64_t{1} << 62;
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min(),
                         kMost = std::numeric_limits<std::int64_t>::max();
  CHECK(range(kBig, kBig + 5, 2) == List{kBig, kBig + 2, kBig + 4});
  CHECK(range(kBig + 5, kBig, -3) == List{kBig + 5, kBig + 2});
  CHECK(range(10, -3, -4) == List{10, 6, 2, -2});
  CHECK(range(kLeast, kMost, kBig) == List{kLeast, -kBig, 0, kBig});
  CHECK(range(kMost, kLeast, kLeast) == List{kMost, -1});
  CHECK(range(kBig, kBig + 1, -1).empty());
  CHECK(range(kBig + 1, kBig, 1).empty());
  CHECK(contains(message_of<ValueError>([&] { range(0, 1, 0); }), "a step of 0"));
  CHECK(contains(message_of<ValueError>([&] { range(kLeast, kMost, 1); }), "2^31 numbers"));
}

TEST_CASE("inputs of another floating type name the input, unless the network was converted") {
  Model model;
  model.input("scores", kFloat32);
  model.initializer("weight", list<float>({2, 3}));
  model.node("Mul", {"scores", "weight"}, "y");
  const auto network = model.load({"y"});
  const Tensor x = ones({2}, kFloat64);
  CHECK(contains(message_of<DTypeError>([&] { network->run({x}); }),
                 "input 'scores': expected float32, got float64[2]"));
  network->to(kFloat64);
  CHECK(network->run({x})[0].dtype() == kFloat64);
}

TEST_CASE("networks are cloned, with what they have learnt and what is frozen") {
  Model model;
  model.input("x", kFloat32);
  model.initializer("part.weight", list<float>({2, 3}));
  model.initializer("bias", list<float>({1, 1}));
  model.node("Mul", {"x", "part.weight"}, "scaled");
  model.node("Add", {"scaled", "bias"}, "y");
  const auto network = model.load({"y"});
  network->get_parameter("bias").requires_grad_(false);
  {
    const NoGradGuard no_grad;
    network->get_parameter("part.weight").fill_(5);
  }
  const auto copy = network->clone();
  CHECK_FALSE(copy->is_training());
  CHECK_FALSE(copy->get_parameter("bias").requires_grad());
  CHECK(copy->get_parameter("part.weight").requires_grad());
  const Tensor x = ones({2}, kFloat32);
  CHECK((*copy)(x).to_vector<float>() == std::vector<float>{6, 6});
  {
    const NoGradGuard no_grad;
    copy->get_parameter("part.weight").fill_(7);
  }
  CHECK((*network)(x).to_vector<float>() == std::vector<float>{6, 6});
  CHECK((*copy)(x).to_vector<float>() == std::vector<float>{8, 8});
}

TEST_CASE("ReduceL1 and ReduceL2 of no axes are absolute values, other reductions change nothing") {
  const Tensor x = from_vector<float>({-1, 2, 3, -4}, {2, 2});
  for (const char* type : {"ReduceL1", "ReduceL2", "ReduceSum", "ReduceMean", "ReduceMax"}) {
    CAPTURE(type);
    Model model;
    model.input("x", kFloat32);
    model.initializer("axes", list<std::int64_t>({}));
    set_integer(model.node(type, {"x", "axes"}, "y"), "noop_with_empty_axes", 1);
    set_integer(model.node(type, {"x"}, "z"), "noop_with_empty_axes", 1);
    const auto results = model.load({"y", "z"})->run({x});
    const bool norm = std::string_view(type).starts_with("ReduceL");
    for (const Tensor& y : results) CHECK(equal(y, norm ? abs(x) : x));
  }
}

TEST_CASE("Sign of NaN is NaN") {
  const auto sign_of = [](const Tensor& x) {
    Model model;
    model.input("x", x.dtype());
    model.node("Sign", {"x"}, "y");
    return model.load({"y"})->run({x})[0];
  };
  const auto y = sign_of(list<float>({std::nanf(""), -0.F, 2, -INFINITY})).to_vector<float>();
  CHECK(std::isnan(y[0]));
  CHECK(y[1] == 0);
  CHECK(y[2] == 1);
  CHECK(y[3] == -1);
  CHECK(equal(sign_of(list<std::int64_t>({-3, 0, 5})), list<std::int64_t>({-1, 0, 1})));
}

TEST_CASE("CumSum keeps the type") {
  Model model;
  model.input("x", kInt32);
  model.initializer("axis", from_vector<std::int64_t>({0}, {}));
  model.node("CumSum", {"x", "axis"}, "y");
  const Tensor y = model.load({"y"})->run({list<std::int32_t>({1, 2, 3})})[0];
  CHECK(y.dtype() == kInt32);
  CHECK(y.to_vector<std::int32_t>() == std::vector<std::int32_t>{1, 3, 6});
}

TEST_CASE("CumSum, exclusive and reverse") {
  const auto sums = [](bool exclusive, bool reverse) {
    Model model;
    model.input("x", kFloat32);
    model.initializer("axis", from_vector<std::int64_t>({0}, {}));
    auto& node = model.node("CumSum", {"x", "axis"}, "y");
    set_integer(node, "exclusive", exclusive ? 1 : 0);
    set_integer(node, "reverse", reverse ? 1 : 0);
    return model.load({"y"})->run({list<float>({1, 2, INFINITY})})[0].to_vector<float>();
  };
  CHECK(sums(true, false) == std::vector<float>{0, 1, 3});
  CHECK(sums(false, true) == std::vector<float>{INFINITY, INFINITY, INFINITY});
  CHECK(sums(true, true) == std::vector<float>{INFINITY, INFINITY, 0});
}

TEST_CASE("NonZero and OneHot") {
  Model model;
  model.input("x", kInt64);
  model.initializer("depth", from_vector<std::int64_t>({3}, {}));
  model.initializer("values", list<float>({-1, 2}));
  set_integer(model.node("OneHot", {"x", "depth", "values"}, "hot"), "axis", 0);
  model.node("NonZero", {"x"}, "at");
  const auto network = model.load({"hot", "at"});
  // Classes beyond the depth have no position, negative ones count from the end.
  const auto results = network->run({from_vector<std::int64_t>({0, 2, -1, 7}, {2, 2})});
  CHECK(results[0].shape() == Shape{3, 2, 2});
  CHECK(results[0].to_vector<float>() ==
        std::vector<float>{2, -1, -1, -1, -1, -1, -1, -1, -1, 2, 2, -1});
  CHECK(results[1].shape() == Shape{2, 3});
  CHECK(results[1].to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 1, 1, 1, 0, 1});
}

TEST_CASE("batch norms and dropout of files exported for training follow train()") {
  Model model;
  model.input("x", kFloat32);
  model.initializer("weight", list<float>({2}));
  model.initializer("bias", list<float>({1}));
  model.initializer("mean", list<float>({0}));
  model.initializer("var", list<float>({1}));
  auto& norm = model.node("BatchNormalization", {"x", "weight", "bias", "mean", "var"}, "y");
  norm.add_output("new_mean");
  norm.add_output("new_var");
  set_integer(norm, "training_mode", 1);
  model.node("Dropout", {"y"}, "z").add_output("mask");
  const auto network = model.load({"y", "z", "mask"});
  const Tensor x = from_vector<float>({1, 3, 5, 7}, {4, 1});
  auto results = network->run({x});
  CHECK(allclose(results[0], x * 2 + 1, 1e-4));
  CHECK(equal(results[1], results[0]));
  CHECK(results[2].dtype() == kBool);
  CHECK(all(results[2]).item<bool>());
  network->train();
  results = network->run({x});
  CHECK(allclose(results[0], (x - 4) / std::sqrt(5.F) * 2 + 1, 1e-4));
  CHECK(equal(results[1], results[0] * 2 * results[2].to(kFloat32)));
  // As in PyTorch, by a tenth towards the batch's mean and unbiased variance.
  CHECK(network->get_buffer("mean").item<float>() == doctest::Approx(0.4));
  CHECK(network->get_buffer("var").item<float>() == doctest::Approx(0.9 + 2. / 3));
}

TEST_CASE("Attention, of heads side by side or apart, and of shared keys") {
  const auto attended = [](const Tensor& q, const Tensor& k, std::int64_t heads,
                           std::int64_t key_heads, const Tensor& mask) {
    Model model;
    for (const char* name : {"q", "k", "v"}) model.input(name, kFloat32);
    std::vector<std::string> inputs{"q", "k", "v"};
    if (mask.defined()) {
      model.initializer("mask", mask);
      inputs.push_back("mask");
    }
    auto& node = model.node("Attention", inputs, "y");
    if (heads > 0) {
      set_integer(node, "q_num_heads", heads);
      set_integer(node, "kv_num_heads", key_heads);
    }
    if (!mask.defined()) set_integer(node, "is_causal", 1);
    set_integer(node, "qk_matmul_output_mode", 0);  // which PyTorch writes, without that output
    return model.load({"y"})->run({q, k, k + 1})[0];
  };
  const Tensor q = rand({2, 4, 3, 2}), k = rand({2, 2, 3, 2});
  const Tensor expected =
      scaled_dot_product_attention(q, k, k + 1, {.is_causal = true, .enable_gqa = true});
  CHECK(allclose(attended(q, k, 0, 0, {}), expected, 1e-5, 1e-6));
  const Tensor causal = tril(ones({3, 3}, {.dtype = kBool}));
  CHECK(allclose(attended(q, k, 0, 0, causal), expected, 1e-5, 1e-6));
  CHECK(allclose(attended(q.transpose(1, 2).flatten(2), k.transpose(1, 2).flatten(2), 4, 2, {}),
                 expected.transpose(1, 2).flatten(2), 1e-5, 1e-6));
  CHECK(contains(message_of<ValueError>([&] {
                   attended(rand({2, 3, 8}), rand({2, 3, 8}), 3, 3, {});
                 }),
                 "of 3 heads"));
}

TEST_CASE("a tensor may have a name that others begin with") {
  Model model;
  model.input("x", kFloat32);
  const std::vector<std::string> names{"weight.1", "weight", "weight/", "a.b", "a.b.c", "a..d"};
  std::string sum = "x";
  for (std::size_t i = 0; i < names.size(); ++i) {
    model.initializer(names[i], list<float>({static_cast<float>(1 << i)}));
    const std::string next = "sum" + std::to_string(i);
    model.node("Add", {sum, names[i]}, next);
    sum = next;
  }
  const auto network = model.load({sum});
  CHECK(network->run({list<float>({0})})[0].item<float>() == 63);
  CHECK(network->parameters().size() == names.size());
  CHECK(network->get_parameter("weight.1").item<float>() == 1);
  CHECK(network->get_parameter("weight//").item<float>() == 2);
  CHECK(network->get_parameter("weight/").item<float>() == 4);
  CHECK(network->get_parameter("a/b").item<float>() == 8);
}

TEST_CASE("names of many parts are those of no module") {
  const auto dotted = [](int parts) {
    std::string name = "a";
    for (int i = 1; i < parts; ++i) name += ".a";
    return name;
  };
  const auto network_of = [](const std::vector<std::string>& names) {
    Model model;
    for (const std::string& name : names) model.initializer(name, list<float>({1}));
    model.node("Relu", {names[0]}, "y");
    return model.load({"y"});
  };
  const auto deep = network_of({dotted(64)});
  CHECK(deep->modules().size() == 64);
  CHECK(deep->get_parameter(dotted(64)).item<float>() == 1);
  // Its prefixes alone have a gigabyte.
  const auto network = network_of({dotted(32'768), dotted(65)});
  CHECK(network->modules().size() == 1);
  CHECK(network->named_parameters()[0].first.size() == 65'535);
  network->train();

  // Names that differ only in the characters that are replaced stay short.
  std::vector<std::string> alike;
  for (int i = 0; i < 4096; ++i) {
    std::string name = "x/";
    for (int bit = 0; bit < 12; ++bit) name += (i >> bit & 1) != 0 ? "./" : "//";
    alike.push_back(name);
  }
  const auto parameters = network_of(alike)->named_parameters();
  CHECK(parameters.size() == alike.size());
  for (const auto& [name, tensor] : parameters) CHECK(name.size() < 40);
}

TEST_CASE("networks are read and written on the host whatever the thread's default device is") {
  const DefaultDeviceScope scope("cpu:1");
  Model model;
  const Tensor raw = list<float>({1, 2});
  model.initializer("raw", raw);
  auto& typed = model.initializer("typed", raw);
  typed.clear_raw_data();
  typed.add_float_data(3);
  typed.add_float_data(4);
  model.initializer("shape", list<std::int64_t>({2}));
  for (const auto& [name, value] : {std::pair("begin", 0), {"end", 2}, {"none", -2}, {"step", 1}})
    model.initializer(name, from_vector<std::int64_t>({value}, {}));
  set_integer(model.node("Constant", {}, "integer"), "value_int", 5);
  auto& real = *model.node("Constant", {}, "real").add_attribute();
  real.set_name("value_float");
  real.set_type(pb::AttributeProto::FLOAT);
  real.set_f(0.5);
  model.node("ConstantOfShape", {"shape"}, "zeros");
  auto& value = *model.node("ConstantOfShape", {"shape"}, "twos").add_attribute();
  value.set_name("value");
  value.set_type(pb::AttributeProto::TENSOR);
  *value.mutable_t() = data::onnx_tensor("", list<float>({2}));
  model.node("Size", {"raw"}, "size");
  model.node("Range", {"begin", "end", "step"}, "range");
  model.node("Range", {"begin", "none", "step"}, "empty");
  model.node("Add", {"raw", "typed"}, "sum");
  const auto results =
      model.load({"integer", "real", "zeros", "twos", "size", "range", "empty", "sum"})->run({});
  for (const Tensor& t : results) CHECK(t.device() == Device(kCPU));
  CHECK(results[3].to_vector<float>() == std::vector<float>{2, 2});
  CHECK(results[5].to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 1});
  CHECK(results[7].to_vector<float>() == std::vector<float>{4, 6});
}

TEST_CASE("tensors beside a file take a bounded multiple of it") {
  const std::string weights(4000, '\0');
  const auto error = [&](int count, const char* again) {
    Model model;
    write_file(model.path().parent_path() / "data", weights);
    for (int i = 0; i < count; ++i) {
      auto& tensor = model.initializer("w" + std::to_string(i), ones({1000}, kFloat32));
      tensor.clear_raw_data();
      tensor.set_data_location(pb::TensorProto::EXTERNAL);
      auto& entry = *tensor.add_external_data();
      entry.set_key("location");
      entry.set_value(i % 2 == 0 ? "data" : again);
    }
    model.node("Add", {"w0", "w0"}, "y");
    return message_of<IoError>([&] { model.load({"y"}); });
  };
  CHECK(error(2, "data") == "no exception");
  CHECK(contains(error(3, "data"), "with tensor 'w2', tensors take 12000 bytes of a file of 4000"));
  CHECK(contains(error(4, "./data"), "tensors take 12000 bytes"));
}

TEST_CASE("a data file that was there is not lost where the model cannot be written") {
  const TempDir dir;
  pb::ModelProto model;
  *model.mutable_graph()->add_initializer() = data::onnx_tensor("w", ones({1000}, kFloat32));
  const auto path = dir / "net.onnx";
  std::filesystem::create_directory(path);
  const auto write = [&] { data::write_onnx(model, path, {.external_data = true}, "test"); };
  CHECK(contains(message_of<IoError>(write), "rename to"));
  CHECK(dir.count() == 1);
  write_file(dir / "net.onnx.data", "before");
  CHECK(contains(message_of<IoError>(write), "rename to"));
  CHECK(dir.count() == 2);
  CHECK(std::filesystem::exists(dir / "net.onnx.data"));
}

}  // namespace ferrite::test
