#include "ferrite/data/pth.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <unordered_map>
#include <unordered_set>

#include "ferrite/core/views.h"
#include "ferrite/data/host.h"
#include "ferrite/data/host_transfer.h"
#include "ferrite/data/pickle.h"
#include "ferrite/data/safetensors_header.h"
#include "ferrite/data/zip.h"

namespace ferrite::data {

namespace {

constexpr const char* kLoadPth = "load_pth";
constexpr const char* kSavePth = "save_pth";

/// Of the pickle of the number with which files before PyTorch 1.6 begin: what follows its
/// protocol.
constexpr std::string_view kMagic = "\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
constexpr std::uint64_t kAlignment = 64;  // of a storage in an archive, as PyTorch writes them

bool begins_with(Bytes bytes, std::string_view text) {
  return bytes.size() >= text.size() && std::memcmp(bytes.data(), text.data(), text.size()) == 0;
}

/// The bytes of the pickle of PyTorch's number at the beginning; 0 if there is none.
std::size_t magic_bytes(Bytes bytes) {
  if (bytes.size() < 3 || bytes[0] != 0x80 || bytes[1] < 2 || bytes[1] > 5) return 0;
  // From protocol 4 on there is a frame around it: 0x95, and 8 bytes of length.
  const std::size_t at = bytes[2] == 0x95 ? 11 : 2;
  return bytes.size() >= at && begins_with(bytes.subspan(at), kMagic) ? at + kMagic.size() : 0;
}

/// The bytes of a storage, and where they begin in the file.
struct StoredBytes {
  Bytes bytes;
  std::uint64_t offset = 0;
};

/// The bytes of the storages in a file.
struct Source {
  Pickle pickle;
  std::vector<StoredBytes> storages;  // in the order of the pickle's
};

std::uint64_t bytes_of(const PickledStorage& storage) {
  return storage.numel * itemsize(storage.dtype);
}

Source read_archive(Bytes bytes, const Where& where, bool checksums) {
  const ZipReader archive(bytes, where);
  constexpr std::string_view kPickle = "/data.pkl";
  const auto& members = archive.members();
  const auto found =
      std::ranges::find_if(members, [&](const ZipMember& m) { return m.name.ends_with(kPickle); });
  where.check(std::ranges::none_of(
                  members, [](const ZipMember& m) { return m.name.ends_with("/archive_format"); }),
              0,
              "this is a program of torch.export.save() (.pt2); in Python, save its state_dict by "
              "torch.save()");
  where.check(
      found != members.end(), 0,
      "expected an archive of torch.save(), which has a member data.pkl; for NumPy's there is "
      "load_npz()");
  const std::string root = found->name.substr(0, found->name.size() - kPickle.size() + 1);
  const auto stored = [&](const ZipMember& member) {
    // Whoever wants a small file to become a large one would deflate it.
    where.check(member.method == ZipMethod::stored, member.entry,
                "'{}' is deflated, and torch.save() stores; unpack the archive and pack it anew "
                "without compression",
                member.name);
    return archive.read(member, checksums);
  };
  if (const ZipMember* order = archive.find(root + "byteorder")) {
    const Bytes text = stored(*order).bytes;
    where.check(
        begins_with(text, "little"), order->entry, "expected little-endian numbers, got '{}'",
        std::string(text.begin(), text.begin() + std::min<std::ptrdiff_t>(16, std::ssize(text))));
  }
  const ZipContent content = stored(*found);
  Source source{.pickle = parse_pickle(content.bytes, where, content.offset), .storages = {}};
  for (const PickledStorage& storage : source.pickle.storages) {
    const ZipMember* member = archive.find(root + "data/" + storage.key);
    where.check(member, 0, "the archive has no storage '{}'", storage.key);
    const std::uint64_t expected = bytes_of(storage);
    where.check(member->size == expected, member->entry,
                "expected storage '{}' to have {} bytes, got {}", storage.key, expected,
                member->size);
    const ZipContent elements = stored(*member);
    source.storages.push_back({elements.bytes, elements.offset});
  }
  return source;
}

/// Pickles of the version, of the system, of the value and of the storages' keys, then of each
/// storage its number of elements and its bytes.
Source read_sequence(Bytes bytes, const Where& where) {
  const std::uint64_t begin = magic_bytes(bytes);
  std::uint64_t at = begin;
  const auto next = [&] {
    Pickle pickle = parse_pickle(bytes.subspan(at), where, at);
    at += pickle.bytes;
    return pickle;
  };
  const Value version = to_value(next(), where, {});
  where.check(version.kind() == Value::Kind::integer && version.to_int() == 1001, begin,
              "expected version 1001 of the format, got {}", version.str());
  const Value system = to_value(next(), where, {});
  where.check(system.is_dict() && system.contains("little_endian") &&
                  system["little_endian"].str() == "True",
              begin, "expected little-endian numbers");
  Source source{.pickle = next(), .storages = {}};
  const Value keys = to_value(next(), where, {});
  const auto& storages = source.pickle.storages;
  where.check(keys.is_list() && keys.size() == storages.size(), at,
              "expected the keys of {} storages, got {}", storages.size(), keys.str());
  source.storages.resize(storages.size());
  std::vector<bool> seen(storages.size());
  std::unordered_map<std::string_view, std::size_t> index;
  for (std::size_t i = 0; i < storages.size(); ++i) index.emplace(storages[i].key, i);
  for (const Value& key : keys.items()) {
    const auto found =
        key.kind() == Value::Kind::string ? index.find(key.to_string()) : index.end();
    where.check(found != index.end() && !seen[found->second], at,
                "storage {} occurs twice, or no tensor has it", key.str());
    const PickledStorage& storage = storages[found->second];
    const std::uint64_t expected = bytes_of(storage);
    where.check(at <= bytes.size() && bytes.size() - at >= 8 && bytes.size() - at - 8 >= expected,
                at, "expected storage '{}' of {} bytes here; the file is truncated", storage.key,
                expected);
    const auto numel = load_little<std::uint64_t>(bytes.data() + at);
    where.check(numel == storage.numel, at, "expected {} elements of storage '{}', got {}",
                storage.numel, storage.key, numel);
    seen[found->second] = true;
    source.storages[found->second] = {bytes.subspan(at + 8, expected), at + 8};
    at += 8 + expected;
  }
  return source;
}

Source read_source(Bytes bytes, const Where& where, bool checksums) {
  if (is_zip(bytes)) return read_archive(bytes, where, checksums);
  where.check(magic_bytes(bytes) > 0, 0,
              "expected a file of torch.save(), which begins as a zip archive or with PyTorch's "
              "number{}",
              foreign_format(bytes));
  return read_sequence(bytes, where);
}

/// Whether the tensor's elements are all those of a storage of `numel`, in row-major order.
bool is_dense(const PickledTensor& tensor, std::uint64_t numel) {
  if (tensor.offset != 0) return false;
  std::int64_t stride = 1;
  for (int d = tensor.shape.size() - 1; d >= 0; --d) {
    if (tensor.shape[d] != 1 && tensor.strides[d] != stride) return false;
    stride *= tensor.shape[d];
  }
  return static_cast<std::uint64_t>(stride) == numel;
}

void check_bools(const PickledStorage& storage, const StoredBytes& stored, const Where& where) {
  const auto bad = std::ranges::find_if(stored.bytes, [](std::uint8_t v) { return v > 1; });
  where.check(bad == stored.bytes.end(),
              stored.offset + static_cast<std::uint64_t>(bad - stored.bytes.begin()),
              "storage '{}': expected a bool of 0 or 1", storage.key);
}

/// A copy of the bytes with the values' signs changed as `tensor`'s bits say: of all numbers, and
/// of the imaginary ones.
std::vector<std::uint8_t> resolved(Bytes bytes, const PickledTensor& tensor) {
  std::vector<std::uint8_t> copy(bytes.begin(), bytes.end());
  const std::size_t parts = is_complex(tensor.dtype) ? 2 : 1, size = itemsize(tensor.dtype) / parts;
  for (std::size_t i = 0; i < copy.size() / size; ++i) {
    const bool flip = tensor.neg != (tensor.conj && i % 2 == 1);
    copy[(i + 1) * size - 1] ^= flip ? 0x80 : 0;  // the sign is the highest bit
  }
  return copy;
}

/// The dotted name of tensor `number`, for errors.
std::string name_of_tensor(const Pickle& pickle, std::size_t number) {
  struct Step {
    const PickledObject* object;
    std::size_t from;
    std::string name;
  };
  std::vector<Step> steps{{pickle.root, 0, ""}};
  std::unordered_set<const PickledObject*> seen{pickle.root};
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const PickledObject& object = *steps[i].object;
    using Kind = PickledObject::Kind;
    if (object.kind == Kind::tensor && static_cast<std::size_t>(object.integer) == number) {
      std::string name = steps[i].name;
      for (std::size_t at = steps[i].from; at > 0; at = steps[at].from)
        name.insert(0, steps[at].name + ".");
      return name;
    }
    const bool dict = object.kind == Kind::dict;
    for (std::size_t k = 0; k < object.items.size(); k += dict ? 2 : 1) {
      const PickledObject* const value = object.items[dict ? k + 1 : k];
      if (!seen.insert(value).second) continue;
      const PickledObject* const key = dict ? object.items[k] : nullptr;
      steps.push_back({value, i,
                       key && key->kind == Kind::string
                           ? key->text
                           : std::to_string(key ? key->integer : std::int64_t(k))});
    }
  }
  return std::to_string(number);
}

/// Makes the tensors of a pickle, over copies of the storages, or over the storages themselves
/// where `keep` holds their memory.
class TensorMaker {
 public:
  TensorMaker(const Source& source, const Where& where, const MapLocation& location,
              const std::shared_ptr<const MappedFile>& keep)
      : source_(source),
        where_(where),
        location_(location),
        keep_(keep),
        memory_(source.pickle.storages.size()) {}

  std::vector<Tensor> run() {
    std::vector<Tensor> tensors;
    for (const PickledTensor& t : source_.pickle.tensors) ++memory_of(t).uses;
    try {
      for (const PickledTensor& t : source_.pickle.tensors) tensors.push_back(make(t));
    } catch (...) {
      transfer_.finish();  // what is queued reads the file, which the caller is about to unmap
      throw;
    }
    transfer_.finish();
    return tensors;
  }

 private:
  struct Memory {
    int uses = 0;
    Tensor base = {};
  };

  /// Tensors share memory if they have the same bits.
  Memory& memory_of(const PickledTensor& t) { return memory_[t.storage][2 * t.conj + t.neg]; }

  Tensor make(const PickledTensor& t) {
    const PickledStorage& storage = source_.pickle.storages[t.storage];
    const auto numel =
        static_cast<std::int64_t>(source_.storages[t.storage].bytes.size() / itemsize(t.dtype));
    Memory& memory = memory_of(t);
    // Alone in its memory, it needs no view.
    const bool alone = memory.uses == 1 && is_dense(t, static_cast<std::uint64_t>(numel));
    if (!memory.base.defined()) memory.base = make_base(t, alone ? t.shape : Shape{numel});
    const Tensor& base = memory.base;
    where_.check(base.dtype() == t.dtype, 0, "storage '{}' has tensors of {} and {}", storage.key,
                 base.dtype(), t.dtype);
    return alone ? base : geometry::as_strided(base, t.shape, t.strides, t.offset);
  }

  Device device_of(const PickledTensor& t, const PickledStorage& storage) {
    try {
      return location_.target(storage.key, storage.location);
    } catch (const DeviceError&) {
      const auto number = static_cast<std::size_t>(&t - source_.pickle.tensors.data());
      return location_.target(name_of_tensor(source_.pickle, number), storage.location);
    }
  }

  /// A tensor over the whole storage.
  Tensor make_base(const PickledTensor& t, const Shape& shape) {
    const PickledStorage& storage = source_.pickle.storages[t.storage];
    const StoredBytes& stored = source_.storages[t.storage];
    if (t.dtype == kBool) check_bools(storage, stored, where_);
    Bytes bytes = stored.bytes;
    const Device device = device_of(t, storage);
    const bool aligned = reinterpret_cast<std::uintptr_t>(bytes.data()) % itemsize(t.dtype) == 0;
    const bool as_stored = !t.conj && !t.neg;
    if (keep_ && device.is_host() && aligned && as_stored && !bytes.empty())
      return from_blob(const_cast<std::uint8_t*>(bytes.data()), shape, t.dtype, [k = keep_] {});
    if (!as_stored) bytes = resolved_.emplace_back(resolved(bytes, t));
    const Tensor base = empty(shape, {.dtype = t.dtype, .device = device});
    transfer_.write(base, bytes.data());
    return base;
  }

  const Source& source_;
  const Where& where_;
  const MapLocation& location_;
  const std::shared_ptr<const MappedFile>& keep_;
  std::vector<std::array<Memory, 4>> memory_;       // by storage and bits
  std::deque<std::vector<std::uint8_t>> resolved_;  // until the transfer has finished
  HostTransfer transfer_;
};

std::vector<Tensor> make_tensors(const Source& source, const Where& where,
                                 const MapLocation& location,
                                 const std::shared_ptr<const MappedFile>& keep) {
  return TensorMaker(source, where, location, keep).run();
}

// ---- Writing

/// Tensors over one memory, and the storage that holds it in the file.
struct Group {
  std::vector<Tensor> tensors;
  std::string key = {};
  Tensor content = {};  // of one dimension, on the host
};

class Storages {
 public:
  explicit Storages(const Value& value) { collect(value); }

  TensorInStorage place(const Tensor& tensor) {
    FERRITE_CHECK(tensor.defined(), ValueError, kSavePth, "a tensor is undefined");
    Group& group = groups_[tensor.storage().get()];
    if (!same_type(group) || (group.tensors.size() == 1 && !fills(tensor)))
      return store_alone(host_contiguous(tensor, kSavePth), tensor);
    if (group.key.empty()) {
      const auto count =
          static_cast<std::int64_t>(tensor.storage()->nbytes() / itemsize(tensor.dtype()));
      group.key = add(host_contiguous(geometry::as_strided(tensor, {count}, {1}, 0), kSavePth),
                      group.content);
    }
    return {.storage = storage_of(group.key, group.content, tensor),
            .offset = tensor.storage_offset(),
            .strides = tensor.strides()};
  }

  /// By key: their positions.
  const std::vector<Tensor>& contents() const { return contents_; }

 private:
  void collect(const Value& value) {
    if (value.is_tensor())
      groups_[value.to_tensor().storage().get()].tensors.push_back(value.to_tensor());
    if (value.is_list())
      for (const Value& item : value.items()) collect(item);
    if (value.is_dict())
      for (const auto& entry : value.entries()) collect(entry.second);
  }
  static bool same_type(const Group& group) {
    return std::ranges::all_of(
        group.tensors, [&](const Tensor& t) { return t.dtype() == group.tensors[0].dtype(); });
  }
  static bool fills(const Tensor& tensor) { return tensor.storage()->nbytes() == tensor.nbytes(); }

  std::string add(Tensor content, Tensor& where) {
    where = content;
    contents_.push_back(std::move(content));
    return std::to_string(contents_.size() - 1);
  }
  static PickledStorage storage_of(const std::string& key, const Tensor& content,
                                   const Tensor& tensor) {
    return {.key = key,
            .location = tensor.device().is_host() ? "cpu" : tensor.device().str(),
            .dtype = tensor.dtype(),
            .typed = true,
            .numel = static_cast<std::uint64_t>(content.numel())};
  }
  TensorInStorage store_alone(const Tensor& content, const Tensor& tensor) {
    Tensor kept;
    const std::string key = add(content, kept);
    return {.storage = storage_of(key, kept, tensor), .offset = 0, .strides = content.strides()};
  }

  std::unordered_map<const Storage*, Group> groups_;
  std::vector<Tensor> contents_;
};

}  // namespace

bool is_pth(Bytes bytes) { return is_zip(bytes) || magic_bytes(bytes) > 0; }

Value load_pth(const std::filesystem::path& path, const PthOptions& options) {
  const auto file = std::make_shared<const MappedFile>(
      path, kLoadPth, options.mmap ? Mapping::copy_on_write : Mapping::read_only);
  const std::string text = path.string();
  const Where where{kLoadPth, text};
  const Source source = read_source(file->bytes(), where, options.checksums);
  return to_value(source.pickle, where,
                  make_tensors(source, where, options.map_location, options.mmap ? file : nullptr),
                  options.exact ? Inexact::refuse : Inexact::convert);
}

Value parse_pth(Bytes bytes, std::string_view name) {
  const Where where{kLoadPth, name};
  const Source source = read_source(bytes, where, true);
  return to_value(source.pickle, where, make_tensors(source, where, {}, nullptr));
}

void save_pth(const Value& value, const std::filesystem::path& path) {
  Storages storages(value);
  const std::string pickle = to_pickle(value, [&](const Tensor& t) { return storages.place(t); });
  AtomicFile file(path, kSavePth);
  ZipWriter archive(file, kSavePth);
  archive.add("archive/data.pkl", pickle, ZipMethod::stored, kAlignment);
  archive.add("archive/byteorder", "little", ZipMethod::stored, kAlignment);
  for (std::size_t i = 0; i < storages.contents().size(); ++i) {
    const Tensor& t = storages.contents()[i];
    archive.add("archive/data/" + std::to_string(i),
                {static_cast<const char*>(t.data_ptr()), t.nbytes()}, ZipMethod::stored,
                kAlignment);
  }
  archive.add("archive/version", "3\n", ZipMethod::stored, kAlignment);
  archive.finish();
  file.commit();
}

}  // namespace ferrite::data
