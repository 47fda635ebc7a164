#include "ferrite/data/npy.h"

#include "ferrite/core/views.h"
#include "ferrite/tests/data/files.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

using data::load_npy;
using data::load_npz;
using data::NpzCompression;
using data::parse_npy;
using data::parse_npz;
using data::save_npy;
using data::save_npz;

// Written by NumPy 2.
const std::string kFortran = from_hex(
    "934e554d5059010076007b276465736372273a20273c6934272c2027666f727472616e5f6f72646572273a20547275"
    "652c20277368617065273a2028322c20332c2034292c207d2020202020202020202020202020202020202020202020"
    "2020202020202020202020202020202020202020202020202020202020202020200a000000000c0000000400000010"
    "0000000800000014000000010000000d00000005000000110000000900000015000000020000000e00000006000000"
    "120000000a00000016000000030000000f00000007000000130000000b00000017000000");
const std::string kDeflatedNpz = from_hex(
    "504b03042d0000000800000021006545a2bcffffffffffffffff05001400612e6e707901001000a000000000000000"
    "49000000000000009bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a06e9366a4aea3a09e965f54529498179f5f94"
    "920a12774bcc294e058a17672416a402f91a263a0a269a3a0ab50a64032e06020000504b03042d0000000800000021"
    "00ee19bb5dffffffffffffffff05001400622e6e707901001000820000000000000046000000000000009bec17ea1b"
    "10c9c850c650ad9e925a9c5ca46ea5a05e9364a8aea3a09e965f54529498179f5f94920a12774bcc294e058a176724"
    "16a402f91a463a9a3a0ab50a14002e460600504b01022d032d0000000800000021006545a2bc49000000a000000005"
    "0000000000000000000000800100000000612e6e7079504b01022d032d000000080000002100ee19bb5d4600000082"
    "000000050000000000000000000000800180000000622e6e7079504b0506000000000200020066000000fd00000000"
    "00");
const std::string kStoredNpz = from_hex(
    "504b03042d000000000000002100f74012eaffffffffffffffff05001400612e6e7079010010009800000000000000"
    "9800000000000000934e554d5059010076007b276465736372273a20273c6938272c2027666f727472616e5f6f7264"
    "6572273a2046616c73652c20277368617065273a2028332c292c207d20202020202020202020202020202020202020"
    "20202020202020202020202020202020202020202020202020202020202020202020202020202020200a0000000000"
    "00000001000000000000000200000000000000504b03042d0000000000000021002513e65dffffffffffffffff0500"
    "1400622e6e70790100100084000000000000008400000000000000934e554d5059010076007b276465736372273a20"
    "273c6634272c2027666f727472616e5f6f72646572273a2046616c73652c20277368617065273a2028292c207d2020"
    "2020202020202020202020202020202020202020202020202020202020202020202020202020202020202020202020"
    "202020202020202020202020200a0000c03f504b01022d032d000000000000002100f74012ea980000009800000005"
    "0000000000000000000000800100000000612e6e7079504b01022d032d0000000000000021002513e65d8400000084"
    "0000000500000000000000000000008001cf000000622e6e7079504b05060000000002000200660000008a01000000"
    "00");

std::string npy(int version, std::string text, std::string_view content) {
  std::string out = "\x93NUMPY";
  out += static_cast<char>(version);
  out += '\0';
  if (version == 1)
    data::append_little(out, static_cast<std::uint16_t>(text.size()));
  else
    data::append_little(out, static_cast<std::uint32_t>(text.size()));
  return out + text + std::string(content);
}

std::string dict(std::string_view type, std::string_view shape, std::string_view order = "False") {
  return fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}  \n", type, order,
                     shape);
}

std::string refusal(const std::string& content) {
  return message_of<IoError>([&] { parse_npy(bytes_of(content), "a.npy"); });
}

std::vector<std::int64_t> iota(std::int64_t n) {
  std::vector<std::int64_t> v;
  for (std::int64_t i = 0; i < n; ++i) v.push_back(i);
  return v;
}

}  // namespace

TEST_CASE("npy: versions 1, 2 and 3") {
  for (const int version : {1, 2, 3}) {
    const Tensor t = parse_npy(
        bytes_of(npy(version, dict("<i4", "(2,)"), std::string("\1\0\0\0\2\0\0\0", 8))), "");
    CHECK(t.shape() == Shape{2});
    CHECK(t.to_vector<std::int32_t>() == std::vector<std::int32_t>{1, 2});
  }
  CHECK(contains(refusal(npy(4, dict("<i4", "(2,)"), "12345678")), "got 4.0"));
}

TEST_CASE("npy: Fortran order becomes row-major") {
  const Tensor t = parse_npy(bytes_of(kFortran), "");
  CHECK(t.shape() == Shape{2, 3, 4});
  CHECK(t.is_contiguous());
  CHECK(t.to_vector<std::int64_t>() == iota(24));
}

TEST_CASE("npy: every dtype makes the round trip") {
  const TempDir dir;
  for (const DType dtype : {kFloat32, kFloat16, kFloat64, kInt64, kInt32, kInt16, kInt8, kUInt8,
                            kBool, kComplex64, kComplex128}) {
    Tensor t = empty({3, 5}, {.dtype = dtype});
    for (std::size_t i = 0; i < t.nbytes(); ++i)
      static_cast<std::uint8_t*>(t.data_ptr())[i] =
          static_cast<std::uint8_t>(dtype == kBool ? i % 2 : i);
    save_npy(t, dir / "a.npy");
    const Tensor back = load_npy(dir / "a.npy");
    CHECK(back.dtype() == dtype);
    CHECK(back.shape() == t.shape());
    CHECK(std::memcmp(back.data_ptr(), t.data_ptr(), t.nbytes()) == 0);
  }
  CHECK(dir.count() == 1);
  CHECK_THROWS_AS(save_npy(empty({1}, {.dtype = kBFloat16}), dir / "b.npy"), DTypeError);
  CHECK_THROWS_AS(save_npy(Tensor(), dir / "b.npy"), ValueError);
  CHECK_THROWS_AS(save_npy(empty({1}), dir / "no/such/folder.npy"), IoError);
}

TEST_CASE("npy: 0-dimensional, empty and strided tensors") {
  const TempDir dir;
  save_npy(from_vector<float>({2.5f}, {}), dir / "scalar.npy");
  CHECK(load_npy(dir / "scalar.npy").dim() == 0);
  CHECK(load_npy(dir / "scalar.npy").item<float>() == 2.5f);
  save_npy(empty({0, 3}), dir / "empty.npy");
  CHECK(load_npy(dir / "empty.npy").shape() == Shape{0, 3});
  const Tensor t = from_vector<std::int64_t>(iota(6), {2, 3});
  save_npy(geometry::apply(t, geometry::transpose(t, 0, 1)), dir / "t.npy");
  CHECK(load_npy(dir / "t.npy").shape() == Shape{3, 2});
  CHECK(load_npy(dir / "t.npy").to_vector<std::int64_t>() ==
        std::vector<std::int64_t>{0, 3, 1, 4, 2, 5});
}

TEST_CASE("npy: the header is as NumPy writes it") {
  const std::string header = data::npy_header(kFloat32, {2, 3});
  CHECK(header.size() % 64 == 0);
  CHECK(header.back() == '\n');
  CHECK(contains(header, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }"));
  CHECK(contains(data::npy_header(kUInt8, {7}), "'|u1'"));
  CHECK(contains(data::npy_header(kUInt8, {7}), "(7,)"));
  CHECK(contains(data::npy_header(kUInt8, {}), "()"));
}

TEST_CASE("npy: errors") {
  CHECK(contains(refusal("GIF89a"), "[load_npy] 'a.npy' at byte 0"));
  CHECK(contains(refusal(npy(1, dict(">i4", "(2,)"), "12345678")), "'>i4' is not supported"));
  CHECK(contains(refusal(npy(1, dict("<u8", "(1,)"), "12345678")), "'<u8'"));
  CHECK(contains(refusal(npy(1, dict("<i4", "(2,)"), "1234567")),
                 "expected 8 bytes of elements, got 7"));
  CHECK(contains(refusal(npy(1, dict("<i4", "(2,)"), "123456789")), "followed by other data"));
  CHECK(contains(refusal(npy(1, dict("<i4", "(-2,)"), "")), "0 or more"));
  CHECK(contains(refusal(npy(1, dict("<i4", "(1,1,1,1,1,1,1,1,1)"), "1234")), "at most 8"));
  CHECK(contains(refusal(npy(1, dict("<f8", "(9000000000000000000,9000000000000000000)"), "")),
                 "64 bits"));
  CHECK(contains(refusal(npy(1, dict("<f8", "(0,9000000000000000000,9)"), "")), "64 bits"));
  CHECK(contains(refusal(npy(1, dict("<i4", "(99999999999999999999,)"), "")), "size"));
  CHECK(contains(refusal(npy(1, dict("|b1", "(2,)"), "\1\2")), "bool of 0 or 1"));
  CHECK(contains(refusal(npy(1, "{'descr': '<i4', 'shape': (1,)}", "1234")), "missing"));
  CHECK(contains(refusal(npy(1, "{'descr': '<i4', 'descr': '<i4'}", "1234")), "once each"));
  CHECK(contains(refusal(npy(1, "{'descr': [('a', '<i4')]}", "1234")), "structured"));
  CHECK(contains(refusal(npy(1, dict("<i4", "(1,)") + "junk", "1234")), "end with its dict"));
  std::string huge = npy(2, dict("<i4", "(1,)"), "1234");
  huge.replace(8, 4, "\xff\xff\xff\xff");
  CHECK(contains(refusal(huge), "header claims 4294967295 bytes"));
}

TEST_CASE("npz: reads NumPy's archives") {
  const StateDict stored = parse_npz(bytes_of(kStoredNpz), "");
  REQUIRE(stored.size() == 2);
  CHECK(stored.at("a").to_vector<std::int64_t>() == iota(3));
  CHECK(stored.at("b").dim() == 0);
  CHECK(stored.at("b").item<float>() == 1.5f);
  const StateDict deflated = parse_npz(bytes_of(kDeflatedNpz), "");
  CHECK(deflated.at("a").shape() == Shape{4, 4});
  CHECK(deflated.at("a").dtype() == kFloat16);
  CHECK(deflated.at("b").to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 0});
}

TEST_CASE("npz: round trip, stored and deflated") {
  const TempDir dir;
  const StateDict arrays{{"weight", from_vector<std::int64_t>(iota(1000), {10, 100})},
                         {"none", empty({0})},
                         {"scalar", from_vector<float>({3}, {})}};
  for (const auto compression : {NpzCompression::stored, NpzCompression::deflated}) {
    save_npz(arrays, dir / "a.npz", compression);
    const StateDict back = load_npz(dir / "a.npz");
    REQUIRE(back.size() == 3);
    CHECK(back.begin()->first == "weight");
    CHECK(back.at("weight").shape() == Shape{10, 100});
    CHECK(back.at("weight").to_vector<std::int64_t>() == iota(1000));
    CHECK(back.at("none").numel() == 0);
  }
  CHECK(std::filesystem::file_size(dir / "a.npz") < 4000);
  save_npz({}, dir / "a.npz");
  CHECK(load_npz(dir / "a.npz").empty());
  CHECK(dir.count() == 1);
}

TEST_CASE("npz: errors") {
  CHECK(contains(message_of<IoError>([] { parse_npz(bytes_of(kFortran), "x.npz"); }),
                 "[load_npz] 'x.npz'"));
  std::string crc = kStoredNpz;
  crc[0xcf - 1] ^= 1;  // the last element of `a`
  CHECK(contains(message_of<IoError>([&] { parse_npz(bytes_of(crc), ""); }), "expected checksum"));
}

TEST_CASE("npy and npz: fuzz") {
  const auto npy_parser = [](data::Bytes b) { parse_npy(b, "fuzz"); };
  const auto npz_parser = [](data::Bytes b) { parse_npz(b, "fuzz"); };
  fuzz_truncations(kFortran, npy_parser);
  fuzz_flips(kFortran, 5000, npy_parser);
  for (const std::string* archive : {&kStoredNpz, &kDeflatedNpz}) {
    fuzz_truncations(*archive, npz_parser);
    fuzz_flips(*archive, 10000, npz_parser);
  }
}
