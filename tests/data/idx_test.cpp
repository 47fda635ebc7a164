#include "ferrite/data/idx.h"

#include "ferrite/tests/data/files.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

using data::parse_idx;
using data::read_idx;

std::string idx(char type, std::initializer_list<std::uint32_t> sizes, std::string_view content) {
  std::string out{'\0', '\0', type, static_cast<char>(sizes.size())};
  for (const std::uint32_t s : sizes) out += big32(s);
  return out + std::string(content);
}

const std::string kSmall = idx(0x08, {2, 3}, std::string_view("\x00\x01\x02\xfd\xfe\xff", 6));

std::string refusal(const std::string& content) {
  return message_of<IoError>([&] { parse_idx(bytes_of(content), "file.idx"); });
}

}  // namespace

TEST_CASE("idx: bytes, plain and compressed, detected by content") {
  const TempDir dir;
  for (const char* name : {"a.gz", "a"}) {
    for (const bool compressed : {false, true}) {
      write_file(dir / name, compressed ? gzip(kSmall) : kSmall);
      const Tensor t = read_idx(dir / name);
      CHECK(t.shape() == Shape{2, 3});
      CHECK(t.dtype() == kUInt8);
      CHECK(t.to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 1, 2, 253, 254, 255});
    }
  }
}

TEST_CASE("idx: wide types are big-endian") {
  const Tensor i =
      parse_idx(bytes_of(idx(0x0c, {2}, std::string("\0\0\1\2\xff\xff\xff\xfe", 8))), "");
  CHECK(i.dtype() == kInt32);
  CHECK(i.to_vector<std::int32_t>() == std::vector<std::int32_t>{258, -2});
  const Tensor s = parse_idx(bytes_of(idx(0x0b, {2}, std::string("\1\2\xff\xfe", 4))), "");
  CHECK(s.dtype() == kInt16);
  CHECK(s.to_vector<std::int16_t>() == std::vector<std::int16_t>{258, -2});
  const Tensor b = parse_idx(bytes_of(idx(0x09, {2}, "\1\xfe")), "");
  CHECK(b.to_vector<std::int8_t>() == std::vector<std::int8_t>{1, -2});
  const Tensor f = parse_idx(bytes_of(idx(0x0d, {1}, std::string("\x3f\xc0\0\0", 4))), "");
  CHECK(f.item<float>() == 1.5f);
  const Tensor d =
      parse_idx(bytes_of(gzip(idx(0x0e, {1}, std::string("\xc0\x02\0\0\0\0\0\0", 8)))), "");
  CHECK(d.dtype() == kFloat64);
  CHECK(d.item<double>() == -2.25);
}

TEST_CASE("idx: no elements") {
  for (const auto& content : {idx(0x08, {0, 28, 28}, ""), gzip(idx(0x08, {0, 28, 28}, ""))}) {
    const Tensor t = parse_idx(bytes_of(content), "");
    CHECK(t.shape() == Shape{0, 28, 28});
  }
  // Empty, but with strides that no tensor can have.
  CHECK(contains(refusal(idx(0x08, {0, 0xffffffff, 0xffffffff, 0xffffffff}, "")), "64 bits"));
  CHECK(contains(refusal(idx(0x08, {0, 28}, "x")), "followed by other data"));
}

TEST_CASE("idx: errors give file, offset, expected and got") {
  CHECK(contains(refusal(""), "[read_idx] 'file.idx' at byte 0"));
  CHECK(contains(refusal("PK\x03\x04 something"), "two zero bytes, got 0x50 0x4b"));
  CHECK(contains(refusal(idx(0x0a, {1}, "a")), "at byte 2: element type 0x0a is unknown"));
  CHECK(contains(refusal(idx(0x42, {1}, "a")), "0x42 is unknown"));
  CHECK(contains(refusal(idx(0x08, {}, "a")), "expected 1 to 8 dimensions, got 0"));
  CHECK(contains(refusal(idx(0x08, {1, 1, 1, 1, 1, 1, 1, 1, 1}, "a")), "got 9"));
  CHECK(contains(refusal(kSmall.substr(0, 17)), "expected a file of 18 bytes, got 17"));
  CHECK(contains(refusal(kSmall + "x"), "at byte 18"));
  CHECK(contains(refusal(idx(0x0e, {0xffffffff, 0xffffffff, 0xffffffff}, "a")), "64 bits"));
  CHECK(contains(refusal(idx(0x08, {100000, 1000000}, "a")), "expected a file of 100000000012"));
  CHECK(contains(message_of<IoError>([] { read_idx("/no/such/file"); }),
                 "cannot open '/no/such/file'"));
  CHECK(contains(message_of<IoError>([] { read_idx("/tmp"); }), "a directory"));
}

TEST_CASE("idx: compressed files that lie") {
  const std::string content = idx(0x08, {1000}, std::string(1000, 'a'));
  const std::string good = gzip(content);
  // 100 MB of zeros after a header that announces ten bytes.
  const std::string bomb = gzip(idx(0x08, {10}, std::string(100'000'000, '\0')));
  CHECK_FALSE(survives(bomb, [](data::Bytes b) { parse_idx(b, "bomb"); }));
  // A small file whose header announces 4 GB.
  CHECK(contains(refusal(gzip(idx(0x08, {0xfffffff0}, "abc"))), "compressed bytes can hold"));
  // Fewer elements than announced, with a correct trailer.
  CHECK(contains(refusal(gzip(content.substr(0, 900))), "got 900"));
  CHECK(contains(refusal(gzip(content + "x")), "gzip trailer"));
  // The trailer agrees with the header, the content does not.
  std::string lying = gzip(content.substr(0, 900));
  lying.replace(lying.size() - 4, 4, std::string("\xf0\x03\0\0", 4));
  CHECK_FALSE(refusal(lying).empty());
  std::string crc = good;
  crc[crc.size() - 6] ^= 1;
  CHECK(contains(refusal(crc), "incorrect data check"));
  CHECK_FALSE(refusal(good + "trailing").empty());
  CHECK_FALSE(refusal(good + good).empty());
}

TEST_CASE("idx: fuzz") {
  const auto parse = [](data::Bytes b) { parse_idx(b, "fuzz"); };
  const std::string compressed = gzip(kSmall);
  fuzz_truncations(kSmall, parse);
  fuzz_truncations(compressed, parse);
  fuzz_flips(kSmall, 5000, parse);
  fuzz_flips(compressed, 5000, parse);
}
