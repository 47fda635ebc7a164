#include "ferrite/data/idx.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>

#include "ferrite/core/views.h"
#include "ferrite/data/inflate.h"
#include "ferrite/data/inflate_whole.h"

namespace ferrite::data {

namespace {

constexpr std::size_t kMagicBytes = 4;

struct Header {
  DType dtype = kUInt8;
  Shape shape;
  std::size_t header_bytes = 0;
  std::uint64_t data_bytes = 0;
  std::uint64_t file_bytes() const { return header_bytes + data_bytes; }
};

DType dtype_of_code(std::uint8_t code, const Where& where) {
  switch (code) {
    case 0x08:
      return kUInt8;
    case 0x09:
      return kInt8;
    case 0x0b:
      return kInt16;
    case 0x0c:
      return kInt32;
    case 0x0d:
      return kFloat32;
    case 0x0e:
      return kFloat64;
    default:
      where.fail(
          2,
          "element type 0x{:02x} is unknown; expected 0x08 (uint8), 0x09 (int8), 0x0b (int16), "
          "0x0c (int32), 0x0d (float32) or 0x0e (float64)",
          code);
  }
}

/// Parses magic and sizes; `read(p, n)` must fill n bytes, or return fewer if the input ends.
template <class Read>
Header read_header(const Where& where, Read&& read) {
  std::array<std::uint8_t, kMagicBytes + 4 * kMaxDims> raw{};
  const std::size_t magic = read(raw.data(), kMagicBytes);
  where.check(magic == kMagicBytes, magic, "expected a header of at least 4 bytes, got {}", magic);
  where.check(raw[0] == 0 && raw[1] == 0, 0,
              "expected an IDX file to begin with two zero bytes, got 0x{:02x} 0x{:02x}", raw[0],
              raw[1]);
  Header header;
  header.dtype = dtype_of_code(raw[2], where);
  const std::size_t ndim = raw[3];
  where.check(ndim >= 1 && ndim <= std::size_t{kMaxDims}, 3, "expected 1 to {} dimensions, got {}",
              kMaxDims, ndim);
  header.header_bytes = kMagicBytes + 4 * ndim;
  const std::size_t got = read(raw.data() + kMagicBytes, 4 * ndim);
  where.check(got == 4 * ndim, kMagicBytes + got,
              "expected {} sizes of 4 bytes each, the file ends after {} of these {} bytes", ndim,
              got, 4 * ndim);
  std::uint64_t bytes = itemsize(header.dtype);
  bool overflow = false, has_zero = false;
  for (std::size_t d = 0; d < ndim; ++d) {
    const std::uint32_t size = load_big32(raw.data() + kMagicBytes + 4 * d);
    header.shape.push_back(size);
    has_zero |= size == 0;
    // A size of 0 counts as 1: the strides of the others must still fit in 64 bits.
    overflow |=
        __builtin_mul_overflow(bytes, std::max(std::uint64_t{size}, std::uint64_t{1}), &bytes);
  }
  where.check(!overflow && bytes < (std::uint64_t{1} << 62), kMagicBytes,
              "the header claims sizes {}, more bytes than 64 bits can count", header.shape);
  header.data_bytes = has_zero ? 0 : bytes;
  return header;
}

void to_native_order(const Tensor& tensor) {
  const auto n = static_cast<std::size_t>(tensor.numel());
  if (tensor.itemsize() == 2) {
    auto* p = static_cast<std::uint16_t*>(tensor.data_ptr());
    std::transform(p, p + n, p, [](std::uint16_t v) { return __builtin_bswap16(v); });
  } else if (tensor.itemsize() == 4) {
    auto* p = static_cast<std::uint32_t*>(tensor.data_ptr());
    std::transform(p, p + n, p, [](std::uint32_t v) { return __builtin_bswap32(v); });
  } else if (tensor.itemsize() == 8) {
    auto* p = static_cast<std::uint64_t*>(tensor.data_ptr());
    std::transform(p, p + n, p, [](std::uint64_t v) { return __builtin_bswap64(v); });
  }
}

Tensor parse_plain(Bytes bytes, const Where& where) {
  std::size_t position = 0;
  const Header header = read_header(where, [&](std::uint8_t* out, std::size_t n) {
    n = std::min(n, bytes.size() - position);
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(position), n, out);
    position += n;
    return n;
  });
  where.check(bytes.size() == header.file_bytes(),
              std::min<std::uint64_t>(bytes.size(), header.file_bytes()),
              "the header promises {} of {}: expected a file of {} bytes, got {}; it is {}",
              header.shape, header.dtype, header.file_bytes(), bytes.size(),
              bytes.size() < header.file_bytes() ? "truncated" : "followed by other data");
  Tensor tensor = empty(header.shape, {.dtype = header.dtype, .device = kCPU});
  if (header.data_bytes > 0)
    std::memcpy(tensor.data_ptr(), bytes.data() + position, header.data_bytes);
  return tensor;
}

/// The elements of a valid file. Its header is inflated with them, into the memory before theirs.
std::optional<Tensor> inflate_at_once(Bytes bytes, const Header& header) {
  constexpr std::size_t kBefore = 64;  // larger than any header, and keeps the elements aligned
  static_assert(kBefore >= kMagicBytes + 4 * kMaxDims);
  const std::size_t size = itemsize(header.dtype);
  const auto before = static_cast<std::int64_t>(kBefore / size);
  const auto numel = static_cast<std::int64_t>(header.data_bytes / size);
  const Tensor memory = empty({before + numel}, {.dtype = header.dtype, .device = kCPU});
  auto* out = static_cast<std::uint8_t*>(memory.data_ptr()) + kBefore - header.header_bytes;
  if (!inflate_gzip(bytes, {out, header.file_bytes()})) return {};
  return geometry::as_strided(memory, header.shape, contiguous_strides(header.shape), before);
}

Tensor parse_gzip(Bytes bytes, const Where& where) {
  InflateStream stream(bytes, Compression::gzip, where);
  const Header header =
      read_header(where, [&](std::uint8_t* out, std::size_t n) { return stream.read(out, n); });
  // Two checks that need no decompression: the maximum expansion of deflate, and the length that
  // ends a gzip member, which is stored modulo 2^32.
  where.check(header.file_bytes() / kMaxInflation <= bytes.size(), kMagicBytes,
              "the header promises {} bytes, more than {} compressed bytes can hold",
              header.file_bytes(), bytes.size());
  const std::uint32_t trailer = load_little<std::uint32_t>(bytes.data() + bytes.size() - 4);
  where.check(trailer == static_cast<std::uint32_t>(header.file_bytes()), bytes.size() - 4,
              "the IDX header promises {} of {}, {} bytes; expected the gzip trailer to say as "
              "much, got {}; the file is truncated, or followed by other data",
              header.shape, header.dtype, header.file_bytes(), trailer);
  if (std::optional<Tensor> whole = inflate_at_once(bytes, header)) return *whole;
  // Piece by piece, to locate the error.
  Tensor tensor = empty(header.shape, {.dtype = header.dtype, .device = kCPU});
  const std::size_t got = stream.read(tensor.data_ptr(), header.data_bytes);
  where.check(got == header.data_bytes, stream.consumed(),
              "the header promises {} decompressed bytes, got {}", header.file_bytes(),
              header.header_bytes + got);
  where.check(stream.at_end(), stream.consumed(),
              "the header promises {} decompressed bytes, got more", header.file_bytes());
  where.check(stream.consumed() == bytes.size(), stream.consumed(),
              "expected the file to end with its gzip member, got {} more bytes",
              bytes.size() - stream.consumed());
  return tensor;
}

}  // namespace

Tensor parse_idx(Bytes bytes, std::string_view name) {
  const Where where{"read_idx", name};
  Tensor tensor = is_gzip(bytes) ? parse_gzip(bytes, where) : parse_plain(bytes, where);
  if constexpr (std::endian::native == std::endian::little) to_native_order(tensor);
  return tensor;
}

Tensor read_idx(const std::filesystem::path& path) {
  const MappedFile file(path, "read_idx");
  return parse_idx(file.bytes(), path.string());
}

}  // namespace ferrite::data
