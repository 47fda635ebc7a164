#include "ferrite/data/safetensors_header.h"

#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <numeric>

#include "ferrite/core/parallel_for.h"
#include "ferrite/data/json_events.h"

namespace ferrite::data {

namespace {

constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeader = 100'000'000;  // the reference implementation's limit

/// Our additions to the format, per tensor: {"name": {"crc32": "0123abcd", "device": ...}}.
constexpr std::string_view kTensorsKey = "ferrite.tensors";
/// The CRC-32 of the fields listed at header_checksum().
constexpr std::string_view kHeaderKey = "ferrite.header_crc32";

struct TypeName {
  std::string_view name;
  DType dtype;
};
constexpr TypeName kTypes[] = {{"F32", kFloat32}, {"F16", kFloat16},  {"BF16", kBFloat16},
                               {"F64", kFloat64}, {"I64", kInt64},    {"I32", kInt32},
                               {"I16", kInt16},   {"I8", kInt8},      {"U8", kUInt8},
                               {"BOOL", kBool},   {"C64", kComplex64}};

/// Of the elements of dtypes that Ferrite does not have; none for those of unknown names.
std::optional<std::uint64_t> foreign_itemsize(std::string_view name) {
  if (name.starts_with("F8_")) return 1;
  if (name == "U16") return 2;
  if (name == "U32") return 4;
  if (name == "U64") return 8;
  return {};
}

std::string_view name_of(DType dtype) {
  const auto type = std::ranges::find(kTypes, dtype, &TypeName::dtype);
  FERRITE_CHECK(type != std::end(kTypes), DTypeError, "safetensors",
                "the format has no {}; store view_as_real(tensor), or complex64", dtype);
  return type->name;
}

std::string hex(std::uint32_t value) { return fmt::format("{:08x}", value); }

std::optional<std::uint32_t> from_hex(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (text.size() != 8 || error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

/// Collects entries and metadata.
class HeaderEvents final : public JsonEvents {
 public:
  HeaderEvents(SafetensorsHeader& header, const Where& where)
      : JsonEvents(where, kLengthBytes), header_(header) {}

 private:
  using Kind = JsonValue::Kind;

  bool in_metadata() const { return name(1) == kMetadataKey; }

  void value(const JsonValue& value) override {
    if (depth() == 1) return begin(value);
    if (depth() == 2) return in_metadata() ? add_metadata(value) : add_member(value);
    if (depth() == 3) add_number(value);
  }
  void end() override {
    if (depth() == 1 && !in_metadata()) finish_entry();
  }

  void begin(const JsonValue& value) {
    if (in_metadata())
      return check(value.kind == Kind::object, "expected __metadata__ to be an object");
    check(!name(1).empty(), "expected a name for each tensor, got ''");
    check(value.kind == Kind::object, kExpectedEntry, name(1));
    entry_ = {.name = name(1)};
    has_dtype_ = has_shape_ = has_offsets_ = false;
    offsets_.clear();
  }
  void add_metadata(const JsonValue& value) {
    check(value.kind == Kind::text, "expected text for '{}' in __metadata__", name(2));
    header_.metadata.emplace(name(2), std::move(*value.text));
  }
  void add_member(const JsonValue& value) {
    if (name(2) == "dtype") {
      has_dtype_ = true;
      read_dtype(value);
    } else if (name(2) == "shape") {
      has_shape_ = true;
      check(value.kind == Kind::list, kExpectedShape, entry_.name, kMaxDims);
    } else {
      check(name(2) == "data_offsets", kExpectedEntry, entry_.name);
      has_offsets_ = true;
      check(value.kind == Kind::list, kExpectedOffsets, entry_.name);
    }
  }
  void read_dtype(const JsonValue& value) {
    check(value.kind == Kind::text, "tensor '{}': expected text for its dtype", entry_.name);
    const auto type = std::ranges::find(kTypes, *value.text, &TypeName::name);
    if (type != std::end(kTypes))
      entry_.dtype = type->dtype;
    else
      check(!value.text->empty(), "tensor '{}': expected the name of its dtype, got ''",
            entry_.name);
    entry_.foreign = type != std::end(kTypes) ? std::string() : std::move(*value.text);
  }
  void add_number(const JsonValue& value) {
    check(value.kind == Kind::count && value.count <= INT64_MAX,
          "tensor '{}': sizes and offsets must be integers of 0 or more", entry_.name);
    if (name(2) == "shape") {
      check(entry_.shape.size() < kMaxDims, kExpectedShape, entry_.name, kMaxDims);
      entry_.shape.push_back(static_cast<std::int64_t>(value.count));
    } else {
      check(offsets_.size() < 2, kExpectedOffsets, entry_.name);
      offsets_.push_back(value.count);
    }
  }
  void finish_entry() {
    check(has_dtype_, kMissing, entry_.name, "dtype");
    check(has_shape_, kMissing, entry_.name, "shape");
    check(has_offsets_, kMissing, entry_.name, "data_offsets");
    check(offsets_.size() == 2, kExpectedOffsets, entry_.name);
    entry_.begin = offsets_[0], entry_.end = offsets_[1];
    const std::optional<std::uint64_t> each =
        entry_.foreign.empty() ? std::optional<std::uint64_t>(itemsize(entry_.dtype))
                               : foreign_itemsize(entry_.foreign);
    const std::uint64_t bytes = bytes_of_shape(each.value_or(1));
    check(entry_.begin <= entry_.end && (!each || entry_.end - entry_.begin == bytes),
          "tensor '{}': {} of {} is {} bytes, but its data_offsets are {} and {}", entry_.name,
          entry_.foreign.empty() ? fmt::format("{}", entry_.dtype) : json_text(entry_.foreign),
          entry_.shape, bytes, entry_.begin, entry_.end);
    header_.entries.push_back(std::move(entry_));
  }
  std::uint64_t bytes_of_shape(std::uint64_t bytes) const {
    bool overflow = false, has_zero = false;
    for (const std::int64_t d : entry_.shape) {
      has_zero |= d == 0;
      // A size of 0 counts as 1: the strides of the others must still fit in 64 bits.
      overflow |= __builtin_mul_overflow(bytes, std::max(d, std::int64_t{1}), &bytes);
    }
    check(!overflow && bytes < (std::uint64_t{1} << 62),
          "tensor '{}': {} has more bytes than 64 bits can count", entry_.name, entry_.shape);
    return has_zero ? 0 : bytes;
  }

  static constexpr const char kExpectedEntry[] =
      "tensor '{}': expected an object of dtype, shape and data_offsets";
  static constexpr const char kExpectedShape[] = "tensor '{}': expected a shape of 0 to {} sizes";
  static constexpr const char kExpectedOffsets[] = "tensor '{}': expected two data_offsets";
  static constexpr const char kMissing[] = "tensor '{}' has no '{}'";

  SafetensorsHeader& header_;
  SafetensorsEntry entry_;
  bool has_dtype_ = false, has_shape_ = false, has_offsets_ = false;
  std::vector<std::uint64_t> offsets_;
};

/// Reads our additions per tensor. A file that another program derived from one of ours may lack
/// tensors listed there, and have others.
class KnownEvents final : public JsonEvents {
 public:
  KnownEvents(SafetensorsHeader& header, const Where& where)
      : JsonEvents(where, kLengthBytes), header_(header) {}

 private:
  using Kind = JsonValue::Kind;

  void value(const JsonValue& value) override {
    if (depth() == 0)
      check(value.kind == Kind::object, "expected {} to hold an object", kTensorsKey);
    else if (depth() == 1)
      entry_ = value.kind == Kind::object ? header_.find(name(1)) : nullptr;
    else if (depth() == 2 && entry_ && value.kind == Kind::text)
      add(*value.text);
  }
  void end() override {}

  void add(std::string& text) {
    if (name(2) == "device") {
      entry_->device = std::move(text);
    } else if (name(2) == "crc32") {
      entry_->checksum = from_hex(text);
      check(entry_->checksum.has_value(),
            "tensor '{}': expected a crc32 of 8 hexadecimal digits, got '{}'", entry_->name, text);
    }
  }

  SafetensorsHeader& header_;
  SafetensorsEntry* entry_ = nullptr;
};

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

/// The checksum covers names, types and shapes by name, then the metadata by key, each followed by
/// a line feed. It does not cover offsets, because any change of a single one breaks the layout: a
/// file that another program wrote with the same tensors in another order keeps its checksum.
std::uint32_t header_checksum(std::span<const SafetensorsEntry> entries,
                              std::span<const std::size_t> by_name, const Metadata& metadata) {
  std::string text;
  const auto out = std::back_inserter(text);
  for (const std::size_t i : by_name)
    fmt::format_to(out, "{}\n{}\n{}\n", entries[i].name,
                   entries[i].foreign.empty() ? name_of(entries[i].dtype) : entries[i].foreign,
                   entries[i].shape);
  for (const auto& [key, value] : metadata)
    if (key != kHeaderKey) fmt::format_to(out, "{}\n{}\n", key, value);
  return crc32_of({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
}

std::vector<std::size_t> order_by_name(std::span<const SafetensorsEntry> entries) {
  std::vector<std::size_t> order(entries.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return std::string_view(entries[i].name); });
  return order;
}

/// Moves our keys from the metadata to the entries.
void take_own_metadata(SafetensorsHeader& header, Checksums checksums, const Where& where) {
  Metadata& metadata = header.metadata;
  constexpr std::string_view kWhatNow =
      "it is damaged, or was changed by a program that kept its metadata; to read it nonetheless "
      "ignore its checksums";
  if (const auto sum = metadata.find(std::string(kHeaderKey));
      sum != metadata.end() && checksums == Checksums::compare)
    where.check(sum->second == hex(header_checksum(header.entries, header.by_name, metadata)),
                kLengthBytes, "the checksum of the header is wrong: {}", kWhatNow);
  if (const auto known = metadata.find(std::string(kTensorsKey)); known != metadata.end())
    KnownEvents(header, where).read(known->second);
  std::erase_if(metadata, [](const auto& item) { return item.first.starts_with(kOwnKeys); });
}

std::string own_metadata(std::span<const SafetensorsEntry> entries) {
  std::string text;
  for (const SafetensorsEntry& entry : entries) {
    const bool has_device = entry.device != "cpu";
    if (!entry.checksum && !has_device) continue;
    text += fmt::format("{}{}:{{", text.empty() ? '{' : ',', json_text(entry.name));
    if (entry.checksum) text += fmt::format("\"crc32\":\"{}\"", hex(*entry.checksum));
    if (has_device)
      text += fmt::format("{}\"device\":{}", entry.checksum ? "," : "", json_text(entry.device));
    text += '}';
  }
  return text.empty() ? text : text + '}';
}

/// The members of an object, without its brackets.
std::string json_members(const Metadata& metadata) {
  std::string text;
  for (const auto& [key, value] : metadata)
    text += fmt::format("{}{}:{}", text.empty() ? "" : ",", json_text(key), json_text(value));
  return text;
}

}  // namespace

SafetensorsEntry* SafetensorsHeader::find(std::string_view name) {
  const auto name_at = [this](std::size_t i) { return std::string_view(entries[i].name); };
  const auto found = std::ranges::lower_bound(by_name, name, {}, name_at);
  return found != by_name.end() && name_at(*found) == name ? &entries[*found] : nullptr;
}

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

std::string_view foreign_format(Bytes bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.starts_with("PK\3\4"))
    return "; it is a zip archive, as torch.save() and NumPy's savez() write: read it by load() or "
           "load_npz()";
  if (text.size() > 2 && text[0] == '\x80' && text[1] >= 2 && text[1] <= 5)
    return "; it is a pickle of Python: load it there, and save its tensors by torch.save()";
  if (text.starts_with("\x93NUMPY")) return "; it is an array of NumPy: read it by load_npy()";
  if (text.starts_with("\x89HDF")) return "; it is an HDF5 file: read it by HDF5Rows";
  if (text.starts_with("GGUF")) return "; it is a GGUF file, which is not read";
  if (text.starts_with("version https://git-lfs"))
    return "; it is a pointer of Git LFS: fetch the file itself by `git lfs pull`";
  return "";
}

SafetensorsHeader read_safetensors_header(Bytes bytes, const Where& where, Checksums checksums) {
  where.check(bytes.size() >= kLengthBytes, bytes.size(),
              "expected 8 bytes of header length, got {}", bytes.size());
  const auto length = load_little<std::uint64_t>(bytes.data());
  const std::uint64_t rest = bytes.size() - kLengthBytes;
  const bool fits = length <= rest && length <= kMaxHeader;
  const std::string_view other = fits ? "" : foreign_format(bytes);
  where.check(other.empty(), 0, "expected a safetensors file{}", other);
  where.check(fits, 0,
              "the header claims {} bytes; expected at most {}: the file is truncated or no "
              "safetensors file",
              length, std::min(rest, kMaxHeader));
  SafetensorsHeader header;
  header.data_offset = kLengthBytes + length;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + kLengthBytes, length);
  where.check(text.starts_with('{'), kLengthBytes, "expected the header to begin with '{{'");
  HeaderEvents(header, where).read(text);
  header.by_name = order_by_name(header.entries);
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
      if (entries[0].checksum)
        all.emplace(kHeaderKey, hex(header_checksum(entries, order_by_name(entries), all)));
    }
    if (!all.empty()) text += fmt::format("\"{}\":{{{}}}", kMetadataKey, json_members(all));
    for (const SafetensorsEntry& e : entries) {
      FERRITE_CHECK(e.name != kMetadataKey, ValueError, kOp,
                    "the name '{}' is reserved; rename the tensor", kMetadataKey);
      std::string shape = e.shape.str();
      std::erase(shape, ' ');
      text += fmt::format("{}{}:{{\"dtype\":\"{}\",\"shape\":{},\"data_offsets\":[{},{}]}}",
                          text.size() > 1 ? "," : "", json_text(e.name), name_of(e.dtype), shape,
                          e.begin, e.end);
    }
  } catch (const nlohmann::json::exception& error) {
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
