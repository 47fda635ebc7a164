// Runs many cases, and reports the results.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "ferrite/tests/kit/kernel_case.h"
#include "ferrite/tests/kit/memory.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace ferrite::kit {

namespace {

constexpr std::size_t kReported = 3;  // failed cases that are reported in full

std::optional<std::uint64_t> number_from(const char* variable) {
  const char* text = std::getenv(variable);
  if (!text) return {};
  char* end = nullptr;
  errno = 0;
  const unsigned long long value = std::strtoull(text, &end, 10);
  FERRITE_CHECK(end != text && *end == '\0' && errno == 0 && *text != '-', ValueError, "kit",
                "{}={}: expected a number", variable, text);
  return value;
}

struct Running {
  const char* name = nullptr;
  const KernelCase* c = nullptr;
};
thread_local Running running;

// ---- Crashes: of kernels on the host, and errors for which the emulator ends the program

char last_words[4096] = "";

void say_last_words() {
  if (!last_words[0]) return;
  const char before[] = "in ";
  [[maybe_unused]] ssize_t ignored = ::write(STDERR_FILENO, before, sizeof before - 1);
  ignored = ::write(STDERR_FILENO, last_words, std::strlen(last_words));
  last_words[0] = 0;
}

struct sigaction previous_abort;

/// Then passes the signal to the previous handler.
void on_abort(int signal) {
  say_last_words();
  ::sigaction(signal, &previous_abort, nullptr);
  std::raise(signal);
}

void watch_for_crashes() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_set_death_callback(say_last_words);
#endif
  struct sigaction now {};
  if (::sigaction(SIGABRT, nullptr, &now) != 0 || now.sa_handler == on_abort) return;
  previous_abort = now;
  struct sigaction mine {};
  mine.sa_handler = on_abort;
  mine.sa_flags = SA_ONSTACK;
  ::sigaction(SIGABRT, &mine, nullptr);
}

}  // namespace

void set_last_words(const std::string& text) {
  const std::size_t size = std::min(text.size(), sizeof last_words - 2);
  std::memcpy(last_words, text.data(), size);
  last_words[size] = size > 0 ? '\n' : '\0';
  last_words[size + 1] = 0;
}

/// One running case of for_each_case.
class CaseRun {
 public:
  CaseRun(const char* name, const Device& device, std::uint64_t seed) : case_(device, seed) {
    case_.problems_ = &problems_;
    running = {name, &case_};
  }
  ~CaseRun() {
    running = {};
    set_last_words("");
  }
  CaseRun(const CaseRun&) = delete;
  CaseRun& operator=(const CaseRun&) = delete;

  /// Returns the problems; "" if there are none.
  std::string operator()(const std::function<void(KernelCase&)>& body) {
    try {
      body(case_);
    } catch (const std::exception& e) {
      problems_.push_back(fmt::format("an exception: {}", e.what()));
    }
    if (problems_.empty()) return "";
    std::string text = case_.describe();
    for (const std::string& problem : problems_) text += "\n  * " + problem;
    return text;
  }

 private:
  KernelCase case_;
  std::vector<std::string> problems_;
};

std::vector<Device> test_devices() {
  if (const char* device = std::getenv("FERRITE_KIT_DEVICE")) return {Device(device)};
  std::vector<Device> devices = {Device("cpu")};
  if (cuda::is_available()) {
    devices.emplace_back("cuda:0");
  } else {
    [[maybe_unused]] static const bool said = [] {
      std::fputs("kernels are tested on the host only: there is no CUDA device\n", stderr);
      return true;
    }();
  }
  return devices;
}

std::string running_case() {
  if (!running.c) return "";
  return fmt::format("{} {}", running.name, running.c->describe());
}

void for_each_case(const char* name, int count, const std::function<void(KernelCase&)>& body) {
  watch_for_crashes();
  const std::uint64_t first = number_from("FERRITE_KIT_SEED").value_or(0);
  const std::uint64_t cases =
      number_from("FERRITE_KIT_CASES").value_or(static_cast<std::uint64_t>(count));
  std::string report;
  for (const Device& device : test_devices()) {
    std::uint64_t failed = 0, example = 0;
    std::string texts;
    for (std::uint64_t i = 0; i < cases; ++i) {
      const std::string text = CaseRun(name, device, first + i)(body);
      if (text.empty()) continue;
      if (failed++ == 0) example = first + i;
      if (failed <= kReported) texts += "\n" + text;
    }
    if (failed > 0)
      report += fmt::format(
          "{}{}: {} of {} cases on {} failed; FERRITE_KIT_SEED={} FERRITE_KIT_CASES=1 "
          "FERRITE_KIT_DEVICE={} runs the first of them alone{}",
          report.empty() ? "" : "\n", name, failed, cases, device, example, device, texts);
  }
  if (!report.empty()) throw Failure(report);
}

}  // namespace ferrite::kit
