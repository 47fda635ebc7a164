// The program examples/device_info.
#include "ferrite/core/cuda.h"
#include "ferrite/tests/examples/process.h"

using namespace ferrite;
using namespace ferrite::test;

TEST_CASE("device_info lists the devices, with and without a CUDA device") {
  const TempDir folder;
  const Outcome outcome = run_program("device_info", {}, folder.path());
  CHECK(outcome.code == 0);
  CHECK(outcome.err.empty());
  CHECK(outcome.out.find("CUDA runtime ") == 0);
  CHECK(outcome.out.find("cpu  ") != std::string::npos);
  for (int i = 0; i < cuda::device_count(); ++i) {
    CHECK(outcome.out.find(cuda::properties(i).name) != std::string::npos);
    CHECK(outcome.out.find("memory of cuda:" + std::to_string(i)) != std::string::npos);
  }
  if (!cuda::is_available()) CHECK(outcome.out.find("no CUDA device: ") != std::string::npos);
}
