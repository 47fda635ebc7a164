// The program examples/compare_parallel on CUDA devices.
#include <algorithm>

#include "ferrite/core/cuda.h"
#include "ferrite/tests/examples/workplace.h"
#include "ferrite/tests/support/cuda.h"

using namespace ferrite;
using namespace ferrite::test;

TEST_CASE("compare_parallel on CUDA devices says whether they are emulated") {
  REQUIRE_CUDA(1);
  const Workplace place("compare_parallel");
  const int devices = std::min(cuda::device_count(), 2);
  check_fine(place.run({"--device",      "cuda", "--devices",   std::to_string(devices),
                        "--batch",       "4",    "--scaling",   "strong",
                        "--steps",       "1",    "--warmup",    "2",
                        "--repetitions", "1",    "--bucket-mb", "25",
                        "--overlap",     "on",   "--json",      "all.json"}));
  const json found = place.report("all.json");
  CHECK(found["machine"].at("kind") == (is_emulated() ? "emulated gpus" : "gpus"));
  REQUIRE(found.at("rows").size() == (devices == 1 ? 1 : 5));
  for (const json& row : found["rows"]) {
    CAPTURE(row.at("label").get<std::string>());
    CHECK(row.at("error") == json(nullptr));
    CHECK(row.at("step_ms").at("median") > 0);
    const bool ddp = row["case"].at("strategy").get<std::string>().starts_with("ddp");
    CHECK(row.at("hidden_ms").is_null() == ddp);
    for (const json& peak : row.at("peak_memory")) CHECK(peak > 60000 * 4);
  }
  for (const json& profile : found.at("profiles")) {
    CHECK(profile.at("parameters").size() == 10);
    CHECK(profile.at("backward_tail").at("median") >= 0);
  }
}
