#include "ferrite/data/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <optional>
#include <utility>

#include "ferrite/core/signals.h"

namespace ferrite::data {

namespace {

[[noreturn]] void fail_errno(std::string_view op, std::string_view what,
                             const std::filesystem::path& path, int error) {
  fail<IoError>(op, "cannot {} '{}': {}", what, path.string(), std::strerror(error));
}

constexpr std::string_view kTemporary = ".tmp";
constexpr std::string_view kLock = ".lock";

/// Matches names made by AtomicFile, such as "x.safetensors.123.0.tmp".
bool is_temporary(std::string name) {
  if (!name.ends_with(kTemporary)) return false;
  name.resize(name.size() - kTemporary.size());
  for (int part = 0; part < 2; ++part) {
    const std::size_t dot = name.rfind('.');
    if (dot == std::string::npos || dot + 1 == name.size() ||
        name.find_first_not_of("0123456789", dot + 1) != std::string::npos)
      return false;
    name.resize(dot);
  }
  return !name.empty();
}

/// What is no regular file.
std::string_view kind_of(::mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a named pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return S_ISCHR(mode) || S_ISBLK(mode) ? "a device" : "not a file";
}

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path, std::string_view op, Mapping mapping) {
  // O_NONBLOCK: opening a named pipe must not wait for a writer.
  const Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) fail_errno(op, "open", path, errno);
  struct stat info = {};
  if (::fstat(file.fd, &info) != 0) fail_errno(op, "stat", path, errno);
  FERRITE_CHECK(S_ISREG(info.st_mode), IoError, op, "'{}' is {}, expected a regular file",
                path.string(), kind_of(info.st_mode));
  size_ = static_cast<std::size_t>(info.st_size);
  if (size_ == 0) return;
  const int access = mapping == Mapping::copy_on_write ? PROT_READ | PROT_WRITE : PROT_READ;
  void* mapped = ::mmap(nullptr, size_, access, MAP_PRIVATE, file.fd, 0);
  if (mapped == MAP_FAILED) fail_errno(op, "map", path, errno);
  data_ = static_cast<const std::uint8_t*>(mapped);
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::uint8_t*>(data_), size_);
}

namespace {

/// Where `path` leads through symbolic links; the last one may lead to a file that is yet to be
/// made.
std::filesystem::path without_links(std::filesystem::path path, std::string_view op) {
  constexpr int kMost = 40;  // Linux's limit
  for (int links = 0; links <= kMost; ++links) {
    std::error_code is_no_link;
    const std::filesystem::path target = std::filesystem::read_symlink(path, is_no_link);
    if (is_no_link) return path;
    path = path.parent_path() / target;
  }
  fail_errno(op, "write", path, ELOOP);
}

std::filesystem::path folder_of(const std::filesystem::path& path) {
  const std::filesystem::path parent = path.parent_path();
  return parent.empty() ? "." : parent;
}

/// The permissions of the file that will be replaced. A directory in its place is left to the
/// renaming, which refuses it.
std::optional<::mode_t> permissions_of(const std::filesystem::path& path, std::string_view op) {
  struct stat info = {};
  if (::stat(path.c_str(), &info) != 0) return {};
  FERRITE_CHECK(S_ISREG(info.st_mode) || S_ISDIR(info.st_mode), IoError, op,
                "'{}' is {}, expected a regular file or a new name", path.string(),
                kind_of(info.st_mode));
  return info.st_mode & 0777;
}

[[noreturn]] void fail_to_create(const std::filesystem::path& path,
                                 const std::filesystem::path& temporary, std::string_view op,
                                 int error) {
  std::error_code ignored;
  if (const std::filesystem::path folder = folder_of(path);
      error == ENOENT && !std::filesystem::exists(folder, ignored))
    fail<IoError>(op, "cannot create '{}': the folder '{}' does not exist; create it first",
                  path.string(), folder.string());
  fail_errno(op, "create", temporary, error);
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path path, std::string_view op) : op_(op) {
  ignore_unless_handled(SIGXFSZ);
  const std::optional<::mode_t> permissions = permissions_of(path, op_);
  path_ = without_links(std::move(path), op_);
  static std::atomic<unsigned> count{0};
  do {
    temporary_ = path_;
    temporary_ += fmt::format(".{}.{}{}", ::getpid(), count++, kTemporary);
    descriptor_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                         permissions.value_or(0666));
  } while (descriptor_ < 0 && errno == EEXIST);
  if (descriptor_ < 0) fail_to_create(path_, temporary_, op_, errno);
  // The umask may have taken some away. File systems without permissions refuse this.
  if (permissions) [[maybe_unused]]
    const int failed = ::fchmod(descriptor_, *permissions);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::overwrite(std::uint64_t offset, std::string_view text) {
  FERRITE_CHECK(offset <= written_ && text.size() <= written_ - offset, ValueError, op_,
                "expected at most {} bytes, got {} at {}", written_, text.size(), offset);
  while (!text.empty()) {
    const ssize_t n = ::pwrite(descriptor_, text.data(), text.size(), static_cast<::off_t>(offset));
    if (n < 0) {
      if (errno == EINTR) continue;
      fail_errno(op_, "write", temporary_, errno);
    }
    text.remove_prefix(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
}

void AtomicFile::write(const void* data, std::size_t bytes) {
  constexpr std::size_t kMost = std::size_t{1} << 30;  // Linux writes at most 2 GiB per call
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

void AtomicFile::sync() {
  if (::fsync(descriptor_) != 0) fail_errno(op_, "sync", temporary_, errno);
}

void AtomicFile::commit() {
  sync();
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail_errno(op_, "rename to", path_, errno);
  ::close(descriptor_);
  descriptor_ = -1;
  // The rename is durable once the folder is synced. File systems that cannot sync a folder do not
  // need it.
  const std::filesystem::path folder = folder_of(path_);
  const Descriptor directory{::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (directory.fd >= 0 && ::fsync(directory.fd) != 0 && errno != EINVAL && errno != EROFS)
    fail_errno(op_, "sync", folder, errno);
}

FolderLock::FolderLock(const std::filesystem::path& folder, std::string_view op) {
  ignore_unless_handled(SIGXFSZ);
  const std::filesystem::path path = folder / kLock;
  Descriptor file{::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)};
  if (file.fd < 0) fail_errno(op, "create", path, errno);
  char owner[32] = {};
  if (::flock(file.fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) {
      if (::pread(file.fd, owner, sizeof owner - 1, 0) < 0) owner[0] = '\0';
      fail<IoError>(op, "'{}' is being written to by {}; one writer a folder: give each its own",
                    folder.string(), owner[0] ? owner : "another process");
    }
    if (errno != ENOLCK && errno != EOPNOTSUPP && errno != EINVAL)
      fail_errno(op, "lock", path, errno);
  }
  const std::string text = fmt::format("process {}", ::getpid());
  // Only for the message above: a failure here (a full disk) can be ignored.
  if (::ftruncate(file.fd, 0) == 0) [[maybe_unused]]
    const ssize_t n = ::pwrite(file.fd, text.data(), text.size(), 0);
  descriptor_ = std::exchange(file.fd, -1);
}

FolderLock::~FolderLock() { ::close(descriptor_); }

void remove_temporary_files(const std::filesystem::path& folder) {
  std::error_code ignored;
  for (std::filesystem::directory_iterator entry(folder, ignored), end; !ignored && entry != end;
       entry.increment(ignored)) {
    std::error_code failed;
    if (is_temporary(entry->path().filename().string()))
      std::filesystem::remove(entry->path(), failed);
  }
}

}  // namespace ferrite::data
