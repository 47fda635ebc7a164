// The part of the zip format that .npz files use: stored and deflated members, one disk, no
// encryption; zip64 is read. Everything is found through the central directory.
#include <zlib.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <new>

#include "ferrite/data/host.h"
#include "ferrite/data/inflate.h"
#include "ferrite/data/npy.h"

namespace ferrite::data {

namespace {

constexpr std::uint32_t kLocalSignature = 0x04034b50, kCentralSignature = 0x02014b50,
                        kEndSignature = 0x06054b50, kEnd64Signature = 0x06064b50,
                        kLocator64Signature = 0x07064b50;
constexpr std::size_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22, kEnd64Bytes = 56,
                      kLocator64Bytes = 20;
constexpr std::uint16_t kStored = 0, kDeflated = 8, kZip64Extra = 1, kEncrypted = 1;
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
  where.fail(last, "found no end-of-archive record; the file is truncated or no .npz archive");
}

struct Member {
  std::string name;
  std::uint16_t method = 0;
  std::uint32_t crc = 0;
  std::uint64_t compressed = 0, size = 0, header = 0;
};

/// Replaces the sizes that did not fit by those in the zip64 extra field.
void apply_zip64(Member& member, Bytes extra, std::uint64_t offset, const Where& where) {
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
Member read_entry(Bytes bytes, std::uint64_t& offset, const Where& where) {
  const std::uint8_t* p = part(bytes, offset, kCentralBytes, "a directory entry", where).data();
  where.check(u32(p) == kCentralSignature, offset, "expected a directory entry here");
  Member m{.name = {},
           .method = u16(p + 10),
           .crc = u32(p + 16),
           .compressed = u32(p + 20),
           .size = u32(p + 24),
           .header = u32(p + 42)};
  const std::size_t name = u16(p + 28), extra = u16(p + 30), comment = u16(p + 32);
  const Bytes tail = part(bytes, offset + kCentralBytes, name + extra + comment, "a name", where);
  m.name.assign(reinterpret_cast<const char*>(tail.data()), name);
  apply_zip64(m, tail.subspan(name, extra), offset + kCentralBytes + name, where);
  where.check((u16(p + 8) & kEncrypted) == 0, offset, "'{}' is encrypted", m.name);
  where.check(m.method == kStored || m.method == kDeflated, offset + 10,
              "'{}' uses compression method {}; expected 0 (stored) or 8 (deflated)", m.name,
              m.method);
  where.check(m.method == kStored ? m.compressed == m.size : m.size / kMaxInflation <= m.compressed,
              offset + 20, "'{}' claims {} bytes, which its {} stored bytes cannot hold", m.name,
              m.size, m.compressed);
  offset += kCentralBytes + tail.size();
  return m;
}

Tensor read_member(Bytes bytes, const Member& m, const Where& where) {
  const std::uint8_t* local = part(bytes, m.header, kLocalBytes, "a member header", where).data();
  where.check(u32(local) == kLocalSignature, m.header, "expected the header of '{}' here", m.name);
  const std::uint64_t begin = m.header + kLocalBytes + u16(local + 26) + u16(local + 28);
  Bytes content = part(bytes, begin, m.compressed, fmt::format("member '{}'", m.name), where);
  std::unique_ptr<std::uint8_t[]> inflated;
  if (m.method == kDeflated) {
    InflateStream stream(content, Compression::deflate, where, begin);
    inflated.reset(new std::uint8_t[m.size]);
    const std::size_t got = stream.read(inflated.get(), m.size);
    where.check(got == m.size && stream.at_end(), begin + stream.consumed(),
                "expected '{}' to inflate to {} bytes, got {}", m.name, m.size,
                got < m.size ? fmt::format("{}", got) : "more");
    content = {inflated.get(), m.size};
  }
  const std::uint32_t crc = crc_of(content.data(), content.size());
  where.check(crc == m.crc, begin, "'{}' is corrupt: expected checksum {:08x}, got {:08x}", m.name,
              m.crc, crc);
  return parse_npy(content, fmt::format("{}:{}", where.file, m.name), where.op);
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

/// The fields that the local header and the directory entry share, from "version needed" on.
std::string common_fields(const Member& m) {
  std::string out;
  append_little(out, std::uint16_t{20});       // version needed
  append_little(out, std::uint16_t{1 << 11});  // names are UTF-8
  append_little(out, m.method);
  append_little(out, std::uint32_t{0x00210000});  // 1980-01-01 00:00: files depend only on their
                                                  // content
  append_little(out, m.crc);
  append_little(out, static_cast<std::uint32_t>(m.compressed));
  append_little(out, static_cast<std::uint32_t>(m.size));
  append_little(out, static_cast<std::uint16_t>(m.name.size()));
  append_little(out, std::uint16_t{0});  // no extra field
  return out;
}

Member write_member(AtomicFile& file, const std::string& name, const Tensor& tensor,
                    NpzCompression compression) {
  constexpr std::uint64_t kMost = kIn64 - 1;
  const Tensor dense = host_contiguous(tensor, "save_npz");
  std::string content = npy_header(dense.dtype(), dense.shape(), "save_npz");
  FERRITE_CHECK(dense.nbytes() < kMost - (1 << 26) && file.written() < kMost && name.size() < 60000,
                ValueError, "save_npz",
                "'{}' does not fit: arrays and the archive are limited to 4 GiB, names to 60000 "
                "bytes; use safetensors",
                name.substr(0, 100));
  content.append(static_cast<const char*>(dense.data_ptr()), dense.nbytes());
  Member m{.name = name + ".npy",
           .method = compression == NpzCompression::deflated ? kDeflated : kStored,
           .crc = crc_of(content.data(), content.size()),
           .compressed = 0,
           .size = content.size(),
           .header = file.written()};
  if (m.method == kDeflated) content = deflated(content);
  m.compressed = content.size();
  std::string header;
  append_little(header, kLocalSignature);
  file.write(header + common_fields(m) + m.name);
  file.write(content);
  return m;
}

}  // namespace

StateDict parse_npz(Bytes bytes, std::string_view name) {
  const Where where{"load_npz", name};
  const Directory directory = find_directory(bytes, where);
  part(bytes, directory.offset, directory.bytes, "the archive's directory", where);
  where.check(directory.entries <= directory.bytes / kCentralBytes, directory.offset,
              "the directory claims {} entries in {} bytes", directory.entries, directory.bytes);
  StateDict arrays;
  std::uint64_t offset = directory.offset, compressed = 0;
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    const std::uint64_t entry = offset;
    const Member member = read_entry(bytes, offset, where);
    // Members that share bytes would let a small archive claim any amount of memory.
    where.check(member.compressed <= bytes.size() - compressed, entry,
                "expected members that fit the archive of {} bytes, got more", bytes.size());
    compressed += member.compressed;
    std::string key = member.name;
    if (key.ends_with(".npy")) key.resize(key.size() - 4);
    where.check(!key.empty() && !arrays.contains(key), entry,
                "expected each array under a name of its own, got '{}' twice or no name", key);
    arrays.insert(std::move(key), read_member(bytes, member, where));
  }
  return arrays;
}

StateDict load_npz(const std::filesystem::path& path) {
  const MappedFile file(path, "load_npz");
  return parse_npz(file.bytes(), path.string());
}

void save_npz(const StateDict& arrays, const std::filesystem::path& path,
              NpzCompression compression) {
  FERRITE_CHECK(arrays.size() < 0xffff, ValueError, "save_npz",
                "expected at most 65534 arrays, got {}", arrays.size());
  AtomicFile file(path, "save_npz");
  std::string directory;
  for (const auto& [name, tensor] : arrays) {
    const Member m = write_member(file, name, tensor, compression);
    append_little(directory, kCentralSignature);
    append_little(directory, std::uint16_t{20});  // made by version
    directory += common_fields(m);
    directory.append(10, '\0');  // comment length, disk, internal and external attributes
    append_little(directory, static_cast<std::uint32_t>(m.header));
    directory += m.name;
  }
  const std::uint64_t offset = file.written();
  FERRITE_CHECK(offset + directory.size() < kIn64, ValueError, "save_npz",
                "the archive would exceed 4 GiB; use safetensors");
  std::string end;
  append_little(end, kEndSignature);
  append_little(end, std::uint32_t{0});  // disks
  append_little(end, static_cast<std::uint16_t>(arrays.size()));
  append_little(end, static_cast<std::uint16_t>(arrays.size()));
  append_little(end, static_cast<std::uint32_t>(directory.size()));
  append_little(end, static_cast<std::uint32_t>(offset));
  append_little(end, std::uint16_t{0});  // no comment
  file.write(directory + end);
  file.commit();
}

}  // namespace ferrite::data
