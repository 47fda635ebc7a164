#include "ferrite/data/png.h"

#include <fmt/format.h>

#include <cstring>

#include "ferrite/core/generator.h"
#include "ferrite/tests/data/files.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

using data::ImageMode;
using data::parse_png;
using data::read_png;
using data::write_png;

std::string chunk(std::string_view type, std::string_view content) {
  const std::string body = std::string(type) + std::string(content);
  const auto crc =
      crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
  return big32(static_cast<std::uint32_t>(content.size())) + body +
         big32(static_cast<std::uint32_t>(crc));
}

/// A PNG of these filtered rows, with `extra` chunks before the pixels.
std::string png(std::uint32_t width, std::uint32_t height, int bits, int colour,
                std::string_view rows, const std::string& extra = "") {
  std::string packed(compressBound(rows.size()), '\0');
  uLongf size = packed.size();
  compress(reinterpret_cast<Bytef*>(packed.data()), &size,
           reinterpret_cast<const Bytef*>(rows.data()), rows.size());
  packed.resize(size);
  const std::string header = big32(width) + big32(height) + static_cast<char>(bits) +
                             static_cast<char>(colour) + std::string(3, '\0');
  return "\x89PNG\r\n\x1a\n" + chunk("IHDR", header) + extra + chunk("IDAT", packed) +
         chunk("IEND", "");
}

std::vector<std::int64_t> values(const Tensor& t) { return t.to_vector<std::int64_t>(); }
using Values = std::vector<std::int64_t>;

Tensor parse(const std::string& file, ImageMode mode = ImageMode::unchanged) {
  return parse_png(bytes_of(file), "a.png", mode);
}

const std::string kGray = png(2, 2, 8, 0, std::string("\0\1\2\0\3\xff", 6));

}  // namespace

TEST_CASE("png: gray, RGB, alpha") {
  CHECK(parse(kGray).shape() == Shape{1, 2, 2});
  CHECK(values(parse(kGray)) == Values{1, 2, 3, 255});
  CHECK(values(parse(kGray, ImageMode::rgb)) == Values{1, 2, 3, 255, 1, 2, 3, 255, 1, 2, 3, 255});
  const std::string rgb = png(2, 1, 8, 2, std::string("\0\xff\0\0\1\2\3", 7));
  CHECK(parse(rgb).shape() == Shape{3, 1, 2});
  CHECK(values(parse(rgb)) == Values{255, 1, 0, 2, 0, 3});
  CHECK(values(parse(rgb, ImageMode::gray)) == Values{76, 2});
  const std::string rgba = png(1, 1, 8, 6, std::string("\0\1\2\3\4", 5));
  CHECK(values(parse(rgba)) == Values{1, 2, 3, 4});
  CHECK(values(parse(rgba, ImageMode::rgb)) == Values{1, 2, 3});
  const std::string gray_alpha = png(1, 1, 8, 4, std::string("\0\7\x80", 3));
  CHECK(values(parse(gray_alpha)) == Values{7, 128});
  CHECK(values(parse(gray_alpha, ImageMode::gray)) == Values{7});
  CHECK(values(parse(gray_alpha, ImageMode::rgb)) == Values{7, 7, 7});
}

TEST_CASE("png: palettes, 1 bit and 16 bits") {
  const std::string palette = chunk("PLTE", "\1\2\3\4\5\6");
  const std::string indexed = png(2, 1, 8, 3, std::string("\0\1\0", 3), palette);
  CHECK(parse(indexed).shape() == Shape{3, 1, 2});
  CHECK(values(parse(indexed)) == Values{4, 1, 5, 2, 6, 3});
  const std::string transparent =
      png(2, 1, 8, 3, std::string("\0\1\0", 3), palette + chunk("tRNS", "\x40"));
  CHECK(values(parse(transparent)) == Values{4, 1, 5, 2, 6, 3, 255, 64});
  CHECK(values(parse(transparent, ImageMode::rgb)) == Values{4, 1, 5, 2, 6, 3});
  CHECK(values(parse(png(8, 1, 1, 0, std::string("\0\xa1", 2)))) ==
        Values{255, 0, 255, 0, 0, 0, 0, 255});
  CHECK(values(parse(png(2, 1, 16, 0, std::string("\0\xff\xff\x80\x80", 5)))) == Values{255, 128});
}

TEST_CASE("png: round trip for 1 to 4 channels") {
  const TempDir dir;
  for (const std::int64_t channels : {1, 2, 3, 4}) {
    const Tensor image = empty({channels, 5, 7}, {.dtype = kUInt8});
    for (std::int64_t i = 0; i < image.numel(); ++i)
      image.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(i * 13);
    write_png(image, dir / "a.png");
    const Tensor back = read_png(dir / "a.png");
    CHECK(back.shape() == image.shape());
    CHECK(values(back) == values(image));
  }
  write_png(from_vector<std::uint8_t>({1, 2, 3, 4, 5, 6}, {2, 3}), dir / "a.png");
  CHECK(read_png(dir / "a.png").shape() == Shape{1, 2, 3});
  CHECK(dir.count() == 1);
  CHECK_THROWS_AS(write_png(empty({1, 2, 2}), dir / "b.png"), DTypeError);
  CHECK_THROWS_AS(write_png(empty({5, 2, 2}, {.dtype = kUInt8}), dir / "b.png"), ShapeError);
  CHECK_THROWS_AS(write_png(empty({1, 0, 2}, {.dtype = kUInt8}), dir / "b.png"), ShapeError);
  CHECK_THROWS_AS(write_png(empty({2}, {.dtype = kUInt8}), dir / "b.png"), ShapeError);
}

TEST_CASE("png: every filter, with libpng's values") {
  // An unknown chunk makes libpng read the file.
  const std::string unknown = chunk("feRi", "te");
  constexpr int kColours[] = {0, 4, 2, 6};
  Generator random(1);
  for (const std::uint32_t width : {1u, 2u, 19u})
    for (std::uint32_t channels = 1; channels <= 4; ++channels) {
      CAPTURE(width);
      CAPTURE(channels);
      std::string rows;
      for (int y = 0; y < 11; ++y) {
        rows += static_cast<char>(y % 5);  // each filter in the first row, and in later rows
        for (std::uint32_t i = 0; i < width * channels; ++i)
          rows += static_cast<char>(random.next_below(256));
      }
      for (int skip = 0; skip < 5; ++skip) {
        const std::size_t first = static_cast<std::size_t>(skip) * (width * channels + 1);
        const std::uint32_t height = 11 - static_cast<std::uint32_t>(skip);
        const int colour = kColours[channels - 1];
        const std::string plain = png(width, height, 8, colour, rows.substr(first));
        const std::string same = png(width, height, 8, colour, rows.substr(first), unknown);
        CHECK(values(parse(plain)) == values(parse(same)));
        CHECK(values(parse(plain, ImageMode::gray)) == values(parse(same, ImageMode::gray)));
        CHECK(values(parse(plain, ImageMode::rgb)) == values(parse(same, ImageMode::rgb)));
      }
    }
}

TEST_CASE("png: chunks in parts, in between and at the end") {
  const std::size_t data = kGray.find("IDAT") - 4, end = kGray.find("IEND") - 4;
  const std::string head = kGray.substr(0, data), tail = kGray.substr(end);
  const std::string packed = kGray.substr(data + 8, end - data - 12);
  const std::string text = chunk("tEXt", std::string("Title\0a", 7));
  const Values expected = values(parse(kGray));
  for (std::size_t cut = 0; cut <= packed.size(); ++cut) {
    const std::string first = chunk("IDAT", packed.substr(0, cut));
    const std::string second = chunk("IDAT", packed.substr(cut));
    CHECK(values(parse(head + text + first + second + text + tail)) == expected);
    if (cut < packed.size()) CHECK_THROWS_AS(parse(head + first + text + tail + second), IoError);
  }
  CHECK(values(parse(kGray + "what follows")) == expected);
  CHECK_THROWS_AS(parse(png(2, 2, 8, 0, std::string("\5\1\2\0\3\xff", 6))), IoError);
  CHECK_THROWS_AS(parse(png(2, 2, 8, 0, std::string("\0\1\2\0\3", 5))), IoError);
}

TEST_CASE("png: a grid of images") {
  const Tensor images = from_vector<std::uint8_t>({1, 2, 3}, {3, 1, 1, 1});
  const Tensor grid = data::image_grid(images, 2, 1);
  CHECK(grid.shape() == Shape{1, 5, 5});
  CHECK(values(grid) ==
        Values{0, 0, 0, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0});
  CHECK_THROWS_AS(data::image_grid(images, 0), ValueError);
  CHECK_THROWS_AS(data::image_grid(empty({1, 1, 1, 1})), ShapeError);
}

TEST_CASE("png: errors") {
  const auto refusal = [](const std::string& file) {
    return message_of<IoError>([&] { parse(file); });
  };
  CHECK(contains(refusal("GIF89a.........."), "[read_png] 'a.png' at byte 0"));
  CHECK(contains(refusal(kGray.substr(0, 40)), "ends early"));
  // Sixteen million pixels per side in a few bytes.
  CHECK(contains(refusal(png(16000000, 16000000, 8, 6, "abc")), "more than"));
  CHECK(contains(refusal(png(100000, 100000, 8, 2, "abc")), "100000 x 100000 pixels"));
  CHECK_FALSE(refusal(png(0xffffffff, 1, 8, 0, "abc")).empty());
  CHECK_FALSE(refusal(png(2, 2, 8, 0, std::string("\0\1\2\0\3", 5))).empty());
  std::string crc = kGray;
  crc[crc.size() - 14] ^= 1;  // the CRC of the pixels
  CHECK_FALSE(refusal(crc).empty());
  CHECK_THROWS_AS(read_png("/no/such/file"), IoError);
}

TEST_CASE("png: more pixels than the limit") {
  // Read by libpng, and without it.
  const std::string palette = png(2, 2, 8, 3, std::string(6, '\0'), chunk("PLTE", "\1\2\3"));
  for (const std::string& file : {kGray, palette}) {
    const auto read = [&](std::int64_t max_pixels) {
      return parse_png(bytes_of(file), "a.png", ImageMode::unchanged, max_pixels);
    };
    CHECK(read(4).numel() >= 4);
    CHECK(
        contains(message_of<IoError>([&] { read(3); }),
                 "'a.png' at byte 16: the image has 2 x 2 pixels, more than the limit of 3; where "
                 "it is trusted set max_pixels to 4 or more"));
    CHECK_THROWS_AS(read(0), IoError);
  }
  // 50 kB that hold 400 million pixels.
  const std::string bomb = png(20000, 20000, 1, 0, std::string(20000 * 2501, '\0'));
  CHECK(bomb.size() < 60'000);
  const Device host;
  reset_peak_memory_stats(host);
  const std::size_t before = memory_allocated(host);
  CHECK(contains(message_of<IoError>([&] { parse(bomb); }), "more than the limit of 178956970"));
  CHECK(max_memory_allocated(host) == before);
}

TEST_CASE("png: a chunk that claims more than the file has") {
  std::string text = chunk("tEXt", std::string("a\0b", 3));
  text.replace(0, 4, big32(0x746f0203));  // two gigabytes
  const std::string file =
      png(2, 1, 8, 3, std::string("\0\1\0", 3), chunk("PLTE", "\1\2\3") + text);
  CHECK(contains(message_of<IoError>([&] { parse(file); }), "a chunk claims 1953432067 bytes"));
  // Of which the file has a header, and too little for its checksum.
  const std::size_t at = file.find("tEXt") - 4;
  for (std::size_t left = 0; left < 12; ++left)
    CHECK(contains(message_of<IoError>([&] { parse(file.substr(0, at + left)); }),
                   fmt::format("a chunk takes 12 bytes or more, {} are left", left)));
}

TEST_CASE("png: fuzz") {
  const auto parser = [](data::Bytes b) { parse_png(b, "fuzz"); };
  fuzz_truncations(kGray, parser);
  const std::string palette = chunk("PLTE", "\1\2\3\4\5\6") + chunk("tRNS", "\x40");
  for (const std::string& file : {kGray, png(2, 1, 8, 3, std::string("\0\1\0", 3), palette),
                                  png(2, 1, 16, 6, std::string("\0", 1) + std::string(16, 'x'))}) {
    fuzz_flips(file, 3000, parser);
    // Most flips are rejected by a chunk's CRC: also change the header's fields with a valid CRC.
    for (std::size_t at = 16; at < 29; ++at) {
      for (const int value : {0, 1, 2, 3, 4, 6, 8, 16, 127, 255}) {
        std::string changed = file;
        changed[at] = static_cast<char>(value);
        changed.replace(8, 25, chunk("IHDR", changed.substr(16, 13)));
        survives(changed, parser);
      }
    }
  }
}
