#include "ferrite/data/onnx/onnx_file.h"

#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <limits>
#include <optional>

#include "ferrite/core/half.h"

namespace ferrite::data {

namespace {

struct Type {
  DType dtype;
  int number;
};
constexpr Type kTypes[] = {
    {kFloat32, pb::TensorProto::FLOAT},   {kFloat64, pb::TensorProto::DOUBLE},
    {kFloat16, pb::TensorProto::FLOAT16}, {kBFloat16, pb::TensorProto::BFLOAT16},
    {kInt64, pb::TensorProto::INT64},     {kInt32, pb::TensorProto::INT32},
    {kInt16, pb::TensorProto::INT16},     {kInt8, pb::TensorProto::INT8},
    {kUInt8, pb::TensorProto::UINT8},     {kBool, pb::TensorProto::BOOL},
};

/// Above it protobuf itself would refuse.
constexpr std::uint64_t kMostBytes = std::numeric_limits<std::int32_t>::max();

/// The fields of a typed tensor, each stored as a T.
template <class T, class Values>
void fill(const Tensor& out, const Values& values) {
  T* const to = static_cast<T*>(out.data_ptr());
  for (int i = 0; i < values.size(); ++i) to[i] = static_cast<T>(values.Get(i));
}

/// The bits of 16-bit numbers, which stand in int32_data.
void fill_bits(const Tensor& out, const google::protobuf::RepeatedField<std::int32_t>& values) {
  auto* const to = static_cast<std::uint16_t*>(out.data_ptr());
  for (int i = 0; i < values.size(); ++i) to[i] = static_cast<std::uint16_t>(values.Get(i));
}

int typed_count(const pb::TensorProto& t, DType dtype) {
  switch (dtype) {
    case DType::float32:
      return t.float_data_size();
    case DType::float64:
      return t.double_data_size();
    case DType::int64:
      return t.int64_data_size();
    default:
      return t.int32_data_size();
  }
}

void fill_typed(const Tensor& out, const pb::TensorProto& t) {
  switch (out.dtype()) {
    case DType::float32:
      return fill<float>(out, t.float_data());
    case DType::float64:
      return fill<double>(out, t.double_data());
    case DType::int64:
      return fill<std::int64_t>(out, t.int64_data());
    case DType::int32:
      return fill<std::int32_t>(out, t.int32_data());
    case DType::int16:
      return fill<std::int16_t>(out, t.int32_data());
    case DType::int8:
      return fill<std::int8_t>(out, t.int32_data());
    case DType::uint8:
      return fill<std::uint8_t>(out, t.int32_data());
    case DType::boolean:
      return fill<bool>(out, t.int32_data());
    case DType::float16:
    case DType::bfloat16:
      return fill_bits(out, t.int32_data());
    case DType::complex64:  // not among kTypes: refused before
    case DType::complex128:
      return;
  }
}

std::optional<std::uint64_t> number_of(const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

}  // namespace

std::string onnx_type_name(int number) {
  return pb::TensorProto::DataType_IsValid(number)
             ? pb::TensorProto::DataType_Name(static_cast<pb::TensorProto::DataType>(number))
             : std::to_string(number);
}

DType dtype_of_onnx(int number, std::string_view op, std::string_view what) {
  for (const Type& type : kTypes)
    if (type.number == number) return type.dtype;
  fail<DTypeError>(op, "{} is of ONNX's type {}, which Ferrite does not have", what,
                   onnx_type_name(number));
}

int onnx_dtype(DType dtype) {
  const auto* const type = std::ranges::find(kTypes, dtype, &Type::dtype);
  FERRITE_CHECK(type != std::end(kTypes), DTypeError, "onnx", "{} is not written", dtype);
  return type->number;
}

OnnxFile::OnnxFile(const std::filesystem::path& path, std::string_view op)
    : op_(op), name_(path.string()), folder_(path.parent_path()) {
  if (folder_.empty()) folder_ = ".";
  parse(MappedFile(path, op).bytes());
}

OnnxFile::OnnxFile(Bytes bytes, std::string_view op) : op_(op), name_("memory") { parse(bytes); }

void OnnxFile::parse(Bytes bytes) {
  const Where where{op_, name_};
  where.check(bytes.size() <= kMostBytes, kMostBytes,
              "the file has {} bytes, an ONNX model at most {}; large weights lie beside it",
              bytes.size(), kMostBytes);
  const int size = static_cast<int>(bytes.size());
  google::protobuf::io::ArrayInputStream in(bytes.data(), size);
  // Bounded: else a string that claims a length beyond the end is given memory of that length.
  const bool parsed = model_.ParseFromBoundedZeroCopyStream(&in, size);
  where.check(parsed, static_cast<std::uint64_t>(in.ByteCount()),
              "this is no ONNX model, or the file is damaged or cut off");
  where.check(model_.has_graph() && model_.ir_version() > 0, 0,
              "this is no ONNX model: it has no {}", model_.has_graph() ? "ir_version" : "graph");
}

Bytes OnnxFile::external(const pb::TensorProto& t) const {
  std::string location;
  std::uint64_t offset = 0;
  std::optional<std::uint64_t> length;
  for (const auto& entry : t.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() != "offset" && entry.key() != "length") continue;
    const auto number = number_of(entry.value());
    FERRITE_CHECK(number, IoError, op_, "'{}': the {} of tensor '{}' is no number: '{}'", name_,
                  entry.key(), t.name(), entry.value());
    if (entry.key() == "offset") offset = *number;
    if (entry.key() == "length") length = number;
  }
  const std::filesystem::path relative(location);
  bool inside = !folder_.empty() && !location.empty() && relative.is_relative() &&
                location.find('\0') == std::string::npos;
  for (const auto& part : relative) inside = inside && part != "..";
  std::filesystem::path file;  // one path for "a", "./a" and links to it
  if (inside) {
    // Links must not leave the folder either.
    std::error_code error;
    const auto root = std::filesystem::weakly_canonical(folder_, error);
    file = std::filesystem::weakly_canonical(folder_ / relative, error);
    inside = !error &&
             std::mismatch(root.begin(), root.end(), file.begin(), file.end()).first == root.end();
  }
  FERRITE_CHECK(inside, IoError, op_,
                "'{}': the data of tensor '{}' are said to lie in '{}', which is not a file in the "
                "model's folder",
                name_, t.name(), location);
  Beside& beside = files_[file];
  if (!beside.file) beside.file = std::make_unique<MappedFile>(folder_ / relative, op_);
  const Bytes all = beside.file->bytes();
  const Where where{op_, location};
  where.check(offset <= all.size(), all.size(), "the data of tensor '{}' begin at {}, past the end",
              t.name(), offset);
  const std::uint64_t size = length.value_or(all.size() - offset);
  where.check(size <= all.size() - offset, all.size(),
              "the data of tensor '{}' are {} bytes from {}, past the end", t.name(), size, offset);
  beside.taken += size;  // at most three times the file's
  where.check(
      beside.taken / 2 <= all.size(), offset,
      "with tensor '{}', tensors take {} bytes of a file of {}: more than twice its size, as "
      "if many were the same",
      t.name(), beside.taken, all.size());
  return all.subspan(offset, size);
}

Tensor OnnxFile::tensor(const pb::TensorProto& t) const {
  const auto check = [&]<class... Args>(bool holds, fmt::format_string<Args...> format,
                                        Args&&... args) {
    FERRITE_CHECK(holds, IoError, op_, "'{}': tensor '{}': {}", name_, t.name(),
                  fmt::format(format, std::forward<Args>(args)...));
  };
  const DType dtype =
      dtype_of_onnx(t.data_type(), op_, fmt::format("'{}': tensor '{}'", name_, t.name()));
  check(t.dims_size() <= kMaxDims, "has {} dimensions, Ferrite's have up to {}", t.dims_size(),
        kMaxDims);
  Shape shape;
  std::uint64_t elements = 1;
  for (const std::int64_t size : t.dims()) {
    check(size >= 0 &&
              !__builtin_mul_overflow(elements, static_cast<std::uint64_t>(size), &elements) &&
              elements < (std::uint64_t{1} << 60),
          "has a size of {}", size);
    shape.push_back(size);
  }
  check(!t.has_segment(), "is cut into segments, which Ferrite does not read");
  const std::uint64_t wanted = elements * itemsize(dtype);
  const bool beside = t.data_location() == pb::TensorProto::EXTERNAL;
  if (beside || t.has_raw_data()) {
    const Bytes bytes = beside ? external(t)
                               : Bytes(reinterpret_cast<const std::uint8_t*>(t.raw_data().data()),
                                       t.raw_data().size());
    check(bytes.size() == wanted, "{} {} has {} bytes of data instead of {}", name(dtype), shape,
          bytes.size(), wanted);
    const Tensor out = empty(shape, {.dtype = dtype, .device = kCPU});
    if (wanted > 0) std::memcpy(out.data_ptr(), bytes.data(), wanted);
    if (dtype == kBool)  // a byte that is neither 0 nor 1 is no bool
      for (std::uint64_t i = 0; i < wanted; ++i)
        static_cast<std::uint8_t*>(out.data_ptr())[i] = bytes[i] != 0;
    return out;
  }
  const int given = typed_count(t, dtype);
  check(static_cast<std::uint64_t>(given) == elements, "{} {} has {} numbers of data instead of {}",
        name(dtype), shape, given, elements);
  const Tensor out = empty(shape, {.dtype = dtype, .device = kCPU});
  if (elements > 0) fill_typed(out, t);
  return out;
}

pb::TensorProto onnx_tensor(const std::string& name, const Tensor& tensor) {
  FERRITE_CHECK(tensor.device().is_host() && tensor.is_contiguous(), ValueError, "onnx_tensor",
                "expected a contiguous tensor on the host, got {}", tensor.describe());
  pb::TensorProto out;
  out.set_name(name);
  out.set_data_type(onnx_dtype(tensor.dtype()));
  for (const std::int64_t size : tensor.shape()) out.add_dims(size);
  out.set_raw_data(tensor.data_ptr() ? tensor.data_ptr() : "", tensor.nbytes());
  return out;
}

void write_onnx(pb::ModelProto model, const std::filesystem::path& path,
                const OnnxWriteOptions& options, std::string_view op) {
  std::optional<AtomicFile> beside;
  std::filesystem::path data = path;
  data += ".data";
  if (options.external_data) {
    beside.emplace(data, op);
    for (pb::TensorProto& t : *model.mutable_graph()->mutable_initializer()) {
      if (t.raw_data().size() < 1024) continue;  // shapes, scalars: readers look at them early
      constexpr std::uint64_t kAlign = 64;
      const std::string gap((kAlign - beside->written() % kAlign) % kAlign, '\0');
      beside->write(gap);
      const auto add = [&t](const char* key, const std::string& value) {
        auto* const entry = t.add_external_data();
        entry->set_key(key);
        entry->set_value(value);
      };
      add("location", data.filename().string());
      add("offset", std::to_string(beside->written()));
      add("length", std::to_string(t.raw_data().size()));
      beside->write(t.raw_data());
      t.clear_raw_data();
      t.set_data_location(pb::TensorProto::EXTERNAL);
    }
  }
  FERRITE_CHECK(model.ByteSizeLong() <= kMostBytes, ValueError, op,
                "the model has {} bytes, more than the 2 GB of one ONNX file; set external_data to "
                "write the weights beside it",
                model.ByteSizeLong());
  AtomicFile file(path, op);
  file.write(model.SerializeAsString());
  std::error_code ignored;
  const bool replaces = std::filesystem::exists(data, ignored);
  if (beside) {
    // Whatever can fail for want of space does so before either file appears.
    beside->sync();
    file.sync();
    beside->commit();
  }
  try {
    file.commit();
  } catch (...) {
    if (beside && !replaces && !file.is_in_place()) std::filesystem::remove(data, ignored);
    throw;
  }
}

}  // namespace ferrite::data
