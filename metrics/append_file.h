// A file that grows by whole records, for logs that outlive the program that writes them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace ferrite::metrics {

/// What to do with an existing file.
enum class Existing : std::uint8_t { replace, append };

/// Every append() reaches the operating system before it returns, in full or not at all: a killed
/// process leaves no half record of a single write, and if the disk is full, a partial write is
/// undone. IoError, tagged with `op`, on any failure.
class AppendFile {
 public:
  /// Creates missing folders.
  AppendFile(std::filesystem::path path, std::string op, Existing existing);
  ~AppendFile();
  AppendFile(AppendFile&& other) noexcept;
  AppendFile& operator=(AppendFile&& other) noexcept;

  void append(std::string_view bytes);
  /// Waits until everything is on disk.
  void sync();
  const std::filesystem::path& path() const { return path_; }

 private:
  [[noreturn]] void fail_errno(std::string_view what, int error) const;

  std::filesystem::path path_;
  std::string op_;
  int descriptor_ = -1;
  std::int64_t size_ = 0;
};

}  // namespace ferrite::metrics
