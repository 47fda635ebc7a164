// Tensors with a tape are not given to libraries that do not know it.
#include "ferrite/core/dlpack.h"

#include <doctest/doctest.h>

#include "ferrite/ops/arithmetic.h"
#include "ferrite/tests/support/message.h"

using namespace ferrite;
using namespace ferrite::test;

TEST_CASE("dlpack: a tensor that requires a gradient is refused, and detached it is taken") {
  const Tensor leaf = from_vector<float>({1, 2}, {2}).requires_grad_();
  const Tensor result = leaf * leaf;
  for (const Tensor& tensor : {leaf, result}) {
    CHECK(contains(message_of<ValueError>([&] { to_dlpack(tensor); }), "pass tensor.detach()"));
    CHECK(from_dlpack(to_dlpack(tensor.detach())).data_ptr() == tensor.data_ptr());
  }
  leaf.requires_grad_(false);
  CHECK(from_dlpack(to_dlpack(leaf)).data_ptr() == leaf.data_ptr());
}
