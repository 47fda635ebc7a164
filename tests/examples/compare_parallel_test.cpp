// The program examples/compare_parallel, run small, and its output.
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <sstream>
#include <thread>

#include "ferrite/parallel/comm/backend.h"
#include "ferrite/tests/examples/workplace.h"

using namespace ferrite;
using namespace ferrite::test;

#define REQUIRE_GLOO()                              \
  if (!parallel::has_gloo()) {                      \
    MESSAGE("skipped: this build is without Gloo"); \
    return;                                         \
  }

namespace {

/// A few small steps.
Arguments small(Arguments more) {
  more.insert(more.end(), {"--steps", "2", "--repetitions", "2", "--json", "all.json"});
  return more;
}

json row_of(const json& found, const std::string& label, int devices, const std::string& scaling) {
  for (const json& row : found.at("rows"))
    if (row.at("label") == label && row["case"].at("devices") == devices &&
        row["case"].at("scaling") == scaling)
      return row;
  FAIL_CHECK("there is no row ", label, " of ", devices, " devices, ", scaling);
  return {};
}

double median(const json& row, const char* what) { return row.at(what).at("median").get<double>(); }

/// Checks invariants of every row, independent of the machine.
void check_sums(const json& row) {
  CAPTURE(row.at("label").get<std::string>());
  CHECK(row.at("error").is_null());
  const int devices = row["case"].at("devices");
  const double batch = row["case"].at("batch");
  const auto samples = [&](const char* what) {
    return row.at(what).at("samples").get<std::vector<double>>();
  };
  const auto step = samples("step_ms"), compute = samples("compute_ms"),
             exposed = samples("exposed_ms"), hidden = samples("hidden_ms"),
             communication = samples("communication_ms"), images = samples("images_per_second");
  REQUIRE(step.size() == 2);
  for (std::size_t i = 0; i < step.size(); ++i) {
    CHECK(step[i] > 0);
    CHECK(compute[i] > 0);
    CHECK(compute[i] + exposed[i] == doctest::Approx(step[i]));
    CHECK(images[i] == doctest::Approx(batch / step[i] * 1e3));
    CHECK(hidden[i] >= 0);
    CHECK(hidden[i] <= communication[i]);
    // Communication that begins after backward cannot overlap it.
    if (!row["case"].at("overlap").get<bool>()) CHECK(hidden[i] < 1e-3);
  }
  CHECK(median(row, "step_ms") == doctest::Approx((step[0] + step[1]) / 2));
  REQUIRE(row.at("peak_memory").size() == static_cast<std::size_t>(devices));
  for (const json& peak : row["peak_memory"]) CHECK(peak > 60000 * 4);  // at least the parameters
  CHECK(row.at("efficiency").get<double>() * devices ==
        doctest::Approx(row.at("speedup").get<double>()));
}

}  // namespace

TEST_CASE("compare_parallel: all strategies on virtual devices, and figures that add up") {
  REQUIRE_GLOO();
  const Workplace place("compare_parallel");
  // Inherited settings that would stop its ranks, and must be ignored.
  setenv("FERRITE_LINK_DELAY_US", "60000000", 1);
  setenv("FERRITE_GLOO_ALL_REDUCE", "none", 1);
  const Outcome outcome =
      place.run(small({"--devices", "1,2", "--batch", "6", "--overlap", "on,off", "--bucket-mb",
                       "25,0.1", "--csv", "all.csv", "--svg", "all.svg", "--all-threads"}));
  unsetenv("FERRITE_LINK_DELAY_US");
  unsetenv("FERRITE_GLOO_ALL_REDUCE");
  check_fine(outcome);
  const json found = place.report("all.json");
  CHECK(found.at("schema") == "ferrite.compare_parallel");
  CHECK(found.at("version") == 1);
  CHECK(found["machine"].at("kind") == "virtual cpu devices");
  CHECK(contains(outcome.out, "virtual cpu devices"));
  // Two for single devices; for each scaling DataParallel twice and four for each all-reduce.
  REQUIRE(found.at("rows").size() == 2 + 2 * (2 + 2 * 4));
  for (const json& row : found["rows"]) check_sums(row);

  const json model = found.at("model");
  CHECK(model.at("parameters") == 61706);
  CHECK(model.at("input_shape") == json{1, 28, 28});
  CHECK(model.at("multiply_adds") > 400000);
  const double bytes = model.at("parameter_bytes");
  CHECK(bytes == 61706 * 4);
  // Buckets have gaps of less than 64 bytes between parameters, of which there are ten.
  for (const char* label : {"ddp 25 MB", "ddp-ring 0.1 MB, no overlap"}) {
    const json row = row_of(found, label, 2, "weak");
    CHECK(row["case"].at("batch") == 12);
    double communicated = 0;
    for (const json& bucket : row.at("buckets")) communicated += bucket.at("bytes").get<double>();
    CHECK(communicated >= bytes);
    CHECK(communicated < bytes + 10 * 64);
    CHECK(row.at("bytes_busiest").get<double>() == 2 * (2 - 1) * communicated / 2);
    CHECK(row.at("bytes_total").get<double>() == 2 * (2 - 1) * communicated);
    CHECK(row["buckets"].size() == (std::string(label) == "ddp 25 MB" ? 1 : 2));
  }
  // To the second device: its images and parameters; back: its gradients.
  for (const char* label : {"dp", "dp-balanced"}) {
    const json row = row_of(found, label, 2, "strong");
    CHECK(row["case"].at("batch") == 6);
    const double sent = bytes + 3 * 28 * 28 * 4, gathered = 3 * 10 * 4;
    const double outputs = std::string(label) == "dp" ? gathered : 0;
    CHECK(row.at("bytes_busiest").get<double>() >= sent + outputs);
    CHECK(row.at("bytes_busiest").get<double>() < sent + outputs + 10 * 64);
    CHECK(row.at("bytes_total").get<double>() >= sent + bytes + 2 * outputs);
    CHECK(row.at("bytes_total").get<double>() < sent + bytes + 2 * outputs + 20 * 64);
  }
  CHECK(row_of(found, "single", 1, "none").at("efficiency") == 1);

  // Input for the calibration of simulations: profiles for 6 images (weak, and one device), and for
  // 3.
  REQUIRE(found.at("profiles").size() == 2);
  for (const json& profile : found["profiles"]) {
    CHECK((profile.at("batch") == 6 || profile["batch"] == 3));
    CHECK(profile.at("parameters").size() == 10);
    CHECK(profile["parameters"][0].at("name").get<std::string>().starts_with("fc3."));
    CHECK(profile.at("forward").at("median") > 0);
    CHECK(profile.at("step").at("median") > 0);
  }
  std::vector<std::string> operations;
  for (const json& link : found.at("links")) {
    operations.push_back(link.at("operation"));
    CHECK(link.at("latency_us") > 0);
    CHECK(link.at("times").size() == 5);
  }
  CHECK(operations == std::vector<std::string>{"send", "all_reduce", "ring_all_reduce", "broadcast",
                                               "reduce_add"});

  // The other formats have the same rows.
  std::istringstream csv(read_file(place / "all.csv"));
  std::string line;
  std::size_t lines = 0, commas = 0;
  for (; std::getline(csv, line); ++lines) {
    const auto count = static_cast<std::size_t>(std::ranges::count(line, ','));
    if (lines == 0) commas = count;
    CHECK(count == commas);
  }
  CHECK(lines == 1 + found["rows"].size());
  const std::string svg = read_file(place / "all.svg");
  CHECK(svg.ends_with("</svg>\n"));
  CHECK(contains(svg, "weak scaling, 2 devices, 12 images"));
  CHECK(contains(outcome.out, "| ddp 0.1 MB, no overlap"));
}

TEST_CASE("compare_parallel: three ranks as threads, uneven parts, mixed precision, slow links") {
  REQUIRE_GLOO();
  const Workplace place("compare_parallel");
  check_fine(place.run(small({"--devices", "3", "--batch", "7", "--ranks", "thread", "--strategies",
                              "single,ddp", "--amp", "O0,O2", "--scaling", "strong", "--overlap",
                              "on", "--bucket-mb", "25", "--no-profile"})));
  const json threads = place.report("all.json");
  REQUIRE(threads.at("rows").size() == 4);
  CHECK(threads["machine"].at("backend") == "local");
  CHECK(threads.at("profiles").empty());
  for (const json& row : threads["rows"]) check_sums(row);

  check_fine(
      place.run(small({"--devices", "2", "--strategies", "single,ddp-ring", "--scaling", "strong",
                       "--overlap", "off", "--bucket-mb", "25", "--link-delay", "20000us,1GB/s",
                       "--no-profile", "--dataset", "mnist", "--data", place.path().string()})));
  const json slow = place.report("all.json");
  CHECK(slow["machine"].at("link_delay_us") == 20000);
  // At least two messages one after the other.
  const json row = row_of(slow, "ddp-ring 25 MB, no overlap", 2, "strong");
  check_sums(row);
  CHECK(row.at("communication_ms").at("low") >= 40);
}

TEST_CASE("compare_parallel: a failed row shows its error, and the others follow") {
  REQUIRE_GLOO();
  const Workplace place("compare_parallel");
  const Outcome outcome =
      place.run(small({"--devices", "2", "--batch", "1", "--scaling", "strong", "--strategies",
                       "single,ddp", "--bucket-mb", "25", "--overlap", "on", "--no-profile",
                       "--csv", "all.csv", "--svg", "all.svg"}));
  CHECK(outcome.code == 1);
  const json found = place.report("all.json");
  CHECK(row_of(found, "single", 1, "none").at("error").is_null());
  const json failed = row_of(found, "ddp 25 MB", 2, "strong");
  CHECK(contains(failed.at("error").get<std::string>(), "1 images are too few for 2 devices"));
  CHECK(failed.at("step_ms").is_null());
  CHECK(contains(outcome.out, "failed: rank "));
  CHECK(contains(read_file(place / "all.csv"), "too few"));
  CHECK(contains(read_file(place / "all.svg"), "too few"));
}

TEST_CASE("compare_parallel: a rank is killed") {
  REQUIRE_GLOO();
  const Workplace place("compare_parallel");
  // Steps that would take hours.
  const pid_t program = start_program(
      "compare_parallel", {"--device",     "cpu",      "--devices",     "2",  "--strategies", "ddp",
                           "--scaling",    "strong",   "--bucket-mb",   "25", "--overlap",    "on",
                           "--steps",      "10000000", "--repetitions", "1",  "--timeout",    "60",
                           "--no-profile", "--json",   "all.json"},
      place.path());
  const std::string mine = '\0' + std::string("RANK=1") + '\0';
  const auto is_rank_1 = [&](const std::filesystem::path& process) {
    const std::string stat = read_file(process / "stat");
    const std::size_t name = stat.rfind(')');
    if (name == std::string::npos) return false;
    std::istringstream rest(stat.substr(name + 1));
    std::string state;
    pid_t parent = 0;
    rest >> state >> parent;
    return parent == program && contains('\0' + read_file(process / "environ"), mine) &&
           contains(read_file(process / "environ"), "WORLD_SIZE=2");
  };
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  bool killed = false;
  while (!killed && std::chrono::steady_clock::now() < deadline) {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator("/proc", ignored)) {
      const std::string name = entry.path().filename().string();
      if (name.find_first_not_of("0123456789") != std::string::npos || !is_rank_1(entry.path()))
        continue;
      killed = kill(std::stoi(name), SIGKILL) == 0;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  int status = 0;
  if (!killed) kill(program, SIGKILL);
  waitpid(program, &status, 0);
  REQUIRE(killed);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 1);
  const json found = place.report("all.json");
  CHECK(
      contains(found.at("rows").at(0).at("error").get<std::string>(), "rank 1: ended by signal 9"));
}

TEST_CASE("compare_parallel rejects combinations that it cannot measure") {
  const Workplace place("compare_parallel");
  check_refused(place.run({"--link-delay", "slow"}), "[--link-delay] expected one of ");
  check_refused(place.run({"--link-delay", "5us,1GB/s!"}), "[--link-delay] expected one of ");
  check_refused(place.run({"--link-delay", "ethernet-1g", "--strategies", "single,ddp"}),
                "use ddp-ring");
  check_refused(place.run({"--link-delay", "ethernet-1g", "--ranks", "thread"}), "are threads");
  check_refused(place.run({"--devices", "0"}), "--devices", -1);
  if (!cuda::is_available())
    check_refused(place.run({"--device", "cuda"}), "there is no CUDA device");
  check_refused(place.run({"--strategies", "horovod"}), "--strategies", -1);
  check_refused(place.run({"--strategies", "ddp", "--devices", "1"}),
                "there is nothing to measure");
  check_refused(place.run({"--backend", "nccl"}), "nccl is for CUDA devices");
  check_refused(place.run({"--ranks", "thread", "--backend", "gloo"}),
                "[--backend] ranks that are");
  check_refused(place.run({"--image-size", "32"}), "lenet5 takes images of 28 x 28");
  check_refused(place.run({"--dataset", "mnist", "--data", "nowhere"}), "nowhere");
  check_refused(place.run({"--json", "/proc/none/all.json"}), "[--json]");
}
