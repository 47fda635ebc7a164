#include "ferrite/parallel/data_parallel/nested.h"

#include <doctest/doctest.h>

#include <array>
#include <filesystem>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>

#include "ferrite/nn/recurrent.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/tests/parallel/scatter_gather.h"

using namespace ferrite;
using namespace ferrite::parallel;

namespace {

struct Batch {
  Tensor images, labels;
  std::string source;
  std::vector<Tensor> more = {};
};

struct NestedPair {
  Tensor first, second;
};
struct Hidden {  // does not declare its members
  Tensor tensor;
  int number = 0;
};

Tensor number(double value) { return full({1}, value); }

std::vector<double> numbers_in(const auto& value) {
  std::vector<double> numbers;
  for_each_tensor(value, [&](const Tensor& t) { numbers.push_back(t.item<double>()); });
  return numbers;
}

/// Every tensor is visited once, in the order of tensors_in(), and replaced only in a copy.
void check_form(const auto& value, std::vector<double> expected) {
  CHECK(numbers_in(value) == expected);
  const auto more = map_tensors(value, [](const Tensor& t) { return t + 100.0; });
  CHECK(numbers_in(value) == expected);
  const std::vector<Tensor> tensors = tensors_in(value);
  REQUIRE(tensors.size() == expected.size());
  CHECK(numbers_in(with_tensors(more, tensors)) == expected);
  for (double& v : expected) v += 100;
  CHECK(numbers_in(more) == expected);
}

}  // namespace

template <>
struct ferrite::parallel::FieldsOf<Batch> {
  static auto of(auto& batch) {
    return std::tie(batch.images, batch.labels, batch.source, batch.more);
  }
};

TEST_CASE("nested values: their tensors, in order, and copies with others") {
  const Tensor a = number(1), b = number(2), c = number(3);
  check_form(a, {1});
  check_form(std::optional(a), {1});
  check_form(std::optional<Tensor>(), {});
  check_form(std::pair(a, 5), {1});
  check_form(std::tuple(a, std::string("text"), b, 0.5, std::tuple<>()), {1, 2});
  check_form(std::vector{a, b, c}, {1, 2, 3});
  check_form(std::array{a, b}, {1, 2});
  check_form(std::list{std::pair(b, a)}, {2, 1});
  check_form(std::map<std::string, Tensor>{{"y", a}, {"x", b}}, {2, 1});
  check_form(std::unordered_map<int, std::vector<Tensor>>{{7, {a, b}}}, {1, 2});
  check_form(NestedPair{a, b}, {1, 2});
  check_form(nn::LSTMOutput{a, {b, c}}, {1, 2, 3});
  check_form(Batch{a, b, "folder", {c}}, {1, 2, 3});
  check_form(
      std::map<int, std::optional<std::array<NestedPair, 1>>>{{1, {{NestedPair{a, b}}}}, {2, {}}},
      {1, 2});
}

TEST_CASE("nested values: types without tensors, or without a declaration, are copied unchanged") {
  check_form(3, {});
  check_form(std::string("text"), {});
  check_form(std::vector<bool>{true}, {});
  check_form(std::filesystem::path("a/b"), {});
  check_form(std::make_shared<Tensor>(number(1)), {});
  check_form(Hidden{number(1), 2}, {});
  const Batch batch =
      map_tensors(Batch{number(1), number(2), "folder"}, [](const Tensor& t) { return t; });
  CHECK(batch.source == "folder");
}

TEST_CASE("nested values: undefined tensors are seen, and keep their places") {
  const std::vector<Tensor> list = {Tensor(), number(2)};
  std::vector<bool> defined;
  for_each_tensor(list, [&](const Tensor& t) { defined.push_back(t.defined()); });
  CHECK(defined == std::vector{false, true});
  std::vector<Tensor> changed = list;
  for_each_tensor(changed, [](Tensor& t) { t = number(t.defined() ? 7 : 8); });
  CHECK(numbers_in(changed) == std::vector<double>{8, 7});
}

TEST_CASE("nested values: structs go through scatter and gather") {
  const std::vector<Device> devices = test::cpu_devices(2);
  const Batch batch{test::counting({3, 2}, "cpu"), test::counting({3}, "cpu"), "folder"};
  const std::vector<Batch> parts = scatter(batch, devices);
  REQUIRE(parts.size() == 2);
  CHECK(parts[1].images.device() == devices[1]);
  CHECK(parts[1].images.to_vector<int>() == std::vector{4, 5});
  CHECK(parts[1].source == "folder");
  CHECK(gather(parts, "cpu").images.to_vector<int>() == batch.images.to_vector<int>());
  CHECK(gather(parts, "cpu").labels.to_vector<int>() == batch.labels.to_vector<int>());
}
