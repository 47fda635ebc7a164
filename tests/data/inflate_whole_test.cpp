#include "ferrite/data/inflate_whole.h"

#include <algorithm>

#include "ferrite/tests/data/files.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

using data::inflate_gzip;
using data::inflate_zlib;

using Inflate = bool(data::Bytes, std::span<std::uint8_t>);

struct Frame {
  Inflate* inflate;
  int window_bits;  // zlib's code for the framing
  int trailer;      // bytes
};
constexpr Frame kFrames[] = {{inflate_gzip, 15 + 16, 8}, {inflate_zlib, 15, 4}};

std::string packed(std::string_view content, int window_bits, int level = 6) {
  z_stream z = {};
  REQUIRE(deflateInit2(&z, level, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(2 * deflateBound(&z, content.size()) + 1024, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  z.avail_in = static_cast<uInt>(content.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  REQUIRE(deflate(&z, Z_FINISH) == Z_STREAM_END);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

/// Whether `frame` decompresses to `content`; in memory of exactly that size, so that the address
/// sanitizer detects accesses outside.
bool is(Inflate* inflate, std::string_view frame, std::string_view content) {
  const std::vector<std::uint8_t> in(frame.begin(), frame.end());
  std::vector<std::uint8_t> out(content.size());
  return inflate(in, out) &&
         std::equal(out.begin(), out.end(), content.begin(),
                    [](auto x, char y) { return x == static_cast<std::uint8_t>(y); });
}

/// Test data of several kinds: noise, few symbols, one symbol, and repetitions.
std::string sample(Generator& random, std::size_t size) {
  const std::uint64_t kind = random.next_below(4);
  std::string out;
  while (out.size() < size) {
    const auto byte = static_cast<char>(random.next_below(256));
    if (kind == 0) out.push_back(byte);
    if (kind == 1) out.push_back("aab\n"[random.next_below(4)]);
    if (kind == 2) out.push_back('x');
    if (kind == 3) {
      out.push_back(byte);
      const std::size_t back = 1 + random.next_below(std::min<std::size_t>(out.size(), 40));
      for (std::size_t n = random.next_below(300); n > 0 && out.size() < size; --n)
        out.push_back(out[out.size() - back]);
    }
  }
  return out;
}

}  // namespace

TEST_CASE("inflate_gzip, inflate_zlib: data compressed by zlib is restored") {
  Generator random(1);
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    const std::string content = sample(random, random.next_below(round % 4 == 0 ? 40 : 6000));
    for (const auto& [inflate, window_bits, trailer] : kFrames) {
      const std::string frame =
          packed(content, window_bits, static_cast<int>(random.next_below(10)));
      CHECK(is(inflate, frame, content));
      CHECK_FALSE(is(inflate, frame, content + "x"));
      if (!content.empty()) CHECK_FALSE(is(inflate, frame, content.substr(1)));
    }
  }
  std::string content = sample(random, 32768);
  content += content + sample(random, 200'000) + content;
  CHECK(is(inflate_gzip, packed(content, 15 + 16), content));
}

TEST_CASE("inflate_gzip, inflate_zlib: truncated, changed or extended data is rejected") {
  Generator random(2);
  const std::string content = sample(random, 5000);
  for (const auto& [inflate, window_bits, trailer] : kFrames) {
    const std::string frame = packed(content, window_bits);
    const auto changed = [&](std::size_t at) {
      std::string other = frame;
      other[at] ^= 4;
      return other;
    };
    CHECK(is(inflate, frame, content));
    CHECK_FALSE(is(inflate, frame + '\0', content));
    CHECK_FALSE(is(inflate, "", content));
    for (std::size_t n = 1; n < frame.size(); n += 7)
      CHECK_FALSE(is(inflate, frame.substr(0, n), content));
    for (int i = 1; i <= trailer; ++i)
      CHECK_FALSE(is(inflate, changed(frame.size() - static_cast<std::size_t>(i)), content));
    for (const std::size_t at : {0, 1}) CHECK_FALSE(is(inflate, changed(at), content));
    // If the changed bit is not part of the compressed data, accepting it is correct.
    for (std::size_t at = 10; at < frame.size(); at += 11) {
      std::vector<std::uint8_t> out(content.size());
      const std::string other = changed(at);
      if (inflate(std::vector<std::uint8_t>(other.begin(), other.end()), out))
        CHECK(std::string(out.begin(), out.end()) == content);
    }
  }
  // With an extra field, a name and a comment; the name may be unterminated.
  const std::string frame = packed(content, 15 + 16);
  const std::string head = frame.substr(0, 3), rest = frame.substr(4, 6), body = frame.substr(10);
  CHECK(is(inflate_gzip,
           head + '\x1c' + rest + std::string("\2\0ab", 4) + "name" + '\0' + "note" + '\0' + body,
           content));
  CHECK_FALSE(is(inflate_gzip, head + '\x08' + rest + "name", content));
  CHECK_FALSE(is(inflate_gzip, head + '\x04' + rest + "\xff\xff", content));
}
