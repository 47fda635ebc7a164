#include "ferrite/core/deterministic.h"

#include "ferrite/tests/core/test_util.h"

using namespace ferrite;
using ferrite::test::message_of;

TEST_CASE("ops without a deterministic algorithm throw while the mode is on") {
  CHECK_FALSE(are_deterministic_algorithms_enabled());
  alert_not_deterministic("scatter_add", Device());
  use_deterministic_algorithms(true);
  CHECK(are_deterministic_algorithms_enabled());
  CHECK(message_of<Error>([] { alert_not_deterministic("scatter_add", Device()); }) ==
        "[scatter_add] has no deterministic algorithm on cpu; run it on the cpu, or allow it with "
        "use_deterministic_algorithms(false)");
  use_deterministic_algorithms(false);
  alert_not_deterministic("scatter_add", Device());
}
