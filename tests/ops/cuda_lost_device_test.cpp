// A CUDA device whose context is lost, as after a kernel that trapped: the errors say so, nothing
// hangs, nothing throws where it must not, and the other devices go on.
#include <doctest/doctest.h>

#include <functional>

#include "ferrite/core/allocator.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/creation.h"
#include "ferrite/tests/support/cuda.h"
#include "ferrite/tests/support/message.h"

using namespace ferrite;
using namespace ferrite::test;

TEST_CASE("a lost device says so, and lets go of all that it had") {
  REQUIRE_EMULATOR();
  REQUIRE_CUDA(2);
  const Device device("cuda:0"), other("cuda:1");
  const Stream stream = Stream::create(device);
  Tensor x = full({1000}, 3, {.device = device}), pinned = full({1000}, 1, {.pinned = true});
  const Tensor there = full({3}, 2, {.device = other});
  x.copy_(pinned, non_blocking);
  x.set_requires_grad();
  Tensor y = x * 2;
  Event event;
  event.record(stream);
  synchronize(device);
  {
    const LostDevice lost(0);
    const auto says_so = [](const std::function<void()>& f) {
      const std::string text = message_of<CudaError>(f);
      CHECK_MESSAGE(text.find("the process must be restarted") != std::string::npos, text);
    };
    says_so([&] { x.to_vector<float>(); });
    says_so([&] { x.detach() + 1; });
    says_so([&] { y.backward(y.detach()); });
    says_so([&] { ones({3}).to(device); });
    says_so([&] { synchronize(device); });
    says_so([&] { stream.synchronize(); });
    says_so([&] { event.synchronize(); });
    // There is nothing more to wait for.
    CHECK(stream.query());
    CHECK(event.query());
    says_so([&] { empty_cache(device); });
    y = {}, x = {}, pinned = {};
    CHECK(memory_allocated(other) > 0);
    CHECK((there * 2).to_vector<double>() == std::vector<double>(3, 4));
  }
  CHECK((there + 1).to_vector<double>() == std::vector<double>(3, 3));
}
