// Rules that rename tensors on loading.
#include "ferrite/nn/name_map.h"

#include <doctest/doctest.h>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/data/safetensors.h"
#include "ferrite/nn/models/resnet.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/tests/nn/small_modules.h"
#include "ferrite/tests/paths.h"
#include "ferrite/tests/support/message.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

using nn::NameMap;

/// Two layers: "first.scale", "first.shift", "first.calls", "second. ...".
class Pair : public nn::Cloneable<Pair> {
 public:
  explicit Pair(double a = 1, double b = 2) : first(a), second(b) {
    register_module("first", first);
    register_module("second", second);
  }
  Affine first, second;
};

/// The state of Pair(7, 8) under other names.
StateDict state_as(const std::function<std::string(std::string)>& rename) {
  StateDict dict;
  for (const auto& [name, tensor] : Pair(7, 8).state_dict()) dict.insert(rename(name), tensor);
  return dict;
}

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

double scale_of(const Affine& layer) { return layer.scale.to_vector<double>()[0]; }

void check_loads(const StateDict& dict, const NameMap& map) {
  Pair model;
  const nn::NameMapReport report = nn::load_state_dict(model, dict, map);
  CHECK(report.complete());
  CHECK(report.matched.size() == 6);
  CHECK(scale_of(model.first) == 7);
  CHECK(scale_of(model.second) == 8);
}

std::vector<std::optional<std::string>> names_of(const NameMap& map,
                                                 const std::vector<std::string>& from) {
  return map.names(from, Pair());
}

}  // namespace

TEST_CASE("name map: every kind of rule, in the order given") {
  check_loads(state_as([](auto n) { return n; }), {});
  check_loads(state_as([](auto n) { return n == "first.scale" ? "gain" : n; }),
              NameMap().exact("gain", "first.scale"));
  check_loads(state_as([](auto n) { return "net." + replaced(n, "second.", "head."); }),
              NameMap().prefix("net.", "").prefix("head.", "second."));
  check_loads(
      state_as([](auto n) { return n.substr(n.find('.') + 1) + "_" + n.substr(0, n.find('.')); }),
      NameMap().regex(R"((\w+)_(first|second))", "$2.$1"));
  check_loads(state_as([](auto n) {
                // A table exchanges names, since each takes one pair.
                return n == "first.scale" ? "first.shift" : n == "first.shift" ? "first.scale" : n;
              }),
              NameMap().table({{"first.scale", "first.shift"}, {"first.shift", "first.scale"}}));

  CHECK(names_of(NameMap().exact("a", "b").exact("b", "c"), {"a", "b"}) ==
        std::vector<std::optional<std::string>>{"c", "c"});
  CHECK(names_of(NameMap().exact("b", "c").exact("a", "b"), {"a", "b"}) ==
        std::vector<std::optional<std::string>>{"b", "c"});
  CHECK(names_of(NameMap().prefix("", "x.").drop("x[.]q.*"), {"a", "q", "queue"}) ==
        std::vector<std::optional<std::string>>{"x.a", std::nullopt, std::nullopt});
  CHECK(names_of(NameMap().drop("q"), {"queue"}) ==
        std::vector<std::optional<std::string>>{"queue"});  // of the whole name
  NameMap twice = NameMap().prefix("a.", "");
  twice.then(twice);
  CHECK(names_of(twice, {"a.a.a.x"}) == std::vector<std::optional<std::string>>{"a.x"});
}

TEST_CASE("name map: usual wrappers are removed, and what is beside them left out") {
  for (const char* prefix :
       {"", "module.", "model.", "_orig_mod.", "module._orig_mod.", "_orig_mod.module.", "encoder.",
        "state_dict.", "model_state_dict.module.", "state_dict.model.net.",
        "state_dict.backbone."}) {
    CAPTURE(prefix);
    check_loads(state_as([&](auto n) { return prefix + n; }), NameMap().unwrap());
  }
  StateDict checkpoint = state_as([](auto n) { return "model.module." + n; });
  checkpoint.insert("optimizer.state.0.step", zeros({}));
  checkpoint.insert("model.other", zeros({}));
  Pair model;
  const nn::NameMapReport report = nn::load_state_dict(model, checkpoint, NameMap().unwrap());
  CHECK(report.left_out == std::vector<std::string>{"optimizer.state.0.step", "model.other"});
  CHECK(report.matched[0].from == "model.module.first.scale");
  CHECK(report.matched[0].to == "first.scale");

  // Wrappers between.
  check_loads(state_as([](auto n) {
                return replaced(replaced(n, "first.", "first._orig_mod."), "second.",
                                "second._checkpoint_wrapped_module._fsdp_wrapped_module.");
              }),
              NameMap().unwrap());
  // The rules that follow count.
  check_loads(state_as([](auto n) { return "module.encoder." + replaced(n, "first.", "one."); }),
              NameMap().unwrap().prefix("one.", "first."));
  check_loads(state_as([](auto n) { return "mine." + n; }), NameMap().unwrap({"mine"}));

  // Names that a file has made up: long chains, and many different ones.
  std::string chain;
  for (int i = 0; i < 30'000; ++i) chain += "module.";
  names_of(NameMap().unwrap(), {chain + "x", chain + "_orig_mod._orig_mod.x"});
  std::vector<std::string> words = NameMap::usual_wrappers(), names;
  for (const std::string& a : words)
    for (const std::string& b : words)
      for (const std::string& c : words) names.push_back(a + "." + b + "." + c + ".x");
  CHECK(names_of(NameMap().unwrap(), names).size() == names.size());

  // A module whose own names begin like a wrapper's.
  class Outer : public nn::Cloneable<Outer> {
   public:
    Outer() { register_module("model", model); }
    Pair model;
  } outer;
  CHECK(nn::load_state_dict(outer, Outer().state_dict(), NameMap().unwrap()).complete());
  CHECK(nn::load_state_dict(outer, Outer().state_dict("module."), NameMap().unwrap()).complete());
  CHECK(nn::load_state_dict(outer, Outer().state_dict("model."), NameMap().unwrap()).complete());
}

TEST_CASE("name map: of weights and averaged weights, timm's map takes the averaged ones") {
  StateDict both = Pair(1, 1).state_dict("state_dict.");
  both.insert_all("state_dict_ema.", Pair(3, 3).state_dict());
  both.insert_all("optimizer.", Pair(4, 4).state_dict());
  Pair model;
  nn::load_state_dict(model, both, NameMap::timm());
  CHECK(scale_of(model.first) == 3);
  nn::load_state_dict(model, both, NameMap().unwrap());
  CHECK(scale_of(model.first) == 1);
}

TEST_CASE("name map: the report names what matched, was missing, unexpected, of another shape") {
  Pair model;
  StateDict dict;
  dict.insert("module.first.scale", full({2}, 5));
  dict.insert("module.first.shift", zeros({3}));
  dict.insert("module.odd", zeros({1}));
  dict.insert("module.queue", zeros({1}));
  const NameMap map = NameMap().prefix("module.", "").prefix("odd", "even").drop("queue");
  const nn::NameMapReport report =
      nn::load_state_dict(model, dict, map, {.strict = false, .skip_mismatched = true});
  CHECK_FALSE(report.complete());
  CHECK(scale_of(model.first) == 5);
  CHECK(report.str() == R"(loaded 1 tensor
1 matched:
  module.first.scale -> first.scale
4 missing from the dict:
  first.calls
  second.scale
  second.shift
  second.calls
1 unexpected in the dict:
  module.odd -> even
1 of another shape:
  module.first.shift -> first.shift: expected [2], got [3]
1 left out:
  module.queue
)");

  // Errors copy nothing.
  dict.insert_or_assign("module.first.scale", full({2}, 6));
  const auto shape_text =
      message_of<ShapeError>([&] { nn::load_state_dict(model, dict, map, {.strict = false}); });
  CHECK(contains(shape_text, "module.first.shift -> first.shift: expected [2], got [3]"));
  const auto text = message_of<ValueError>(
      [&] { nn::load_state_dict(model, dict, map, {.skip_mismatched = true}); });
  CHECK(contains(text, "module.odd -> even"));
  CHECK(contains(text, "second.shift"));
  CHECK(scale_of(model.first) == 5);
}

TEST_CASE("name map: errors of rules") {
  Pair model;
  const StateDict dict = model.state_dict();
  CHECK_THROWS_AS(NameMap().regex("(", "x"), ValueError);
  CHECK_THROWS_AS(NameMap().drop("["), ValueError);
  CHECK_THROWS_AS(NameMap().table({{"a", "b"}, {"a", "c"}}), ValueError);
  CHECK(contains(message_of<ValueError>([&] {
                   nn::load_state_dict(model, dict, NameMap().prefix("second.", "first."));
                 }),
                 "'first.scale' and 'second.scale' both become 'first.scale'"));
  CHECK(contains(message_of<ValueError>(
                     [&] { nn::load_state_dict(model, dict, NameMap().exact("first.scale", "")); }),
                 "'first.scale' becomes empty"));
  CHECK_THROWS_AS(nn::load_state_dict(model, dict, {}, {.strip_prefix = "x."}), ValueError);
  StateDict longer = dict;
  longer.insert(std::string(100'000, 'a'), zeros({1}));
  CHECK(contains(message_of<ValueError>(
                     [&] { nn::load_state_dict(model, longer, NameMap().regex("(a|b)*c", "x")); }),
                 "at most 1000 bytes"));
}

TEST_CASE("name map: a ResNet of Hugging Face's transformers gives the same logits here") {
  const StateDict golden = load(source_dir() + "/tests/golden/transformers_resnet.safetensors");
  StateDict weights;
  for (const auto& [name, tensor] : golden)
    if (name.starts_with("model.")) weights.insert(name, tensor);
  nn::ResNet model(nn::ResNetBlock::basic, {2, 1, 1, 1}, {.classes = 5, .width = 2});
  const nn::NameMapReport report =
      nn::load_state_dict(model, weights, NameMap::transformers_resnet());
  CHECK(report.complete());
  CHECK(report.left_out.empty());
  model.eval();
  const NoGradGuard guard;
  const auto logits = model(golden.at("image")).to_vector<double>();
  const auto expected = golden.at("logits").to_vector<double>();
  REQUIRE(logits.size() == 10);
  for (std::size_t i = 0; i < logits.size(); ++i)
    CHECK(logits[i] == doctest::Approx(expected[i]).epsilon(1e-4));

  // Bottlenecks have a third convolution.
  CHECK(NameMap::transformers_resnet().names(
            {"resnet.encoder.stages.2.layers.10.layer.2.normalization.running_var"},
            nn::ResNet50())[0] == "layer3.10.bn3.running_var");
}
