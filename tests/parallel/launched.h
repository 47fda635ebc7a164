// ferrite-run as a process: started, watched, and looked after for what it leaves behind.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ferrite/tests/data/files.h"

namespace ferrite::test {

class Launched {
 public:
  using Environment = std::map<std::string, std::string>;
  /// Starts <bin>/ferrite-run in a folder of its own, with a restart's back-off of a moment.
  /// `stdout_fd`: what takes its stdout, where it is not a file.
  explicit Launched(std::vector<std::string> arguments, const Environment& environment = {},
                    int stdout_fd = -1);
  /// Kills what is left, and reaps it.
  ~Launched();
  Launched(const Launched&) = delete;
  Launched& operator=(const Launched&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) const;
  /// Waits until what it has printed, on either stream, holds `text` so often.
  bool wait_for_output(std::string_view text, int times = 1) const;
  /// Waits for its end: its exit status, 128 + signal; -1 where it did not end in time and was
  /// killed.
  int wait();
  std::string out() const, err() const;
  /// The folder that it and its workers run in.
  const std::filesystem::path& folder() const { return folder_.path(); }
  /// Processes that it started, and those that these have started, which are there.
  std::vector<pid_t> descendants() const;
  /// Waits until there are none.
  bool nothing_left() const;

 private:
  TempDir folder_;
  std::string mark_;
  pid_t pid_ = -1;
};

struct LaunchResult {
  int code = -1;
  std::string out, err;
};
/// Runs it, and checks that nothing is left of it when it ends.
LaunchResult launch(std::vector<std::string> arguments,
                    const Launched::Environment& environment = {});
/// With `sh -c script`.
std::vector<std::string> with_script(std::vector<std::string> options, const std::string& script);

int occurrences(std::string_view text, std::string_view part);
std::vector<std::string> lines_of(std::string_view text);

}  // namespace ferrite::test
