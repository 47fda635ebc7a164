// compare_parallel --simulate and --check-simulation, and their output.
#include <fstream>

#include "ferrite/examples/compare_parallel/planning/plan.h"
#include "ferrite/parallel/comm/backend.h"
#include "ferrite/tests/examples/planning_references.h"
#include "ferrite/tests/examples/workplace.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

/// Writes a model of 100 MB to the folder as profile.json.
void write_model(const Workplace& place) {
  planning::ModelProfile profile = planning::uniform_profile({.model = "a model",
                                                              .device = "a device",
                                                              .batch = 32,
                                                              .gradient_bytes = 100'000'000,
                                                              .forward_s = 0.1,
                                                              .backward_s = 0.2});
  std::ofstream(place / "profile.json") << planning::to_json(profile);
}

}  // namespace

TEST_CASE("compare_parallel --simulate: 65,536 devices from a profile") {
  const Workplace place("compare_parallel");
  write_model(place);
  const auto simulate = [&](const std::string& name) {
    const Outcome outcome = place.run({"--simulate", "65536", "--from", "profile.json", "--inside",
                                       "nvlink3", "--between", "infiniband-hdr", "--adapters", "4",
                                       "--stragglers", "lognormal:0.05", "--json", name + ".json",
                                       "--csv", name + ".csv", "--svg", name + ".svg"});
    check_fine(outcome);
    return outcome.out;
  };
  const std::string out = simulate("a");
  for (const char* text : {"a model", "a device", "65536", "DDP has the higher throughput on",
                           "more devices are worthwhile up to", "50000 hours"})
    CHECK(contains(out, text));
  const json plans = place.report("a.json");
  REQUIRE(plans.size() == 2);  // weak, strong
  CHECK(plans[0].at("schema") == "ferrite.plan");
  CHECK(plans[0].at("rows").size() == 48);
  CHECK(plans[0].at("rows").back().at("goodput").get<double>() < 0.95);
  CHECK(plans[0].at("single_step_ms") == doctest::Approx(300));
  CHECK(plans[1].at("scaling") == "strong");
  CHECK(plans[1].at("rows").back().at("devices") == 32);  // no more than samples
  CHECK(contains(read_file(place / "a.svg"), "<svg"));

  // A batch that was not measured: scaled in proportion. One strategy.
  check_fine(place.run({"--simulate", "64", "--from", "profile.json", "--batch", "64",
                        "--strategies", "single,ddp-ring", "--json", "batch.json"}));
  const json batch = place.report("batch.json");
  REQUIRE(batch.size() == 2);
  for (const json& one : batch) {
    CHECK(one.at("single_step_ms") == doctest::Approx(600));
    REQUIRE(one.at("rows").size() == 6);  // 2 to 64
    CHECK(one["rows"].back().at("devices") == 64);
    CHECK(one["rows"].back().at("batch") == (one.at("scaling") == "strong" ? 64 : 64 * 64));
    for (const json& row : one["rows"]) CHECK(row.at("strategy") == "ddp");
  }

  // The same seed gives the same bytes.
  CHECK(simulate("b") == out);
  for (const char* kind : {".json", ".csv", ".svg"})
    CHECK(read_file(place / ("a" + std::string(kind))) ==
          read_file(place / ("b" + std::string(kind))));
}

TEST_CASE("compare_parallel --simulate and --check-simulation measure by themselves") {
  if (!parallel::has_gloo()) {
    MESSAGE("skipped: this build is without Gloo");
    return;
  }
  const Workplace place("compare_parallel");
  const Arguments few{"--steps", "2", "--repetitions", "1", "--batch", "4"};
  Arguments simulate = few;
  simulate.insert(simulate.end(),
                  {"--simulate", "2,6", "--scaling", "weak", "--json", "plan.json"});
  check_fine(place.run(simulate));
  const json plans = place.report("plan.json");
  CHECK(plans.at(0).at("rows").size() == 6);

  // Checks only that there are predictions: their accuracy can be judged only on an idle machine.
  Arguments check = few;
  check.insert(check.end(),
               {"--check-simulation", "--scaling", "weak", "--strategies", "single,dp,ddp",
                "--bucket-mb", "25", "--overlap", "on", "--json", "check.json"});
  const Outcome outcome = place.run(check);
  INFO(outcome.out, outcome.err);
  CHECK((outcome.code == 0 || outcome.code == 1));
  CHECK(contains(outcome.out, "the largest error is"));
  const json errors = place.report("check.json");
  REQUIRE(errors.size() == 2);
  for (const json& row : errors) {
    CHECK(row.at("predicted_ms").get<double>() > 0);
    CHECK(row.at("error").get<double>() ==
          doctest::Approx(
              row.at("predicted_ms").get<double>() / row.at("measured_ms").get<double>() - 1));
  }
}

TEST_CASE("compare_parallel --check-simulation: failures are reported") {
  if (!parallel::has_gloo()) {
    MESSAGE("skipped: this build is without Gloo");
    return;
  }
  const Workplace place("compare_parallel");
  const Outcome measured = place.run(
      {"--steps", "2", "--repetitions", "1", "--batch", "1", "--scaling", "strong", "--strategies",
       "single,ddp", "--bucket-mb", "25", "--overlap", "on", "--json", "measured.json"});
  CHECK(measured.code == 1);
  const Outcome outcome =
      place.run({"--check-simulation", "--from", "measured.json", "--json", "check.json"});
  INFO(outcome.out, outcome.err);
  CHECK(outcome.code == 1);
  CHECK(contains(outcome.out, "1 images are too few for 2 devices"));
  CHECK(contains(outcome.out, "some of the requested cases could not be checked"));
  const json rows = place.report("check.json");
  REQUIRE(rows.size() == 1);
  CHECK(contains(rows[0].at("unchecked").get<std::string>(), "too few"));
}

TEST_CASE("compare_parallel rejects damaged reports") {
  const Workplace place("compare_parallel");
  const auto refused = [&](const std::string& report, const std::string& text) {
    std::ofstream(place / "report.json") << report;
    check_refused(place.run({"--simulate", "8", "--from", "report.json"}), text, 1);
    check_refused(place.run({"--check-simulation", "--from", "report.json"}), text, 1);
  };
  const std::string begin = R"({"schema":"ferrite.compare_parallel","version":)";
  const auto nested = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  refused(begin + "1,", "not valid JSON");
  refused(begin + "2}", "expected version 1 of the schema, got 2");
  refused(begin + "\"1\"}", "the measurement is incomplete");
  refused(begin + "1}", "the measurement is incomplete");
  // What a conversion would cut off, and what would take all of the stack.
  refused(begin + "4294967297}", "expected a sound number for 'version', got 4294967297");
  refused(begin + R"(1,"model":{"parameters":1e300}})", "for 'parameters', got 1e+300");
  refused(begin + R"(1,"profiles":[)" + nested(500'000) + "]}", "nested 16 times at most");
  refused(nested(500'000), "nested 16 times at most");
  // Quadratic time for the objects of one object would be minutes.
  std::string many = begin + "1";
  for (int i = 0; i < 200'000; ++i) many += ",\"" + std::to_string(i) + "\":{}";
  refused(many + "}", "the measurement is incomplete");
}

TEST_CASE("compare_parallel rejects simulations that are not possible") {
  const Workplace place("compare_parallel");
  write_model(place);
  const auto refused = [&](Arguments more, const std::string& text, int code = 1) {
    more.insert(more.begin(), {"--simulate", "8", "--from", "profile.json"});
    check_refused(place.run(more), text, code);
  };
  refused({"--inside", "token-ring"}, "expected a link (one of nvlink1");
  refused({"--stragglers", "sometimes"}, "expected none, lognormal:SIGMA");
  refused({"--per-node", "0"}, "--per-node", -1);
  refused({"--strategies", "single"}, "there is nothing to plan");
  refused({"--all-reduce", "star"}, "--all-reduce", -1);
  check_refused(place.run({"--simulate", "0"}), "--simulate", -1);
  check_refused(place.run({"--simulate", "8", "--from", "nothing.json"}), "nothing.json");
  write_file(place / "bad.json", "{\"model\": 1}");
  check_refused(place.run({"--simulate", "8", "--from", "bad.json"}),
                "expected a string for model of the profile");
}
