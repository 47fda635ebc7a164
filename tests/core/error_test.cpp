#include "ferrite/core/error.h"

#include <thread>
#include <type_traits>

#include "ferrite/core/warning.h"
#include "ferrite/tests/core/test_util.h"

using namespace ferrite;
using ferrite::test::message_of;

TEST_CASE_TEMPLATE("every error is a ferrite::Error with its operation", E, Error, ShapeError,
                   DTypeError, DeviceError, IndexError, ValueError, AutogradError, IoError,
                   CudaError, DistributedError, OutOfMemoryError) {
  CHECK(std::is_base_of_v<Error, E>);
  CHECK(std::is_base_of_v<std::runtime_error, E>);
  const auto raise = [] { fail<E>("conv2d", "input has {} channels, weight expects {}", 3, 4); };
  CHECK(message_of<E>(raise) == "[conv2d] input has 3 channels, weight expects 4");
  CHECK(message_of<Error>(raise) == "[conv2d] input has 3 channels, weight expects 4");
}

TEST_CASE("a check evaluates its message only when it fails") {
  int evaluated = 0;
  const auto argument = [&] { return ++evaluated; };
  FERRITE_CHECK(true, ValueError, "op", "{}", argument());
  CHECK(evaluated == 0);
  CHECK(message_of<ValueError>([&] { FERRITE_CHECK(1 > 2, ValueError, "op", "{}", argument()); }) ==
        "[op] 1");
  CHECK(evaluated == 1);
}

TEST_CASE("a check is one statement") {
  if (false)
    FERRITE_CHECK(false, ValueError, "op", "never");
  else
    CHECK(true);
}

TEST_CASE("a warning handler may warn, set another, and wait for a thread that warns") {
  std::vector<std::string> texts;
  const WarningHandler before = set_warning_handler([&](std::string_view text) {
    texts.emplace_back(text);
    if (texts.size() == 1) warn("op", "second");
    if (texts.size() == 2) std::thread([] { warn("op", "third"); }).join();
    if (texts.size() == 3) set_warning_handler({});
  });
  warn("op", "first");
  warn("op", "silenced");
  CHECK(!set_warning_handler(before));
  CHECK(texts == std::vector<std::string>{"[op] first", "[op] second", "[op] third"});
}
