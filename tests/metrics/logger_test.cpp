// CSV and JSON-lines logs: their contents, and resuming a run.
#include "ferrite/metrics/logger.h"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <cmath>
#include <csignal>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "ferrite/tests/data/files.h"

using namespace ferrite;
using namespace ferrite::metrics;
using namespace ferrite::test;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

}  // namespace

TEST_CASE("CsvLogger writes a table whose columns may appear later") {
  const TempDir dir;
  const auto path = dir / "runs/a/log.csv";
  CsvLogger log(path);
  CHECK(read_file(path).empty());
  log.log(10, {{"epoch", 1}, {"loss", 0.1}, {"ok", true}, {"note", "a, \"b\"\nc"}});
  CHECK(read_file(path) == "step,epoch,loss,ok,note\n10,1,0.1,true,\"a, \"\"b\"\"\nc\"\n");
  log.log(20, {{"loss", 2.0f}, {"lr", 1e-300}});
  log.log(30, {{"lr", kNaN}, {"loss", -kInf}, {"epoch", std::size_t{3}}});
  log.log(40, {});
  log.log(50, {{"loss", kInf}});
  CHECK(read_file(path) ==
        "step,epoch,loss,ok,note,lr\n10,1,0.1,true,\"a, \"\"b\"\"\nc\",\n20,,2.0,,,1e-300\n"
        "30,3,-inf,,,nan\n40,,,,,\n50,,inf,,,\n");
  CHECK(log.columns() == std::vector<std::string>{"step", "epoch", "loss", "ok", "note", "lr"});

  const auto series = read_log(path);
  REQUIRE(series.size() == 3);
  CHECK(series.at("epoch").steps == std::vector<double>{10, 30});
  CHECK(series.at("loss").steps == std::vector<double>{10, 20, 30, 50});
  CHECK(series.at("loss").values == std::vector<double>{0.1, 2, -kInf, kInf});
  CHECK(std::isnan(series.at("lr").values[1]));
  CHECK(dir.count() == 1);
  CHECK(std::distance(std::filesystem::directory_iterator(path.parent_path()), {}) == 1);

  for (const LogRow& bad : {LogRow{{"step", 1}}, {{"", 1}}, {{"a", 1}, {"a", 2}}})
    CHECK_THROWS_AS(log.log(60, bad), ValueError);
  CHECK_THROWS_AS(CsvLogger(path, {.flush_rows = 0}), ValueError);
}

TEST_CASE("JsonLinesLogger writes an object a line") {
  const TempDir dir;
  const auto path = dir / "log.jsonl";
  JsonLinesLogger log(path);
  log.log(1, {{"loss", 1.0}, {"epoch", 2}, {"ok", false}, {"a \"b\"", "x\ny\xff"}});
  log.log(2, {{"loss", kNaN}, {"lr", kInf}, {"m", -kInf}});
  const std::string text = read_file(path);
  CHECK(text ==
        "{\"step\":1,\"loss\":1.0,\"epoch\":2,\"ok\":false,\"a \\\"b\\\"\":\"x\\ny\xef\xbf\xbd\"}\n"
        "{\"step\":2,\"loss\":\"NaN\",\"lr\":\"Infinity\",\"m\":\"-Infinity\"}\n");
  CHECK(nlohmann::json::parse(text.substr(0, text.find('\n'))).at("epoch").is_number_integer());
  const auto series = read_log(path);
  CHECK(series.at("loss").steps == std::vector<double>{1, 2});
  CHECK(std::isnan(series.at("loss").values[1]));
  CHECK(series.at("lr").values == std::vector<double>{kInf});
  CHECK(series.at("m").values == std::vector<double>{-kInf});
  CHECK_FALSE(series.contains("ok"));
}

TEST_CASE_TEMPLATE("a resumed run's log is that of one that was not stopped", L, CsvLogger,
                   JsonLinesLogger) {
  const TempDir dir;
  const auto whole = dir / "whole", path = dir / "log";
  const auto run = [](Logger& log, int from, int to) {
    for (int step = from; step <= to; ++step) {
      LogRow row{{"loss", 1.0 / step}, {"text", "line\nbreak, \"" + std::to_string(step)}};
      if (step > 6) row.emplace_back("late", step);
      log.log(step, row);
    }
  };
  {
    L log(whole);
    run(log, 1, 9);
  }
  const std::string expected = read_file(whole);
  // Stopped anywhere, after rows that the last checkpoint did not include, and in the middle of a
  // row.
  for (const int resumed_at : {0, 1, 5, 6, 7, 9})
    for (const std::size_t cut : {0, 1, 9}) {
      CAPTURE(resumed_at);
      CAPTURE(cut);
      {
        L log(path);
        run(log, 1, 9);
      }
      // The last row may be incomplete if it will be written again.
      if (resumed_at < 9) write_file(path, expected.substr(0, expected.size() - cut));
      {
        L log(path, {.resume_step = resumed_at});
        run(log, resumed_at + 1, 9);
      }
      const auto now = read_log(path), before = read_log(whole);
      REQUIRE(now.size() == before.size());
      for (const auto& [name, series] : before) {
        CHECK(now.at(name).steps == series.steps);
        CHECK(now.at(name).values == series.values);
      }
      CHECK(read_file(path) == expected);
    }
  {
    L log(dir / "new", {.resume_step = 3});  // nothing to resume is fine
    run(log, 4, 4);
  }
  CHECK(read_log(dir / "new").at("loss").steps == std::vector<double>{4});
  {
    L log(path);  // without resume_step a run starts from the beginning
  }
  CHECK(read_file(path).empty());
  write_file(path, "something else,x\n1,2\n");
  CHECK_THROWS_AS(L(path, {.resume_step = 1}), IoError);
  CHECK(read_file(path) == "something else,x\n1,2\n");
}

TEST_CASE("logs of JSON may begin with spaces") {
  const TempDir dir;
  const auto path = dir / "log";
  write_file(path, " {\"step\": 1, \"a\": 2}\n");
  JsonLinesLogger(path, {.resume_step = 1}).log(2, {{"a", 3}});
  CHECK(read_log(path).at("a").values == std::vector<double>{2, 3});
}

TEST_CASE("logs refuse files that are damaged in the middle") {
  const TempDir dir;
  const auto path = dir / "log";
  for (const std::string bad :
       {"step,a\n1,2\nx,3\n", "step,a\n1\n2,3\n", "{\"step\":1}\n{\"step\":\n{}\n",
        "{\"step\":1}\n{\"a\":1}\n", "{\"step\":1}\n[]\n",
        "{\"step\":18446744073709551615,\"a\":1}\n"}) {
    CAPTURE(bad);
    write_file(path, bad);
    CHECK_THROWS_AS(read_log(path), IoError);
    if (bad[0] == '{')
      CHECK_THROWS_AS(JsonLinesLogger(path, {.resume_step = 5}), IoError);
    else
      CHECK_THROWS_AS(CsvLogger(path, {.resume_step = 5}), IoError);
    CHECK(read_file(path) == bad);
  }
  // A message has the beginning of what is wrong, which may be the whole file.
  write_file(path, "step,a\n1,2\n" + std::string(100'000, 'x') + "\n");
  try {
    read_log(path);
    FAIL("expected an IoError");
  } catch (const IoError& error) {
    CHECK(std::string_view(error.what()).size() < 500);
  }
  CHECK_THROWS_AS(read_log(dir / "none"), IoError);
  std::filesystem::create_symlink("itself", dir / "itself");
  CHECK_THROWS_AS(CsvLogger(dir / "itself", {.resume_step = 5}), IoError);
  CHECK_THROWS_AS(JsonLinesLogger(dir / "itself", {.resume_step = 5}), IoError);
  CHECK_THROWS_AS(CsvLogger(path / "below/a/file.csv"), IoError);
}

TEST_CASE("rows wait as long as the options say") {
  const TempDir dir;
  const auto path = dir / "log";
  {
    JsonLinesLogger log(path, {.flush_rows = 3, .flush_seconds = 1000, .sync = true});
    for (int i = 1; i <= 4; ++i) log.log(i, {});
    CHECK(std::ranges::count(read_file(path), '\n') == 3);
    log.flush();
    CHECK(std::ranges::count(read_file(path), '\n') == 4);
    log.log(5, {});
  }
  CHECK(std::ranges::count(read_file(path), '\n') == 5);
  JsonLinesLogger log(path, {.flush_rows = 100, .flush_seconds = 0});
  log.log(1, {});
  CHECK(read_file(path) == "{\"step\":1}\n");
}

TEST_CASE("a row that the disk has no room for is not half there") {
  const TempDir dir;
  const auto path = dir / "log";
  JsonLinesLogger log(path);
  log.log(1, {{"a", 1}});
  const std::string before = read_file(path);
  // A limit on file sizes simulates a full disk.
  rlimit old{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &old) == 0);
  const rlimit small{before.size() + 10, old.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  CHECK_THROWS_AS(log.log(2, {{"a", std::string(100, 'x')}}), IoError);
  CHECK(setrlimit(RLIMIT_FSIZE, &old) == 0);
  CHECK(read_file(path) == before);
  log.log(3, {});  // and is written once there is room
  CHECK(read_file(path) ==
        before + "{\"step\":2,\"a\":\"" + std::string(100, 'x') + "\"}\n{\"step\":3}\n");
}

TEST_CASE("loggers are written to by several threads") {
  const TempDir dir;
  CsvLogger log(dir / "log", {.flush_rows = 7});
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t)
    threads.emplace_back([&log, t] {
      for (int i = 0; i < 20; ++i) log.log(i, {{std::string("t") + std::to_string(t), i}});
    });
  for (std::thread& t : threads) t.join();
  log.flush();
  const auto series = read_log(dir / "log");
  REQUIRE(series.size() == 3);
  for (const auto& [name, column] : series) CHECK(column.steps == column.values);
}
