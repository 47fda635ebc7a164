#include "ferrite/data/image_io.h"

namespace ferrite::data {

Tensor read_image(const std::filesystem::path& path, ImageMode mode, std::int64_t max_pixels) {
  const MappedFile file(path, "read_image");
  const Bytes bytes = file.bytes();
  const std::string name = path.string();
  if (bytes.size() >= 2 && bytes[0] == 0x89 && bytes[1] == 'P')
    return parse_png(bytes, name, mode, max_pixels);
  if (bytes.size() >= 2 && bytes[0] == 0xff && bytes[1] == 0xd8)
    return parse_jpeg(bytes, name, mode, max_pixels);
  Where{"read_image", name}.fail(0, "expected a PNG or a JPEG file");
}

}  // namespace ferrite::data
