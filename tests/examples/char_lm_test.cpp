// The program examples/char_lm, run like users do.
#include <regex>

#include "ferrite/parallel/comm/backend.h"
#include "ferrite/tests/examples/workplace.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

/// A network that learns a line by heart in seconds.
const Arguments small = {"--width", "16", "--heads", "2",    "--layers", "1", "--context", "16",
                         "--batch", "8",  "--lr",    "0.01", "--sample", "30"};

void write_repeated(const std::filesystem::path& path) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += "the cat sat on the mat\n";
  write_file(path, text);
}

/// Losses, one of each report.
std::vector<double> losses(const std::string& text) {
  std::vector<double> result;
  const std::regex line(R"(step +\d+/\d+  train loss (\d+\.\d{4})  perplexity \d+\.\d{2}\n)");
  for (std::sregex_iterator it(text.begin(), text.end(), line), end; it != end; ++it)
    result.push_back(std::stod((*it)[1]));
  return result;
}

}  // namespace

TEST_CASE("char_lm learns a text, writes, and resumes where it stopped") {
  const Workplace place("char_lm");
  write_repeated(place / "text.txt");
  const auto run = [&](const char* steps, const char* folder) {
    Arguments all = {"--data", "text.txt", "--steps", steps, "--checkpoint", folder};
    all.insert(all.end(), small.begin(), small.end());
    return place.run(all);
  };
  const Outcome whole = run("60", "a");
  check_fine(whole);
  const std::vector<double> all = losses(whole.out);
  REQUIRE(all.size() == 10);
  CHECK(all.front() > 1.5);
  CHECK(all.back() < 1);
  CHECK(whole.out.size() > 30);

  check_fine(run("30", "b"));
  const Outcome rest = run("60", "b");
  check_fine(rest);
  REQUIRE(!losses(rest.out).empty());
  CHECK(losses(rest.out).back() == all.back());
  const auto sample_of = [](const std::string& out) { return out.substr(out.size() - 31); };
  CHECK(sample_of(rest.out) == sample_of(whole.out));
}

TEST_CASE("char_lm --ddp: processes train one model, and one of them reports") {
  if (!parallel::has_gloo()) {
    MESSAGE("skipped: this build is without Gloo");
    return;
  }
  const Workplace place("char_lm");
  write_repeated(place / "text.txt");
  Arguments launch = {"--standalone", "--no-prefix", "--nproc-per-node=2", bin_dir() + "/char_lm"};
  launch.insert(launch.end(), {"--ddp", "--device", "cpu", "--data", "text.txt"});
  launch.insert(launch.end(), small.begin(), small.end());
  launch.insert(launch.end(), {"--steps", "60", "--checkpoint", "a"});
  const Outcome outcome = run_program("ferrite-run", launch, place.path());
  check_fine(outcome);
  const std::vector<double> all = losses(outcome.out);
  REQUIRE(all.size() == 10);
  CHECK(all.front() > 1.5);
  CHECK(all.back() < 1);
  // Both ranks resume, and have nothing left to do.
  const Outcome again = run_program("ferrite-run", launch, place.path());
  check_fine(again);
  CHECK(losses(again.out).empty());
}

TEST_CASE("char_lm refuses wrong options") {
  const Workplace place("char_lm");
  write_file(place / "short.txt", "abc");
  check_refused(place.run({"--data", "nosuch.txt"}), "nosuch.txt", 1);
  check_refused(place.run({"--data", "short.txt"}), "--context", 1);
  check_refused(place.run({"--data", "short.txt", "--steps", "0"}), "--steps", -1);
}
