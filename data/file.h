// File access for the readers and writers of data/: memory-mapped input, atomically replaced
// output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "ferrite/core/error.h"

namespace ferrite::data {

using Bytes = std::span<const std::uint8_t>;  ///< the bytes

/// Access to a mapping. With copy_on_write, pages that are written become private to the process;
/// the file is unchanged.
enum class Mapping : std::uint8_t { read_only, copy_on_write };

/// A regular file mapped into memory; an empty file has empty bytes(). The file must not be
/// shortened while it is mapped (replacing it by rename, or removing it, is fine). IoError, tagged
/// with `op`, if it cannot be opened or is not a regular file.
class MappedFile {
 public:
  MappedFile(const std::filesystem::path& path, std::string_view op,
             Mapping mapping = Mapping::read_only);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  /// The bytes.
  Bytes bytes() const { return {data_, size_}; }

 private:
  const std::uint8_t* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Writes a file that appears under its name complete or not at all: it is written to a temporary
/// file in the same folder, then synced and renamed by commit(). Without commit() the destructor
/// removes the temporary file and leaves an existing file unchanged. A symbolic link stays, and the
/// file that it leads to is written; a file that is replaced leaves its permissions to the new one.
/// IoError, tagged with `op`, on any failure, and for a path that is a pipe, a device or a socket.
class AtomicFile {
 public:
  AtomicFile(std::filesystem::path path, std::string_view op);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends bytes.
  void write(const void* data, std::size_t bytes);
  void write(std::string_view text) { write(text.data(), text.size()); }
  /// Replaces bytes that were already written.
  void overwrite(std::uint64_t offset, std::string_view text);
  /// The number of bytes written.
  std::uint64_t written() const { return written_; }
  /// Writes what was given so far to the disk, which commit() would do before it renames.
  void sync();
  /// The file is complete and takes the place of the old one.
  void commit();
  /// Whether it has. If the folder could not be synced, commit() has failed nevertheless: a power
  /// failure may bring the old file back.
  bool is_in_place() const { return descriptor_ < 0; }

 private:
  std::filesystem::path path_, temporary_;
  std::string op_;
  int descriptor_ = -1;
  std::uint64_t written_ = 0;
};

/// An exclusive lock on a folder, against other processes and other objects in this one, for the
/// lifetime of the object; the kernel releases it if the process is killed. IoError, tagged with
/// `op`, names the process that holds the lock. File systems without locks are not protected.
class FolderLock {
 public:
  FolderLock(const std::filesystem::path& folder, std::string_view op);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_ = -1;
};

/// Removes temporary files that AtomicFiles of killed processes left in `folder`. Only its sole
/// writer may call this, while it is not writing.
void remove_temporary_files(const std::filesystem::path& folder);

/// A reader's position in a file, for its errors: "[op] 'file' at byte 16: text".
struct Where {
  std::string_view op;    ///< what messages name
  std::string_view file;  ///< what messages name

  /// IoError that names the file.
  template <class... Args>
  [[noreturn]] void fail(std::uint64_t offset, fmt::format_string<Args...> format,
                         Args&&... args) const {
    ferrite::fail<IoError>(op, "'{}' at byte {}: {}", file, offset,
                           fmt::format(format, std::forward<Args>(args)...));
  }
  /// IoError that names the file, if the condition does not hold.
  template <class... Args>
  void check(bool condition, std::uint64_t offset, fmt::format_string<Args...> format,
             Args&&... args) const {
    if (!condition) [[unlikely]]
      fail(offset, format, std::forward<Args>(args)...);
  }
};

/// Reads an unsigned integer at `p`, of any alignment.
template <class T>
T load_little(const std::uint8_t* p) {
  T value = 0;
  for (std::size_t i = sizeof(T); i-- > 0;) value = static_cast<T>(value << 8 | p[i]);
  return value;
}
template <>
inline std::uint8_t load_little(const std::uint8_t* p) {
  return *p;
}
/// The integer of 32 bits at this place, the highest byte first.
inline std::uint32_t load_big32(const std::uint8_t* p) {
  return std::uint32_t{p[0]} << 24 | std::uint32_t{p[1]} << 16 | std::uint32_t{p[2]} << 8 | p[3];
}
/// Appends an integer, the lowest byte first.
template <class T>
void append_little(std::string& out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i)
    out.push_back(static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i) & 0xff));
}

}  // namespace ferrite::data
