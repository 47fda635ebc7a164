// What messages say of a collective call.
#include "ferrite/parallel/comm/call.h"

#include <doctest/doctest.h>

#include <array>
#include <cstring>

#include "ferrite/ops/creation.h"

using namespace ferrite;
using namespace ferrite::parallel;

TEST_CASE("a call is described by its operation, its type and its sizes") {
  const Tensor x = zeros({2, 3});
  CHECK(comm::describe(comm::Call{comm::Collective::all_reduce, ReduceOp::sum, 0, x, x}) ==
        "all_reduce(sum) of float32[2, 3]");
  const std::array names{4, 7};
  CHECK(comm::describe(comm::Call{comm::Collective::broadcast, ReduceOp::sum, 1, x, x}, names) ==
        "broadcast from rank 7 of float32[2, 3]");
  CHECK(comm::describe(comm::Call{}) == "barrier");
}

TEST_CASE("a signature of another process may have any bytes") {
  comm::Signature s;
  s.kind = comm::Collective::all_reduce;
  s.op = static_cast<ReduceOp>(5);
  s.dtype = static_cast<DType>(12);
  CHECK(comm::describe(s) == "all_reduce(an unknown reduction) of an unknown type[]");
  for (int byte = 0; byte < 256; ++byte) {
    std::memset(static_cast<void*>(&s), byte, sizeof s);
    CHECK(comm::describe(s).size() < 400);
  }
}
