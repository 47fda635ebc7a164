#include "ferrite/parallel/launcher/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "ferrite/core/error.h"

namespace ferrite::launcher {
namespace {

bool writable(int fd) {
  pollfd p{.fd = fd, .events = POLLOUT, .revents = 0};
  return poll(&p, 1, 0) == 1;
}

}  // namespace

Console::Console(int fd) : fd_(fd) {
  // A pipe or terminal that poll() reports as writable accepts PIPE_BUF bytes without blocking. The
  // stream is shared with other processes, which would not expect O_NONBLOCK on it.
  struct stat info {};
  const bool regular = fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
  chunk_ = regular ? std::size_t{1} << 20 : PIPE_BUF;
}

void Console::write(std::string_view text) {
  if (closed_ || text.empty()) return;
  if (!lost_.empty()) {
    const std::string note =
        fmt::format("\n[ferrite-run] output was lost here: {}\n", std::exchange(lost_, {}));
    return write(note + std::string(text));
  }
  if (waiting_.empty() || waiting_.back().size() > (1U << 16)) waiting_.emplace_back();
  waiting_.back() += text;
  waiting_size_ += text.size();
  if (waiting_size_ > (1U << 16)) flush();
}

void Console::flush() {
  while (!waiting_.empty() && writable(fd_)) {
    const std::string& first = waiting_.front();
    // Whole lines if they fit: the other stream may go to the same place.
    std::string_view part = std::string_view(first).substr(written_, chunk_);
    if (const std::size_t end = part.rfind('\n'); end != part.npos) part = part.substr(0, end + 1);
    const ssize_t n = ::write(fd_, part.data(), part.size());
    if (n < 0) {
      if (errno == EINTR || errno == EAGAIN) return;
      // A disk may have room again.
      if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)
        lost_ = std::strerror(errno);
      else
        closed_ = true;
      waiting_.clear();
      waiting_size_ = written_ = 0;
      return;
    }
    written_ += static_cast<std::size_t>(n);
    waiting_size_ -= static_cast<std::size_t>(n);
    if (written_ == first.size()) {
      waiting_.pop_front();
      written_ = 0;
    }
  }
}

WorkerOutput::WorkerOutput(int fd, Sinks sinks) : fd_(fd), sinks_(std::move(sinks)) {
  if (sinks_.file.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(sinks_.file).parent_path(), error);
  file_ = Fd(::open(sinks_.file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  FERRITE_CHECK(file_.valid(), IoError, "ferrite-run", "cannot write {}: {}", sinks_.file,
                error ? error.message() : std::strerror(errno));
}

void WorkerOutput::read() {
  std::array<char, 1 << 16> buffer;
  // Bounded, so that one busy stream does not delay signals and other ranks.
  for (int i = 0; i < 8 && open() && !blocked(); ++i) {
    const ssize_t n = ::read(fd_, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
      fd_ = -1;
      return;
    }
    take({buffer.data(), static_cast<std::size_t>(n)});
    if (static_cast<std::size_t>(n) < buffer.size()) return;  // give the others their turn
  }
}

void WorkerOutput::finish() {
  while (open()) {
    // Ignores blocked(): this reads at most the contents of a pipe.
    std::array<char, 1 << 16> buffer;
    const ssize_t n = ::read(fd_, buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    take({buffer.data(), static_cast<std::size_t>(n)});
  }
  fd_ = -1;
  if (!line_.empty()) show("\n");
  file_.reset();
}

void WorkerOutput::take(std::string_view text) {
  log(text);
  tail_ += text.substr(text.size() - std::min(text.size(), kTail));
  if (tail_.size() > 2 * kTail) tail_.erase(0, tail_.size() - kTail);
  show(text);
}

void WorkerOutput::show(std::string_view text) {
  if (!sinks_.console) return;
  std::string lines;
  for (;;) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) break;
    lines += sinks_.prefix;
    lines += line_;
    lines += text.substr(0, end + 1);
    line_.clear();
    text.remove_prefix(end + 1);
  }
  line_ += text;
  if (line_.size() > kLongestLine) {
    lines += sinks_.prefix + line_ + "\n";
    line_.clear();
  }
  sinks_.console->write(lines);
}

void WorkerOutput::log(std::string_view text) {
  while (file_.valid() && !text.empty()) {
    const ssize_t n = ::write(file_.get(), text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      sinks_.errors->write(
          fmt::format("[ferrite-run] {} is given up: {}\n", sinks_.file, std::strerror(errno)));
      file_.reset();
      return;
    }
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

std::string WorkerOutput::last_lines(int lines) const {
  std::string_view text = tail_;
  while (text.ends_with('\n')) text.remove_suffix(1);
  std::size_t begin = text.size();
  for (int i = 0; i < lines && begin != std::string_view::npos && begin > 0; ++i)
    begin = text.rfind('\n', begin - 1);
  return std::string(begin == std::string_view::npos || begin == 0
                         ? text
                         : text.substr(begin + (text[begin] == '\n' ? 1 : 0)));
}

}  // namespace ferrite::launcher
