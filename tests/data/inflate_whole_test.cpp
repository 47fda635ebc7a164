#include "data/inflate_whole.h"

#include <algorithm>
#include <optional>

#include "tests/data/files.h"

namespace ferrite::test {
namespace {

using data::inflate_gzip;
using data::inflate_whole;
using data::inflate_zlib;

struct Packing {
  int level = 6, memory = 8, strategy = Z_DEFAULT_STRATEGY, window_bits = -15;
};

std::string packed(std::string_view content, const Packing& how = {}) {
  z_stream z = {};
  REQUIRE(deflateInit2(&z, how.level, Z_DEFLATED, how.window_bits, how.memory, how.strategy) ==
          Z_OK);
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

struct Inflated {
  std::string content;
  std::size_t consumed = 0;
  bool operator==(const Inflated&) const = default;
};

/// In memory of exactly the size, so that the address sanitizer sees what lies outside.
std::optional<Inflated> ours(std::string_view stream, std::size_t size) {
  const std::vector<std::uint8_t> in(stream.begin(), stream.end());
  std::vector<std::uint8_t> out(size);
  const std::optional<std::size_t> consumed = inflate_whole(in, out);
  if (!consumed) return {};
  return Inflated{std::string(out.begin(), out.end()), *consumed};
}

std::optional<Inflated> zlibs(std::string_view stream, std::size_t size) {
  z_stream z = {};
  REQUIRE(inflateInit2(&z, -15) == Z_OK);
  std::string out(size + 1, '\0');  // zlib wants memory where there is none to be filled too
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(stream.data()));
  z.avail_in = static_cast<uInt>(stream.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  const bool whole = inflate(&z, Z_FINISH) == Z_STREAM_END && z.total_out == size;
  const std::size_t consumed = z.total_in;
  inflateEnd(&z);
  out.resize(size);
  return whole ? std::optional(Inflated{out, consumed}) : std::nullopt;
}

/// Bytes of one of some kinds: noise, few symbols, one symbol, and repeats of what came before.
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

Packing any_packing(Generator& random) {
  return {.level = static_cast<int>(random.next_below(10)),
          .memory = 1 + static_cast<int>(random.next_below(9)),
          .strategy = static_cast<int>(random.next_below(5))};
}

}  // namespace

TEST_CASE("inflate_whole: what zlib packs, whatever the way, comes out") {
  Generator random(1);
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    const std::string content = sample(random, random.next_below(round % 4 == 0 ? 40 : 6000));
    const std::string stream = packed(content, any_packing(random));
    const auto whole = ours(stream + "rest", content.size());
    REQUIRE(whole);
    CHECK(whole->content == content);
    CHECK(whole->consumed == stream.size());
    CHECK_FALSE(ours(stream, content.size() + 1));
    if (!content.empty()) CHECK_FALSE(ours(stream, content.size() - 1));
  }
  // Many blocks, and matches from as far back as there can be.
  std::string content = sample(random, 32768);
  content += content + sample(random, 200'000) + content;
  const auto whole = ours(packed(content), content.size());
  REQUIRE(whole);
  CHECK(whole->content == content);
}

TEST_CASE("inflate_whole: what is cut off or changed is refused where zlib refuses it") {
  Generator random(2);
  int accepted = 0, refused = 0;
  for (int round = 0; round < 1500; ++round) {
    CAPTURE(round);
    const std::string content = sample(random, random.next_below(round % 2 == 0 ? 60 : 900));
    std::string stream = packed(content, any_packing(random));
    if (round % 5 == 0) {
      stream.resize(random.next_below(stream.size()));
    } else {  // in the first bytes are the codes
      for (std::uint64_t n = 1 + random.next_below(3); n > 0; --n) {
        const std::size_t at = random.next_below(std::min<std::size_t>(stream.size(), 100));
        stream[at] = static_cast<char>(stream[at] ^ 1 << random.next_below(8));
      }
    }
    const auto got = ours(stream, content.size());
    CHECK((got == zlibs(stream, content.size())));
    ++(got ? accepted : refused);
  }
  CHECK(accepted > 100);
  CHECK(refused > 700);
}

TEST_CASE("inflate_whole: noise is refused, or read as zlib reads it") {
  Generator random(3);
  for (int round = 0; round < 3000; ++round) {
    CAPTURE(round);
    std::string noise(1 + random.next_below(120), '\0');
    for (char& c : noise) c = static_cast<char>(random.next_below(256));
    const std::size_t size = random.next_below(100);
    CHECK((ours(noise, size) == zlibs(noise, size)));
  }
  CHECK_FALSE(ours("", 0));
}

TEST_CASE("inflate_gzip and inflate_zlib: frames and their checksums") {
  Generator random(4);
  const std::string content = sample(random, 5000);
  std::vector<std::uint8_t> out(content.size());
  const auto is = [&](bool (*inflate)(data::Bytes, std::span<std::uint8_t>), std::string_view in) {
    std::ranges::fill(out, 0);
    return inflate(std::vector<std::uint8_t>(in.begin(), in.end()), out) &&
           std::equal(out.begin(), out.end(), bytes_of(content).begin());
  };
  for (const auto& [inflate, window_bits, trailer] :
       {std::tuple(&inflate_gzip, 15 + 16, 8), std::tuple(&inflate_zlib, 15, 4)}) {
    const std::string frame = packed(content, {.window_bits = window_bits});
    CHECK(is(inflate, frame));
    CHECK_FALSE(is(inflate, frame + '\0'));
    for (std::size_t n = 0; n < 30; ++n) CHECK_FALSE(is(inflate, frame.substr(0, n)));
    for (int i = 1; i <= trailer; ++i) {
      std::string changed = frame;
      changed[frame.size() - static_cast<std::size_t>(i)] ^= 1;
      CHECK_FALSE(is(inflate, changed));
    }
    for (const std::size_t at : {0, 1}) {
      std::string changed = frame;
      changed[at] ^= 4;
      CHECK_FALSE(is(inflate, changed));
    }
  }
  // With an extra field, a name and a comment; the name may end nowhere.
  const std::string frame = packed(content, {.window_bits = 15 + 16});
  const std::string head = frame.substr(0, 3), rest = frame.substr(4, 6), body = frame.substr(10);
  CHECK(is(inflate_gzip,
           head + '\x1c' + rest + std::string("\2\0ab", 4) + "name" + '\0' + "note" + '\0' + body));
  CHECK_FALSE(is(inflate_gzip, head + '\x08' + rest + "name"));
  CHECK_FALSE(is(inflate_gzip, head + '\x04' + rest + "\xff\xff"));
}

}  // namespace ferrite::test
