#include "ferrite/data/png_plain.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "ferrite/data/inflate.h"
#include "ferrite/data/inflate_whole.h"

namespace ferrite::data {

namespace {

constexpr std::size_t kSignatureBytes = 8, kChunkBytes = 12;  // kChunkBytes: a chunk without its
                                                              // data
constexpr std::uint32_t kMostPixels = 1 << 24;                // per side, as in libpng

struct Chunk {
  std::string_view type;
  Bytes data;
};

/// The chunk at `position`, which is advanced past it; nothing if it is incomplete or its checksum
/// is wrong.
std::optional<Chunk> next_chunk(Bytes bytes, std::size_t& position) {
  const Bytes rest = bytes.subspan(position);
  if (rest.size() < kChunkBytes) return {};
  const std::size_t length = load_big32(rest.data());
  if (length > rest.size() - kChunkBytes) return {};
  const uLong sum = crc32_z(0, rest.data() + 4, length + 4);
  if (sum != load_big32(rest.data() + 8 + length)) return {};
  position += length + kChunkBytes;
  return Chunk{{reinterpret_cast<const char*>(rest.data()) + 4, 4}, rest.subspan(8, length)};
}

/// Chunks that do not affect the pixels and need no validation.
bool may_be_skipped(const Chunk& chunk) {
  static constexpr std::array<std::string_view, 6> kTypes = {"gAMA", "cHRM", "sRGB",
                                                             "pHYs", "tEXt", "tIME"};
  return chunk.data.size() <= 1 << 16 && std::ranges::find(kTypes, chunk.type) != kTypes.end();
}

/// The header's contents, if the format is supported here.
std::optional<PlainPng> read_header(const Chunk& chunk) {
  if (chunk.type != "IHDR" || chunk.data.size() != 13) return {};
  const std::uint8_t* p = chunk.data.data();
  constexpr std::array<int, 7> kChannels = {1, 0, 3, 0, 2, 0, 4};  // by colour type
  const std::uint8_t depth = p[8], colour = p[9];
  if (depth != 8 || colour >= kChannels.size() || p[10] != 0 || p[11] != 0 || p[12] != 0) return {};
  PlainPng png{.width = load_big32(p),
               .height = load_big32(p + 4),
               .channels = kChannels[colour],
               .stride = 0,
               .rows = {}};
  const bool sized =
      png.width > 0 && png.width <= kMostPixels && png.height > 0 && png.height <= kMostPixels;
  if (!sized || png.channels == 0) return {};
  png.stride = std::size_t{png.width} * static_cast<std::size_t>(png.channels) + 1;
  return png;
}

/// The compressed data, which the file may split: `joined` then holds the parts together.
struct Compressed {
  Bytes only;
  std::vector<std::uint8_t> joined;

  void add(Bytes part) {
    if (only.empty() && joined.empty()) {
      only = part;
      return;
    }
    if (joined.empty()) joined.assign(only.begin(), only.end());
    joined.insert(joined.end(), part.begin(), part.end());
  }
  Bytes bytes() const { return joined.empty() ? only : Bytes(joined); }
};

/// Reads the chunks after the header up to the last one; false if one is of an unsupported kind.
bool read_chunks(Bytes bytes, std::size_t position, Compressed& compressed) {
  enum { before, within, after } state = before;
  for (;;) {
    const std::optional<Chunk> chunk = next_chunk(bytes, position);
    if (!chunk) return false;
    if (chunk->type == "IEND") return state != before && chunk->data.empty();
    if (chunk->type == "IDAT") {
      if (state == after) return false;
      state = within;
      compressed.add(chunk->data);
    } else {
      if (!may_be_skipped(*chunk)) return false;
      if (state == within) state = after;
    }
  }
}

// ---- Filters (PNG specification, section 9): each value is stored minus a prediction from its
// neighbours to the left (a), above (b), and above left (c).

/// The one of a, b and c closest to a + b - c, the first of them on ties. With u = low - c and v =
/// high - c, u <= v, it is high if 2 u + v >= 0, low if u + 2 v <= 0, else c. Selected by masks: in
/// noisy images, branches would be mispredicted half the time.
inline int paeth(int a, int b, int c) {
  const int pull = 3 * c - a - b, low = std::min(a, b), high = std::max(a, b);
  const int below = c ^ ((c ^ low) & -static_cast<int>(pull >= high));
  return below ^ ((below ^ high) & -static_cast<int>(pull <= low));
}

/// Each pixel depends on the previous one, and vectors of its few values cost more than they gain.
template <std::size_t kStep, class Foretell>
[[gnu::optimize("no-tree-vectorize", "no-tree-slp-vectorize")]] void unfilter(
    std::uint8_t* row, const std::uint8_t* above, std::size_t count, Foretell foretell) {
  std::array<int, kStep> a{}, c{};
  for (std::size_t i = 0; i < count; i += kStep)
    for (std::size_t k = 0; k < kStep; ++k) {
      const int b = above[i + k];
      a[k] = (row[i + k] + foretell(a[k], b, c[k])) & 0xff;
      c[k] = b;
      row[i + k] = static_cast<std::uint8_t>(a[k]);
    }
}

/// Undoes the filter of a row of `count` values; false for an unknown filter.
template <std::size_t kStep>
bool unfilter_row(int filter, std::uint8_t* __restrict row, const std::uint8_t* __restrict above,
                  std::size_t count) {
  switch (filter) {
    case 0:
      return true;
    case 1:
      unfilter<kStep>(row, above, count, [](int a, int, int) { return a; });
      return true;
    case 2:
      for (std::size_t i = 0; i < count; ++i) row[i] = static_cast<std::uint8_t>(row[i] + above[i]);
      return true;
    case 3:
      unfilter<kStep>(row, above, count, [](int a, int b, int) { return (a + b) / 2; });
      return true;
    case 4:
      unfilter<kStep>(row, above, count, paeth);
      return true;
    default:
      return false;
  }
}

template <std::size_t kStep>
bool unfilter_rows(const PlainPng& png) {
  const std::size_t count = png.stride - 1;
  const std::vector<std::uint8_t> zeros(count);
  const std::uint8_t* above = zeros.data();
  auto* row = png.rows.data<std::uint8_t>();
  for (std::uint32_t y = 0; y < png.height; ++y, row += png.stride) {
    if (!unfilter_row<kStep>(row[0], row + 1, above, count)) return false;
    above = row + 1;
  }
  return true;
}

bool unfilter_rows(const PlainPng& png) {
  switch (png.channels) {
    case 1:
      return unfilter_rows<1>(png);
    case 2:
      return unfilter_rows<2>(png);
    case 3:
      return unfilter_rows<3>(png);
    default:
      return unfilter_rows<4>(png);
  }
}

}  // namespace

std::optional<PlainPng> decode_plain_png(Bytes bytes, std::int64_t max_pixels) {
  std::size_t position = kSignatureBytes;
  const std::optional<Chunk> first = next_chunk(bytes, position);
  if (!first) return {};
  std::optional<PlainPng> png = read_header(*first);
  Compressed compressed;
  if (!png || std::int64_t{png->width} * png->height > max_pixels) return {};
  if (!read_chunks(bytes, position, compressed)) return {};
  const std::size_t size = png->stride * png->height;
  if (size / kMaxInflation > bytes.size()) return {};
  png->rows = empty({static_cast<std::int64_t>(size)}, {.dtype = kUInt8, .device = kCPU});
  if (!inflate_zlib(compressed.bytes(), {png->rows.data<std::uint8_t>(), size})) return {};
  if (!unfilter_rows(*png)) return {};
  return png;
}

}  // namespace ferrite::data
