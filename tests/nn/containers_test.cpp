// Typed access to modules, replacing and assigning them, and containers.
#include "ferrite/nn/containers.h"

#include <doctest/doctest.h>

#include <concepts>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ferrite/nn/layers.h"
#include "ferrite/nn/models/resnet.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/softmax.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

using Names = std::vector<std::string>;

class Net : public nn::Cloneable<Net> {
 public:
  Net() {
    register_module("body", body);
    register_module("fc", fc);
    register_module("head", std::make_unique<nn::Linear>(2, 1));
  }
  Tensor forward(const Tensor& x) override { return get<nn::Linear>("head")(fc(body(x))); }

  nn::Sequential body{nn::Linear(4, 3), nn::ReLU()};
  nn::Linear fc{3, 2};
};

Names names_of(const nn::Module& module) {
  Names names;
  for (const auto& [name, child] : module.named_children()) names.push_back(name);
  return names;
}

}  // namespace

TEST_CASE("modules are found as the layers that they are") {
  Net net;
  CHECK(&net.get<nn::Linear>("fc") == &net.fc);
  CHECK(net.get<nn::Linear>("body.0").weight.shape() == Shape{3, 4});
  CHECK(&net.body[1].as<nn::ReLU>() == &net.body[1]);
  CHECK_THROWS_WITH_AS(net.get<nn::Conv2d>("fc"), "[module] expected a Conv2d, got a Linear",
                       ValueError);
  CHECK_THROWS_WITH_AS(net.get<nn::Linear>("fd"), doctest::Contains("the closest is 'fc'"),
                       IndexError);
  CHECK(net.modules<nn::Linear>().size() == 3);
  CHECK(net.modules<nn::Module>().size() == net.modules().size());
  net.apply<nn::Linear>([](nn::Linear& layer) { layer.bias.detach().fill_(7); });
  CHECK(net.get_parameter("body.0.bias").detach().sum().item<float>() == 21);
  CHECK_THROWS_WITH_AS(net.get_parameter("body.0.bios"), doctest::Contains("'body.0.bias'"),
                       IndexError);
  CHECK_THROWS_WITH_AS(net.get_buffer("x"), doctest::Contains("has no buffers"), IndexError);
  nn::BatchNorm2d norm(2);
  CHECK(norm.get_buffer("running_mean").shape() == Shape{2});
}

TEST_CASE("modules are replaced by name, and assigned") {
  Net net;
  SUBCASE("a member, by its own type") {
    const nn::Linear& placed = net.replace("fc", nn::Linear(3, 2, {.bias = false}));
    CHECK(&placed == &net.fc);
    CHECK(!net.fc.bias.defined());
    CHECK_THROWS_WITH_AS(net.replace("fc", nn::ReLU()),
                         doctest::Contains("'fc' is a member of its Net, of type Linear, which a "
                                           "ReLU cannot take the place of"),
                         ValueError);
  }
  SUBCASE("what the registry owns, by any type") {
    net.replace("body.1", nn::Tanh());
    CHECK(net.body[1].name() == "Tanh");
    net.replace("head", std::make_unique<nn::Linear>(2, 5));
    CHECK(net(ones({1, 4})).shape() == Shape{1, 5});
    net.replace("body", nn::Sequential(nn::Linear(6, 3)));  // a member again
    CHECK(net(ones({1, 6})).shape() == Shape{1, 5});
  }
  SUBCASE("by assignment") {
    net.fc = nn::Linear(3, 2);
    net.body = nn::Sequential(nn::Linear(5, 3), nn::Tanh(), nn::Linear(3, 3));
    CHECK(net.named_parameters().size() == 8);
    CHECK(net.get<nn::Linear>("body.2").weight.shape() == Shape{3, 3});
    // The registry goes on to know the members of the clone as those of the original.
    const auto clone = net.clone();
    clone->fc = nn::Linear(3, 2);
    CHECK(!clone->get_parameter("fc.weight").shares_storage(net.fc.weight));
    CHECK(net.get_parameter("fc.weight").shares_storage(net.fc.weight));
  }
  CHECK_THROWS_AS(net.replace("none", nn::ReLU()), IndexError);
  CHECK_THROWS_WITH_AS(net.replace("", Net()), doctest::Contains("the path of a module below"),
                       ValueError);
  CHECK_THROWS_AS(net.replace("head", std::unique_ptr<nn::Linear>()), ValueError);
}

TEST_CASE("a network fine-tunes with another last layer") {
  nn::ResNet18 net({.classes = 10, .width = 4});
  net.replace("fc", nn::Linear(net.get<nn::Linear>("fc").weight.size(1), 3));
  CHECK(net(ones({2, 3, 32, 32})).shape() == Shape{2, 3});
}

TEST_CASE("lists take temporaries, variables and pointers, under names") {
  nn::Linear linear(2, 2);
  nn::Sequential net(linear, nn::ReLU(), std::make_unique<nn::Linear>(2, 3));
  CHECK(names_of(net) == Names{"0", "1", "2"});
  CHECK(!net[0].as<nn::Linear>().weight.shares_storage(linear.weight));
  CHECK(net[0].as<nn::Linear>().weight.to_vector<float>() == linear.weight.to_vector<float>());
  nn::Linear& last = net.push_back("out", nn::Linear(3, 1));
  CHECK(&last == &net[3]);
  net.append(nn::ReLU()).append(nn::Tanh());
  CHECK(names_of(net) == Names{"0", "1", "2", "out", "4", "5"});
  CHECK_THROWS_AS(net.push_back("out", nn::ReLU()), ValueError);
  CHECK(net.size() == 6);

  Names types;
  for (nn::Module& module : net) types.push_back(module.name());
  CHECK(types == Names{"Linear", "ReLU", "Linear", "Linear", "ReLU", "Tanh"});

  nn::Sequential named({{"conv", nn::Conv2d(1, 2, 3)}, {"relu", nn::ReLU()}});
  CHECK(names_of(named) == Names{"conv", "relu"});
  CHECK(named(ones({1, 1, 5, 5})).shape() == Shape{1, 2, 3, 3});
  const auto clone = named.clone();
  CHECK(names_of(*clone) == Names{"conv", "relu"});
  CHECK(clone->size() == 2);

  nn::Sequential nested(named, nn::Flatten());
  CHECK(nested(ones({1, 1, 5, 5})).shape() == Shape{1, 18});
  nn::ModuleList list(linear, linear);
  CHECK(list.parameters().size() == 4);
}

TEST_CASE("elements of a list are found beside tensors that were added to it") {
  nn::ModuleList list;
  list.push_back(nn::Linear(1, 2));
  list.add_buffer("steps", zeros({}));
  list.push_back(nn::ReLU());
  Names types;
  for (nn::Module& module : list) types.push_back(module.name());
  CHECK(types == Names{"Linear", "ReLU"});
  CHECK(list[1].name() == "ReLU");
  const auto clone = list.clone();
  CHECK((*clone)[1].name() == "ReLU");
  nn::ModuleList moved = std::move(list);
  CHECK(moved[1].name() == "ReLU");
  CHECK_THROWS_AS(moved[2], IndexError);
}

TEST_CASE("lists agree with their registry") {
  nn::Sequential net(nn::Linear(2, 2));
  net.register_module("1", nn::Linear(2, 3));
  CHECK(net.size() == 2);
  CHECK(std::distance(net.begin(), net.end()) == 2);
  CHECK(net(ones({1, 2})).shape() == Shape{1, 3});
  net.push_back(nn::ReLU());
  CHECK(names_of(net) == Names{"0", "1", "2"});
  CHECK(net.unregister_module("1")->name() == "Linear");
  CHECK(net.size() == 2);
  CHECK(net[1].name() == "ReLU");
  CHECK_THROWS_AS(net[2], IndexError);
  net.push_back(nn::Tanh());  // "2" is taken
  CHECK(names_of(net) == Names{"0", "2", "3"});
  CHECK(net[2].name() == "Tanh");

  nn::ParameterList list({ones({1}), ones({2})});
  list.add_parameter("2", ones({3}));
  CHECK(list.size() == 3);
  list.unregister_tensor("0");
  CHECK(list.size() == 2);
  CHECK(list[1].shape() == Shape{3});
  list.append(ones({4}));
  CHECK(list[-1].shape() == Shape{4});
}

TEST_CASE("lists: negative indices, insert, pop, extend") {
  nn::Sequential net(nn::Linear(4, 3), nn::ReLU(), nn::Linear(3, 2));
  CHECK(net[-1].as<nn::Linear>().weight.shape() == Shape{2, 3});
  CHECK(&net[-3] == &net[0]);
  CHECK_THROWS_WITH_AS(net[-4], doctest::Contains("Sequential has 3 modules, got index -4"),
                       IndexError);
  CHECK_THROWS_WITH_AS(net[3], doctest::Contains("got index 3"), IndexError);
  const std::size_t none = 0;
  CHECK_THROWS_AS(net[none - 1], IndexError);
  CHECK(&net[none + 2] == &net[-1]);

  nn::Dropout& dropout = net.insert(1, nn::Dropout(0.25));
  CHECK(&net[1] == &dropout);
  net.insert(-1, std::make_unique<nn::Tanh>());
  net.insert(5, nn::Sigmoid());
  const auto types = [](const nn::ModuleContainer& list) {
    Names all;
    for (nn::Module& module : list) all.push_back(module.name());
    return all;
  };
  CHECK(types(net) == Names{"Linear", "Dropout", "ReLU", "Tanh", "Linear", "Sigmoid"});
  CHECK(names_of(net) == Names{"0", "1", "2", "3", "4", "5"});
  CHECK(net(ones({1, 4})).shape() == Shape{1, 2});
  CHECK_THROWS_WITH_AS(net.insert(7, nn::ReLU()), doctest::Contains("at -6 to 6, got index 7"),
                       IndexError);
  CHECK(net.size() == 6);

  CHECK(net.pop()->name() == "Sigmoid");
  CHECK(net.pop(1)->name() == "Dropout");
  net.erase(-2);
  CHECK(types(net) == Names{"Linear", "ReLU", "Linear"});
  CHECK(net.state_dict().contains("2.weight"));
  CHECK_THROWS_AS(net.pop(3), IndexError);
  CHECK_THROWS_AS(nn::ModuleList().pop(), IndexError);

  nn::ModuleList list{nn::ReLU()};
  list.extend(net).extend(nn::ModuleList(nn::Tanh()));
  CHECK(types(list) == Names{"ReLU", "Linear", "ReLU", "Linear", "Tanh"});
  CHECK(names_of(list) == Names{"0", "1", "2", "3", "4"});
  CHECK(!list[1].as<nn::Linear>().weight.shares_storage(net[0].as<nn::Linear>().weight));
  CHECK(net.size() == 3);
  list.extend(list);
  CHECK(list.size() == 10);

  // Beside tensors.
  nn::ModuleList mixed{nn::ReLU()};
  mixed.add_buffer("steps", zeros({}));
  mixed.insert(0, nn::Tanh());
  CHECK(types(mixed) == Names{"Tanh", "ReLU"});
  CHECK(mixed.get_buffer("steps").dim() == 0);
  mixed.add_buffer("2", zeros({}));
  CHECK_THROWS_WITH_AS(mixed.insert(0, nn::ReLU()), doctest::Contains("a tensor named '2'"),
                       ValueError);

  nn::ParameterList scales({ones({1})});
  scales.extend({ones({2}), ones({3})});
  CHECK(scales[-1].shape() == Shape{3});
  CHECK_THROWS_WITH_AS(
      scales[-4], doctest::Contains("ParameterList has 3 parameters, got index -4"), IndexError);
}

TEST_CASE("functions are layers with their other arguments") {
  nn::Sequential net(nn::Functional([](const Tensor& x) { return x - 1; }),
                     nn::Functional([](const Tensor& x, double factor) { return x * factor; }, 3));
  CHECK(net(ones({2}) * 2).to_vector<float>() == std::vector<float>{3, 3});
  CHECK((*net.clone())(ones({1}) * 3).item<float>() == 6);

  const auto f = [](const Tensor& x, int dim) { return softmax(x, dim); };
  nn::Sequential classifier(nn::Functional(relu), nn::Functional(f, 1));
  CHECK(classifier(ones({1, 2}) * -1).to_vector<float>() == std::vector<float>{0.5, 0.5});

  nn::Functional counting([calls = 0](const Tensor& x) mutable { return x + ++calls; });
  const auto copy = counting.clone();
  CHECK(counting(zeros({})).item<float>() == 1);
  CHECK(counting(zeros({})).item<float>() == 2);
  CHECK((*copy)(zeros({})).item<float>() == 1);  // a state of its own
  static_assert(!std::constructible_from<nn::Functional, decltype(&softmax), int>);
}

TEST_CASE("embeddings of given rows") {
  const Tensor rows = tensor({{1.0, 2.0}, {3.0, 4.0}});
  nn::Embedding frozen = nn::Embedding::from_pretrained(rows);
  CHECK(frozen(tensor({1})).to_vector<float>() == std::vector<float>{3, 4});
  CHECK(frozen.num_trainable_parameters() == 0);
  CHECK(frozen.parameters().size() == 1);
  CHECK(nn::Embedding::from_pretrained(rows, false).num_trainable_parameters() == 4);
  CHECK_THROWS_AS(nn::Embedding::from_pretrained(zeros({2})), ShapeError);

  nn::EmbeddingBag bags = nn::EmbeddingBag::from_pretrained(rows, true, {.mode = BagMode::sum});
  CHECK(bags(tensor({{0, 1}})).to_vector<float>() == std::vector<float>{4, 6});
  CHECK(bags.num_trainable_parameters() == 0);
  CHECK(bags.weight.shares_storage(rows));
  CHECK(nn::EmbeddingBag::from_pretrained(rows, false).num_trainable_parameters() == 4);
  CHECK_THROWS_AS(nn::EmbeddingBag::from_pretrained(Tensor()), ShapeError);
}

TEST_CASE("ModuleDict, ParameterList and ParameterDict") {
  nn::ModuleDict dict({{"conv", nn::Conv2d(1, 2, 3)}, {"pool", nn::MaxPool2d(2)}});
  dict.insert("linear", nn::Linear(2, 1));
  dict.insert("pool", nn::Identity());  // in the place of the other
  CHECK(dict.keys() == Names{"conv", "pool", "linear"});
  CHECK(dict["pool"].name() == "Identity");
  CHECK(dict.contains("conv"));
  CHECK(!dict.contains("con"));
  CHECK_THROWS_WITH_AS(dict["con"], doctest::Contains("the closest is 'conv'"), IndexError);
  CHECK(dict.pop("conv")->name() == "Conv2d");
  CHECK(dict.size() == 2);
  CHECK_THROWS_AS(dict.pop("conv"), IndexError);
  CHECK(dict.clone()->state_dict().size() == 2);
  dict.clear();
  CHECK(dict.empty());

  nn::ParameterList list({ones({2}), zeros({3})});
  list.append(ones({1}));
  CHECK(list.size() == 3);
  CHECK(list[2].requires_grad());
  CHECK(list.state_dict().contains("1"));
  CHECK_THROWS_AS(list[3], IndexError);
  const auto copy = list.clone();
  CHECK(!(*copy)[0].shares_storage(list[0]));

  nn::ParameterDict named({{"a", ones({2})}});
  named.insert("b", zeros({1})).insert("a", zeros({4}));
  CHECK(named["a"].shape() == Shape{4});
  CHECK(named.keys() == Names{"b", "a"});
  CHECK_THROWS_WITH_AS(named["c"], doctest::Contains("has no parameter 'c'"), IndexError);
  CHECK(named.pop("a").shape() == Shape{4});
  CHECK(named.size() == 1);

  const Tensor shared = ones({2});
  nn::ParameterDict twice({{"a", shared}, {"b", shared}});
  CHECK(twice.keys() == Names{"a", "b"});
  CHECK(twice.size() == 2);
  CHECK(twice.items()[1].second.is_same(shared));
  CHECK(twice.parameters().size() == 1);
  twice.insert("b", zeros({3}));
  CHECK(twice["b"].shape() == Shape{3});
}
