// The part of the zip format (PKWARE's APPNOTE) in which NumPy and PyTorch keep arrays: stored and
// deflated members, one disk, no encryption, zip64 where sizes need it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ferrite/data/file.h"

namespace ferrite::data {

enum class ZipMethod : std::uint16_t { stored = 0, deflated = 8 };

struct ZipMember {
  std::string name;
  ZipMethod method = ZipMethod::stored;
  std::uint32_t crc = 0;
  std::uint64_t compressed = 0, size = 0;
  std::uint64_t header = 0;  ///< offset of the member's own header
  std::uint64_t entry = 0;   ///< offset of its entry in the directory
};

/// The bytes of a member: of the archive, or `inflated`.
struct ZipContent {
  Bytes bytes;
  std::uint64_t offset = 0;  ///< in the archive, of what is stored there
  std::unique_ptr<std::uint8_t[]> inflated = {};
};

/// Reads the directory of an archive in memory, which must outlive the reader, as must the texts of
/// `where`. All errors are IoErrors with the offset. Names are unique; members share no bytes, so
/// that what a small archive claims is bounded.
class ZipReader {
 public:
  ZipReader(Bytes bytes, Where where);

  /// In the order of the directory.
  const std::vector<ZipMember>& members() const { return members_; }
  /// Null if there is none.
  const ZipMember* find(const std::string& name) const;
  /// `checksum`: whether a wrong checksum is an error.
  ZipContent read(const ZipMember& member, bool checksum = true) const;

 private:
  Bytes bytes_;
  Where where_;
  std::vector<ZipMember> members_;
  std::unordered_map<std::string, std::size_t> index_;
};

/// Whether a file that begins with these bytes is an archive with members.
bool is_zip(Bytes bytes);

/// Appends members to a file, which must be empty at first. Files depend only on their content.
class ZipWriter {
 public:
  explicit ZipWriter(AtomicFile& file, std::string_view op) : file_(file), op_(op) {}

  /// A stored member's bytes begin at a multiple of `alignment`. ValueError for names of more than
  /// 60,000 bytes, and for 4 GiB and more to be deflated.
  void add(std::string_view name, std::string_view content, ZipMethod method = ZipMethod::stored,
           std::uint64_t alignment = 1);
  /// Writes the directory; nothing can be added any more. Does not commit the file.
  void finish();

 private:
  AtomicFile& file_;
  std::string op_;
  std::string directory_;
  std::uint64_t members_ = 0;
};

}  // namespace ferrite::data
