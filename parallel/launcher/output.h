// Output of workers: to the console, line by line with the rank as prefix, and to files. Nothing
// here blocks: output that cannot be written yet is buffered in memory.
#pragma once

#include <deque>
#include <string>
#include <string_view>

#include "ferrite/parallel/launcher/worker.h"

namespace ferrite::launcher {

/// One of the agent's own streams.
class Console {
 public:
  explicit Console(int fd);

  void write(std::string_view text);
  bool pending() const { return !waiting_.empty(); }
  /// Whether so much is buffered that workers should not be read from.
  bool full() const { return waiting_size_ > kLimit; }
  int fd() const { return fd_; }
  /// Writes as much as possible without blocking; call it when poll() has reported it as writable.
  void flush();
  /// The reader is gone: output is dropped.
  bool closed() const { return closed_; }
  /// Why the latest output was lost, as of a full disk; "" if it was not. The next output begins by
  /// saying so.
  const std::string& lost() const { return lost_; }

 private:
  static constexpr std::size_t kLimit = std::size_t{64} << 20;
  int fd_;
  std::size_t chunk_;
  std::deque<std::string> waiting_;
  std::size_t waiting_size_ = 0, written_ = 0;  // within the first one
  bool closed_ = false;
  std::string lost_;
};

/// One stream of one worker.
class WorkerOutput {
 public:
  struct Sinks {
    Console* console = nullptr;  ///< null: not shown
    Console* errors = nullptr;   ///< reports that the file cannot be written any more
    std::string prefix;
    std::string file;  ///< empty: none. Its folder is created; existing contents are kept.
  };
  /// IoError if the file cannot be opened.
  WorkerOutput(int fd, Sinks sinks);

  int fd() const { return fd_; }
  /// Whether more may come.
  bool open() const { return fd_ >= 0; }
  bool blocked() const { return sinks_.console && sinks_.console->full(); }
  /// Reads the available data.
  void read();
  /// At the end of the worker: reads the rest, including an unterminated last line.
  void finish();
  /// The last lines of the output, at most `lines`.
  std::string last_lines(int lines) const;

 private:
  void take(std::string_view text);
  void show(std::string_view text);
  void log(std::string_view text);

  static constexpr std::size_t kLongestLine = std::size_t{1} << 20;
  static constexpr std::size_t kTail = std::size_t{16} << 10;
  int fd_;
  Sinks sinks_;
  Fd file_;
  std::string line_, tail_;
};

}  // namespace ferrite::launcher
