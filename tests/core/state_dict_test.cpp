#include "ferrite/core/state_dict.h"

#include <doctest/doctest.h>

using namespace ferrite;

namespace {

Tensor number(float v) { return from_vector<float>({v}, {1}); }

std::string names(const StateDict& dict) {
  std::string out;
  for (const auto& [name, tensor] : dict) out += name + " ";
  return out;
}

}  // namespace

TEST_CASE("state_dict: keeps the order of insertion") {
  StateDict dict{{"b", number(1)}, {"a", number(2)}};
  dict.insert("c", number(3));
  CHECK(names(dict) == "b a c ");
  CHECK(dict.size() == 3);
  CHECK(dict.at("a").item<float>() == 2);
  CHECK(dict.find("c")->second.item<float>() == 3);
  CHECK(dict.find("d") == dict.end());
  CHECK(dict.contains("b"));
  dict.insert_or_assign("b", number(4));
  dict.insert_or_assign("d", number(5));
  CHECK(names(dict) == "b a c d ");
  CHECK(dict.at("b").item<float>() == 4);
}

TEST_CASE("state_dict: entries go, the others stay reachable") {
  StateDict dict{{"a", number(1)}, {"b", number(2)}, {"c", number(3)}};
  CHECK(dict.erase("b"));
  CHECK_FALSE(dict.erase("b"));
  CHECK(names(dict) == "a c ");
  CHECK(dict.at("c").item<float>() == 3);
  dict.insert_all("model.", dict);
  CHECK(names(dict) == "a c model.a model.c ");
}

TEST_CASE("state_dict: errors list the existing entries") {
  StateDict dict{{"conv1.weight", number(1)}, {"fc.bias", number(2)}};
  CHECK_THROWS_WITH_AS(dict.at("conv.weight"),
                       "[state_dict] no entry 'conv.weight' among 2; the closest name is "
                       "'conv1.weight'",
                       IndexError);
  CHECK_THROWS_AS(StateDict().at("x"), IndexError);
  CHECK_THROWS_AS(dict.insert("fc.bias", number(3)), ValueError);
  CHECK_THROWS_AS(dict.insert("", number(3)), ValueError);
  CHECK_THROWS_AS(dict.insert("y", Tensor()), ValueError);
}
