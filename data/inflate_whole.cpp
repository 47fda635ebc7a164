#include "data/inflate_whole.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace ferrite::data {

namespace {

// ---- Tables: the next bits of the stream, as an index, give what they stand for.

/// A table's entry. Of a literal, a length or a distance: bits 0 to 5 how many bits it takes with
/// the extra ones behind its code, 8 to 11 how many are the code, 16 to 31 its value, to which the
/// extra bits are added. Of codes too long for the table: where the table for the rest of their
/// bits begins, and in bits 0 to 5 how many these are.
using Entry = std::uint32_t;
constexpr Entry kLiteral = 1u << 12;
constexpr Entry kSpecial = 1u << 15;  // one of the next two, or no code
constexpr Entry kLonger = 1u << 14, kEndOfBlock = 1u << 13;

constexpr unsigned total_bits(Entry e) { return e & 0x3f; }
constexpr unsigned code_bits(Entry e) { return e >> 8 & 0xf; }
constexpr unsigned value_of(Entry e) { return e >> 16; }
constexpr std::uint64_t low_bits(std::uint64_t bits, unsigned n) {
  return bits & ((std::uint64_t{1} << n) - 1);
}

/// Of a length or a distance that `bits` begin with.
constexpr std::size_t value_of(Entry e, std::uint64_t bits) {
  return value_of(e) + (low_bits(bits, total_bits(e)) >> code_bits(e));
}

constexpr unsigned kLongestCode = 15;
constexpr unsigned kSymbolBits = 11, kDistanceBits = 8, kLengthBits = 7;
constexpr std::size_t kSymbols = 288, kDistances = 30, kCodeLengths = 19;

/// Codes and the tables of those longer than an index. A complete code has at least two in each.
template <unsigned kBits, std::size_t kCodes>
struct Table {
  std::array<Entry, (std::size_t{1} << kBits) +
                        (kCodes / 2 << (kLongestCode > kBits ? kLongestCode - kBits : 0))>
      entries;

  Entry at(std::uint64_t bits) const { return entries[low_bits(bits, kBits)]; }
  Entry at_longer(Entry e, std::uint64_t bits) const {
    return entries[value_of(e) + low_bits(bits >> kBits, total_bits(e))];
  }
  /// Of a canonical Huffman code by the lengths of its codes, 0 for symbols without one; `meaning`
  /// has their entries without the bits of the code. False where the lengths make no code.
  bool build(std::span<const std::uint8_t> lengths, const Entry* meaning);
};

constexpr unsigned reversed(unsigned code, unsigned bits) {
  unsigned result = 0;
  for (unsigned i = 0; i < bits; ++i) result |= (code >> i & 1) << (bits - 1 - i);
  return result;
}

template <unsigned kBits, std::size_t kCodes>
bool Table<kBits, kCodes>::build(std::span<const std::uint8_t> lengths, const Entry* meaning) {
  std::array<std::uint16_t, kLongestCode + 1> count{}, first{};
  for (const std::uint8_t length : lengths) ++count[length];
  count[0] = 0;
  unsigned longest = 0, codes = 0;
  int left = 1;  // codes of this length that are free
  for (unsigned n = 1; n <= kLongestCode; ++n) {
    left = 2 * left - count[n];
    if (left < 0) return false;
    first[n] = static_cast<std::uint16_t>(codes);
    codes += count[n];
    if (count[n] > 0) longest = n;
  }
  if (left > 0 && longest > 1) return false;  // one code alone, or none, may be

  std::array<std::uint16_t, kCodes> sorted;  // by length
  for (std::size_t s = 0; s < lengths.size(); ++s)
    if (lengths[s] > 0) sorted[first[lengths[s]]++] = static_cast<std::uint16_t>(s);

  constexpr std::size_t kSize = std::size_t{1} << kBits;
  std::fill_n(entries.begin(), kSize, kSpecial);
  const unsigned rest_bits = longest > kBits ? longest - kBits : 0;
  std::size_t used = kSize, prefix = kSize, base = 0;
  unsigned code = 0, length = 0;
  for (unsigned i = 0; i < codes; ++i, ++code) {
    const std::uint16_t symbol = sorted[i];
    code <<= lengths[symbol] - length;
    length = lengths[symbol];
    const unsigned index = reversed(code, length);
    const Entry entry = meaning[symbol] + length + (length << 8);
    if (length <= kBits) {
      for (std::size_t at = index; at < kSize; at += std::size_t{1} << length) entries[at] = entry;
      continue;
    }
    if ((index & (kSize - 1)) != prefix) {
      prefix = index & (kSize - 1), base = used;
      used += std::size_t{1} << rest_bits;
      if (used > entries.size()) return false;
      entries[prefix] = kSpecial | kLonger | rest_bits | static_cast<Entry>(base << 16);
    }
    for (std::size_t at = index >> kBits; at < std::size_t{1} << rest_bits;
         at += std::size_t{1} << (length - kBits))
      entries[base + at] = entry;
  }
  return true;
}

/// Entries of symbols, RFC 1951 section 3.2.5: literals, the end, and lengths from 3 to 258.
constexpr auto kSymbolMeaning = [] {
  std::array<Entry, kSymbols> result{};
  for (Entry s = 0; s < 256; ++s) result[s] = kLiteral | s << 16;
  result[256] = kSpecial | kEndOfBlock;
  Entry base = 3;
  for (Entry s = 257; s < 285; ++s) {
    const Entry extra = s < 265 ? 0 : (s - 261) / 4;
    result[s] = base << 16 | extra;
    base += 1u << extra;
  }
  result[285] = 258u << 16;
  result[286] = result[287] = kSpecial;
  return result;
}();

constexpr auto kDistanceMeaning = [] {
  std::array<Entry, 32> result{};
  Entry base = 1;
  for (Entry s = 0; s < 30; ++s) {
    const Entry extra = s < 4 ? 0 : s / 2 - 1;
    result[s] = base << 16 | extra;
    base += 1u << extra;
  }
  result[30] = result[31] = kSpecial;
  return result;
}();

constexpr auto kLengthMeaning = [] {
  std::array<Entry, kCodeLengths> result{};
  for (Entry s = 0; s < kCodeLengths; ++s) result[s] = s << 16;
  return result;
}();

// ---- The stream

std::uint64_t load_bits(const std::uint8_t* p) {
  std::uint64_t value;
  std::memcpy(&value, p, sizeof value);
  if constexpr (std::endian::native == std::endian::big) value = __builtin_bswap64(value);
  return value;
}

/// Bits that were read ahead, the next one lowest. Those from `count` on are either 0, or already
/// those that come next.
struct BitBuffer {
  const std::uint8_t* in;
  const std::uint8_t* end;
  std::uint64_t bits = 0;
  unsigned count = 0;
  std::size_t beyond = 0;  // zero bytes that were read behind the end

  void drop(unsigned n) { bits >>= n, count -= n; }
  /// 56 bits or more, with 8 bytes at `in`.
  void refill() {
    bits |= load_bits(in) << count;
    in += (63 - count) >> 3;
    count |= 56;
  }
  void refill_slowly() {
    for (; count <= 56; count += 8) {
      if (in < end)
        bits |= std::uint64_t{*in++} << count;
      else
        ++beyond;
    }
  }
  /// At most 32, which have been refilled.
  unsigned take(unsigned n) {
    const auto value = static_cast<unsigned>(low_bits(bits, n));
    drop(n);
    return value;
  }
  /// Goes on at the next whole byte, with nothing read ahead; false where that lies behind the end.
  bool align() {
    const std::size_t unread = count / 8;
    if (beyond > unread) return false;
    in -= unread - beyond;
    bits = 0, count = 0, beyond = 0;
    return true;
  }
};

/// Copies a match; may write up to 15 bytes behind its end.
inline void copy_match(std::uint8_t* to, std::size_t distance, std::size_t length) {
  const std::uint8_t* from = to - distance;
  std::uint8_t* const end = to + length;
  if (distance >= 16) {
    do {
      std::memcpy(to, from, 16);
      to += 16, from += 16;
    } while (to < end);
  } else if (distance >= 8) {
    do {
      std::memcpy(to, from, 8);
      to += 8, from += 8;
    } while (to < end);
  } else if (distance == 1) {
    std::memset(to, *from, length);
  } else {
    while (to < end) *to++ = *from++;
  }
}

class Inflater {
 public:
  Inflater(Bytes in, std::span<std::uint8_t> out)
      : bits_{.in = in.data(), .end = in.data() + in.size()},
        begin_(out.data()),
        out_(out.data()),
        end_(out.data() + out.size()) {}

  /// Up to the end of the last block; false where that is not the end of the output too.
  bool run() {
    for (bool last = false; !last;) {
      bits_.refill_slowly();
      last = bits_.take(1) != 0;
      if (!block(bits_.take(2))) return false;
    }
    return out_ == end_ && bits_.align();
  }
  const std::uint8_t* at() const { return bits_.in; }

 private:
  enum class Stop { end_of_block, near_the_end, corrupt };

  bool block(unsigned type);
  bool stored();
  bool fixed_codes();
  bool read_codes();
  bool build(std::span<const std::uint8_t> symbols, std::span<const std::uint8_t> distances);
  bool read_lengths(std::span<std::uint8_t> lengths);
  bool coded();
  Stop decode_fast();
  Stop decode_slowly();

  BitBuffer bits_;
  std::uint8_t* const begin_;
  std::uint8_t* out_;
  std::uint8_t* const end_;
  bool fixed_ = false;  // the tables are those of the fixed codes
  Table<kSymbolBits, kSymbols> symbols_;
  Table<kDistanceBits, 32> distances_;
};

bool Inflater::block(unsigned type) {
  switch (type) {
    case 0:
      return stored();
    case 1:
      return fixed_codes() && coded();
    case 2:
      return read_codes() && coded();
    default:
      return false;
  }
}

bool Inflater::stored() {
  if (!bits_.align() || bits_.end - bits_.in < 4) return false;
  const std::size_t size = load_little<std::uint16_t>(bits_.in);
  const std::size_t inverse = load_little<std::uint16_t>(bits_.in + 2);
  bits_.in += 4;
  if ((size ^ inverse) != 0xffff || size > static_cast<std::size_t>(bits_.end - bits_.in) ||
      size > static_cast<std::size_t>(end_ - out_))
    return false;
  if (size > 0) std::memcpy(out_, bits_.in, size);
  bits_.in += size, out_ += size;
  return true;
}

bool Inflater::fixed_codes() {
  if (fixed_) return true;
  std::array<std::uint8_t, kSymbols> lengths;
  std::fill_n(lengths.begin(), 144, 8);
  std::fill_n(lengths.begin() + 144, 112, 9);
  std::fill_n(lengths.begin() + 256, 24, 7);
  std::fill_n(lengths.begin() + 280, 8, 8);
  std::array<std::uint8_t, 32> distances;
  distances.fill(5);
  fixed_ = true;
  return build(lengths, distances);
}

bool Inflater::read_codes() {
  bits_.refill_slowly();
  const std::size_t symbols = bits_.take(5) + 257, distances = bits_.take(5) + 1;
  if (symbols > 286 || distances > kDistances) return false;
  std::array<std::uint8_t, kSymbols + 32> lengths{};
  if (!read_lengths(std::span(lengths).first(symbols + distances))) return false;
  if (lengths[256] == 0) return false;  // a block could not end
  fixed_ = false;
  return build(std::span(lengths).first(symbols), std::span(lengths).subspan(symbols, distances));
}

bool Inflater::build(std::span<const std::uint8_t> symbols,
                     std::span<const std::uint8_t> distances) {
  return symbols_.build(symbols, kSymbolMeaning.data()) &&
         distances_.build(distances, kDistanceMeaning.data());
}

/// The lengths of the codes of symbols and distances, which are coded themselves (section 3.2.7).
bool Inflater::read_lengths(std::span<std::uint8_t> lengths) {
  constexpr std::array<std::uint8_t, kCodeLengths> kOrder = {16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                                             11, 4,  12, 3, 13, 2, 14, 1, 15};
  std::array<std::uint8_t, kCodeLengths> of_lengths{};
  const unsigned sent = bits_.take(4) + 4;
  for (unsigned i = 0; i < sent; ++i) {
    bits_.refill_slowly();
    of_lengths[kOrder[i]] = static_cast<std::uint8_t>(bits_.take(3));
  }
  Table<kLengthBits, kCodeLengths> table;
  if (!table.build(of_lengths, kLengthMeaning.data())) return false;
  for (std::size_t i = 0; i < lengths.size();) {
    bits_.refill_slowly();
    const Entry entry = table.at(bits_.bits);
    if (entry & kSpecial) return false;
    bits_.drop(total_bits(entry));
    const unsigned symbol = value_of(entry);
    if (symbol < 16) {
      lengths[i++] = static_cast<std::uint8_t>(symbol);
      continue;
    }
    if (symbol == 16 && i == 0) return false;
    const std::uint8_t repeated = symbol == 16 ? lengths[i - 1] : std::uint8_t{0};
    const std::size_t times = symbol == 16   ? 3 + bits_.take(2)
                              : symbol == 17 ? 3 + bits_.take(3)
                                             : 11 + bits_.take(7);
    if (times > lengths.size() - i) return false;
    std::fill_n(lengths.begin() + static_cast<std::ptrdiff_t>(i), times, repeated);
    i += times;
  }
  return true;
}

bool Inflater::coded() {
  for (;;) {
    Stop stop = decode_fast();
    if (stop == Stop::near_the_end) stop = decode_slowly();
    if (stop != Stop::near_the_end) return stop == Stop::end_of_block;
  }
}

/// Decodes while there is so much left of both sides that no step has to look: a turn reads at most
/// 15 bytes, and writes three literals, a match of 258, and 15 bytes behind it.
Inflater::Stop Inflater::decode_fast() {
  constexpr std::ptrdiff_t kIn = 16, kOut = 288;
  BitBuffer b = bits_;
  std::uint8_t* out = out_;
  Stop stop = Stop::near_the_end;
  while (b.end - b.in >= kIn && end_ - out >= kOut) {
    b.refill();  // for three codes of the table's length, and the longest with its extra bits
    Entry e = symbols_.at(b.bits);
    for (int i = 0; i < 3 && (e & kLiteral); ++i) {
      *out++ = static_cast<std::uint8_t>(value_of(e));
      b.drop(total_bits(e));
      e = symbols_.at(b.bits);
    }
    if ((e & kSpecial) && (e & kLonger)) e = symbols_.at_longer(e, b.bits);
    if (e & kLiteral) {
      *out++ = static_cast<std::uint8_t>(value_of(e));
      b.drop(total_bits(e));
      continue;
    }
    if (e & kSpecial) [[unlikely]] {
      stop = e & kEndOfBlock ? Stop::end_of_block : Stop::corrupt;
      b.drop(total_bits(e));
      break;
    }
    const std::size_t length = value_of(e, b.bits);
    b.drop(total_bits(e));
    b.refill();
    e = distances_.at(b.bits);
    if (e & kSpecial) [[unlikely]] {
      if (e & kLonger) e = distances_.at_longer(e, b.bits);
      if (e & kSpecial) {
        stop = Stop::corrupt;
        break;
      }
    }
    const std::size_t distance = value_of(e, b.bits);
    b.drop(total_bits(e));
    if (distance > static_cast<std::size_t>(out - begin_)) [[unlikely]] {
      stop = Stop::corrupt;
      break;
    }
    copy_match(out, distance, length);
    out += length;
  }
  bits_ = b, out_ = out;
  return stop;
}

/// One symbol after the other, with an eye on both ends. Bits from behind the end are zeros, of
/// which run() hears: the output ends them at the latest.
Inflater::Stop Inflater::decode_slowly() {
  for (;;) {
    bits_.refill_slowly();
    Entry e = symbols_.at(bits_.bits);
    if ((e & kSpecial) && (e & kLonger)) e = symbols_.at_longer(e, bits_.bits);
    if (e & kLiteral) {
      if (out_ == end_) return Stop::corrupt;
      bits_.drop(total_bits(e));
      *out_++ = static_cast<std::uint8_t>(value_of(e));
      continue;
    }
    if (e & kSpecial) {
      bits_.drop(total_bits(e));
      return e & kEndOfBlock ? Stop::end_of_block : Stop::corrupt;
    }
    const std::size_t length = value_of(e, bits_.bits);
    bits_.drop(total_bits(e));
    bits_.refill_slowly();
    e = distances_.at(bits_.bits);
    if ((e & kSpecial) && (e & kLonger)) e = distances_.at_longer(e, bits_.bits);
    if (e & kSpecial) return Stop::corrupt;
    const std::size_t distance = value_of(e, bits_.bits);
    bits_.drop(total_bits(e));
    if (distance > static_cast<std::size_t>(out_ - begin_) ||
        length > static_cast<std::size_t>(end_ - out_))
      return Stop::corrupt;
    for (std::size_t i = 0; i < length; ++i, ++out_) *out_ = *(out_ - distance);
  }
}

// ---- Frames

/// The bytes of a gzip member's header; 0 where it is none, or does not end.
std::size_t gzip_header(Bytes in) {
  constexpr std::size_t kFixed = 10;
  enum : std::uint8_t { kCrc = 2, kExtra = 4, kName = 8, kComment = 16, kReserved = 0xe0 };
  if (in.size() < kFixed || in[0] != 0x1f || in[1] != 0x8b || in[2] != 8) return 0;
  const std::uint8_t flags = in[3];
  if (flags & (kReserved | kCrc)) return 0;  // the latter is never written: zlib checks it
  std::size_t at = kFixed;
  if (flags & kExtra) {
    if (in.size() - at < 2) return 0;
    const std::size_t size = 2 + std::size_t{load_little<std::uint16_t>(in.data() + at)};
    if (in.size() - at < size) return 0;
    at += size;
  }
  for (const std::uint8_t text : {kName, kComment}) {
    if (!(flags & text)) continue;
    const auto end = std::find(in.begin() + static_cast<std::ptrdiff_t>(at), in.end(), 0);
    if (end == in.end()) return 0;
    at = static_cast<std::size_t>(end - in.begin()) + 1;
  }
  return at;
}

}  // namespace

std::optional<std::size_t> inflate_whole(Bytes in, std::span<std::uint8_t> out) {
  Inflater inflater(in, out);
  if (!inflater.run()) return {};
  return static_cast<std::size_t>(inflater.at() - in.data());
}

bool inflate_zlib(Bytes in, std::span<std::uint8_t> out) {
  constexpr std::size_t kHeader = 2, kTrailer = 4;
  if (in.size() < kHeader + kTrailer) return false;
  const unsigned method = in[0], flags = in[1];
  const bool plain = (method & 0xf) == 8 && method >> 4 <= 7 && (flags & 0x20) == 0;
  if (!plain || (method << 8 | flags) % 31 != 0) return false;
  const Bytes stream = in.subspan(kHeader, in.size() - kHeader - kTrailer);
  return inflate_whole(stream, out) == stream.size() &&
         adler32_z(adler32_z(0, nullptr, 0), out.data(), out.size()) ==
             load_big32(stream.data() + stream.size());
}

bool inflate_gzip(Bytes in, std::span<std::uint8_t> out) {
  constexpr std::size_t kTrailer = 8;
  const std::size_t header = gzip_header(in);
  if (header == 0 || in.size() - header < kTrailer) return false;
  const Bytes stream = in.subspan(header, in.size() - header - kTrailer);
  const std::uint8_t* trailer = stream.data() + stream.size();
  return inflate_whole(stream, out) == stream.size() &&
         crc32_z(crc32_z(0, nullptr, 0), out.data(), out.size()) ==
             load_little<std::uint32_t>(trailer) &&
         load_little<std::uint32_t>(trailer + 4) == static_cast<std::uint32_t>(out.size());
}

}  // namespace ferrite::data
