#include "ferrite/data/zip.h"

#include <zlib.h>

#include <algorithm>
#include <new>

#include "ferrite/data/inflate.h"

namespace ferrite::data {

namespace {

constexpr std::uint32_t kLocalSignature = 0x04034b50, kCentralSignature = 0x02014b50,
                        kEndSignature = 0x06054b50, kEnd64Signature = 0x06064b50,
                        kLocator64Signature = 0x07064b50;
constexpr std::size_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22, kEnd64Bytes = 56,
                      kLocator64Bytes = 20;
constexpr std::uint16_t kZip64Extra = 1, kEncrypted = 1;
constexpr std::uint16_t kPadding = 0x4246;   // an extra field that only fills; PyTorch's number
constexpr std::uint32_t kIn64 = 0xffffffff;  // means "see the zip64 record"

std::uint16_t u16(const std::uint8_t* p) { return load_little<std::uint16_t>(p); }
std::uint32_t u32(const std::uint8_t* p) { return load_little<std::uint32_t>(p); }
std::uint64_t u64(const std::uint8_t* p) { return load_little<std::uint64_t>(p); }

std::uint32_t crc_of(const void* data, std::size_t bytes) {
  return static_cast<std::uint32_t>(crc32_z(0, static_cast<const Bytef*>(data), bytes));
}

/// bytes[offset, offset + length), or an error that names `what`.
Bytes part(Bytes bytes, std::uint64_t offset, std::uint64_t length, std::string_view what,
           const Where& where) {
  where.check(offset <= bytes.size() && length <= bytes.size() - offset, offset,
              "expected {} of {} bytes here, the file has {} bytes; it is truncated or corrupt",
              what, length, bytes.size());
  return bytes.subspan(offset, length);
}

struct Directory {
  std::uint64_t offset = 0, bytes = 0, entries = 0;
};

Directory find_directory(Bytes bytes, const Where& where) {
  where.check(bytes.size() >= kEndBytes, bytes.size(),
              "expected a zip archive of at least {} bytes, got {}", kEndBytes, bytes.size());
  // The end record ends the file, except for a comment of at most 64 KiB.
  const std::size_t last = bytes.size() - kEndBytes;
  const std::size_t first = last - std::min<std::size_t>(last, 0xffff);
  for (std::size_t at = last + 1; at-- > first;) {
    const std::uint8_t* p = bytes.data() + at;
    if (u32(p) != kEndSignature || u16(p + 20) != last - at) continue;
    if (u32(p + 16) != kIn64 && u16(p + 10) != 0xffff)
      return {.offset = u32(p + 16), .bytes = u32(p + 12), .entries = u16(p + 10)};
    where.check(at >= kLocator64Bytes, at, "the zip64 locator is missing");
    const std::uint8_t* locator = p - kLocator64Bytes;
    where.check(u32(locator) == kLocator64Signature, at - kLocator64Bytes,
                "expected a zip64 locator here");
    const std::uint64_t at64 = u64(locator + 8);
    const std::uint8_t* end64 = part(bytes, at64, kEnd64Bytes, "a zip64 end record", where).data();
    where.check(u32(end64) == kEnd64Signature, at64, "expected a zip64 end record here");
    return {.offset = u64(end64 + 48), .bytes = u64(end64 + 40), .entries = u64(end64 + 32)};
  }
  where.fail(last, "found no end-of-archive record; the file is truncated or no zip archive");
}

/// Replaces the sizes that did not fit by those in the zip64 extra field.
void apply_zip64(ZipMember& member, Bytes extra, std::uint64_t offset, const Where& where) {
  for (std::size_t i = 0; i + 4 <= extra.size();) {
    const std::size_t length = u16(extra.data() + i + 2);
    where.check(length <= extra.size() - i - 4, offset + i, "an extra field is too long");
    if (u16(extra.data() + i) == kZip64Extra) {
      std::size_t at = i + 4;
      for (std::uint64_t* field : {&member.size, &member.compressed, &member.header}) {
        if (*field != kIn64) continue;
        where.check(at + 8 <= i + 4 + length, offset + i, "the zip64 extra field is too short");
        *field = u64(extra.data() + at);
        at += 8;
      }
    }
    i += 4 + length;
  }
}

/// Parses the directory entry at `offset` and advances `offset` past it.
ZipMember read_entry(Bytes bytes, std::uint64_t& offset, const Where& where) {
  const std::uint8_t* p = part(bytes, offset, kCentralBytes, "a directory entry", where).data();
  where.check(u32(p) == kCentralSignature, offset, "expected a directory entry here");
  ZipMember m{.name = {},
              .method = ZipMethod{u16(p + 10)},
              .crc = u32(p + 16),
              .compressed = u32(p + 20),
              .size = u32(p + 24),
              .header = u32(p + 42),
              .entry = offset};
  const std::size_t name = u16(p + 28), extra = u16(p + 30), comment = u16(p + 32);
  const Bytes tail = part(bytes, offset + kCentralBytes, name + extra + comment, "a name", where);
  m.name.assign(reinterpret_cast<const char*>(tail.data()), name);
  apply_zip64(m, tail.subspan(name, extra), offset + kCentralBytes + name, where);
  where.check((u16(p + 8) & kEncrypted) == 0, offset, "'{}' is encrypted", m.name);
  where.check(m.method == ZipMethod::stored || m.method == ZipMethod::deflated, offset + 10,
              "'{}' uses compression method {}; expected 0 (stored) or 8 (deflated)", m.name,
              u16(p + 10));
  where.check(m.method == ZipMethod::stored ? m.compressed == m.size
                                            : m.size / kMaxInflation <= m.compressed,
              offset + 20, "'{}' claims {} bytes, which its {} stored bytes cannot hold", m.name,
              m.size, m.compressed);
  offset += kCentralBytes + tail.size();
  return m;
}

// ---- Writing

struct DeflateState {
  z_stream z = {};
  DeflateState() {
    if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) != Z_OK)
      throw std::bad_alloc();
  }
  ~DeflateState() { deflateEnd(&z); }
};

/// `content` is below 4 GiB.
std::string deflated(std::string_view content) {
  DeflateState state;
  std::string out(deflateBound(&state.z, content.size()), '\0');
  state.z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  state.z.avail_in = static_cast<uInt>(content.size());
  state.z.next_out = reinterpret_cast<Bytef*>(out.data());
  state.z.avail_out = static_cast<uInt>(out.size());
  deflate(&state.z, Z_FINISH);
  out.resize(state.z.total_out);
  return out;
}

/// The fields that the local header and the directory entry share, from "version needed" on;
/// `extra` is the length of the extra fields.
std::string common_fields(const ZipMember& m, std::size_t extra) {
  const bool large = m.size >= kIn64 || m.compressed >= kIn64;
  std::string out;
  append_little(out, std::uint16_t(large || m.header >= kIn64 ? 45 : 20));  // version needed
  append_little(out, std::uint16_t{1 << 11});                               // names are UTF-8
  append_little(out, static_cast<std::uint16_t>(m.method));
  append_little(out, std::uint32_t{0x00210000});  // 1980-01-01 00:00
  append_little(out, m.crc);
  append_little(out, large ? kIn64 : static_cast<std::uint32_t>(m.compressed));
  append_little(out, large ? kIn64 : static_cast<std::uint32_t>(m.size));
  append_little(out, static_cast<std::uint16_t>(m.name.size()));
  append_little(out, static_cast<std::uint16_t>(extra));
  return out;
}

/// The extra field with what does not fit into 32 bits: sizes, and in the directory the offset.
std::string zip64_field(const ZipMember& m, bool in_directory) {
  std::string fields;
  if (m.size >= kIn64 || m.compressed >= kIn64)
    append_little(fields, m.size), append_little(fields, m.compressed);
  if (in_directory && m.header >= kIn64) append_little(fields, m.header);
  if (fields.empty()) return fields;
  std::string out;
  append_little(out, kZip64Extra);
  append_little(out, static_cast<std::uint16_t>(fields.size()));
  return out + fields;
}

}  // namespace

ZipReader::ZipReader(Bytes bytes, Where where) : bytes_(bytes), where_(where) {
  const Directory directory = find_directory(bytes, where);
  part(bytes, directory.offset, directory.bytes, "the archive's directory", where);
  where.check(directory.entries <= directory.bytes / kCentralBytes, directory.offset,
              "the directory claims {} entries in {} bytes", directory.entries, directory.bytes);
  std::uint64_t offset = directory.offset, compressed = 0;
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    const std::uint64_t entry = offset;
    ZipMember member = read_entry(bytes, offset, where);
    // Members that share bytes would let a small archive claim any amount of memory.
    where.check(member.compressed <= bytes.size() - compressed, entry,
                "expected members that fit the archive of {} bytes, got more", bytes.size());
    compressed += member.compressed;
    where.check(!member.name.empty() && index_.emplace(member.name, members_.size()).second, entry,
                "expected a different name for each member, got '{}' twice or no name",
                member.name);
    members_.push_back(std::move(member));
  }
}

const ZipMember* ZipReader::find(const std::string& name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &members_[found->second];
}

ZipContent ZipReader::read(const ZipMember& m, bool checksum) const {
  const Where& where = where_;
  const std::uint8_t* local = part(bytes_, m.header, kLocalBytes, "a member header", where).data();
  where.check(u32(local) == kLocalSignature, m.header, "expected the header of '{}' here", m.name);
  const std::uint64_t begin = m.header + kLocalBytes + u16(local + 26) + u16(local + 28);
  ZipContent content{
      .bytes = part(bytes_, begin, m.compressed, fmt::format("member '{}'", m.name), where),
      .offset = begin};
  if (m.method == ZipMethod::deflated) {
    // No stream of deflate expands more.
    where.check(m.size / 1032 <= m.compressed, begin, "'{}' cannot inflate from {} bytes to {}",
                m.name, m.compressed, m.size);
    InflateStream stream(content.bytes, Compression::deflate, where, begin);
    content.inflated.reset(new std::uint8_t[m.size]);
    const std::size_t got = stream.read(content.inflated.get(), m.size);
    where.check(got == m.size && stream.at_end(), begin + stream.consumed(),
                "expected '{}' to inflate to {} bytes, got {}", m.name, m.size,
                got < m.size ? fmt::format("{}", got) : "more");
    content.bytes = {content.inflated.get(), m.size};
  }
  if (checksum) {
    const std::uint32_t crc = crc_of(content.bytes.data(), content.bytes.size());
    where.check(crc == m.crc, begin, "'{}' is corrupt: expected checksum {:08x}, got {:08x}",
                m.name, m.crc, crc);
  }
  return content;
}

bool is_zip(Bytes bytes) { return bytes.size() >= 4 && u32(bytes.data()) == kLocalSignature; }

void ZipWriter::add(std::string_view name, std::string_view content, ZipMethod method,
                    std::uint64_t alignment) {
  FERRITE_CHECK(name.size() < 60000, ValueError, op_,
                "expected names below 60000 bytes, got '{}...'", name.substr(0, 100));
  FERRITE_CHECK(method == ZipMethod::stored || content.size() < kIn64, ValueError, op_,
                "'{}' has {} bytes; 4 GiB and more can only be stored, not deflated", name,
                content.size());
  ZipMember m{.name = std::string(name),
              .method = method,
              .crc = crc_of(content.data(), content.size()),
              .size = content.size(),
              .header = file_.written()};
  std::string smaller;
  if (method == ZipMethod::deflated) content = smaller = deflated(content);
  m.compressed = content.size();
  std::string extra = zip64_field(m, false);
  if (alignment > 1) {
    const std::uint64_t begin = m.header + kLocalBytes + name.size() + extra.size() + 4;
    const auto padding = static_cast<std::uint16_t>((alignment - begin % alignment) % alignment);
    append_little(extra, kPadding);
    append_little(extra, padding);
    extra.append(padding, 'Z');
  }
  std::string header;
  append_little(header, kLocalSignature);
  file_.write(header + common_fields(m, extra.size()) + m.name + extra);
  file_.write(content);

  const std::string fields = zip64_field(m, true);
  append_little(directory_, kCentralSignature);
  append_little(directory_, std::uint16_t{20});  // made by version
  directory_ += common_fields(m, fields.size());
  directory_.append(10, '\0');  // comment length, disk, internal and external attributes
  append_little(directory_, static_cast<std::uint32_t>(std::min<std::uint64_t>(m.header, kIn64)));
  directory_ += m.name + fields;
  ++members_;
}

void ZipWriter::finish() {
  const std::uint64_t offset = file_.written();
  std::string end;
  if (members_ >= 0xffff || offset >= kIn64 || directory_.size() >= kIn64) {
    append_little(end, kEnd64Signature);
    append_little(end, std::uint64_t{kEnd64Bytes - 12});  // of what follows
    append_little(end, std::uint16_t{45});                // made by, needed version
    append_little(end, std::uint16_t{45});
    append_little(end, std::uint64_t{0});  // disks
    append_little(end, members_);
    append_little(end, members_);
    append_little(end, std::uint64_t{directory_.size()});
    append_little(end, offset);
    append_little(end, kLocator64Signature);
    append_little(end, std::uint32_t{0});  // disk
    append_little(end, std::uint64_t{offset + directory_.size()});
    append_little(end, std::uint32_t{1});  // disks
  }
  const auto count = static_cast<std::uint16_t>(std::min<std::uint64_t>(members_, 0xffff));
  append_little(end, kEndSignature);
  append_little(end, std::uint32_t{0});  // disks
  append_little(end, count);
  append_little(end, count);
  append_little(end, static_cast<std::uint32_t>(std::min<std::uint64_t>(directory_.size(), kIn64)));
  append_little(end, static_cast<std::uint32_t>(std::min<std::uint64_t>(offset, kIn64)));
  append_little(end, std::uint16_t{0});  // no comment
  file_.write(directory_ + end);
}

}  // namespace ferrite::data
