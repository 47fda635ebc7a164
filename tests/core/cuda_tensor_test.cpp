// Operations of core/ itself on CUDA tensors.
#include <numeric>
#include <sstream>

#include "ferrite/core/host_copy.h"
#include "ferrite/core/views.h"
#include "ferrite/tests/core/test_util.h"
#include "ferrite/tests/support/cuda.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

template <class T = float>
Tensor numbers(const Shape& shape, const Device& device = "cuda:0") {
  std::vector<T> values(static_cast<std::size_t>(shape.numel()));
  std::iota(values.begin(), values.end(), T(0));
  return on_device(values, shape, device);
}

}  // namespace

TEST_CASE("values of a CUDA tensor are read in its order, whatever the strides") {
  REQUIRE_CUDA(1);
  const Tensor t = numbers({2, 3, 4}), host = iota({2, 3, 4});
  CHECK(t.describe() == "float32[2, 3, 4] on cuda:0");
  CHECK(t.to_vector<double>() == host.to_vector<double>());
  const auto views = [](const Tensor& x) {
    using namespace geometry;
    return std::vector<Tensor>{apply(x, transpose(x, 0, 2)), apply(x, select(x, 1, 2)),
                               apply(x, slice(x, 2, 1, 4, 2)), apply(x, narrow(x, 0, 1, 1)),
                               apply(x, slice(x, 0, 2, 2, 1))};
  };
  for (std::size_t i = 0; i < views(t).size(); ++i) {
    const Tensor view = views(t)[i], expected = views(host)[i];
    CHECK(view.to_vector<double>() == expected.to_vector<double>());
    const Tensor copy = detail::readable_on_host(view, "test");
    CHECK(copy.device() == Device());
    CHECK(copy.strides() == view.strides());
    CHECK(copy.to_vector<double>() == expected.to_vector<double>());
  }
  const Tensor scalar = geometry::as_strided(t, {}, {}, 17);
  CHECK(scalar.item<int>() == 17);
  CHECK(geometry::as_strided(t, {4}, {0}, 5).to_vector<int>() == std::vector<int>(4, 5));
  CHECK_THROWS_AS(t.item<float>(), ShapeError);
  CHECK(detail::readable_on_host(host, "test").is_same(host));
}

TEST_CASE("elements of every dtype") {
  REQUIRE_CUDA(1);
  CHECK(on_device<std::int64_t>({-1, 1LL << 40}, {2}, "cuda:0").to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{-1, 1LL << 40});
  CHECK(on_device<Half>({1.5f}, {1}, "cuda:0").item<double>() == 1.5);
  CHECK(on_device<BFloat16>({-2.0f}, {}, "cuda:0").item<double>() == -2);
  CHECK(on_device<double>({0.1}, {1}, "cuda:0").item<double>() == 0.1);
  CHECK(on_device<std::uint8_t>({255}, {1}, "cuda:0").item<int>() == 255);
  CHECK(on_device<bool>({true, false}, {2}, "cuda:0").to_vector<bool>() ==
        std::vector<bool>{true, false});
}

TEST_CASE("a large tensor, which does not go through pinned memory") {
  REQUIRE_CUDA(1);
  const Tensor t = numbers<std::int32_t>({5 << 20});
  const std::vector<std::int32_t> values = t.to_vector<std::int32_t>();
  CHECK(values.front() == 0);
  CHECK(values[1234567] == 1234567);
  CHECK(values.back() == (5 << 20) - 1);
}

TEST_CASE("printing") {
  REQUIRE_CUDA(1);
  std::ostringstream out;
  out << numbers({2, 2});
  CHECK(out.str() == "tensor([[0., 1.],\n        [2., 3.]], device='cuda:0')");
  const Tensor many = numbers<std::int64_t>({2000});
  CHECK(many.str() == "tensor([   0,    1,    2,  ..., 1997, 1998, 1999], device='cuda:0')");
  CHECK(empty({0}, {.device = "cuda:0"}).str() == "tensor([], device='cuda:0')");
}

TEST_CASE("making tensors") {
  REQUIRE_CUDA(2);
  const Tensor t = empty({2, 3}, {.dtype = kFloat16, .device = "cuda:1"});
  CHECK(t.device() == Device("cuda:1"));
  CHECK(reinterpret_cast<std::uintptr_t>(t.data_ptr()) % 512 == 0);
  CHECK(empty_like(t).device() == t.device());
  CHECK_FALSE(t.is_pinned());
  CHECK(empty({0}, {.device = "cuda:1"}).data_ptr() == nullptr);
  const Tensor strided = empty_strided({2, 2}, {8, 2}, {.device = "cuda:0"});
  CHECK(strided.storage()->nbytes() == 44);
}
