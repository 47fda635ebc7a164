#include "ferrite/data/safetensors.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <optional>
#include <string>

#include "ferrite/core/cuda_backend.h"
#include "ferrite/core/host_copy.h"
#include "ferrite/core/stream.h"
#include "ferrite/data/host.h"
#include "ferrite/data/host_transfer.h"
#include "ferrite/data/json_events.h"
#include "ferrite/data/pth.h"
#include "ferrite/data/safetensors_shards.h"
#include "ferrite/data/safetensors_writer.h"

namespace ferrite::data {

namespace {

constexpr const char* kLoad = "load_safetensors";
constexpr const char* kSave = "save_safetensors";

Bytes bytes_of(const SafetensorsEntry& entry, Bytes file, std::uint64_t data_offset) {
  return file.subspan(data_offset + entry.begin, entry.nbytes());
}

void check_bools(const SafetensorsEntry& entry, Bytes bytes, std::uint64_t offset,
                 const Where& where) {
  if (entry.dtype != kBool || !entry.foreign.empty()) return;
  const auto bad = std::ranges::find_if(bytes, [](std::uint8_t v) { return v > 1; });
  where.check(bad == bytes.end(), offset + static_cast<std::uint64_t>(bad - bytes.begin()),
              "tensor '{}': expected a bool of 0 or 1", entry.name);
}

void check_data(const SafetensorsEntry& entry, Bytes bytes, std::uint64_t offset,
                Checksums checksums, const Where& where) {
  if (entry.checksum && checksums == Checksums::compare) {
    const std::uint32_t crc = parallel_crc32_of(bytes);
    where.check(crc == *entry.checksum, offset,
                "tensor '{}' is damaged: its {} bytes have the CRC-32 {:08x}, the header says "
                "{:08x}. To load it nonetheless set .checksums = false",
                entry.name, bytes.size(), crc, *entry.checksum);
  }
  check_bools(entry, bytes, offset, where);
}

void check_has_dtype(const SafetensorsEntry& entry, std::uint64_t offset, const Where& where) {
  where.check(entry.foreign.empty(), offset,
              "tensor '{}' is {}, which Ferrite does not have; expected F32, F16, BF16, F64, I64, "
              "I32, I16, I8, U8, BOOL or C64. Read the other tensors by SafetensorsFile::get() or "
              ".only_prefix",
              entry.name, json_text(entry.foreign));
}

/// Copies to `device`; complete once `transfer` has finished.
Tensor copy_to(const Device& device, const SafetensorsEntry& entry, Bytes bytes,
               HostTransfer& transfer) {
  FERRITE_CHECK(!ferrite::detail::cuda::is_capturing(current_stream(device)), CudaError, kLoad,
                "the stream of {} is being captured into a graph; load before the capture", device);
  const Tensor tensor = empty(entry.shape, {.dtype = entry.dtype, .device = device});
  transfer.write(tensor, bytes.data());
  return tensor;
}

bool is_aligned(const void* p, DType dtype) {
  return reinterpret_cast<std::uintptr_t>(p) % itemsize(dtype) == 0;
}

}  // namespace

// ---- Reading

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path, SafetensorsOptions options)
    : path_(path),
      options_(std::move(options)),
      file_(std::make_shared<MappedFile>(
          path, kLoad, options_.mmap ? Mapping::copy_on_write : Mapping::read_only)),
      header_(
          read_safetensors_header(file_->bytes(), Where{kLoad, path.native()},
                                  options_.checksums ? Checksums::compare : Checksums::ignore)) {}

std::vector<std::string> SafetensorsFile::names() const {
  std::vector<std::string> names;
  for (const SafetensorsEntry& e : header_.entries) names.push_back(e.name);
  return names;
}

bool SafetensorsFile::contains(std::string_view name) const {
  return header_.find(name) != nullptr;
}

const SafetensorsEntry& SafetensorsFile::entry(std::string_view name) const {
  const SafetensorsEntry* found = header_.find(name);
  FERRITE_CHECK(found, IndexError, kLoad, "'{}' has no tensor '{}'", path_.native(), name);
  return *found;
}

TensorInfo SafetensorsFile::info(std::string_view name) const {
  const SafetensorsEntry& e = entry(name);
  return {.dtype = e.dtype,
          .foreign_dtype = e.foreign,
          .shape = e.shape,
          .nbytes = e.nbytes(),
          .device = e.device};
}

bool SafetensorsFile::is_wanted(const SafetensorsEntry& entry) const {
  return entry.name.starts_with(options_.only_prefix);
}

void SafetensorsFile::check_readable(const SafetensorsEntry& entry) const {
  check_has_dtype(entry, header_.data_offset + entry.begin, Where{kLoad, path_.native()});
  verify(entry);
}

void SafetensorsFile::verify(const SafetensorsEntry& entry) const {
  check_data(entry, bytes_of(entry, file_->bytes(), header_.data_offset),
             header_.data_offset + entry.begin,
             options_.checksums ? Checksums::compare : Checksums::ignore,
             Where{kLoad, path_.native()});
}

void SafetensorsFile::verify() const {
  for (const SafetensorsEntry& e : header_.entries) verify(e);
}

Tensor SafetensorsFile::read(const SafetensorsEntry& entry, HostTransfer& transfer) const {
  const Device device = options_.map_location.target(entry.name, entry.device);
  const Bytes bytes = bytes_of(entry, file_->bytes(), header_.data_offset);
  if (!options_.mmap || !device.is_host() || bytes.empty() ||
      !is_aligned(bytes.data(), entry.dtype))
    return copy_to(device, entry, bytes, transfer);
  // Pages of the mapping that are written become private to this process.
  return from_blob(const_cast<std::uint8_t*>(bytes.data()), entry.shape, entry.dtype,
                   [keep = file_] {});
}

Tensor SafetensorsFile::get(std::string_view name) const {
  const SafetensorsEntry& e = entry(name);
  check_readable(e);
  HostTransfer transfer;
  Tensor tensor = read(e, transfer);
  transfer.finish();
  return tensor;
}

void SafetensorsFile::verify_wanted() const {
  for (const SafetensorsEntry& e : header_.entries)
    if (is_wanted(e)) check_readable(e);
}

void SafetensorsFile::read_wanted(StateDict& tensors, HostTransfer& transfer) const {
  const std::string& strip = options_.strip_prefix;
  for (const SafetensorsEntry& e : header_.entries) {
    if (!is_wanted(e)) continue;
    std::string name = e.name.starts_with(strip) ? e.name.substr(strip.size()) : e.name;
    tensors.insert(std::move(name), read(e, transfer));
  }
}

StateDict SafetensorsFile::load() const {
  verify_wanted();
  StateDict tensors;
  tensors.reserve(header_.entries.size());
  HostTransfer transfer;
  read_wanted(tensors, transfer);
  transfer.finish();
  return tensors;
}

StateDict load_safetensors(const std::filesystem::path& path, const SafetensorsOptions& options) {
  const std::filesystem::path file = find_safetensors(path, kLoad);
  return is_shard_index(file) ? SafetensorsShards(file, options).load()
                              : SafetensorsFile(file, options).load();
}

Metadata load_safetensors_metadata(const std::filesystem::path& path) {
  return SafetensorsFile(path).metadata();
}

StateDict parse_safetensors(Bytes bytes, std::string_view name) {
  const Where where{kLoad, name};
  const SafetensorsHeader header = read_safetensors_header(bytes, where, Checksums::compare);
  const auto data_of = [&](const SafetensorsEntry& e) {
    return bytes_of(e, bytes, header.data_offset);
  };
  for (const SafetensorsEntry& e : header.entries) {
    check_has_dtype(e, header.data_offset + e.begin, where);
    check_data(e, data_of(e), header.data_offset + e.begin, Checksums::compare, where);
  }
  StateDict tensors;
  tensors.reserve(header.entries.size());
  HostTransfer transfer;
  for (const SafetensorsEntry& e : header.entries)
    tensors.insert(e.name, copy_to(Device(), e, data_of(e), transfer));
  transfer.finish();
  return tensors;
}

Metadata parse_safetensors_metadata(Bytes bytes, std::string_view name) {
  return read_safetensors_header(bytes, Where{kLoad, name}, Checksums::compare).metadata;
}

// ---- Writing

namespace {

/// Assigns each entry its position: larger element types first, then in the order of the dict.
std::vector<std::size_t> place(std::vector<SafetensorsEntry>& entries) {
  std::vector<std::size_t> order(entries.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](std::size_t i) { return itemsize(entries[i].dtype); });
  std::uint64_t offset = 0;
  for (const std::size_t i : order) {
    const std::uint64_t bytes = entries[i].end;
    entries[i].begin = offset;
    entries[i].end = offset += bytes;
  }
  return order;
}

/// In pieces that are still in the cache when they are written.
void write_summed(AtomicFile& file, Bytes bytes, std::optional<std::uint32_t>& checksum) {
  constexpr std::size_t kPiece = std::size_t{1} << 18;
  if (!checksum) return file.write(bytes.data(), bytes.size());
  for (std::size_t at = 0; at < bytes.size(); at += kPiece) {
    const Bytes piece = bytes.subspan(at, std::min(kPiece, bytes.size() - at));
    checksum = crc32_of(piece, *checksum);
    file.write(piece.data(), piece.size());
  }
}

/// `tensor` row-major; on the host unless it is already dense on its CUDA device.
Tensor dense(const Tensor& tensor) {
  if (tensor.is_contiguous()) return tensor;
  const Tensor host =
      tensor.device().is_cuda() ? ferrite::detail::readable_on_host(tensor, kSave) : tensor;
  return gather_strided(host.data_ptr(), host.shape(), host.strides(), host.dtype());
}

}  // namespace

void write_safetensors(const StateDict& tensors, const std::vector<std::string>& devices,
                       const std::filesystem::path& path, const Metadata& metadata,
                       const SaveOptions& options) {
  if (options.max_shard_size > 0)
    return write_safetensors_shards(tensors, devices, path, metadata, options);
  std::vector<SafetensorsEntry> entries;
  entries.reserve(tensors.size());
  for (const auto& [name, tensor] : tensors)
    entries.push_back({.name = name,
                       .dtype = tensor.dtype(),
                       .shape = tensor.shape(),
                       .end = tensor.nbytes(),
                       .device = devices[entries.size()],
                       .checksum = options.checksums ? std::optional(0u) : std::nullopt});
  const std::vector<std::size_t> order = place(entries);
  const std::string header = write_safetensors_header(entries, metadata);
  AtomicFile file(path, kSave);
  file.write(header);
  HostTransfer transfer;
  for (const std::size_t i : order) {
    std::optional<std::uint32_t>& checksum = entries[i].checksum;
    transfer.read(dense((tensors.begin() + static_cast<std::ptrdiff_t>(i))->second),
                  [&](const void* data, std::size_t bytes) {
                    write_summed(file, {static_cast<const std::uint8_t*>(data), bytes}, checksum);
                  });
  }
  // Rewritten now that the checksums are known.
  if (options.checksums) file.overwrite(0, write_safetensors_header(entries, metadata));
  file.commit();
}

void save_safetensors(const StateDict& tensors, const std::filesystem::path& path,
                      const Metadata& metadata, const SaveOptions& options) {
  std::vector<std::string> devices;
  std::vector<Device> waited_for;
  for (const auto& [name, tensor] : tensors) {
    const Device& device = tensor.device();
    devices.push_back(device.str());
    if (std::ranges::find(waited_for, device) != waited_for.end()) continue;
    ferrite::detail::check_may_read(device, kSave);
    synchronize(device);
    waited_for.push_back(device);
  }
  write_safetensors(tensors, devices, path, metadata, options);
}

}  // namespace ferrite::data

namespace ferrite {

namespace {

bool is_pth_name(const std::filesystem::path& path) {
  return path.extension() == ".pth" || path.extension() == ".pt";
}

/// Whether it is the state of an optimizer, a scheduler or a GradScaler, by names that these have
/// here or in PyTorch.
bool is_of_training(const auto& state, const char* groups) {
  return state.contains(groups) || state.contains("_last_lr") || state.contains("_growth_tracker");
}

}  // namespace

void save(const StateDict& state_dict, const std::filesystem::path& path,
          const data::Metadata& metadata, const data::SaveOptions& options) {
  if (!is_pth_name(path)) return data::save_safetensors(state_dict, path, metadata, options);
  FERRITE_CHECK(metadata.empty(), ValueError, "save",
                "'{}' would be a file of torch.save(), which has no metadata; choose the extension "
                ".safetensors, or save a tree with data::save_pth()",
                path.string());
  FERRITE_CHECK(options.max_shard_size == 0, ValueError, "save",
                "'{}' would be a file of torch.save(), which is not divided; for .max_shard_size "
                "choose the extension .safetensors",
                path.string());
  data::save_pth(is_of_training(state_dict, "param_groups.0.params")
                     ? data::state_for_torch(state_dict)
                     : data::Value(state_dict),
                 path);
}

StateDict load(const std::filesystem::path& path, const data::SafetensorsOptions& options) {
  const std::filesystem::path found = data::find_safetensors(path, "load");
  if (data::is_shard_index(found)) return data::load_safetensors(found, options);
  {
    const data::MappedFile file(found, "load");
    if (!data::is_pth(file.bytes())) return data::load_safetensors(found, options);
  }
  const data::Value value = data::load_pth(
      found,
      {.map_location = options.map_location, .mmap = options.mmap, .checksums = options.checksums});
  StateDict wanted;
  const bool of_training = value.is_dict() && is_of_training(value, "param_groups");
  const data::Value named = value.is_tensor() ? data::Value::dict({{"0", value}}) : value;
  for (const auto& [name, tensor] : of_training ? data::state_of_torch(value) : named.tensors())
    if (name.starts_with(options.only_prefix))
      wanted.insert(
          name.starts_with(options.strip_prefix) ? name.substr(options.strip_prefix.size()) : name,
          tensor);
  return wanted;
}

void save(const std::vector<Tensor>& tensors, const std::filesystem::path& path) {
  if (is_pth_name(path))
    return data::save_pth(data::Value::list({tensors.begin(), tensors.end()}), path);
  StateDict dict;
  for (std::size_t i = 0; i < tensors.size(); ++i) dict.insert(std::to_string(i), tensors[i]);
  save(dict, path);
}

void save(const Tensor& tensor, const std::filesystem::path& path) {
  if (is_pth_name(path)) return data::save_pth(data::Value(tensor), path);
  save(std::vector{tensor}, path);
}

void load(std::vector<Tensor>& tensors, const std::filesystem::path& path) {
  const StateDict dict = load(path);
  std::vector<Tensor> found;
  for (std::size_t i = 0; i < dict.size(); ++i) found.push_back(dict.at(std::to_string(i)));
  tensors = std::move(found);
}

void load(Tensor& tensor, const std::filesystem::path& path) {
  const StateDict dict = load(path);
  FERRITE_CHECK(dict.size() == 1, ValueError, "load", "expected one tensor in '{}', got {}",
                path.string(), dict.size());
  tensor = dict.begin()->second;
}

}  // namespace ferrite
