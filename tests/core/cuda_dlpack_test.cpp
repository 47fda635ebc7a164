// CUDA tensors in DLPack's structs.
#include "ferrite/core/cuda.h"
#include "ferrite/core/dlpack.h"
#include "ferrite/core/views.h"
#include "ferrite/tests/core/test_util.h"
#include "ferrite/tests/support/cuda.h"

using namespace ferrite;
using namespace ferrite::test;

TEST_CASE("dlpack: a CUDA tensor goes out with its device, and comes back without a copy") {
  REQUIRE_CUDA(1);
  const Device device("cuda:0");
  const Tensor t = on_device(std::vector<float>{0, 1, 2, 3, 4, 5}, {2, 3}, device);
  dlpack::ManagedTensor* given = to_dlpack(geometry::as_strided(t, {3}, {2}, 1));
  CHECK(given->dl_tensor.device.device_type == dlpack::DeviceType::cuda);
  CHECK(given->dl_tensor.device.device_id == 0);
  {
    const Tensor back = from_dlpack(given);
    CHECK(back.device() == device);
    CHECK(back.data_ptr() == t.data<float>() + 1);
    CHECK(back.to_vector<float>() == std::vector<float>{1, 3, 5});
  }
  dlpack::ManagedTensorVersioned* versioned = to_dlpack_versioned(t);
  versioned->dl_tensor.device.device_type = dlpack::DeviceType::cuda_managed;
  CHECK(from_dlpack(versioned).to_vector<float>() == t.to_vector<float>());
  versioned = to_dlpack_versioned(t);
  versioned->dl_tensor.device.device_id = cuda::device_count();
  CHECK_THROWS_AS(from_dlpack(versioned), DeviceError);
  versioned->deleter(versioned);
}
