// What workers print: to the console, line by line with the rank before it, and to files. Nothing
// here blocks: what cannot be written yet waits in memory.
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
  /// Whether so much waits that workers should not be read from.
  bool full() const { return waiting_size_ > kLimit; }
  int fd() const { return fd_; }
  /// Writes what goes without waiting; to be called when poll() has found it writable.
  void flush();
  /// Nobody reads it any more: what is written is dropped.
  bool closed() const { return closed_; }

 private:
  static constexpr std::size_t kLimit = std::size_t{64} << 20;
  int fd_;
  std::size_t chunk_;
  std::deque<std::string> waiting_;
  std::size_t waiting_size_ = 0, written_ = 0;  // of the first one
  bool closed_ = false;
};

/// One stream of one worker.
class WorkerOutput {
 public:
  struct Sinks {
    Console* console = nullptr;  ///< null: not shown
    Console* errors = nullptr;   ///< is told where the file cannot be written any more
    std::string prefix;
    std::string file;  ///< empty: none. Its folder is made; what it holds stays.
  };
  /// IoError where the file cannot be opened.
  WorkerOutput(int fd, Sinks sinks);

  int fd() const { return fd_; }
  /// Whether more may come.
  bool open() const { return fd_ >= 0; }
  bool blocked() const { return sinks_.console && sinks_.console->full(); }
  /// Reads what is there.
  void read();
  /// At the end of the worker: what there is, its last line even if it has no end.
  void finish();
  /// The end of what came, at most `lines` lines.
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
