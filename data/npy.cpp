#include "ferrite/data/npy.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "ferrite/data/host.h"

namespace ferrite::data {

namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMaxHeader = 1 << 16;

struct NpyType {
  std::string_view code;
  DType dtype;
};
constexpr NpyType kTypes[] = {{"<f4", kFloat32},   {"<f2", kFloat16},    {"<f8", kFloat64},
                              {"<i8", kInt64},     {"<i4", kInt32},      {"<i2", kInt16},
                              {"|i1", kInt8},      {"|u1", kUInt8},      {"|b1", kBool},
                              {"<c8", kComplex64}, {"<c16", kComplex128}};

constexpr bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

/// Parses just the header: a Python dict literal with three known keys.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, std::size_t base, const Where& where)
      : text_(text), base_(base), where_(where) {}

  DType dtype() const { return *dtype_; }
  bool fortran_order() const { return *fortran_order_; }
  const Shape& shape() const { return *shape_; }

  void parse() {
    expect('{');
    while (!accept('}')) {
      const std::string_view key = quoted();
      expect(':');
      if (key == "descr" && !dtype_)
        dtype_ = type();
      else if (key == "fortran_order" && !fortran_order_)
        fortran_order_ = boolean();
      else if (key == "shape" && !shape_)
        shape_ = tuple();
      else
        fail("expected the keys 'descr', 'fortran_order' and 'shape' once each, got '{}'", key);
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (position_ != text_.size()) fail("expected the header to end with its dict");
    if (!dtype_ || !fortran_order_ || !shape_)
      fail("expected the keys 'descr', 'fortran_order' and 'shape', at least one is missing");
  }

 private:
  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    where_.fail(base_ + position_, format, std::forward<Args>(args)...);
  }
  void skip_space() {
    while (position_ < text_.size() && is_space(text_[position_])) ++position_;
  }
  bool accept(char c) {
    skip_space();
    if (position_ == text_.size() || text_[position_] != c) return false;
    ++position_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail("expected '{}' in the header", c);
  }
  bool accept_word(std::string_view word) {
    skip_space();
    if (!text_.substr(position_).starts_with(word)) return false;
    position_ += word.size();
    return true;
  }
  std::string_view quoted() {
    skip_space();
    const char quote = position_ < text_.size() ? text_[position_] : '\0';
    if (quote != '\'' && quote != '"') fail("expected a quoted string in the header");
    const std::size_t end = text_.find(quote, position_ + 1);
    if (end == std::string_view::npos) fail("a string in the header has no end");
    const std::string_view value = text_.substr(position_ + 1, end - position_ - 1);
    position_ = end + 1;
    return value;
  }
  bool boolean() {
    if (accept_word("True")) return true;
    if (accept_word("False")) return false;
    fail("expected True or False");
  }
  DType type() {
    skip_space();
    if (position_ < text_.size() && text_[position_] == '[')
      fail("structured arrays are not supported; save their fields one by one");
    const std::size_t start = position_;
    const std::string_view code = quoted();
    for (const NpyType& t : kTypes)
      if (t.code == code || (t.code[0] == '|' && t.code.substr(1) == code)) return t.dtype;
    position_ = start;
    fail(
        "element type '{}' is not supported; expected <f2, <f4, <f8, <i2, <i4, <i8, |i1, |u1, |b1, "
        "<c8 or <c16",
        code);
  }
  Shape tuple() {
    Shape shape;
    expect('(');
    while (!accept(')')) {
      skip_space();
      std::int64_t size = -1;
      const auto [end, error] =
          std::from_chars(text_.data() + position_, text_.data() + text_.size(), size);
      if (error != std::errc() || size < 0) fail("expected a size of 0 or more in the shape");
      if (shape.size() == kMaxDims) fail("expected at most {} dimensions", kMaxDims);
      shape.push_back(size);
      position_ = static_cast<std::size_t>(end - text_.data());
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return shape;
  }

  std::string_view text_;
  std::size_t base_, position_ = 0;
  const Where& where_;
  std::optional<DType> dtype_;
  std::optional<bool> fortran_order_;
  std::optional<Shape> shape_;
};

/// The header's text, without magic, version and length.
std::string_view header_text(Bytes bytes, std::size_t& data_offset, const Where& where) {
  const std::string_view all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  where.check(all.starts_with(kMagic), 0, "expected an .npy file to begin with \\x93NUMPY");
  where.check(all.size() >= 10, all.size(),
              "expected a version and a header length, the file ends");
  const int version = bytes[6];
  where.check(version >= 1 && version <= 3 && bytes[7] == 0, 6,
              "expected format version 1.0, 2.0 or 3.0, got {}.{}", version, bytes[7]);
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  where.check(all.size() >= 8 + length_bytes, all.size(), "the file ends inside the header length");
  const std::size_t length = version == 1 ? load_little<std::uint16_t>(bytes.data() + 8)
                                          : load_little<std::uint32_t>(bytes.data() + 8);
  const std::size_t begin = 8 + length_bytes;
  where.check(length <= all.size() - begin, 8,
              "the header claims {} bytes, the file has {} left; it is truncated or corrupt",
              length, all.size() - begin);
  where.check(length <= kMaxHeader, 8, "the header claims {} bytes; expected at most {}", length,
              kMaxHeader);
  data_offset = begin + length;
  return all.substr(begin, length);
}

std::uint64_t bytes_of(const Shape& shape, DType dtype, std::size_t offset, const Where& where) {
  std::uint64_t bytes = itemsize(dtype);
  bool overflow = false, has_zero = false;
  for (const std::int64_t d : shape) {
    has_zero |= d == 0;
    // A size of 0 counts as 1: the strides of the others must still fit in 64 bits.
    const std::uint64_t size = d == 0 ? 1 : static_cast<std::uint64_t>(d);
    overflow |= __builtin_mul_overflow(bytes, size, &bytes);
  }
  where.check(!overflow && bytes < (std::uint64_t{1} << 62), offset,
              "shape {} has more bytes than 64 bits can count", shape);
  return has_zero ? 0 : bytes;
}

}  // namespace

Tensor parse_npy(Bytes bytes, std::string_view name, std::string_view op) {
  const Where where{op, name};
  std::size_t offset = 0;
  const std::string_view text = header_text(bytes, offset, where);
  HeaderParser header(text, offset - text.size(), where);
  header.parse();
  const std::uint64_t expected = bytes_of(header.shape(), header.dtype(), offset, where);
  const std::uint64_t got = bytes.size() - offset;
  where.check(got == expected, std::min<std::uint64_t>(bytes.size(), offset + expected),
              "the header promises {} of {}: expected {} bytes of elements, got {}; the file is {}",
              header.shape(), header.dtype(), expected, got,
              got < expected ? "truncated" : "followed by other data");
  const std::uint8_t* elements = bytes.data() + offset;
  if (header.dtype() == kBool) {
    const auto bad = std::find_if(elements, elements + expected, [](auto v) { return v > 1; });
    where.check(bad == elements + expected, static_cast<std::uint64_t>(bad - bytes.data()),
                "expected a bool of 0 or 1");
  }
  if (header.fortran_order() && header.shape().size() > 1 && expected > 0) {
    Strides strides = header.shape();
    std::int64_t step = 1;
    for (int d = 0; d < strides.size(); ++d) step *= std::exchange(strides[d], step);
    return gather_strided(elements, header.shape(), strides, header.dtype());
  }
  Tensor tensor = empty(header.shape(), {.dtype = header.dtype(), .device = kCPU});
  if (expected > 0) std::memcpy(tensor.data_ptr(), elements, expected);
  return tensor;
}

Tensor load_npy(const std::filesystem::path& path) {
  const MappedFile file(path, "load_npy");
  return parse_npy(file.bytes(), path.string());
}

std::string npy_header(DType dtype, const Shape& shape, std::string_view op) {
  const auto type = std::ranges::find(kTypes, dtype, &NpyType::dtype);
  FERRITE_CHECK(type != std::end(kTypes), DTypeError, op,
                "NumPy has no {}; convert the tensor to float32 first", dtype);
  std::string dims;
  for (const std::int64_t d : shape) dims += fmt::format("{}, ", d);
  if (shape.size() > 1) dims.resize(dims.size() - 2);
  if (shape.size() == 1) dims.pop_back();
  std::string text =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", type->code, dims);
  // Elements begin at a multiple of 64 bytes, so that they can be memory-mapped.
  const std::size_t fixed = kMagic.size() + 4;
  text.append(63 - (fixed + text.size()) % 64, ' ');
  text += '\n';
  std::string header(kMagic);
  header += '\1';
  header += '\0';
  append_little(header, static_cast<std::uint16_t>(text.size()));
  return header + text;
}

void save_npy(const Tensor& tensor, const std::filesystem::path& path) {
  const Tensor dense = host_contiguous(tensor, "save_npy");
  const std::string header = npy_header(dense.dtype(), dense.shape());
  AtomicFile file(path, "save_npy");
  file.write(header);
  file.write(dense.data_ptr(), dense.nbytes());
  file.commit();
}

}  // namespace ferrite::data
