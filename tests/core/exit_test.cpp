// Ending a process with work pending. Each test starts this program again, as a child that runs the
// same test case with FERRITE_TEST_CHILD set.
#include <sys/wait.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include "ferrite/core/generator.h"
#include "ferrite/core/parallel_for.h"
#include "ferrite/core/stream.h"
#include "ferrite/core/warning.h"
#include "ferrite/tests/core/test_util.h"

using namespace ferrite;

namespace {

bool is_child() { return std::getenv("FERRITE_TEST_CHILD") != nullptr; }

struct Outcome {
  std::string output;
  int code = -1;  // 128 and above: ended by a signal
};

/// Runs this program's test case `name` as a child, with `environment` ("A=1 B=2").
Outcome run_child(const std::string& name, const std::string& environment = {}) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  const std::string command = environment + " FERRITE_TEST_CHILD=1 timeout 60 '" + program +
                              "' --no-intro=true --test-case='" + name + "' 2>&1";
  Outcome outcome;
  FILE* pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::array<char, 256> buffer;
  while (std::fgets(buffer.data(), buffer.size(), pipe)) outcome.output += buffer.data();
  const int status = pclose(pipe);
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  return outcome;
}

void say(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

Tensor kept;  // destroyed after the streams' threads were joined

}  // namespace

TEST_CASE("queued work still runs when the process ends") {
  if (is_child()) {
    const Device device("cpu:0");
    const Stream stream = current_stream(device), other = Stream::create(device);
    kept = empty({1000}, {.device = device});
    kept.storage()->record_stream(other);
    stream.enqueue([stream, other] {
      static_cast<void>(stream);  // only held
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      // The first loop and the first draw of the process: their globals are created only now.
      std::atomic<int> sum{0};
      parallel_for(100, 1,
                   [&](std::int64_t begin, std::int64_t) { sum += static_cast<int>(begin); });
      default_generator(Device("cpu:1")).next_u64();
      other.enqueue([] { say("[other]"); });
      say("[sum " + std::to_string(sum) + "]");
    });
    std::exit(0);
  }
  const Outcome child = run_child("queued work still runs when the process ends");
  CAPTURE(child.output);
  CHECK(child.code == 0);
  CHECK(child.output.find("[sum 4950]") != std::string::npos);
  CHECK(child.output.find("[other]") != std::string::npos);
}

TEST_CASE("queued work may end the process") {
  if (is_child()) {
    const Stream stream = current_stream(Device("cpu:0"));
    parallel_for(4, 1, [](std::int64_t, std::int64_t) {});
    stream.enqueue([] { std::exit(3); });
    for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
  }
  CHECK(run_child("queued work may end the process").code == 3);
}

TEST_CASE("a process may warn while it ends") {
  if (is_child()) {
    // Exit functions run in the reverse order of registration, so this one runs after the
    // destructors of statics that the calls below make.
    static_cast<void>(std::atexit([] { warn("op", "late"); }));
    set_warning_handler([prefix = std::string(100, '>')](std::string_view text) {
      say(prefix + std::string(text));
    });
    std::exit(0);
  }
  const Outcome child = run_child("a process may warn while it ends");
  CAPTURE(child.output);
  CHECK(child.code == 0);
  CHECK(child.output.find(std::string(100, '>') + "[op] late") != std::string::npos);
}

TEST_CASE("the environment sets the number of threads") {
  if (is_child()) return say("[threads " + std::to_string(num_threads()) + "]");
  const auto threads = [](const std::string& environment) {
    const std::string text =
        run_child("the environment sets the number of threads", environment).output;
    const auto begin = text.find("[threads "), end = text.find(']', begin);
    return begin == std::string::npos ? text : text.substr(begin + 9, end - begin - 9);
  };
  CHECK(threads("FERRITE_NUM_THREADS=3 OMP_NUM_THREADS=5") == "3");
  CHECK(threads("FERRITE_NUM_THREADS= OMP_NUM_THREADS=5") == "5");
  CHECK(threads("FERRITE_NUM_THREADS=0 OMP_NUM_THREADS=4") == "4");
  CHECK(threads("FERRITE_NUM_THREADS=2000 OMP_NUM_THREADS=4") == "4");
  const std::string all = threads("FERRITE_NUM_THREADS=x OMP_NUM_THREADS=");
  CHECK(std::stoi(all) >= 1);
}
