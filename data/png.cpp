// libpng reports errors by longjmp. A jump never skips a C++ object with a destructor: the
// functions that call setjmp hold only references and plain values.
#include "ferrite/data/png.h"

#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ferrite/data/host.h"
#include "ferrite/data/image_limit.h"
#include "ferrite/data/image_planes.h"
#include "ferrite/data/inflate.h"
#include "ferrite/data/png_plain.h"

namespace ferrite::data {

namespace {

constexpr std::size_t kSignatureBytes = 8;

struct Reader {
  Bytes bytes;
  std::size_t position = 0;
  char message[200] = "";
  png_structp png = nullptr;
  png_infop info = nullptr;

  ~Reader() { png_destroy_read_struct(&png, &info, nullptr); }
};

struct Writer {
  std::string out;
  bool out_of_memory = false;
  char message[200] = "";
  png_structp png = nullptr;
  png_infop info = nullptr;

  ~Writer() { png_destroy_write_struct(&png, &info); }
};

template <class T>
void on_error(png_structp png, png_const_charp text) {
  auto* state = static_cast<T*>(png_get_error_ptr(png));
  std::snprintf(state->message, sizeof state->message, "%s", text);
  png_longjmp(png, 1);
}

void on_warning(png_structp, png_const_charp) {}

void read_bytes(png_structp png, png_bytep out, std::size_t n) {
  auto* reader = static_cast<Reader*>(png_get_io_ptr(png));
  if (n > reader->bytes.size() - reader->position) png_error(png, "the file ends early");
  std::memcpy(out, reader->bytes.data() + reader->position, n);
  reader->position += n;
}

void write_bytes(png_structp png, png_bytep data, std::size_t n) {
  auto* writer = static_cast<Writer*>(png_get_io_ptr(png));
  try {
    writer->out.append(reinterpret_cast<const char*>(data), n);
  } catch (const std::bad_alloc&) {
    writer->out_of_memory = true;
  }
  if (writer->out_of_memory) png_error(png, "out of memory");
}

struct Geometry {
  png_uint_32 width = 0, height = 0;
  std::size_t row_bytes = 0;  // as decoded
  int channels = 0;
  int passes = 1;
  std::uint64_t raw_bytes = 0;  // approximate size of the inflated data
};

/// libpng allocates the size that a chunk claims before it reads the chunk.
void check_chunks(Bytes bytes, const Where& where) {
  for (std::size_t at = kSignatureBytes;;) {
    const std::size_t left = bytes.size() - at;
    where.check(left >= 12, at, "the file ends early: a chunk takes 12 bytes or more, {} are left",
                left);
    const std::uint64_t length = load_big32(bytes.data() + at);
    where.check(length <= left - 12, at,
                "the file ends early: a chunk claims {} bytes, {} are left", length, left - 12);
    if (std::memcmp(bytes.data() + at + 4, "IEND", 4) == 0) return;
    at += length + 12;
  }
}

/// Reads everything before the pixels.
bool read_info(Reader& reader, Geometry& geometry) {
  png_structp png = reader.png;
  if (setjmp(png_jmpbuf(png))) return false;
  png_set_read_fn(png, &reader, read_bytes);
  png_set_user_limits(png, 1 << 24, 1 << 24);
  png_set_chunk_malloc_max(png, 1 << 20);
  png_set_chunk_cache_max(png, 128);
  png_set_crc_action(png, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
  png_read_info(png, reader.info);
  geometry.width = png_get_image_width(png, reader.info);
  geometry.height = png_get_image_height(png, reader.info);
  geometry.raw_bytes = std::uint64_t{png_get_rowbytes(png, reader.info)} * geometry.height;
  return true;
}

/// Asks for 8-bit samples, and allocates rows.
bool start_rows(Reader& reader, Geometry& geometry) {
  png_structp png = reader.png;
  if (setjmp(png_jmpbuf(png))) return false;
  png_set_expand(png);  // palettes, fewer bits than 8, and transparency to alpha
  png_set_scale_16(png);
  geometry.passes = png_set_interlace_handling(png);
  png_read_update_info(png, reader.info);
  geometry.channels = png_get_channels(png, reader.info);
  geometry.row_bytes = png_get_rowbytes(png, reader.info);
  return true;
}

bool read_rows(Reader& reader, const Geometry& geometry, std::uint8_t* pixels) {
  png_structp png = reader.png;
  if (setjmp(png_jmpbuf(png))) return false;
  for (int pass = 0; pass < geometry.passes; ++pass)
    for (png_uint_32 y = 0; y < geometry.height; ++y)
      png_read_row(png, pixels + geometry.row_bytes * y, nullptr);
  png_read_end(png, nullptr);
  return true;
}

/// Converts interleaved pixels, in rows `stride` bytes apart, to planes with the channels of
/// `mode`.
Tensor to_planes(const std::uint8_t* pixels, std::size_t stride, const Geometry& g,
                 ImageMode mode) {
  const bool colour = g.channels >= 3;
  const int channels = mode == ImageMode::unchanged ? g.channels : mode == ImageMode::gray ? 1 : 3;
  const std::size_t width = g.width, area = width * g.height;
  const auto step = static_cast<std::size_t>(g.channels);
  Tensor image = empty({channels, g.height, g.width}, {.dtype = kUInt8, .device = kCPU});
  auto* out = image.data<std::uint8_t>();
  for (png_uint_32 y = 0; y < g.height; ++y, pixels += stride, out += width) {
    if (mode == ImageMode::gray && colour) {
      for (std::size_t i = 0; i < width; ++i) {
        const std::uint8_t* p = pixels + i * step;
        out[i] = luma(p[0], p[1], p[2]);
      }
    } else if (colour) {
      split_colours(pixels, width, step, out, area);
      if (channels == 4) split_channel(pixels, width, step, 3, out + 3 * area);
    } else {
      for (std::size_t c = 0; c < static_cast<std::size_t>(channels); ++c)
        split_channel(pixels, width, step, mode == ImageMode::rgb ? 0 : c, out + c * area);
    }
  }
  return image;
}

struct Image {
  png_uint_32 width, height;
  int colour_type;
  std::size_t row_bytes;
  const std::uint8_t* pixels;  // interleaved
};

bool write_image(Writer& writer, const Image& image) {
  png_structp png = writer.png;
  if (setjmp(png_jmpbuf(png))) return false;
  png_set_write_fn(png, &writer, write_bytes, nullptr);
  png_set_user_limits(png, 1 << 24, 1 << 24);
  png_set_IHDR(png, writer.info, image.width, image.height, 8, image.colour_type,
               PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, writer.info);
  for (png_uint_32 y = 0; y < image.height; ++y)
    png_write_row(png, image.pixels + image.row_bytes * y);
  png_write_end(png, nullptr);
  return true;
}

}  // namespace

Tensor parse_png(Bytes bytes, std::string_view name, ImageMode mode, std::int64_t max_pixels) {
  const Where where{"read_png", name};
  where.check(bytes.size() >= kSignatureBytes && png_sig_cmp(bytes.data(), 0, kSignatureBytes) == 0,
              0, "expected a PNG file to begin with \\x89PNG\\r\\n\\x1a\\n");
  if (const std::optional<PlainPng> plain = decode_plain_png(bytes, max_pixels)) {
    const Geometry geometry{
        .width = plain->width, .height = plain->height, .channels = plain->channels};
    return to_planes(plain->rows.data<std::uint8_t>() + 1, plain->stride, geometry, mode);
  }
  check_chunks(bytes, where);
  Reader reader;
  reader.bytes = bytes;
  reader.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, on_error<Reader>, on_warning);
  if (reader.png) reader.info = png_create_info_struct(reader.png);
  if (!reader.info) throw std::bad_alloc();
  Geometry geometry;
  if (!read_info(reader, geometry)) where.fail(reader.position, "{}", reader.message);
  check_pixels(geometry.width, geometry.height, max_pixels, where, kSignatureBytes + 8);
  where.check(geometry.raw_bytes / kMaxInflation <= bytes.size(), kSignatureBytes + 8,
              "the header claims {} x {} pixels, more than {} compressed bytes can hold",
              geometry.width, geometry.height, bytes.size());
  if (!start_rows(reader, geometry)) where.fail(reader.position, "{}", reader.message);
  const std::unique_ptr<std::uint8_t[]> pixels(
      new std::uint8_t[geometry.row_bytes * geometry.height]);
  if (!read_rows(reader, geometry, pixels.get())) where.fail(reader.position, "{}", reader.message);
  return to_planes(pixels.get(), geometry.row_bytes, geometry, mode);
}

Tensor read_png(const std::filesystem::path& path, ImageMode mode, std::int64_t max_pixels) {
  const MappedFile file(path, "read_png");
  return parse_png(file.bytes(), path.string(), mode, max_pixels);
}

std::string encode_png(const Tensor& image) {
  const Tensor dense = host_contiguous(image, "write_png");
  FERRITE_CHECK(dense.dtype() == kUInt8, DTypeError, "write_png",
                "expected uint8, got {}; scale to 0..255 and convert first", dense.dtype());
  const bool planes = dense.dim() == 3;
  FERRITE_CHECK(
      (planes || dense.dim() == 2) && dense.numel() > 0 && (!planes || dense.size(0) <= 4),
      ShapeError, "write_png",
      "expected [H, W] or [C, H, W] with 1 to 4 channels and some pixels, got {}", dense.shape());
  const auto channels = static_cast<std::size_t>(planes ? dense.size(0) : 1);
  const std::int64_t height = dense.size(-2), width = dense.size(-1);
  FERRITE_CHECK(height < 1 << 24 && width < 1 << 24, ShapeError, "write_png",
                "expected less than 2^24 pixels a side, got {}", dense.shape());
  const std::size_t area = static_cast<std::size_t>(height * width);
  std::vector<std::uint8_t> pixels(area * channels);
  const auto* in = dense.data<std::uint8_t>();
  for (std::size_t c = 0; c < channels; ++c)
    for (std::size_t i = 0; i < area; ++i) pixels[i * channels + c] = in[c * area + i];

  constexpr int kTypes[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                            PNG_COLOR_TYPE_RGB_ALPHA};
  Writer writer;
  writer.png =
      png_create_write_struct(PNG_LIBPNG_VER_STRING, &writer, on_error<Writer>, on_warning);
  if (writer.png) writer.info = png_create_info_struct(writer.png);
  if (!writer.info) throw std::bad_alloc();
  const bool written = write_image(
      writer, {static_cast<png_uint_32>(width), static_cast<png_uint_32>(height),
               kTypes[channels - 1], static_cast<std::size_t>(width) * channels, pixels.data()});
  if (!written)
    fail<IoError>("write_png", "cannot encode {}: {}", dense.describe(), writer.message);
  return std::move(writer.out);
}

void write_png(const Tensor& image, const std::filesystem::path& path) {
  const std::string bytes = encode_png(image);
  AtomicFile file(path, "write_png");
  file.write(bytes);
  file.commit();
}

Tensor image_grid(const Tensor& images, int columns, int padding) {
  FERRITE_CHECK(images.defined() && images.dim() == 4 && images.dtype() == kUInt8, ShapeError,
                "image_grid", "expected uint8 images [N, C, H, W], got {}", images.describe());
  FERRITE_CHECK(columns > 0 && padding >= 0, ValueError, "image_grid",
                "expected columns above 0 and padding of 0 or more, got {} and {}", columns,
                padding);
  const Tensor dense = host_contiguous(images, "image_grid");
  const std::int64_t n = dense.size(0), channels = dense.size(1);
  const std::int64_t height = dense.size(2), width = dense.size(3);
  const std::int64_t rows = (n + columns - 1) / columns;
  const std::int64_t out_width = columns * (width + padding) + padding;
  Tensor grid = empty({channels, rows * (height + padding) + padding, out_width},
                      {.dtype = kUInt8, .device = kCPU});
  std::memset(grid.data_ptr(), 0, grid.nbytes());
  const auto* in = dense.data<std::uint8_t>();
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t y = 0; y < height; ++y, in += width) {
        const std::int64_t row = i / columns * (height + padding) + padding + y;
        const std::int64_t column = i % columns * (width + padding) + padding;
        std::copy_n(in, width,
                    grid.data<std::uint8_t>() + (c * grid.size(1) + row) * out_width + column);
      }
  return grid;
}

}  // namespace ferrite::data
