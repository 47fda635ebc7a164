// Runs ferrite-run as a process, watches it, and checks that it leaves nothing behind.
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
  /// Starts <bin>/ferrite-run in a temporary folder, with a very short restart back-off.
  /// `stdout_fd`: receives its stdout, if not a file.
  explicit Launched(std::vector<std::string> arguments, const Environment& environment = {},
                    int stdout_fd = -1);
  /// Kills the remaining processes, and reaps them.
  ~Launched();
  Launched(const Launched&) = delete;
  Launched& operator=(const Launched&) = delete;

  pid_t pid() const { return pid_; }
  void signal(int number) const;
  /// Waits until its output, on either stream, contains `text` this often.
  bool wait_for_output(std::string_view text, int times = 1) const;
  /// Waits for its end; returns its exit status, or 128 + signal; -1 if it did not end in time and
  /// was killed.
  int wait();
  std::string out() const, err() const;
  /// The working folder of it and its workers.
  const std::filesystem::path& folder() const { return folder_.path(); }
  /// All existing descendants.
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
/// Runs it, and checks that no process is left when it ends.
LaunchResult launch(std::vector<std::string> arguments,
                    const Launched::Environment& environment = {});
/// Options plus `sh -c script`.
std::vector<std::string> with_script(std::vector<std::string> options, const std::string& script);

int occurrences(std::string_view text, std::string_view part);
std::vector<std::string> lines_of(std::string_view text);

}  // namespace ferrite::test
