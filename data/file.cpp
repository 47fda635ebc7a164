#include "data/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

namespace ferrite::data {

namespace {

[[noreturn]] void fail_errno(std::string_view op, std::string_view what,
                             const std::filesystem::path& path, int error) {
  fail<IoError>(op, "cannot {} '{}': {}", what, path.string(), std::strerror(error));
}

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path, std::string_view op) {
  // O_NONBLOCK: opening a named pipe must not wait for a writer.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) fail_errno(op, "open", path, errno);
  struct stat info = {};
  if (::fstat(file.fd, &info) != 0) fail_errno(op, "stat", path, errno);
  FERRITE_CHECK(S_ISREG(info.st_mode), IoError, op, "'{}' is {}, expected a regular file",
                path.string(), S_ISDIR(info.st_mode) ? "a directory" : "not a file");
  size_ = static_cast<std::size_t>(info.st_size);
  if (size_ == 0) return;
  void* mapped = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.fd, 0);
  if (mapped == MAP_FAILED) fail_errno(op, "map", path, errno);
  data_ = static_cast<const std::uint8_t*>(mapped);
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::uint8_t*>(data_), size_);
}

AtomicFile::AtomicFile(std::filesystem::path path, std::string_view op)
    : path_(std::move(path)), op_(op) {
  static std::atomic<unsigned> count{0};
  for (;;) {
    temporary_ = path_;
    temporary_ += fmt::format(".{}.{}.tmp", ::getpid(), count++);
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ >= 0) return;
    if (errno != EEXIST) fail_errno(op_, "create", temporary_, errno);
  }
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::write(const void* data, std::size_t bytes) {
  constexpr std::size_t kMost = std::size_t{1} << 30;  // Linux writes at most 2 GiB a call
  const char* p = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = ::write(descriptor_, p, std::min(bytes, kMost));
    if (n < 0) {
      if (errno == EINTR) continue;
      fail_errno(op_, "write", temporary_, errno);
    }
    p += n;
    bytes -= static_cast<std::size_t>(n);
    written_ += static_cast<std::uint64_t>(n);
  }
}

void AtomicFile::commit() {
  if (::fsync(descriptor_) != 0) fail_errno(op_, "sync", temporary_, errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail_errno(op_, "rename to", path_, errno);
  ::close(descriptor_);
  descriptor_ = -1;
  // The rename is durable once the folder is. File systems that cannot sync a folder do not need
  // to.
  const std::filesystem::path parent = path_.parent_path();
  const std::filesystem::path folder = parent.empty() ? "." : parent;
  const Descriptor directory{::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (directory.fd >= 0 && ::fsync(directory.fd) != 0 && errno != EINVAL && errno != EROFS)
    fail_errno(op_, "sync", folder, errno);
}

}  // namespace ferrite::data
