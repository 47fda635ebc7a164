#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "ferrite/core/profiler/profile.h"
#include "ferrite/core/profiler/trace.h"
#include "ferrite/tests/core/test_util.h"

using namespace ferrite;
using namespace ferrite::profiler;
using ferrite::test::message_of;
using nlohmann::json;

namespace {

/// A step with ranges of two threads, device work and memory, with known times.
Recording sample(int rank = 0) {
  Recording r;
  r.rank = rank;
  r.wall_clock = 1'790'000'000'123'456'789;
  r.time = 10'000;
  r.has_devices = r.has_memory = r.has_inputs = true;
  r.threads = {{100, "main thread"}, {101, "say \"hi\"\n"}};
  r.inputs = {"[2, 3], []"};
  r.dtypes = {"float32, "};
  r.host.resize(4);
  r.host[0] = {
      .name = "forward", .begin = 1'000, .time = 3'500, .self_time = 1'500, .host_bytes = 64};
  r.host[1] = {.name = "mul",
               .kind = Kind::op,
               .begin = 1'500,
               .time = 2'000,
               .self_time = 2'000,
               .parent = 0,
               .sequence = 7,
               .device_time = 700,
               .self_device_time = 700,
               .host_bytes = 64,
               .self_host_bytes = 64,
               .inputs = 0};
  r.host[2] = {.name = "mul",
               .kind = Kind::backward,
               .thread = 1,
               .begin = 5'000,
               .time = 1'234,
               .self_time = 1'234,
               .sequence = 7};
  r.host[3] = {.name = "LeNet",
               .kind = Kind::module,
               .thread = 1,
               .begin = 7'000,
               .time = 100,
               .self_time = 100};
  r.device = {{.name = "binary",
               .device = Device("cpu:1"),
               .stream = 3,
               .begin = 2'500,
               .time = 700,
               .host = 1,
               .asked = 1'700}};
  r.memory = {{.time = 1'600,
               .device = Device(),
               .bytes = 64,
               .allocated = 64,
               .reserved = 128,
               .host = 1}};
  r.steps = {{.number = 4, .begin = 0, .time = 9'000}};
  return r;
}

json parsed(const Recording& recording) {
  std::ostringstream out;
  write_trace(recording, out);
  return json::parse(out.str());
}

std::vector<json> of_phase(const json& trace, const std::string& phase) {
  std::vector<json> found;
  for (const json& e : trace["traceEvents"])
    if (e["ph"] == phase) found.push_back(e);
  return found;
}

json named(const json& trace, const std::string& phase, const std::string& name) {
  for (const json& e : of_phase(trace, phase))
    if (e["name"] == name) return e;
  FAIL("no event " << name);
  return {};
}

/// Checks that complete events of each row are nested or disjoint, as viewers require.
void check_nests(const json& trace) {
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<std::pair<double, double>>> rows;
  for (const json& e : of_phase(trace, "X"))
    rows[{e["pid"], e["tid"]}].push_back(
        {e["ts"].get<double>(), e["ts"].get<double>() + e["dur"].get<double>()});
  for (auto& [row, spans] : rows) {
    std::ranges::sort(spans, [](auto& a, auto& b) {
      return a.first != b.first ? a.first < b.first : a.second > b.second;
    });
    std::vector<double> ends;
    for (const auto& [begin, end] : spans) {
      constexpr double kRounding = 0.0015;
      while (!ends.empty() && ends.back() <= begin + kRounding) ends.pop_back();
      if (!ends.empty()) REQUIRE(end <= ends.back() + kRounding);
      ends.push_back(end);
    }
  }
}

/// Checks that each arrow that begins also ends, once, and not earlier.
void check_arrows(const json& trace) {
  std::map<std::string, double> begun;
  for (const json& e : of_phase(trace, "s")) REQUIRE(begun.emplace(e["id"], e["ts"]).second);
  for (const json& e : of_phase(trace, "f")) {
    REQUIRE(begun.contains(e["id"]));
    REQUIRE(e["bp"] == "e");
    begun.erase(e["id"]);
  }
  CHECK(begun.empty());
}

std::string temporary_folder() {
  std::string name = (std::filesystem::temp_directory_path() / "ferrite_traces_XXXXXX").string();
  REQUIRE(mkdtemp(name.data()) != nullptr);
  return name;
}

}  // namespace

TEST_CASE("a trace is JSON with a row for every thread and stream") {
  const json trace = parsed(sample());
  CHECK(trace["distributedInfo"]["rank"] == 0);
  CHECK(trace["droppedEvents"] == 0);
  std::vector<std::string> processes, threads;
  for (const json& e : of_phase(trace, "M")) {
    if (e["name"] == "process_name") processes.push_back(e["args"]["name"]);
    if (e["name"] == "thread_name") threads.push_back(e["args"]["name"]);
  }
  REQUIRE(processes.size() == 2);
  CHECK(processes[0].starts_with("rank 0: host"));
  CHECK(processes[1] == "rank 0: cpu:1");
  CHECK(threads == std::vector<std::string>{"steps", "main thread", "say \"hi\"\n", "stream 3"});
  check_nests(trace);
  check_arrows(trace);
}

TEST_CASE("events of a trace have their times, places and arguments") {
  const json trace = parsed(sample());
  CHECK(of_phase(trace, "X").size() == 6);
  const json forward = named(trace, "X", "forward"), mul = named(trace, "X", "mul"),
             back = named(trace, "X", "mul backward"), work = named(trace, "X", "binary"),
             step = named(trace, "X", "step 4"), module = named(trace, "X", "nn.LeNet");
  const double begin = step["ts"];
  const auto since = [&](const json& e) { return e["ts"].get<double>() - begin; };
  CHECK(since(forward) == doctest::Approx(1.0).epsilon(0.01));
  CHECK(forward["dur"].get<double>() == 3.5);
  CHECK(back["dur"].get<double>() == 1.234);
  CHECK(since(work) == doctest::Approx(2.5).epsilon(0.01));
  CHECK(forward["cat"] == "user");
  CHECK(mul["cat"] == "op");
  CHECK(back["cat"] == "backward");
  CHECK(module["cat"] == "module");
  CHECK(work["cat"] == "device");
  CHECK(forward["tid"] == 100);
  CHECK(back["tid"] == 101);
  CHECK(work["tid"] == 3);
  CHECK(work["pid"] != mul["pid"]);
  CHECK(work["args"]["op"] == "mul");
  CHECK(mul["args"]["Input Dims"] == json::parse("[[2, 3], []]"));
  CHECK(mul["args"]["Input type"] == "float32, ");
  CHECK(mul["args"]["Sequence number"] == 7);
  CHECK(mul["args"]["Bytes"] == 64);

  // The base plus the time stamp is wall-clock time.
  const auto base = trace["baseTimeNanoseconds"].get<std::int64_t>();
  CHECK(static_cast<double>(base) / 1e3 + begin == doctest::Approx(1'790'000'000'123'456.789));

  const std::vector<json> from = of_phase(trace, "s"), to = of_phase(trace, "f");
  REQUIRE(from.size() == 2);
  CHECK(from[0]["name"] == "host to device");
  CHECK(since(from[0]) == doctest::Approx(1.7).epsilon(0.01));
  CHECK(from[0]["tid"] == 100);
  CHECK(to[0]["tid"] == 3);
  CHECK(from[1]["name"] == "forward to backward");
  CHECK(from[1]["tid"] == 100);
  CHECK(to[1]["tid"] == 101);

  const std::vector<json> counters = of_phase(trace, "C");
  REQUIRE(counters.size() == 1);
  CHECK(counters[0]["name"] == "memory of cpu");
  CHECK(counters[0]["args"]["allocated"] == 64);
  CHECK(counters[0]["args"]["cached"] == 64);
}

TEST_CASE("a trace of a profile, in a file") {
  const std::string folder = temporary_folder(), file = folder + "/trace.json";
  std::vector<std::string> written;
  {
    Profile profile({.memory = true,
                     .shapes = true,
                     .modules = true,
                     .schedule = {{.active = 2, .repeat = 1}},
                     .on_trace_ready = trace_handler(folder + "/made/for it", "me")});
    for (int i = 0; i < 2; ++i) {
      const Stream stream = current_stream(Device("cpu:1"));
      const Range outer("a \"quoted\" \\ name");
      const Tensor t = empty({8});
      const OpRange op("op", t);
      const profiler::detail::KernelRange kernel(stream, "kernel");
      stream.enqueue([] {});
      profile.step();
    }
    profile.write_trace(file);
  }
  const json trace = json::parse(std::ifstream(file));
  check_nests(trace);
  check_arrows(trace);
  CHECK(named(trace, "X", "op")["args"]["Input Dims"] == json::parse("[[8]]"));
  CHECK(named(trace, "X", "a \"quoted\" \\ name")["cat"] == "user");
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/made/for it"))
    written.push_back(entry.path().filename().string());
  REQUIRE(written.size() == 1);
  CHECK(written[0].starts_with("me."));
  CHECK(written[0].ends_with(".trace.json"));
  std::filesystem::remove_all(folder);
  CHECK_THROWS_AS(write_trace(sample(), folder + "/gone/trace.json"), Error);
}

TEST_CASE("trace_handler writes one file per cycle, however short the cycles are") {
  const std::string folder = temporary_folder();
  {
    Profile profile(
        {.schedule = {{.active = 1}}, .on_trace_ready = trace_handler(folder + "/cycles", "me")});
    for (int i = 0; i < 20; ++i) profile.step();
  }
  std::int64_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/cycles"))
    files += entry.is_regular_file();
  CHECK(files >= 20);
  std::filesystem::remove_all(folder);
}

TEST_CASE("traces of several ranks go into one") {
  const std::string folder = temporary_folder();
  const std::vector<std::string> files = {folder + "/0.json", folder + "/1.json"};
  write_trace(sample(0), files[0]);
  write_trace(sample(1), files[1]);
  merge_traces(files, folder + "/all.json");
  const json trace = json::parse(std::ifstream(folder + "/all.json"));
  CHECK(trace["traceEvents"].size() == 2 * parsed(sample())["traceEvents"].size());
  check_nests(trace);
  check_arrows(trace);
  std::vector<std::int64_t> processes;
  for (const json& e : of_phase(trace, "X"))
    if (e["name"] == "forward") processes.push_back(e["pid"]);
  REQUIRE(processes.size() == 2);
  CHECK(processes[0] != processes[1]);

  const std::vector<std::string> same = {files[0], files[0]};
  CHECK(message_of<ValueError>([&] { merge_traces(same, folder + "/x.json"); }).find("same rank") !=
        std::string::npos);
  std::ofstream(folder + "/other.json") << "{\"traceEvents\": []}";
  const std::vector<std::string> other = {folder + "/other.json"};
  CHECK_THROWS_AS(merge_traces(other, folder + "/x.json"), ValueError);
  CHECK_THROWS_AS(merge_traces({}, folder + "/x.json"), ValueError);
  CHECK_THROWS_AS(merge_traces(std::array{folder}, folder + "/x.json"), Error);
  const std::vector<std::string> none = {folder + "/none.json"};
  CHECK_THROWS_AS(merge_traces(none, folder + "/x.json"), Error);
  std::filesystem::remove_all(folder);
}

TEST_CASE("a table of averages, to the letter") {
  Recording r = sample();
  r.host[1].self_time = r.host[1].time = 2'000'000;
  r.host[0].time = 2'001'500;
  r.host[0].self_time = 1'500;
  CHECK(
      table(r, {.sort_by = "self_cpu_time_total", .row_limit = 2, .group_by_shape = true}) ==
      R"(-------  ----------  --------  -----------  ---------  ------------  -----------  -------------  ------------  ---------------  -------  ------------  ----------  ------------
Name     Self CPU %  Self CPU  CPU total %  CPU total  CPU time avg  Self device  Self device %  Device total  Device time avg  CPU Mem  Self CPU Mem  # of Calls  Input Shapes
-------  ----------  --------  -----------  ---------  ------------  -----------  -------------  ------------  ---------------  -------  ------------  ----------  ------------
mul          99.86%   2.000ms       99.86%    2.000ms       2.000ms      0.700us        100.00%       0.700us          0.700us     64 b          64 b           1  [[2, 3], []]
forward       0.07%   1.500us       99.93%    2.002ms       2.002ms      0.000us          0.00%       0.000us          0.000us     64 b           0 b           1  []
-------  ----------  --------  -----------  ---------  ------------  -----------  -------------  ------------  ---------------  -------  ------------  ----------  ------------
2 more rows (row_limit)
Self CPU time total: 2.003ms
Self device time total: 0.700us
Wall time: 10.000us, 1 steps of 9.000us
Peak memory of cpu: 64 b
)");
}

TEST_CASE("rows are sorted as asked, and long names cut") {
  Recording r = sample();
  const auto first = [&](std::string_view order) {
    const std::string text = table(r, {.sort_by = order});
    const std::size_t rule = text.find('\n', text.find('\n', text.find('\n') + 1) + 1);
    return text.substr(rule + 1, text.find("  ", rule) - rule - 1);
  };
  CHECK(first("self_cpu_time_total") == "mul");
  CHECK(first("cpu_time_total") == "forward");
  CHECK(first("cpu_time") == "forward");
  CHECK(first("device_time_total") == "mul");
  CHECK(first("self_cuda_time_total") == "mul");
  CHECK(first("self_cpu_memory_usage") == "mul");
  CHECK(first("") == "mul");
  const std::string message = message_of<ValueError>([&] { table(r, {.sort_by = "beauty"}); });
  CHECK(message.find("'beauty'") != std::string::npos);
  CHECK(message.find("self_device_time_total") != std::string::npos);
  const std::string name(200, 'x');
  r.host[0].name = name.c_str();
  CHECK(table(r, {.max_name_width = 20}).find(std::string(17, 'x') + "...  ") != std::string::npos);
  CHECK(table(Recording{}).find("Wall time: 0.000us") != std::string::npos);
}
