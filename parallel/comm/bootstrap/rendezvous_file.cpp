#include "ferrite/parallel/comm/bootstrap/rendezvous_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "ferrite/core/error.h"
#include "ferrite/parallel/comm/links/secret.h"

namespace ferrite::parallel::bootstrap {
namespace {

constexpr std::string_view kFirstLine = "ferrite rendezvous 1";
constexpr std::string_view kLastLine = "end";

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

/// At most the size of a note.
std::string read_some(int fd) {
  std::string text(8192, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t n = read(fd, text.data() + size, text.size() - size);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    size += static_cast<std::size_t>(n);
  }
  text.resize(size);
  return text;
}

}  // namespace

std::optional<RendezvousNote> read_rendezvous_note(const std::string& path, std::string* why) {
  // Anyone may write to a folder like /tmp: a link, a pipe that no one writes to, a file without an
  // end, or a note that leads to another user's store.
  const links::Fd file(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));
  struct stat info {};
  if (!file.valid() || fstat(file.get(), &info) != 0) return std::nullopt;
  if (!S_ISREG(info.st_mode) || info.st_uid != geteuid() ||
      (info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    if (why)
      *why = fmt::format(
          "{} is of user {} with mode {:o}: expected a regular file of this user, {}, that no "
          "other can write; choose a path in a folder of your own",
          path, info.st_uid, info.st_mode, geteuid());
    return std::nullopt;
  }
  const std::string text = read_some(file.get());
  std::string_view rest = text;
  std::array<std::string, 7> lines;
  for (std::string& line : lines) {
    const std::size_t end = rest.find('\n');
    if (end == rest.npos) return std::nullopt;
    line = rest.substr(0, end);
    rest.remove_prefix(end + 1);
  }
  if (lines[0] != kFirstLine || lines[6] != kLastLine) return std::nullopt;
  RendezvousNote note;
  try {
    note.address = links::parse_address(lines[1], "the address");
  } catch (const ValueError&) {
    return std::nullopt;
  }
  note.token = lines[2];
  note.start = lines[3];
  note.host = lines[4];
  return note;
}

RendezvousFile::RendezvousFile(std::string path, const RendezvousNote& note)
    : path_(std::move(path)), token_(note.token) {
  const std::string temporary = fmt::format("{}.{}.{}", path_, note.host, getpid());
  unlink(temporary.c_str());
  const links::Fd file(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  // The empty line is reserved for later versions.
  const std::string text =
      fmt::format("{}\n{}\n{}\n{}\n{}\n\n{}\n", kFirstLine, note.address.text(), note.token,
                  note.start, note.host, kLastLine);
  const bool written = file.valid() && write_all(file.get(), text) && fsync(file.get()) == 0 &&
                       std::rename(temporary.c_str(), path_.c_str()) == 0;
  if (written) return;
  const int error = errno;
  unlink(temporary.c_str());
  fail<IoError>("rendezvous", "cannot write {}: {}", path_, std::strerror(error));
}

RendezvousFile::~RendezvousFile() {
  const auto note = read_rendezvous_note(path_);
  if (note && note->token == token_) unlink(path_.c_str());
}

std::string random_token() { return links::hexadecimal(links::random_bytes(16)); }

}  // namespace ferrite::parallel::bootstrap
