#include "ferrite/metrics/append_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <system_error>
#include <utility>

#include "ferrite/core/error.h"
#include "ferrite/core/signals.h"

namespace ferrite::metrics {

AppendFile::AppendFile(std::filesystem::path path, std::string op, Existing existing)
    : path_(std::move(path)), op_(std::move(op)) {
  ignore_unless_handled(SIGXFSZ);
  std::error_code error;
  if (path_.has_parent_path()) std::filesystem::create_directories(path_.parent_path(), error);
  if (error) fail_errno("make the folder of", error.value());
  const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
  descriptor_ =
      ::open(path_.c_str(), existing == Existing::replace ? flags | O_TRUNC : flags, 0666);
  if (descriptor_ < 0) fail_errno("open", errno);
  struct stat status {};
  if (::fstat(descriptor_, &status) == 0) size_ = status.st_size;
}

AppendFile::~AppendFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

AppendFile::AppendFile(AppendFile&& other) noexcept
    : path_(std::move(other.path_)),
      op_(std::move(other.op_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_) {}

AppendFile& AppendFile::operator=(AppendFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(op_, other.op_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  return *this;
}

void AppendFile::append(std::string_view bytes) {
  std::string_view rest = bytes;
  while (!rest.empty()) {
    const ssize_t n = ::write(descriptor_, rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      const int error = errno;
      // Pipes and the like cannot be truncated.
      if (rest.size() < bytes.size() && ::ftruncate(descriptor_, size_) != 0 && errno != EINVAL)
        fail_errno("shorten", errno);
      fail_errno("write", error);
    }
    rest.remove_prefix(static_cast<std::size_t>(n));
  }
  size_ += static_cast<std::int64_t>(bytes.size());
}

void AppendFile::sync() {
  if (::fdatasync(descriptor_) != 0 && errno != EINVAL && errno != EROFS) fail_errno("sync", errno);
}

void AppendFile::fail_errno(std::string_view what, int error) const {
  fail<IoError>(op_, "cannot {} '{}': {}", what, path_.string(),
                std::generic_category().message(error));
}

}  // namespace ferrite::metrics
