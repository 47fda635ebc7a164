#include "ferrite/core/cuda.h"
#include "ferrite/tests/parallel/tensor_parallel_layers.h"
#include "ferrite/tests/support/cuda.h"

using namespace ferrite;
using namespace ferrite::test;
using parallel::ProcessGroup;

namespace {

const Sizes kSizes{.hidden = 10};

std::function<Tensor(const Tensor&)> calling(nn::Module& module) {
  return [&module](const Tensor& x) { return module(x); };
}

}  // namespace

TEST_CASE("an MLP split over CUDA devices is the whole one") {
  REQUIRE_CUDA(1);
  const int count = std::min(cuda::device_count(), 3);
  for (const auto& [dtype, tolerance] :
       {std::pair{kFloat64, 1e-12}, {kFloat32, 1e-5}, {kFloat16, 2e-2}}) {
    CAPTURE(name(dtype));
    const Tensor x = randn({4, 6}).to(dtype), dy = randn({4, 6}).to(dtype);
    manual_seed(7);
    WholeMLP mlp(kSizes);
    mlp.to(dtype).to(kFloat64);
    const TwoUses whole = use_twice(calling(mlp), mlp, x.to(kFloat64), dy.to(kFloat64));
    std::vector<Device> devices;
    for (int i = 0; i < 3; ++i) devices.emplace_back(DeviceType::cuda, i % count);
    manual_seed(7);
    parallel::SplitMLP split(kSizes.in, kSizes.hidden, devices);
    split.to(dtype);
    check_same(use_twice(calling(split), split, x.to(devices[0]), dy), split, whole, tolerance);
  }
}

TEST_CASE("an MLP split over ranks with a CUDA device each is the whole one") {
  REQUIRE_CUDA(2);
  const Sizes sizes;
  const Tensor x = randn({4, 6}, {.dtype = kFloat64}), dy = randn({4, 6}, {.dtype = kFloat64});
  manual_seed(7);
  WholeMLP mlp(sizes);
  mlp.to(kFloat64);
  const TwoUses whole = use_twice(calling(mlp), mlp, x, dy);
  manual_seed(7);
  parallel::run_ranks(
      2,
      [&](ProcessGroup& group) {
        const Device device(DeviceType::cuda, group.rank());
        parallel::ParallelMLP split(sizes.in, sizes.hidden);
        split.to(device, kFloat64);
        check_equal(parallel::full_state_dict(split), mlp.state_dict());
        check_same(use_twice(calling(split), split, x.to(device), dy), split, whole, 1e-12);
      },
      kShortGroup);
}
