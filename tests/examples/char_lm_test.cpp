// The program examples/char_lm, run like users do.
#include <regex>

#include "ferrite/tests/examples/workplace.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

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
  std::string text;
  for (int i = 0; i < 40; ++i) text += "the cat sat on the mat\n";
  write_file(place / "text.txt", text);
  const auto run = [&](const char* steps, const char* folder) {
    return place.run({"--data",  "text.txt", "--width", "16",           "--heads",
                      "2",       "--layers", "1",       "--context",    "16",
                      "--batch", "8",        "--lr",    "0.01",         "--steps",
                      steps,     "--sample", "30",      "--checkpoint", folder});
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

TEST_CASE("char_lm refuses wrong options") {
  const Workplace place("char_lm");
  write_file(place / "short.txt", "abc");
  check_refused(place.run({"--data", "nosuch.txt"}), "nosuch.txt", 1);
  check_refused(place.run({"--data", "short.txt"}), "--context", 1);
  check_refused(place.run({"--data", "short.txt", "--steps", "0"}), "--steps", -1);
}
