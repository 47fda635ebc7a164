#include "ferrite/nn/module.h"

#include <doctest/doctest.h>

#include <ctime>
#include <filesystem>
#include <optional>
#include <sstream>

#include "ferrite/data/safetensors.h"
#include "ferrite/nn/layers.h"
#include "ferrite/nn/models/lenet.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/optim/sgd.h"
#include "ferrite/tests/nn/small_modules.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/message.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

template <class T>
struct Generic : nn::Cloneable<Generic<T>> {};

template <class T>
std::string name_of_local_class() {
  struct Local : nn::Cloneable<Local> {};
  return Local().name();
}

}  // namespace

TEST_CASE("names and order are those of PyTorch: parameters, buffers, then children") {
  Net net;
  CHECK(names(net.named_parameters()) ==
        Names{"extra", "first.scale", "first.shift", "maybe.scale", "maybe.shift", "list.0.scale",
              "list.0.shift", "list.1.scale", "list.1.shift", "owned.scale", "owned.shift"});
  CHECK(names(net.first.named_buffers()) == Names{"calls", "scratch"});
  CHECK(names(net.first.state_dict()) == Names{"scale", "shift", "calls"});
  // A state dict contains shared tensors under each of their names.
  CHECK(names(net.state_dict()).back() == "again.calls");
  CHECK(net.state_dict().size() == 19);
  Names modules;
  for (const auto& [name, module] : net.named_modules()) modules.push_back(name);
  CHECK(modules == Names{"", "first", "maybe", "list", "list.0", "list.1", "owned"});
  CHECK(net.modules().size() == 7);
  CHECK(net.children().size() == 5);
  CHECK(net.parameters().size() == 11);
  CHECK(net.num_parameters() == 23);
  net.first.requires_grad_(false);
  CHECK(net.num_trainable_parameters() == 19);
  CHECK(!net.state_dict().at("list.0.scale").requires_grad());
  CHECK(net.state_dict().at("first.scale").shares_storage(net.first.scale));
}

TEST_CASE("registration rejects invalid names and members") {
  struct Bad : nn::Cloneable<Bad> {
    Tensor inside = ones({1});
    void reg(const std::string& name, Tensor& t) { register_parameter(name, t); }
    void null() { register_module("m", std::unique_ptr<Affine>()); }
  } bad;
  Tensor outside = ones({1});
  CHECK_THROWS_WITH_AS(bad.reg("w", outside), doctest::Contains("not a member of Bad"), ValueError);
  CHECK_THROWS_AS(bad.reg("a.b", bad.inside), ValueError);
  CHECK_THROWS_AS(bad.reg("", bad.inside), ValueError);
  bad.reg("w", bad.inside);
  CHECK_THROWS_WITH_AS(bad.reg("w", bad.inside), doctest::Contains("has a part named 'w'"),
                       ValueError);
  CHECK_THROWS_AS(bad.null(), ValueError);
  CHECK_THROWS_WITH_AS(bad(ones({1})), doctest::Contains("Bad has no forward()"), Error);
}

TEST_CASE("modules of many parts have each name once, and register them in linear time") {
  struct Many : nn::Cloneable<Many> {};
  constexpr int kCount = 400'000;
  const auto add = [](nn::Module& module, int i) {
    module.add_buffer(std::to_string(i), Tensor());
  };
  Many many;
  const std::clock_t begin = std::clock();
  for (int i = 0; i < kCount; ++i) add(many, i);
  // Where each name is compared with all before it, this takes minutes.
  CHECK(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC < 20);

  Many some;
  for (int i = 0; i < 100; ++i) add(some, i);
  const auto has = [&](nn::Module& module, int i) {
    return contains(message_of<ValueError>([&] { add(module, i); }),
                    "Many has a part named '" + std::to_string(i) + "' already");
  };
  CHECK(has(some, 0));
  CHECK(has(some, 99));
  some.unregister_tensor("70");
  add(some, 70);
  CHECK(has(some, 70));
  const auto clone = some.clone();
  add(*clone, 100);
  CHECK(has(*clone, 3));
  CHECK(has(*clone, 100));
  Many moved = std::move(some);
  CHECK(has(moved, 5));
  add(moved, 100);
  some = Many();
  for (int i = 0; i < 100; ++i) add(some, i);
  CHECK(has(some, 99));
}

TEST_CASE("modules can be moved, but not copied by accident") {
  CHECK_THROWS_WITH_AS([](const Affine& a) { Affine copy = a; }(Affine()),
                       doctest::Contains("clone()"), Error);
  static_assert(!std::is_copy_assignable_v<Affine> && std::is_move_assignable_v<Affine>);
  static_assert(!std::is_constructible_v<nn::Sequential, int>);
  static_assert(std::is_constructible_v<nn::Sequential, Affine>);
  const auto make = [] {
    Net net;
    net.first.scale.detach().fill_(7);
    return std::make_unique<Net>(std::move(net));
  };
  const auto net = make();
  CHECK(net->named_parameters()[1].second.is_same(net->first.scale));
  check_close(net->parameters()[1], {7, 7});
  CHECK(net->children()[0] == &net->first);
}

TEST_CASE("optimizers built before to() keep working") {
  for (const char* device : {"cpu", "cpu:1"}) {
    Affine net;
    optim::SGD sgd(net.parameters(), {.lr = 0.5, .momentum = 0.9});
    const auto train = [&](const Tensor& x) {
      sgd.zero_grad();
      net(x).backward(ones({2}, {.dtype = x.dtype(), .device = x.device()}));
      sgd.step();
    };
    train(tensor({1.0, 2.0}));
    const Tensor handle = net.scale;
    net.to(device, kFloat64);
    CHECK(net.scale.is_same(handle));
    CHECK(handle.dtype() == kFloat64);
    CHECK(handle.grad().dtype() == kFloat64);
    CHECK(handle.requires_grad());
    CHECK(net.named_buffers()[0].second.dtype() == kInt64);
    CHECK(net.named_buffers()[0].second.device() == Device(device));
    train(tensor({1.0, 2.0}, {.dtype = kFloat64, .device = device}));
    // 1 - 0.5 g - 0.5 (0.9 g + g)
    check_close(net.scale, {1 - 1.45, 1 - 2.9}, 1e-7);
  }
}

TEST_CASE("to() converts floating tensors, and the layout of 4-dimensional ones") {
  nn::Conv2d conv(2, 3, 3);
  const std::vector<double> values = conv.weight.to_vector<double>();
  conv.to(kChannelsLast);
  CHECK(conv.weight.is_contiguous(kChannelsLast));
  CHECK(!conv.weight.is_contiguous());
  check_close(conv.weight, values, 0);
  conv.to(kFloat16).to(kFloat32);
  CHECK(conv.weight.is_contiguous(kChannelsLast));
  check_close(conv.weight, values, 1e-3, 1e-6);
  CHECK_THROWS_AS(conv.to(kInt64), DTypeError);
}

TEST_CASE("backward through a tape recorded before to() throws") {
  Affine net;
  const Tensor out = net.scale * net.scale;
  net.to(kFloat64);
  CHECK_THROWS_AS(out.backward(ones({2})), AutogradError);
}

TEST_CASE("load_state_dict: the count of batches of a norm may be missing") {
  nn::Sequential net(nn::Linear(2, 3), nn::BatchNorm1d(3));
  net(ones({4, 2}));
  StateDict dict = net.state_dict();
  REQUIRE(dict.contains("1.num_batches_tracked"));
  dict.erase("1.num_batches_tracked");
  CHECK(net.load_state_dict(dict).missing.empty());
  CHECK(net.state_dict().at("1.num_batches_tracked").item<int>() == 1);
  nn::BatchNorm1d norm(3);
  StateDict alone = norm.state_dict();
  alone.erase("num_batches_tracked");
  CHECK(norm.load_state_dict(alone).missing.empty());
  alone.erase("running_mean");
  CHECK_THROWS_WITH_AS(norm.load_state_dict(alone),
                       doctest::Contains("missing from the dict: running_mean; unexpected"),
                       ValueError);
}

TEST_CASE("load_state_dict: a number may be saved as [1], as before PyTorch 0.4") {
  nn::Sequential net(nn::BatchNorm1d(2));
  net.add_parameter("scale", full({}, 2.0));
  StateDict dict = net.state_dict();
  dict.insert_or_assign("scale", full({1}, 5.0));
  dict.insert_or_assign("0.num_batches_tracked", full({1}, 7, {.dtype = kInt64}));
  CHECK(net.load_state_dict(dict).complete());
  CHECK(net.get_parameter("scale").detach().item<float>() == 5);
  CHECK(net.get_buffer("0.num_batches_tracked").item<int>() == 7);
  dict.insert_or_assign("scale", ones({2}));
  CHECK_THROWS_AS(net.load_state_dict(dict), ShapeError);
  dict.insert_or_assign("scale", ones({1, 1}));
  CHECK_THROWS_AS(net.load_state_dict(dict), ShapeError);
}

TEST_CASE("load_state_dict: complex values of a real tensor are an error") {
  Affine net;
  StateDict dict = net.state_dict();
  dict.insert_or_assign("shift", ones({2}, {.dtype = kComplex64}));
  CHECK_THROWS_WITH_AS(net.load_state_dict(dict),
                       doctest::Contains("'shift' is float32 in the module and complex64 in the "
                                         "dict"),
                       DTypeError);
}

TEST_CASE("load_state_dict: strict, not strict, and errors") {
  Net net, other;
  other.first.scale.detach().fill_(9);
  CHECK(net.load_state_dict(other.state_dict()).complete());
  check_close(net.first.scale, {9, 9});
  CHECK(!net.first.scale.shares_storage(other.first.scale));
  CHECK(net.first.scale.requires_grad());

  StateDict dict = other.state_dict();
  dict.erase("maybe.scale");
  dict.insert("surplus", ones({1}));
  dict.insert_or_assign("extra", full({3}, 8.0));
  CHECK_THROWS_WITH_AS(net.load_state_dict(dict),
                       doctest::Contains("missing from the dict: maybe.scale; unexpected in it: "
                                         "surplus"),
                       ValueError);
  check_close(net.parameters()[0], {1, 1, 1});  // nothing was loaded
  const nn::LoadReport report = net.load_state_dict(dict, {.strict = false});
  CHECK(report.missing == Names{"maybe.scale"});
  CHECK(report.unexpected == Names{"surplus"});
  check_close(net.parameters()[0], {8, 8, 8});

  dict = other.state_dict();
  dict.insert_or_assign("owned.shift", ones({2, 1}));
  for (bool strict : {true, false})
    CHECK_THROWS_WITH_AS(net.load_state_dict(dict, {.strict = strict}),
                         doctest::Contains("owned.shift: expected [2], got [2, 1]"), ShapeError);
  check_close(net.parameters()[0], {8, 8, 8});

  dict.erase("again.shift");
  dict.insert("odd", ones({1}));
  const nn::LoadReport skipped =
      net.load_state_dict(dict, {.strict = false, .skip_mismatched = true});
  CHECK(!skipped.complete());
  CHECK(skipped.loaded == 17);
  REQUIRE(skipped.mismatched.size() == 1);
  CHECK(skipped.mismatched[0].name == "owned.shift");
  CHECK(skipped.mismatched[0].got == Shape{2, 1});
  CHECK(skipped.str() ==
        "loaded 17 tensors; 1 missing from the dict: again.shift; 1 unexpected in the dict: odd; 1 "
        "of another shape: owned.shift: expected [2], got [2, 1]");
  check_close(net.parameters()[0], {1, 1, 1});
  // skip_mismatched does not affect missing names.
  CHECK_THROWS_AS(net.load_state_dict(dict, {.skip_mismatched = true}), ValueError);
  dict = other.state_dict();
  dict.insert_or_assign("owned.shift", ones({2, 1}));
  CHECK(net.load_state_dict(dict, {.skip_mismatched = true}).missing.empty());
  CHECK(net.load_state_dict(other.state_dict()).str() == "loaded 19 tensors");

  StateDict many;
  for (int i = 0; i < 15; ++i) many.insert("x" + std::to_string(i), ones({1}));
  CHECK_THROWS_WITH_AS(net.load_state_dict(many), doctest::Contains("x10, x11 and 3 more"),
                       ValueError);
}

TEST_CASE("prefixes of wrapped models, both ways") {
  Affine net, other(5);
  const StateDict plain = other.state_dict(), wrapped = other.state_dict("module.");
  CHECK(names(wrapped) == Names{"module.scale", "module.shift", "module.calls"});
  const auto check = [&](const StateDict& dict, const nn::LoadOptions& options) {
    net.scale.detach().fill_(0);
    net.load_state_dict(dict, options);
    check_close(net.scale, {5, 5});
  };
  // With and without the prefix in the dict.
  for (const StateDict& dict : {plain, wrapped}) check(dict, {.strip_prefix = "module."});
  CHECK_THROWS_WITH_AS(net.load_state_dict(wrapped),
                       doctest::Contains("load it with .strip_prefix = \"module.\""), ValueError);

  struct Wrapper : nn::Cloneable<Wrapper> {
    Wrapper() { register_module("module", module); }
    Affine module;
  } outer;
  for (const StateDict& dict : {plain, wrapped}) {
    outer.module.scale.detach().fill_(0);
    CHECK(outer.load_state_dict(dict, {.add_prefix = "module."}).complete());
    check_close(outer.module.scale, {5, 5});
  }
  CHECK_THROWS_WITH_AS(outer.load_state_dict(plain),
                       doctest::Contains("load with .add_prefix = \"module.\""), ValueError);
  CHECK(outer
            .load_state_dict(other.state_dict("encoder."),
                             {.strip_prefix = "encoder.", .add_prefix = "module."})
            .complete());

  StateDict both = wrapped;
  both.insert("scale", ones({2}));
  CHECK_THROWS_WITH_AS(
      net.load_state_dict(both, {.strip_prefix = "module."}),
      doctest::Contains("'scale' becomes 'scale', which is the name of another tensor"),
      ValueError);
  CHECK_THROWS_WITH_AS(net.load_state_dict(wrapped, {.strip_prefix = "module.scale"}),
                       doctest::Contains("which is empty"), ValueError);
}

TEST_CASE("loading converts dtype and device, strips prefixes, and goes through files") {
  Net net, other;
  other.first.scale.detach().fill_(9);
  StateDict dict;
  dict.insert_all("module.", other.state_dict());
  net.to("cpu:1", kFloat64);
  net.load_state_dict(dict, {.strip_prefix = "module."});
  check_close(net.first.scale, {9, 9});
  CHECK(net.first.scale.dtype() == kFloat64);

  const auto path = std::filesystem::temp_directory_path() / "ferrite_module_test.safetensors";
  save(other.state_dict(), path);
  Net loaded;
  loaded.load_state_dict(load(path));
  std::filesystem::remove(path);
  const StateDict expected = other.state_dict();
  for (const auto& [name, t] : loaded.state_dict()) check_equal(t, expected.at(name));
}

TEST_CASE("apply, train and eval, freezing, zero_grad") {
  Net net;
  Names visited;
  net.apply([&](nn::Module& m) { visited.push_back(m.name()); });
  CHECK(visited == Names{"Affine", "Affine", "Affine", "Affine", "ModuleList", "Affine", "Net"});
  net.eval();
  for (nn::Module* m : net.modules()) CHECK(!m->is_training());
  net.first.train();
  CHECK(net.first.is_training());
  CHECK(!net.is_training());
  net.train();
  for (nn::Module* m : net.modules()) CHECK(m->is_training());

  net.first.requires_grad_(false);
  const Tensor x = ones({2});
  net(x).backward(ones({2}));
  CHECK(!net.first.scale.grad().defined());
  const Tensor grad = net.parameters()[3].grad();
  REQUIRE(grad.defined());
  net.zero_grad(false);
  check_close(grad, {0, 0});
  CHECK(net.parameters()[3].grad().is_same(grad));
  net.zero_grad();
  CHECK(!net.parameters()[3].grad().defined());
}

TEST_CASE("names of classes are without namespaces and template arguments") {
  CHECK(Generic<std::vector<int>>().name() == "Generic");
  CHECK(name_of_local_class<std::vector<int>>() == "Local");
  CHECK(nn::Linear(1, 1).name() == "Linear");
}

TEST_CASE("modules print as in PyTorch") {
  nn::LeNet5 net;
  CHECK(net.str() ==
        "LeNet5(\n"
        "  (conv1): Conv2d(1, 6, kernel_size=(5, 5), stride=(1, 1), padding=(2, 2))\n"
        "  (conv2): Conv2d(6, 16, kernel_size=(5, 5), stride=(1, 1))\n"
        "  (fc1): Linear(in_features=400, out_features=120, bias=True)\n"
        "  (fc2): Linear(in_features=120, out_features=84, bias=True)\n"
        "  (fc3): Linear(in_features=84, out_features=10, bias=True)\n"
        ")");
  std::ostringstream out;
  out << net;
  CHECK(out.str() == net.str() + "\n61706 parameters");
  net.children()[4]->requires_grad_(false);
  out.str("");
  out << net;
  CHECK(out.str() == net.str() + "\n61706 parameters, 60856 of them trainable");

  const nn::Sequential all(
      nn::ConvTranspose2d(4, 6, 3, {.stride = 2, .padding = 1, .output_padding = 1, .groups = 2}),
      nn::BatchNorm2d(3, {.affine = false, .track_running_stats = false}), nn::LayerNorm(3),
      nn::MaxPool2d(3, 2, 1), nn::AvgPool2d(2), nn::AdaptiveAvgPool2d(1), nn::Flatten(),
      nn::Embedding(6, 3, {.padding_idx = 2}), nn::GELU(), nn::ReLU({.inplace = true}),
      nn::Dropout(), nn::Softmax(1), nn::BatchNorm2d(4),
      nn::Conv2d(4, 6, {3, 2},
                 {.stride = 2, .padding = {1, 0}, .dilation = 2, .groups = 2, .bias = false}),
      nn::LeakyReLU(), nn::Sequential(), nn::ModuleList(nn::Identity(), nn::Linear(2, 3)));
  CHECK(all.str() == R"(Sequential(
  (0): ConvTranspose2d(4, 6, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1), output_padding=(1, 1), groups=2)
  (1): BatchNorm2d(3, eps=1e-05, momentum=0.1, affine=False, track_running_stats=False)
  (2): LayerNorm((3,), eps=1e-05, elementwise_affine=True)
  (3): MaxPool2d(kernel_size=3, stride=2, padding=1, dilation=1, ceil_mode=False)
  (4): AvgPool2d(kernel_size=2, stride=2, padding=0)
  (5): AdaptiveAvgPool2d(output_size=(1, 1))
  (6): Flatten(start_dim=1, end_dim=-1)
  (7): Embedding(6, 3, padding_idx=2)
  (8): GELU(approximate='none')
  (9): ReLU(inplace=True)
  (10): Dropout(p=0.5, inplace=False)
  (11): Softmax(dim=1)
  (12): BatchNorm2d(4, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True)
  (13): Conv2d(4, 6, kernel_size=(3, 2), stride=(2, 2), padding=(1, 0), dilation=(2, 2), groups=2, bias=False)
  (14): LeakyReLU(negative_slope=0.01)
  (15): Sequential()
  (16): ModuleList(
    (0): Identity()
    (1): Linear(in_features=2, out_features=3, bias=True)
  )
))");
}

TEST_CASE("a module cannot be part of itself") {
  struct Part : nn::Module {
    void take(nn::Module& m) { register_module("m", m); }
    void own(std::unique_ptr<Part> m) { register_module("owned", std::move(m)); }
  };
  Part a, b, c;
  CHECK_THROWS_WITH_AS(a.take(a), doctest::Contains("part of itself"), ValueError);
  a.take(b);
  b.take(c);
  CHECK_THROWS_WITH_AS(c.take(a), doctest::Contains("among its own modules"), ValueError);
  auto owner = std::make_unique<Part>();
  owner->take(a);
  CHECK_THROWS_AS(c.own(std::move(owner)), ValueError);
  CHECK(a.modules().size() == 3);
  CHECK(c.children().empty());
}
