#include "data/safetensors.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <vector>

#include "data/host.h"

namespace ferrite::data {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kMetadataKey = "__metadata__";
constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeader = 100'000'000;  // the reference implementation's limit

struct TypeName {
  std::string_view name;
  DType dtype;
};
constexpr TypeName kTypes[] = {{"F32", kFloat32}, {"F16", kFloat16}, {"BF16", kBFloat16},
                               {"F64", kFloat64}, {"I64", kInt64},   {"I32", kInt32},
                               {"U8", kUInt8},    {"BOOL", kBool}};

struct Entry {
  std::string name;
  DType dtype;
  Shape shape;
  std::uint64_t begin, end;  // in the data part
};

struct Header {
  std::vector<Entry> entries;
  Metadata metadata;
  std::uint64_t data_offset = 0;
};

/// The header's JSON. The parser itself would let the last of equal names win.
Json parse_json(std::string_view text, const Where& where) {
  std::vector<std::set<std::string>> names;
  const auto check_names = [&](int, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) {
      names.emplace_back();
    } else if (event == Json::parse_event_t::object_end) {
      names.pop_back();
    } else if (event == Json::parse_event_t::key) {
      const auto& name = value.get_ref<const std::string&>();
      where.check(names.back().insert(name).second, kLengthBytes,
                  "expected each name once in the header, got '{}' twice", name);
    }
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), check_names);
  } catch (const Json::parse_error& error) {
    where.fail(kLengthBytes + error.byte, "the header is not valid JSON: {}", error.what());
  } catch (const Json::exception& error) {
    where.fail(kLengthBytes, "the header is not valid JSON: {}", error.what());
  }
}

/// A member of the JSON object, or an error that names tensor and key.
const Json& member(const Json& object, const char* key, const std::string& name,
                   const Where& where) {
  const auto found = object.find(key);
  where.check(found != object.end(), kLengthBytes, "tensor '{}' has no '{}'", name, key);
  return *found;
}

std::uint64_t to_count(const Json& value, const std::string& name, const Where& where) {
  where.check(value.is_number_unsigned() && value.get<std::uint64_t>() <= INT64_MAX, kLengthBytes,
              "tensor '{}': sizes and offsets must be integers of 0 or more", name);
  return value.get<std::uint64_t>();
}

Entry read_entry(const std::string& name, const Json& value, const Where& where) {
  where.check(value.is_object() && value.size() == 3, kLengthBytes,
              "tensor '{}': expected an object of dtype, shape and data_offsets", name);
  Entry entry{.name = name, .dtype = kFloat32, .shape = {}, .begin = 0, .end = 0};
  const Json& dtype = member(value, "dtype", name, where);
  const auto type =
      dtype.is_string()
          ? std::ranges::find(kTypes, dtype.get_ref<const std::string&>(), &TypeName::name)
          : std::end(kTypes);
  where.check(type != std::end(kTypes), kLengthBytes,
              "tensor '{}': dtype {} is not supported; expected F32, F16, BF16, F64, I64, I32, U8 "
              "or BOOL",
              name, dtype.dump(-1, ' ', true, Json::error_handler_t::replace));
  entry.dtype = type->dtype;
  const Json& shape = member(value, "shape", name, where);
  where.check(shape.is_array() && shape.size() <= std::size_t{kMaxDims}, kLengthBytes,
              "tensor '{}': expected a shape of 0 to {} sizes", name, kMaxDims);
  std::uint64_t bytes = itemsize(entry.dtype);
  bool overflow = false, has_zero = false;
  for (const Json& size : shape) {
    const std::uint64_t d = to_count(size, name, where);
    has_zero |= d == 0;
    // A size of 0 counts as 1: the strides of the others must fit in 64 bits nonetheless.
    overflow |= __builtin_mul_overflow(bytes, std::max(d, std::uint64_t{1}), &bytes);
    entry.shape.push_back(static_cast<std::int64_t>(d));
  }
  where.check(!overflow && bytes < (std::uint64_t{1} << 62), kLengthBytes,
              "tensor '{}': {} has more bytes than 64 bits can count", name, entry.shape);
  if (has_zero) bytes = 0;
  const Json& offsets = member(value, "data_offsets", name, where);
  where.check(offsets.is_array() && offsets.size() == 2, kLengthBytes,
              "tensor '{}': expected two data_offsets", name);
  entry.begin = to_count(offsets[0], name, where), entry.end = to_count(offsets[1], name, where);
  where.check(entry.begin <= entry.end && entry.end - entry.begin == bytes, kLengthBytes,
              "tensor '{}': {} of {} is {} bytes, but its data_offsets are {} and {}", name,
              entry.dtype, entry.shape, bytes, entry.begin, entry.end);
  return entry;
}

Metadata read_metadata(const Json& value, const Where& where) {
  where.check(value.is_object(), kLengthBytes, "expected __metadata__ to be an object");
  Metadata metadata;
  for (const auto& [key, text] : value.items()) {
    where.check(text.is_string(), kLengthBytes, "expected text for '{}' in __metadata__", key);
    metadata.emplace(key, text.get_ref<const std::string&>());
  }
  return metadata;
}

/// The tensors must follow each other without holes and end with the file.
void check_layout(const Header& header, std::uint64_t data_bytes, const Where& where) {
  std::vector<const Entry*> order;
  for (const Entry& e : header.entries) order.push_back(&e);
  std::ranges::sort(order, {}, [](const Entry* e) { return std::pair(e->begin, e->end); });
  std::uint64_t expected = 0;
  for (const Entry* e : order) {
    where.check(e->begin == expected, header.data_offset + std::min(e->begin, expected),
                "tensor '{}' begins at {} of the data; expected {}: the tensors {}", e->name,
                e->begin, expected, e->begin < expected ? "overlap" : "leave a hole");
    expected = e->end;
  }
  where.check(expected == data_bytes, header.data_offset + std::min(expected, data_bytes),
              "the header describes {} bytes of tensors, the file holds {}; it is {}", expected,
              data_bytes, data_bytes < expected ? "truncated" : "followed by other data");
}

Header read_header(Bytes bytes, const Where& where) {
  where.check(bytes.size() >= kLengthBytes, bytes.size(),
              "expected 8 bytes of header length, got {}", bytes.size());
  const auto length = load_little<std::uint64_t>(bytes.data());
  const std::uint64_t rest = bytes.size() - kLengthBytes;
  where.check(length <= rest && length <= kMaxHeader, 0,
              "the header claims {} bytes; expected at most {}: the file is truncated or no "
              "safetensors file",
              length, std::min(rest, kMaxHeader));
  Header header;
  header.data_offset = kLengthBytes + length;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length);
  where.check(text.starts_with('{'), kLengthBytes, "expected the header to begin with '{{'");
  const Json json = parse_json(text, where);
  for (const auto& [name, value] : json.items()) {
    if (name == kMetadataKey)
      header.metadata = read_metadata(value, where);
    else
      header.entries.push_back(read_entry(name, value, where));
    where.check(!name.empty(), kLengthBytes, "expected a name for each tensor, got ''");
  }
  check_layout(header, bytes.size() - header.data_offset, where);
  return header;
}

Tensor copy_out(const Entry& entry, const std::uint8_t* data, std::uint64_t offset,
                const Where& where) {
  const std::uint64_t bytes = entry.end - entry.begin;
  if (entry.dtype == kBool) {
    const auto bad = std::find_if(data, data + bytes, [](std::uint8_t v) { return v > 1; });
    where.check(bad == data + bytes, offset + static_cast<std::uint64_t>(bad - data),
                "tensor '{}': expected a bool of 0 or 1", entry.name);
  }
  Tensor tensor = empty(entry.shape, {.dtype = entry.dtype});
  if (bytes > 0) std::memcpy(tensor.data_ptr(), data, bytes);
  return tensor;
}

// ---- Writing

/// Positions of the entries in the file: larger elements first, else the order of the dict.
std::vector<std::size_t> file_order(const std::vector<Tensor>& tensors) {
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](std::size_t i) { return tensors[i].itemsize(); });
  return order;
}

std::string header_of(const StateDict& dict, const std::vector<Tensor>& tensors,
                      const std::vector<std::size_t>& order, const Metadata& metadata) {
  std::vector<std::uint64_t> begins(tensors.size());
  std::uint64_t offset = 0;
  for (const std::size_t i : order) {
    begins[i] = offset;
    offset += tensors[i].nbytes();
  }
  std::string text = "{";
  const auto quote = [](const std::string& s) { return Json(s).dump(); };
  try {
    if (!metadata.empty()) text += fmt::format("\"{}\":{}", kMetadataKey, Json(metadata).dump());
    std::size_t i = 0;
    for (const auto& [name, unused] : dict) {
      const Tensor& t = tensors[i];
      const auto type = std::ranges::find(kTypes, t.dtype(), &TypeName::dtype);
      std::string shape = t.shape().str();
      std::erase(shape, ' ');
      text += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":{},\"data_offsets\":[{},{}]}}",
                          text.size() > 1 ? "," : "", quote(name), type->name, shape, begins[i],
                          begins[i] + t.nbytes());
      ++i;
    }
  } catch (const Json::exception& error) {
    fail<ValueError>("save_safetensors", "expected names and metadata in UTF-8: {}", error.what());
  }
  text += '}';
  text.append((8 - text.size() % 8) % 8, ' ');
  FERRITE_CHECK(text.size() <= kMaxHeader, ValueError, "save_safetensors",
                "the header would have {} bytes; expected at most {}", text.size(), kMaxHeader);
  return text;
}

}  // namespace

StateDict parse_safetensors(Bytes bytes, std::string_view name) {
  const Where where{"load_safetensors", name};
  const Header header = read_header(bytes, where);
  StateDict tensors;
  tensors.reserve(header.entries.size());
  for (const Entry& entry : header.entries) {
    const std::uint64_t offset = header.data_offset + entry.begin;
    tensors.insert(entry.name, copy_out(entry, bytes.data() + offset, offset, where));
  }
  return tensors;
}

Metadata parse_safetensors_metadata(Bytes bytes, std::string_view name) {
  return read_header(bytes, Where{"load_safetensors", name}).metadata;
}

StateDict load_safetensors(const std::filesystem::path& path) {
  const MappedFile file(path, "load_safetensors");
  return parse_safetensors(file.bytes(), path.string());
}

Metadata load_safetensors_metadata(const std::filesystem::path& path) {
  const MappedFile file(path, "load_safetensors");
  return parse_safetensors_metadata(file.bytes(), path.string());
}

void save_safetensors(const StateDict& tensors, const std::filesystem::path& path,
                      const Metadata& metadata) {
  std::vector<Tensor> dense;
  for (const auto& [name, tensor] : tensors) {
    FERRITE_CHECK(name != kMetadataKey, ValueError, "save_safetensors",
                  "the name '{}' is reserved; rename the tensor", kMetadataKey);
    dense.push_back(host_contiguous(tensor, "save_safetensors"));
  }
  const std::vector<std::size_t> order = file_order(dense);
  const std::string header = header_of(tensors, dense, order, metadata);
  std::string length;
  append_little(length, static_cast<std::uint64_t>(header.size()));
  AtomicFile file(path, "save_safetensors");
  file.write(length + header);
  for (const std::size_t i : order) file.write(dense[i].data_ptr(), dense[i].nbytes());
  file.commit();
}

}  // namespace ferrite::data

namespace ferrite {

void save(const StateDict& state_dict, const std::filesystem::path& path,
          const data::Metadata& metadata) {
  data::save_safetensors(state_dict, path, metadata);
}

StateDict load(const std::filesystem::path& path) { return data::load_safetensors(path); }

}  // namespace ferrite
