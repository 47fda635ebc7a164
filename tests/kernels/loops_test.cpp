#include "ferrite/kernels/cpu/loops.h"

#include <doctest/doctest.h>

#include <atomic>

#include "ferrite/core/views.h"
#include "ferrite/tests/kernels/layouts.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using namespace ferrite::test;
using kernels::LoopNest;
using kernels::View;

namespace {

/// 0, 1, 2, ... over the whole storage.
void number(const Tensor& t) {
  auto* values = static_cast<float*>(t.storage()->data());
  for (std::size_t i = 0; i < t.storage()->nbytes() / sizeof(float); ++i)
    values[i] = static_cast<float>(i);
}

template <class... Tensors>
auto nest_of(const Tensors&... tensors) {
  const View views[] = {View(tensors)...};
  std::array<const View*, sizeof...(tensors)> pointers;
  for (std::size_t i = 0; i < sizeof...(tensors); ++i) pointers[i] = &views[i];
  return LoopNest<sizeof...(tensors)>(pointers);
}

Tensor transposed(const Tensor& t) { return geometry::apply(t, geometry::transpose(t, 0, 1)); }

}  // namespace

TEST_CASE("dimensions merge where every view allows it") {
  const Tensor a = empty({4, 5, 6});
  CHECK(nest_of(a, a).ndim == 1);
  CHECK(nest_of(a, a).sizes[0] == 120);
  // The same permutation of all operands has no effect.
  const Tensor t = geometry::apply(a, geometry::permute(a, {2, 0, 1}));
  CHECK(nest_of(t, t, t).ndim == 1);
  const Tensor nhwc = empty({2, 3, 4, 5}, {.memory_format = kChannelsLast});
  CHECK(nest_of(nhwc, nhwc).ndim == 1);
  CHECK(nest_of(empty({2, 3, 4, 5}), nhwc).ndim == 3);
  // A row shared by all rows, and a column shared by all columns.
  const Tensor m = empty({4, 6}), row = empty({6}), column = empty({4, 1});
  CHECK(nest_of(m, geometry::apply(row, geometry::expand(row, {4, 6}))).ndim == 2);
  CHECK(nest_of(m, geometry::apply(column, geometry::expand(column, {4, 6}))).ndim == 2);
  const Tensor scalar = empty({});
  CHECK(nest_of(m, geometry::apply(scalar, geometry::expand(scalar, {4, 6}))).ndim == 1);
  CHECK(nest_of(geometry::as_strided(m, {1, 4, 1, 6, 1}, {99, 6, 99, 1, 99}, 0)).ndim == 1);
}

TEST_CASE("the innermost dimension is the one the first view has densest") {
  const Tensor out = transposed(empty({5, 7}));  // [7, 5], strides 1 and 7
  const auto nest = nest_of(out, empty({7, 5}));
  REQUIRE(nest.ndim == 2);
  CHECK(nest.sizes[1] == 7);
  CHECK(nest.strides[1][0] == 1);
  CHECK(nest.strides[1][1] == 5);
}

TEST_CASE("runs visit every element once, whatever the layouts, grains and threads") {
  const int threads = num_threads();
  Generator random(1);
  for (int round = 0; round < 200; ++round) {
    set_num_threads(1 + round % 3);
    const Shape shape = random_shape(random, 6, 6);
    const Tensor a = random_layout(random, shape, kFloat32);
    const Tensor b = randomly_expanded(random, random_layout(random, shape, kFloat32));
    const View va(a), vb(b);
    const auto grain = static_cast<std::int64_t>(1 + random.next_below(50));
    std::vector<std::atomic<int>> visits(a.storage()->nbytes() / sizeof(float));
    std::vector<std::atomic<std::int64_t>> partner(visits.size());
    kernels::cpu::for_each_run<2>(
        {&va, &vb},
        [&](const auto& at, const auto& step, std::int64_t n) {
          CHECK(n > 0);
          for (std::int64_t i = 0; i < n; ++i) {
            const auto slot = static_cast<std::size_t>(at[0] + i * step[0]);
            ++visits[slot];
            partner[slot] = at[1] + i * step[1];
          }
        },
        grain);
    set_num_threads(threads);
    const auto oa = offsets_of(a), ob = offsets_of(b);
    std::int64_t total = 0;
    for (const auto& v : visits) total += v;
    CHECK(total == a.numel());
    std::int64_t wrong = 0;
    for (std::size_t i = 0; i < oa.size(); ++i) {
      const auto slot = static_cast<std::size_t>(oa[i]);
      wrong += visits[slot] != 1 || partner[slot] != ob[i];
    }
    CHECK_MESSAGE(wrong == 0, shape.str(), a.strides().str(), b.strides().str(), grain);
  }
}

TEST_CASE("map of one and of two operands agrees with index loops") {
  Generator random(2);
  for (int round = 0; round < 300; ++round) {
    const Shape shape = random_shape(random, 5, 8);
    const auto operand = [&] {
      Tensor t = random_layout(random, shape, kFloat32);
      number(t);
      return random.next_below(2) ? randomly_expanded(random, t) : t;
    };
    const Tensor a = operand(), b = operand(), out = random_layout(random, shape, kFloat32);
    const auto before = bytes_of_storage(out);
    const auto x = a.to_vector<double>(), y = b.to_vector<double>();

    kernels::cpu::map<float, float>(out, a, [](float v) { return 2 * v + 1; });
    std::vector<double> expected;
    for (double v : x) expected.push_back(2 * v + 1);
    check_close(out, expected, 0);
    CHECK(untouched_outside(out, before));

    kernels::cpu::map<float, float, float>(out, a, b, [](float v, float w) { return v - 3 * w; });
    for (std::size_t i = 0; i < x.size(); ++i) expected[i] = x[i] - 3 * y[i];
    check_close(out, expected, 0);
    CHECK(untouched_outside(out, before));
  }
}

TEST_CASE("the result may be one of the inputs, or both") {
  Generator random(3);
  for (int round = 0; round < 100; ++round) {
    const Shape shape = random_shape(random, 4, 40);
    const Tensor a = random_layout(random, shape, kFloat32);
    const Tensor b = random_layout(random, shape, kFloat32);
    number(a);
    number(b);
    auto x = a.to_vector<double>();
    const auto y = b.to_vector<double>();
    const auto subtract = [](float v, float w) { return v - 2 * w; };
    kernels::cpu::map<float, float, float>(a, a, b, subtract);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] -= 2 * y[i];
    check_close(a, x, 0);
    kernels::cpu::map<float, float, float>(a, b, a, subtract);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = y[i] - 2 * x[i];
    check_close(a, x, 0);
    kernels::cpu::map<float, float, float>(a, a, a, subtract);
    for (double& v : x) v = -v;
    check_close(a, x, 0);
    kernels::cpu::map<float, float>(a, a, [](float v) { return v + 1; });
    for (double& v : x) v += 1;
    check_close(a, x, 0);
  }
}

TEST_CASE("16-bit values are computed in float, bool comes out as 0 or 1") {
  const Tensor a = from_vector(std::vector<Half>{1.F, 2.F, 3.F}, {3});
  const Tensor out = empty({3}, {.dtype = kFloat16});
  kernels::cpu::map<Half, Half>(out, a, [](auto v) {
    static_assert(std::is_same_v<decltype(v), float>);
    return v * 1000.F * 0.001F;  // half cannot represent a fraction of 3000
  });
  check_close(out, {1, 2, 3}, 1e-3);
  const Tensor flags = empty({3}, {.dtype = kBool});
  kernels::cpu::map<bool, Half>(flags, a, [](float v) { return v - 2; });
  CHECK(static_cast<unsigned char*>(flags.data_ptr())[0] == 1);
  CHECK(static_cast<unsigned char*>(flags.data_ptr())[1] == 0);
  CHECK(static_cast<unsigned char*>(flags.data_ptr())[2] == 1);
}
