// libjpeg reports errors by longjmp. A jump never skips a C++ object with a destructor: the
// functions that call setjmp hold only references and plain values.
#include "ferrite/data/jpeg.h"

// jpeglib.h needs <cstdio> before it, jerror.h both.
// clang-format off
#include <cstdio>
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include <csetjmp>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "ferrite/data/host.h"
#include "ferrite/data/image_limit.h"
#include "ferrite/data/image_planes.h"

namespace ferrite::data {

namespace {

/// A block of 64 pixels takes more than half a bit per component.
constexpr std::uint64_t kMaxPixelsPerByte = 1024;

struct Errors {
  jpeg_error_mgr manager = {};  // first member: libjpeg knows only this part
  std::jmp_buf jump = {};
  char message[JMSG_LENGTH_MAX] = "";

  void install(j_common_ptr codec) {
    codec->err = jpeg_std_error(&manager);
    manager.error_exit = [](j_common_ptr c) {
      auto* self = reinterpret_cast<Errors*>(c->err);
      self->manager.format_message(c, self->message);
      std::longjmp(self->jump, 1);
    };
    // Negative levels are warnings: corrupt data that libjpeg would conceal. Not so the version of
    // the format, and bytes between segments before the first scan; behind it they may be what
    // is left of damaged pixels.
    manager.emit_message = [](j_common_ptr c, int level) {
      const int code = c->err->msg_code;
      const bool before_scans =
          c->is_decompressor && reinterpret_cast<j_decompress_ptr>(c)->input_scan_number == 0;
      const bool harmless =
          code == JWRN_JFIF_MAJOR || (code == JWRN_EXTRANEOUS_DATA && before_scans);
      if (level < 0 && !harmless) c->err->error_exit(c);
    };
    manager.output_message = [](j_common_ptr) {};
  }
};

/// A scan of a few bytes may cover all pixels of a progressive file.
void check_scans(j_common_ptr codec) {
  constexpr int kMaxScans = 100;
  if (reinterpret_cast<jpeg_decompress_struct*>(codec)->input_scan_number <= kMaxScans) return;
  auto* errors = reinterpret_cast<Errors*>(codec->err);
  std::snprintf(errors->message, sizeof errors->message,
                "more than %d scans; encode it anew, with fewer", kMaxScans);
  std::longjmp(errors->jump, 1);
}

struct Reader {
  Errors errors;
  jpeg_decompress_struct codec = {};
  jpeg_progress_mgr progress = {};
  ~Reader() { jpeg_destroy_decompress(&codec); }
};

struct Writer {
  Errors errors;
  jpeg_compress_struct codec = {};
  unsigned char* out = nullptr;
  unsigned long size = 0;
  ~Writer() {
    jpeg_destroy_compress(&codec);
    std::free(out);
  }
};

bool read_header(Reader& reader, Bytes bytes, ImageMode mode) {
  reader.errors.install(reinterpret_cast<j_common_ptr>(&reader.codec));
  if (setjmp(reader.errors.jump)) return false;
  jpeg_create_decompress(&reader.codec);
  reader.progress.progress_monitor = check_scans;
  reader.codec.progress = &reader.progress;
  jpeg_mem_src(&reader.codec, bytes.data(), bytes.size());
  jpeg_read_header(&reader.codec, TRUE);
  const bool gray = mode == ImageMode::gray || (mode == ImageMode::unchanged &&
                                                reader.codec.jpeg_color_space == JCS_GRAYSCALE);
  const bool inks =
      reader.codec.jpeg_color_space == JCS_CMYK || reader.codec.jpeg_color_space == JCS_YCCK;
  reader.codec.out_color_space = inks ? JCS_CMYK : gray ? JCS_GRAYSCALE : JCS_RGB;
  reader.codec.dct_method = JDCT_ISLOW;
  return true;
}

/// Turns a row of CMYK, stored inverted as Adobe's programs write it, into RGB, as Pillow does.
void inks_to_colours(std::uint8_t* row, std::size_t width) {
  for (std::size_t i = 0; i < width; ++i) {
    const unsigned black = row[4 * i + 3];
    for (std::size_t c = 0; c < 3; ++c) {
      const unsigned product = (255u - row[4 * i + c]) * black + 128;
      row[3 * i + c] = static_cast<std::uint8_t>(black - (((product >> 8) + product) >> 8));
    }
  }
}

/// Fills the planes `out`, row by row; `row` is a buffer for one row of interleaved pixels.
bool read_planes(Reader& reader, std::uint8_t* row, std::size_t planes, std::uint8_t* out) {
  if (setjmp(reader.errors.jump)) return false;
  jpeg_start_decompress(&reader.codec);
  const std::size_t width = reader.codec.output_width, area = width * reader.codec.output_height;
  const bool inks = reader.codec.output_components == 4;
  while (reader.codec.output_scanline < reader.codec.output_height) {
    std::uint8_t* const to = out + width * reader.codec.output_scanline;
    JSAMPROW pixels = reader.codec.output_components == 1 ? to : row;
    jpeg_read_scanlines(&reader.codec, &pixels, 1);
    if (inks) inks_to_colours(row, width);
    if (planes == 3)
      split_colours(row, width, 3, to, area);
    else if (inks)
      for (std::size_t i = 0; i < width; ++i)
        to[i] = luma(row[3 * i], row[3 * i + 1], row[3 * i + 2]);
  }
  jpeg_finish_decompress(&reader.codec);
  return true;
}

struct Image {
  unsigned width, height;
  int channels;
  const std::uint8_t* pixels;  // interleaved
};

bool write_image(Writer& writer, const Image& image, int quality) {
  writer.errors.install(reinterpret_cast<j_common_ptr>(&writer.codec));
  if (setjmp(writer.errors.jump)) return false;
  jpeg_create_compress(&writer.codec);
  jpeg_mem_dest(&writer.codec, &writer.out, &writer.size);
  writer.codec.image_width = image.width;
  writer.codec.image_height = image.height;
  writer.codec.input_components = image.channels;
  writer.codec.in_color_space = image.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&writer.codec);
  jpeg_set_quality(&writer.codec, quality, TRUE);
  jpeg_start_compress(&writer.codec, TRUE);
  while (writer.codec.next_scanline < image.height) {
    JSAMPROW row = const_cast<JSAMPROW>(image.pixels) + std::size_t{image.width} *
                                                            static_cast<unsigned>(image.channels) *
                                                            writer.codec.next_scanline;
    jpeg_write_scanlines(&writer.codec, &row, 1);
  }
  jpeg_finish_compress(&writer.codec);
  return true;
}

}  // namespace

Tensor parse_jpeg(Bytes bytes, std::string_view name, ImageMode mode, std::int64_t max_pixels) {
  const Where where{"read_jpeg", name};
  where.check(bytes.size() >= 3 && bytes[0] == 0xff && bytes[1] == 0xd8 && bytes[2] == 0xff, 0,
              "expected a JPEG file to begin with 0xff 0xd8 0xff");
  Reader reader;
  const auto position = [&] {
    return bytes.size() - (reader.codec.src ? reader.codec.src->bytes_in_buffer : bytes.size());
  };
  if (!read_header(reader, bytes, mode)) where.fail(position(), "{}", reader.errors.message);
  const std::size_t width = reader.codec.image_width, height = reader.codec.image_height;
  check_pixels(width, height, max_pixels, where, position());
  where.check(width * height / kMaxPixelsPerByte <= bytes.size(), position(),
              "the header claims {} x {} pixels, more than {} bytes can hold", width, height,
              bytes.size());
  const bool inks = reader.codec.out_color_space == JCS_CMYK;
  const bool gray =
      reader.codec.out_color_space == JCS_GRAYSCALE || (inks && mode == ImageMode::gray);
  const std::size_t channels = gray ? 1 : 3;
  Tensor image = empty({static_cast<std::int64_t>(channels), static_cast<std::int64_t>(height),
                        static_cast<std::int64_t>(width)},
                       {.dtype = kUInt8, .device = kCPU});
  const auto row = std::make_unique_for_overwrite<std::uint8_t[]>(width * (inks ? 4 : channels));
  if (!read_planes(reader, row.get(), channels, image.data<std::uint8_t>()))
    where.fail(position(), "{}", reader.errors.message);
  return image;
}

Tensor read_jpeg(const std::filesystem::path& path, ImageMode mode, std::int64_t max_pixels) {
  const MappedFile file(path, "read_jpeg");
  return parse_jpeg(file.bytes(), path.string(), mode, max_pixels);
}

void write_jpeg(const Tensor& image, const std::filesystem::path& path, int quality) {
  const Tensor dense = host_contiguous(image, "write_jpeg");
  FERRITE_CHECK(dense.dtype() == kUInt8, DTypeError, "write_jpeg",
                "expected uint8, got {}; scale to 0..255 and convert first", dense.dtype());
  const bool planes = dense.dim() == 3;
  const std::int64_t channels = planes ? dense.size(0) : 1;
  FERRITE_CHECK((planes || dense.dim() == 2) && dense.numel() > 0 &&
                    (channels == 1 || channels == 3) && dense.size(-1) <= JPEG_MAX_DIMENSION &&
                    dense.size(-2) <= JPEG_MAX_DIMENSION,
                ShapeError, "write_jpeg",
                "expected [H, W], [1, H, W] or [3, H, W] with 1 to {} pixels a side, got {}",
                JPEG_MAX_DIMENSION, dense.shape());
  FERRITE_CHECK(quality >= 1 && quality <= 100, ValueError, "write_jpeg",
                "expected a quality of 1 to 100, got {}", quality);
  const auto area = static_cast<std::size_t>(dense.size(-1) * dense.size(-2));
  const auto step = static_cast<std::size_t>(channels);
  std::vector<std::uint8_t> pixels(area * step);
  const auto* in = dense.data<std::uint8_t>();
  for (std::size_t c = 0; c < step; ++c)
    for (std::size_t i = 0; i < area; ++i) pixels[i * step + c] = *in++;
  Writer writer;
  const Image interleaved{static_cast<unsigned>(dense.size(-1)),
                          static_cast<unsigned>(dense.size(-2)), static_cast<int>(channels),
                          pixels.data()};
  if (!write_image(writer, interleaved, quality))
    fail<IoError>("write_jpeg", "cannot encode '{}': {}", path.string(), writer.errors.message);
  AtomicFile file(path, "write_jpeg");
  file.write(writer.out, writer.size);
  file.commit();
}

}  // namespace ferrite::data
