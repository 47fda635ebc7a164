#include "data/safetensors_header.h"

#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <set>

#include "core/parallel_for.h"

namespace ferrite::data {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeader = 100'000'000;  // the reference implementation's limit
constexpr int kMaxDepth = 3;                       // of what a header nests: {name: {shape: [

/// What we know of each tensor beyond the format: {"name": {"crc32": "0123abcd", "device": ...}}.
constexpr std::string_view kTensorsKey = "ferrite.tensors";
/// The CRC-32 of what header_checksum() spells out.
constexpr std::string_view kHeaderKey = "ferrite.header_crc32";

struct TypeName {
  std::string_view name;
  DType dtype;
};
constexpr TypeName kTypes[] = {{"F32", kFloat32}, {"F16", kFloat16}, {"BF16", kBFloat16},
                               {"F64", kFloat64}, {"I64", kInt64},   {"I32", kInt32},
                               {"U8", kUInt8},    {"BOOL", kBool}};

std::string_view name_of(DType dtype) {
  return std::ranges::find(kTypes, dtype, &TypeName::dtype)->name;
}

std::string hex(std::uint32_t value) { return fmt::format("{:08x}", value); }

std::optional<std::uint32_t> from_hex(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (text.size() != 8 || error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

/// JSON of little depth, in which each name occurs once: the parser itself would let the last of
/// equal names win.
Json parse_json(std::string_view text, std::uint64_t offset, const Where& where) {
  std::vector<std::set<std::string>> names;
  const auto check = [&](int depth, Json::parse_event_t event, Json& value) {
    where.check(depth <= kMaxDepth, offset, "the header is nested deeper than a header is");
    if (event == Json::parse_event_t::object_start) {
      names.emplace_back();
    } else if (event == Json::parse_event_t::object_end) {
      names.pop_back();
    } else if (event == Json::parse_event_t::key) {
      const auto& name = value.get_ref<const std::string&>();
      where.check(names.back().insert(name).second, offset,
                  "expected each name once in the header, got '{}' twice", name);
    }
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), check);
  } catch (const Json::parse_error& error) {
    where.fail(offset + error.byte, "the header is not valid JSON: {}", error.what());
  } catch (const Json::exception& error) {
    where.fail(offset, "the header is not valid JSON: {}", error.what());
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

/// Reads the shape, and returns the bytes of such a tensor.
std::uint64_t read_shape(const Json& shape, SafetensorsEntry& entry, const Where& where) {
  where.check(shape.is_array() && shape.size() <= std::size_t{kMaxDims}, kLengthBytes,
              "tensor '{}': expected a shape of 0 to {} sizes", entry.name, kMaxDims);
  std::uint64_t bytes = itemsize(entry.dtype);
  bool overflow = false, has_zero = false;
  for (const Json& size : shape) {
    const std::uint64_t d = to_count(size, entry.name, where);
    has_zero |= d == 0;
    // A size of 0 counts as 1: the strides of the others must fit in 64 bits nonetheless.
    overflow |= __builtin_mul_overflow(bytes, std::max(d, std::uint64_t{1}), &bytes);
    entry.shape.push_back(static_cast<std::int64_t>(d));
  }
  where.check(!overflow && bytes < (std::uint64_t{1} << 62), kLengthBytes,
              "tensor '{}': {} has more bytes than 64 bits can count", entry.name, entry.shape);
  return has_zero ? 0 : bytes;
}

SafetensorsEntry read_entry(const std::string& name, const Json& value, const Where& where) {
  where.check(!name.empty(), kLengthBytes, "expected a name for each tensor, got ''");
  where.check(value.is_object() && value.size() == 3, kLengthBytes,
              "tensor '{}': expected an object of dtype, shape and data_offsets", name);
  SafetensorsEntry entry{.name = name};
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
  const std::uint64_t bytes = read_shape(member(value, "shape", name, where), entry, where);
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
void check_layout(const SafetensorsHeader& header, std::uint64_t data_bytes, const Where& where) {
  std::vector<const SafetensorsEntry*> order;
  for (const SafetensorsEntry& e : header.entries) order.push_back(&e);
  std::ranges::sort(order, {},
                    [](const SafetensorsEntry* e) { return std::pair(e->begin, e->end); });
  std::uint64_t expected = 0;
  for (const SafetensorsEntry* e : order) {
    where.check(e->begin == expected, header.data_offset + std::min(e->begin, expected),
                "tensor '{}' begins at {} of the data; expected {}: the tensors {}", e->name,
                e->begin, expected, e->begin < expected ? "overlap" : "leave a hole");
    expected = e->end;
  }
  where.check(expected == data_bytes, header.data_offset + std::min(expected, data_bytes),
              "the header describes {} bytes of tensors, the file holds {}; it is {}", expected,
              data_bytes, data_bytes < expected ? "truncated" : "followed by other data");
}

/// Names, types and shapes by name, then the metadata by key, each followed by a line feed. Not the
/// offsets, whose every single change breaks the layout: what another program wrote with the same
/// tensors in another order keeps its checksum.
std::uint32_t header_checksum(std::span<const SafetensorsEntry> entries, const Metadata& metadata) {
  std::map<std::string_view, const SafetensorsEntry*> by_name;
  for (const SafetensorsEntry& e : entries) by_name.emplace(e.name, &e);
  std::string text;
  for (const auto& [name, e] : by_name)
    text += fmt::format("{}\n{}\n{}\n", name, name_of(e->dtype), e->shape);
  for (const auto& [key, value] : metadata)
    if (key != kHeaderKey) text += fmt::format("{}\n{}\n", key, value);
  return crc32_of({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
}

/// Moves what is ours from the metadata to the entries. A file that another program made of one of
/// ours may lack tensors that we know of, and have others.
void take_own_metadata(SafetensorsHeader& header, Checksums checksums, const Where& where) {
  Metadata& metadata = header.metadata;
  constexpr std::string_view kWhatNow =
      "it is damaged, or was changed by a program that kept its metadata; to read it nonetheless "
      "ignore its checksums";
  if (const auto sum = metadata.find(std::string(kHeaderKey));
      sum != metadata.end() && checksums == Checksums::compare)
    where.check(sum->second == hex(header_checksum(header.entries, metadata)), kLengthBytes,
                "the checksum of the header is wrong: {}", kWhatNow);
  if (const auto known = metadata.find(std::string(kTensorsKey)); known != metadata.end()) {
    const Json tensors = parse_json(known->second, kLengthBytes, where);
    where.check(tensors.is_object(), kLengthBytes, "expected {} to hold an object", kTensorsKey);
    for (SafetensorsEntry& entry : header.entries) {
      const auto of = tensors.find(entry.name);
      if (of == tensors.end()) continue;
      const auto text = [&](const char* key) -> std::optional<std::string> {
        if (!of->is_object() || !of->contains(key) || !(*of)[key].is_string()) return {};
        return (*of)[key].get<std::string>();
      };
      entry.device = text("device").value_or("cpu");
      const auto crc = text("crc32");
      entry.checksum = crc ? from_hex(*crc) : std::nullopt;
      where.check(!crc || entry.checksum, kLengthBytes,
                  "tensor '{}': expected a crc32 of 8 hexadecimal digits, got '{}'", entry.name,
                  *crc);
    }
  }
  std::erase_if(metadata, [](const auto& item) { return item.first.starts_with(kOwnKeys); });
}

std::string own_metadata(std::span<const SafetensorsEntry> entries) {
  Json tensors = Json::object();
  for (const SafetensorsEntry& entry : entries) {
    Json known = Json::object();
    if (entry.checksum) known["crc32"] = hex(*entry.checksum);
    if (entry.device != "cpu") known["device"] = entry.device;
    if (!known.empty()) tensors[entry.name] = std::move(known);
  }
  return tensors.empty() ? std::string() : tensors.dump();
}

}  // namespace

std::uint32_t crc32_of(Bytes bytes, std::uint32_t crc) {
  return static_cast<std::uint32_t>(::crc32_z(crc, bytes.data(), bytes.size()));
}

std::uint32_t parallel_crc32_of(Bytes bytes) {
  constexpr std::size_t kChunk = std::size_t{1} << 20;
  if (bytes.size() <= 2 * kChunk) return crc32_of(bytes);
  const auto chunk = [&](std::size_t i) {
    return bytes.subspan(i * kChunk, std::min(kChunk, bytes.size() - i * kChunk));
  };
  std::vector<std::uint32_t> sums((bytes.size() + kChunk - 1) / kChunk);
  parallel_for(
      static_cast<std::int64_t>(sums.size()), 1, [&](std::int64_t begin, std::int64_t end) {
        for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
          sums[i] = crc32_of(chunk(i));
      });
  uLong crc = 0;
  for (std::size_t i = 0; i < sums.size(); ++i)
    crc = ::crc32_combine(crc, sums[i], static_cast<z_off_t>(chunk(i).size()));
  return static_cast<std::uint32_t>(crc);
}

SafetensorsHeader read_safetensors_header(Bytes bytes, const Where& where, Checksums checksums) {
  where.check(bytes.size() >= kLengthBytes, bytes.size(),
              "expected 8 bytes of header length, got {}", bytes.size());
  const auto length = load_little<std::uint64_t>(bytes.data());
  const std::uint64_t rest = bytes.size() - kLengthBytes;
  where.check(length <= rest && length <= kMaxHeader, 0,
              "the header claims {} bytes; expected at most {}: the file is truncated or no "
              "safetensors file",
              length, std::min(rest, kMaxHeader));
  SafetensorsHeader header;
  header.data_offset = kLengthBytes + length;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length);
  where.check(text.starts_with('{'), kLengthBytes, "expected the header to begin with '{{'");
  const Json json = parse_json(text, kLengthBytes, where);
  for (const auto& [name, value] : json.items()) {
    if (name == kMetadataKey)
      header.metadata = read_metadata(value, where);
    else
      header.entries.push_back(read_entry(name, value, where));
  }
  check_layout(header, bytes.size() - header.data_offset, where);
  take_own_metadata(header, checksums, where);
  return header;
}

std::string write_safetensors_header(std::span<const SafetensorsEntry> entries,
                                     const Metadata& metadata) {
  constexpr const char* kOp = "save_safetensors";
  for (const auto& [key, unused] : metadata)
    FERRITE_CHECK(!key.starts_with(kOwnKeys), ValueError, kOp,
                  "metadata keys that begin with '{}' are reserved, got '{}'", kOwnKeys, key);
  std::string text = "{";
  try {
    Metadata all = metadata;
    if (const std::string known = own_metadata(entries); !known.empty()) {
      all.emplace(kTensorsKey, known);
      if (entries[0].checksum) all.emplace(kHeaderKey, hex(header_checksum(entries, all)));
    }
    if (!all.empty()) text += fmt::format("\"{}\":{}", kMetadataKey, Json(all).dump());
    for (const SafetensorsEntry& e : entries) {
      FERRITE_CHECK(e.name != kMetadataKey, ValueError, kOp,
                    "the name '{}' is reserved; rename the tensor", kMetadataKey);
      std::string shape = e.shape.str();
      std::erase(shape, ' ');
      text += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":{},\"data_offsets\":[{},{}]}}",
                          text.size() > 1 ? "," : "", Json(e.name).dump(), name_of(e.dtype), shape,
                          e.begin, e.end);
    }
  } catch (const Json::exception& error) {
    fail<ValueError>(kOp, "expected names and metadata in UTF-8: {}", error.what());
  }
  text += '}';
  text.append((8 - text.size() % 8) % 8, ' ');
  FERRITE_CHECK(text.size() <= kMaxHeader, ValueError, kOp,
                "the header would have {} bytes; expected at most {}", text.size(), kMaxHeader);
  std::string out;
  append_little(out, static_cast<std::uint64_t>(text.size()));
  return out + text;
}

}  // namespace ferrite::data
