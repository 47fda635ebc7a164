#include "ferrite/data/host.h"

#include "ferrite/core/views.h"
#include "ferrite/data/safetensors.h"
#include "ferrite/tests/data/files.h"
#include "ferrite/tests/support/cuda.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

const std::vector<std::int32_t> kValues = {0, 1, 2, 3, 4, 5};

std::vector<Device> devices() {
  std::vector<Device> all = {"cpu", "cpu:0"};
  if (cuda::is_available()) all.emplace_back("cuda:0");
  return all;
}

}  // namespace

TEST_CASE("tensors of every device become rows on the host") {
  for (const Device& device : devices()) {
    CAPTURE(device);
    const Tensor t = on_device(kValues, {2, 3}, device);
    const Tensor same = data::host_contiguous(t, "test");
    CHECK(same.device().is_cpu());
    CHECK(same.to_vector<int>() == kValues);
    const Tensor turned = geometry::apply(t, geometry::transpose(t, 0, 1));
    const Tensor rows = data::host_contiguous(turned, "test");
    CHECK(rows.is_contiguous());
    CHECK(rows.shape() == Shape{3, 2});
    CHECK(rows.to_vector<int>() == std::vector<int>{0, 3, 1, 4, 2, 5});
  }
  CHECK(message_of<ValueError>([] { data::host_contiguous({}, "test"); }) ==
        "[test] expected a tensor, got an undefined one");
}

TEST_CASE("pinned copies") {
  if (!cuda::is_available())
    CHECK_THROWS_AS(data::pinned(on_device(kValues, {6}, "cpu")), DeviceError);
  CHECK_FALSE(data::pinned({}).defined());
  REQUIRE_CUDA(1);
  for (const Device& device : devices()) {
    CAPTURE(device);
    const Tensor t = on_device(kValues, {2, 3}, device);
    const Tensor copy = data::pinned(geometry::apply(t, geometry::transpose(t, 0, 1)));
    CHECK(copy.is_pinned());
    CHECK(copy.to_vector<int>() == std::vector<int>{0, 3, 1, 4, 2, 5});
    CHECK(data::pinned(copy).is_same(copy));
  }
  CHECK(data::pinned(empty({0, 3})).shape() == Shape{0, 3});
}

TEST_CASE("tensors of a CUDA device are saved as they are") {
  REQUIRE_CUDA(1);
  const TempDir folder;
  const auto path = folder / "t.safetensors";
  const Tensor t = on_device(kValues, {2, 3}, "cuda:0");
  const Tensor turned = geometry::apply(t, geometry::transpose(t, 0, 1));
  data::save_safetensors({{"t", t}, {"turned", turned}}, path);
  const auto loaded = data::load_safetensors(path);
  CHECK(loaded.at("t").to_vector<int>() == kValues);
  CHECK(loaded.at("turned").to_vector<int>() == std::vector<int>{0, 3, 1, 4, 2, 5});
}
