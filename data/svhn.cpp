#include "ferrite/data/svhn.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "ferrite/core/parallel_for.h"
#include "ferrite/data/files_of_dataset.h"
#include "ferrite/data/inflate.h"
#include "ferrite/data/inflate_whole.h"

namespace ferrite::data {

namespace {

constexpr std::int64_t kSide = 32, kChannels = 3, kPlane = kSide * kSide;

// ---- MATLAB's format ("MAT-File Format", version 5)

constexpr std::size_t kMatHeader = 128, kTag = 8;
constexpr std::uint32_t kMatInt8 = 1, kMatUInt8 = 2, kMatInt32 = 5, kMatDouble = 9, kMatMatrix = 14,
                        kMatCompressed = 15;

/// A data element: its type and its bytes, and where these are.
struct Element {
  std::uint32_t type = 0;
  Bytes bytes;
  std::uint64_t at = 0;
};

/// The elements of a file, or of a matrix, one after another. `base` is the position of the first.
class Elements {
 public:
  Elements(Bytes bytes, Where where, std::uint64_t base)
      : bytes_(bytes), where_(where), base_(base) {}

  bool at_end() const { return at_ == bytes_.size(); }
  Element next() {
    where_.check(bytes_.size() - at_ >= kTag, base_ + at_, "the file ends in a data element");
    const std::uint8_t* const tag = bytes_.data() + at_;
    Element out{load_little<std::uint32_t>(tag)};
    std::size_t size = load_little<std::uint32_t>(tag + 4), begin = kTag;
    const bool small = out.type >> 16 != 0;  // up to 4 bytes, within the tag
    if (small) size = out.type >> 16, out.type &= 0xffff, begin = 4;
    where_.check(!small || size <= 4, base_ + at_, "a small element has {} bytes", size);
    where_.check(size <= bytes_.size() - at_ - begin, base_ + at_,
                 "an element of {} bytes does not fit into the file", size);
    out.at = base_ + at_ + begin;
    out.bytes = bytes_.subspan(at_ + begin, size);
    // Followed by a multiple of 8 bytes, unless it is compressed.
    const std::size_t padded = small                        ? kTag
                               : out.type == kMatCompressed ? begin + size
                                                            : begin + (size + 7) / 8 * 8;
    at_ += std::min(padded, bytes_.size() - at_);
    return out;
  }

 private:
  Bytes bytes_;
  Where where_;
  std::uint64_t base_;
  std::size_t at_ = 0;
};

/// What a compressed element holds.
std::vector<std::uint8_t> inflated(const Element& element, const Where& where) {
  // The stream's own header has two bytes; what it holds begins with its size.
  where.check(element.bytes.size() > 2, element.at, "a compressed element is empty");
  InflateStream stream(element.bytes.subspan(2), Compression::deflate, where, element.at + 2);
  std::array<std::uint8_t, kTag> tag;
  where.check(stream.read(tag.data(), kTag) == kTag, element.at, "a compressed element is empty");
  const std::uint64_t size = kTag + load_little<std::uint32_t>(tag.data() + 4);
  where.check(size <= kMaxInflation * element.bytes.size(), element.at,
              "{} compressed bytes cannot hold {}", element.bytes.size(), size);
  std::vector<std::uint8_t> out(size);
  where.check(inflate_zlib(element.bytes, out), element.at,
              "a compressed element is damaged, or does not have the {} bytes that it says", size);
  return out;
}

struct Matrix {
  std::string name;
  std::vector<std::int64_t> shape;  // column-major
  Element values;
};

Matrix parse_matrix(const Element& element, const Where& where) {
  Elements parts(element.bytes, where, element.at);
  parts.next();  // flags
  const Element sizes = parts.next(), name = parts.next();
  Matrix out;
  where.check(sizes.type == kMatInt32 && sizes.bytes.size() % 4 == 0, sizes.at,
              "expected the sizes of an array, got an element of type {}", sizes.type);
  for (std::size_t i = 0; i < sizes.bytes.size(); i += 4)
    out.shape.push_back(load_little<std::uint32_t>(sizes.bytes.data() + i));
  out.name.assign(name.bytes.begin(), name.bytes.end());
  out.values = parts.next();
  return out;
}

// ---- The data set

/// The labels, which MATLAB writes in the smallest type, or as float64.
Tensor labels_of(const Matrix& y, const Where& where) {
  const std::size_t item = y.values.type == kMatDouble ? 8 : 1;
  where.check((item == 8 || y.values.type == kMatUInt8 || y.values.type == kMatInt8) &&
                  y.values.bytes.size() % item == 0,
              y.values.at, "expected labels of 8 bits or float64, got type {}", y.values.type);
  const std::size_t count = y.values.bytes.size() / item;
  const Tensor labels =
      empty({static_cast<std::int64_t>(count)}, {.dtype = kInt64, .device = kCPU});
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint8_t* const at = y.values.bytes.data() + i * item;
    double value = *at;
    if (item == 8) value = std::bit_cast<double>(load_little<std::uint64_t>(at));
    where.check(value >= 1 && value <= 10 && value == std::floor(value), y.values.at + i * item,
                "expected a label of 1 to 10, got {}", value);
    labels.data<std::int64_t>()[i] = static_cast<std::int64_t>(value) % 10;
  }
  return labels;
}

Tensor images_of(const Matrix& x, const Where& where) {
  where.check(
      x.shape.size() == 4 && x.shape[0] == kSide && x.shape[1] == kSide &&
          x.shape[2] == kChannels && x.values.type == kMatUInt8 &&
          x.values.bytes.size() == static_cast<std::size_t>(x.shape[3] * kChannels * kPlane),
      x.values.at, "expected X to be uint8 32x32x3xN, got {} values of type {} and sizes {}",
      x.values.bytes.size(), x.values.type, fmt::join(x.shape, "x"));
  const Tensor images =
      empty({x.shape[3], kChannels, kSide, kSide}, {.dtype = kUInt8, .device = kCPU});
  const std::uint8_t* const from = x.values.bytes.data();
  auto* const to = images.data<std::uint8_t>();
  parallel_for(x.shape[3] * kChannels, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t plane = begin * kPlane; plane < end * kPlane; plane += kPlane)
      for (std::int64_t h = 0; h < kSide; ++h)
        for (std::int64_t w = 0; w < kSide; ++w)
          to[plane + h * kSide + w] = from[plane + w * kSide + h];
  });
  return images;
}

FileSearch search_of(const std::filesystem::path& root) {
  return {.op = "svhn",
          .root = root,
          .folders = {"svhn", "SVHN", ""},
          .source = "http://ufldl.stanford.edu/housenumbers/"};
}

ImageDataset load_svhn(const std::filesystem::path& root, SvhnSplit split, Transform transform) {
  constexpr const char* kFiles[] = {"train_32x32.mat", "test_32x32.mat", "extra_32x32.mat"};
  const auto path = find_file(search_of(root), {kFiles[static_cast<int>(split)]});
  const MappedFile file(path, "svhn");
  const Batch all = parse_svhn(file.bytes(), path.string());
  return ImageDataset(all.inputs, all.labels, {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"},
                      std::move(transform));
}

}  // namespace

Batch parse_svhn(Bytes bytes, std::string_view name) {
  const Where where{"svhn", name};
  where.check(
      bytes.size() >= kMatHeader && bytes[125] == 1 && bytes[126] == 'I' && bytes[127] == 'M', 0,
      "expected a little-endian MATLAB file of version 5");
  Elements elements(bytes.subspan(kMatHeader), where, kMatHeader);
  Tensor images, labels;
  while (!elements.at_end()) {
    Element element = elements.next();
    std::vector<std::uint8_t> held;  // what `element` then points into
    if (element.type == kMatCompressed) {
      held = inflated(element, where);
      element = Elements(held, where, element.at).next();
    }
    if (element.type != kMatMatrix) continue;
    const Matrix matrix = parse_matrix(element, where);
    if (matrix.name == "X") images = images_of(matrix, where);
    if (matrix.name == "y") labels = labels_of(matrix, where);
  }
  where.check(images.defined() && labels.defined(), bytes.size(),
              "expected the arrays X and y, found {}",
              images.defined()   ? "X"
              : labels.defined() ? "y"
                                 : "neither");
  where.check(images.size(0) == labels.size(0), bytes.size(), "there are {} images and {} labels",
              images.size(0), labels.size(0));
  return {images, labels};
}

SVHN::SVHN(const std::filesystem::path& root, SvhnSplit split, Transform transform)
    : ImageDataset(load_svhn(root, split, std::move(transform))) {}

}  // namespace ferrite::data
