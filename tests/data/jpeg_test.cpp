#include "ferrite/data/jpeg.h"

#include <cmath>

#include "ferrite/data/image_io.h"
#include "ferrite/tests/data/files.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

using data::ImageMode;
using data::parse_jpeg;
using data::read_jpeg;
using data::write_jpeg;

/// A smooth picture, which survives the compression.
Tensor picture(std::int64_t channels, std::int64_t height, std::int64_t width) {
  Tensor image = empty({channels, height, width}, {.dtype = kUInt8});
  auto* p = image.data<std::uint8_t>();
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t y = 0; y < height; ++y)
      for (std::int64_t x = 0; x < width; ++x)
        *p++ = static_cast<std::uint8_t>(60 + 40 * c + 2 * y + x);
  return image;
}

double worst(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  double most = 0;
  for (std::int64_t i = 0; i < a.numel(); ++i)
    most = std::max(most, std::abs(static_cast<double>(a.data<std::uint8_t>()[i]) -
                                   static_cast<double>(b.data<std::uint8_t>()[i])));
  return most;
}

std::string encoded(const Tensor& image) {
  const TempDir dir;
  write_jpeg(image, dir / "a.jpg");
  CHECK(dir.count() == 1);
  return read_file(dir / "a.jpg");
}

std::string segment(char marker, const std::string& content) {
  const std::size_t length = content.size() + 2;
  return std::string{'\xff', marker, static_cast<char>(length >> 8),
                     static_cast<char>(length & 255)} +
         content;
}

/// A gray image of 1024 x 1024 pixels, all mid-gray, with this many scans: first the mean values,
/// then bit by bit, coefficient by coefficient, each scan a single run that covers all blocks.
std::string progressive(int scans) {
  const auto bytes = [](std::initializer_list<int> values) {
    std::string text;
    for (const int v : values) text.push_back(static_cast<char>(v));
    return text;
  };
  const auto code = [&](int table, int symbol) {  // of one bit
    return segment('\xc4', bytes({table, 1}) + std::string(15, '\0') + bytes({symbol}));
  };
  std::string file = bytes({0xff, 0xd8}) + segment('\xdb', '\0' + std::string(64, '\1')) +
                     segment('\xc2', bytes({8, 4, 0, 4, 0, 1, 1, 0x11, 0})) + code(0x00, 0x00) +
                     code(0x10, 0xe0) + segment('\xda', bytes({1, 1, 0, 0, 0, 0})) +
                     std::string(128 * 128 / 8, '\0');
  constexpr int kBits = 13;
  for (int scan = 1; scan < scans; ++scan) {
    const int coefficient = 1 + (scan - 1) / (kBits + 1), low = kBits - (scan - 1) % (kBits + 1);
    const int high = low == kBits ? 0 : low + 1;
    file += segment('\xda', bytes({1, 1, 0, coefficient, coefficient, high << 4 | low})) +
            bytes({0x00, 0x01});
  }
  return file + bytes({0xff, 0xd9});
}

}  // namespace

TEST_CASE("jpeg: round trip, nearly") {
  const TempDir dir;
  for (const std::int64_t channels : {1, 3}) {
    const Tensor image = picture(channels, 17, 23);
    write_jpeg(image, dir / "a.jpg", 100);
    CHECK(worst(read_jpeg(dir / "a.jpg"), image) <= 4);
    CHECK(worst(data::read_image(dir / "a.jpg"), image) <= 4);
  }
  CHECK(read_jpeg(dir / "a.jpg", ImageMode::gray).shape() == Shape{1, 17, 23});
  write_jpeg(picture(1, 8, 9), dir / "a.jpg");
  CHECK(read_jpeg(dir / "a.jpg", ImageMode::rgb).shape() == Shape{3, 8, 9});
  data::write_png(picture(3, 4, 5), dir / "a.png");
  CHECK(worst(data::read_image(dir / "a.png"), picture(3, 4, 5)) == 0);
  write_file(dir / "a.txt", "neither");
  CHECK_THROWS_AS(data::read_image(dir / "a.txt"), IoError);
}

TEST_CASE("jpeg: CMYK, with the values that Pillow gives") {
  const std::string file = from_hex(
      "ffd8ffee000e41646f626500640000000000ffdb0043000d090a0b0a080d0b0a0b0e0e0d0f13201513121213"
      "271c1e17202e2931302e292d2c333a4a3e333646372c2d405741464c4e525352323e5a615a50604a51524fff"
      "c000140800020003044311004d11005911004b1100ffc4001600010101000000000000000000000000000603"
      "05ffc4002110000202020104030000000000000000000102030405110006213151131433ffda000e0443004d"
      "0059004b00003f00d6a76ac47f69639e555176ce82b903f77e30c363e8dfa72d8bd4ebd99dadd95324d12bb1"
      "0b33aa8d91bd00001e8003837a8b2b921d47935190b602da95547ccdd806200f3e35c8e23257e6c723cb7acb"
      "b977db34ac4f6723df3fffd9");
  const std::vector<int> gray{244, 154, 113, 59, 2, 81},
      colours{248, 22, 223, 59, 0, 72, 240, 214, 48, 62, 2, 101, 255, 191, 161, 45, 5, 0};
  for (const ImageMode mode : {ImageMode::rgb, ImageMode::unchanged}) {
    const Tensor image = parse_jpeg(bytes_of(file), "a.jpg", mode);
    CHECK(image.shape() == Shape{3, 2, 3});
    CHECK(image.to_vector<int>() == colours);
  }
  const Tensor image = parse_jpeg(bytes_of(file), "a.jpg", ImageMode::gray);
  CHECK(image.shape() == Shape{1, 2, 3});
  CHECK(image.to_vector<int>() == gray);
}

TEST_CASE("jpeg: errors") {
  const TempDir dir;
  CHECK_THROWS_AS(write_jpeg(empty({1, 2, 2}), dir / "b.jpg"), DTypeError);
  CHECK_THROWS_AS(write_jpeg(picture(2, 2, 2), dir / "b.jpg"), ShapeError);
  CHECK_THROWS_AS(write_jpeg(picture(1, 0, 2), dir / "b.jpg"), ShapeError);
  CHECK_THROWS_AS(write_jpeg(picture(1, 1, 70000), dir / "b.jpg"), ShapeError);
  CHECK_THROWS_AS(write_jpeg(picture(1, 2, 2), dir / "b.jpg", 0), ValueError);
  CHECK_THROWS_AS(read_jpeg("/no/such/file"), IoError);
  const auto refusal = [](const std::string& file) {
    return message_of<IoError>([&] { parse_jpeg(bytes_of(file), "a.jpg"); });
  };
  CHECK(contains(refusal("GIF89a"), "[read_jpeg] 'a.jpg' at byte 0"));
  // What libjpeg notes without concealing a pixel is read, as by Pillow: another version of JFIF,
  // and bytes between segments.
  const std::string plain = encoded(picture(3, 8, 8));
  std::string later = plain, padded = plain;
  later[11] = 2;
  padded.insert(plain.find("\xff\xc0"), 3, '\0');
  for (const std::string& file : {later, padded})
    CHECK(worst(parse_jpeg(bytes_of(file), "a.jpg"), parse_jpeg(bytes_of(plain), "a.jpg")) == 0);
  std::string behind = plain;
  behind.insert(behind.size() - 2, 64, '\0');  // more than the decoder has read ahead
  CHECK(contains(refusal(behind), "extraneous bytes"));
  std::string huge = encoded(picture(3, 8, 8));
  const std::size_t frame = huge.find("\xff\xc0");
  REQUIRE(frame != std::string::npos);
  huge.replace(frame + 5, 4, "\xff\xdc\xff\xdc");
  CHECK(contains(refusal(huge), "65500 x 65500 pixels"));
}

TEST_CASE("jpeg: more pixels than the limit") {
  const std::string file = encoded(picture(3, 8, 9));
  const auto read = [&](std::int64_t max_pixels) {
    return parse_jpeg(bytes_of(file), "a.jpg", ImageMode::unchanged, max_pixels);
  };
  CHECK(read(72).numel() == 3 * 72);
  CHECK(
      contains(message_of<IoError>([&] { read(71); }), "9 x 8 pixels, more than the limit of 71"));
  const TempDir dir;
  write_file(dir / "a.jpg", file);
  CHECK_THROWS_AS(data::read_image(dir / "a.jpg", ImageMode::rgb, 71), IoError);
}

TEST_CASE("jpeg: progressive, of many scans") {
  CHECK(parse_jpeg(bytes_of(progressive(10)), "a.jpg").to_vector<int>() ==
        std::vector<int>(1024 * 1024, 128));
  CHECK(parse_jpeg(bytes_of(progressive(100)), "a.jpg").numel() == 1024 * 1024);
  const std::string many = progressive(800);
  CHECK(many.size() < 30'000);
  CHECK(contains(message_of<IoError>([&] { parse_jpeg(bytes_of(many), "a.jpg"); }),
                 "more than 100 scans"));
}

TEST_CASE("jpeg: fuzz") {
  const std::string file = encoded(picture(3, 9, 11));
  const auto parse = [](data::Bytes b) { parse_jpeg(b, "fuzz"); };
  for (std::size_t n = 0; n < file.size(); ++n) {
    CAPTURE(n);
    CHECK_FALSE(survives(std::string_view(file).substr(0, n), parse));
  }
  fuzz_flips(file, 5000, parse);
}
