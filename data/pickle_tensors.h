// The tensors of the machine that reads pickles.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "ferrite/data/pickle_names.h"
#include "ferrite/data/pickle_stack.h"

namespace ferrite::data {

/// Storages and tensors from the arguments of PyTorch's functions that rebuild them.
class PickleTensors : public PickleStack {
 public:
  using PickleStack::PickleStack;

 protected:
  static const Object* at(const Object& tuple, std::size_t i, Kind kind) {
    return i < tuple.items.size() && tuple.items[i]->kind == kind ? tuple.items[i] : nullptr;
  }
  const Object& argument(const Object& tuple, std::size_t i, Kind kind, std::string_view what) {
    const Object* found = at(tuple, i, kind);
    check(found, "expected {} as argument {}", what, i);
    return *found;
  }

  void push_storage(const Object& id) {
    check(id.kind == Kind::tuple && id.items.size() >= 5 && at(id, 0, Kind::string) &&
              id.items[0]->text == "storage",
          "expected the identity of a storage");
    PickledStorage storage;
    const std::string& type = argument(id, 1, Kind::name, "the type of a storage").text;
    storage.typed = type != "UntypedStorage";
    const PickleType* known = find_pickle_type(type);
    check(known || !storage.typed, "expected the type of a storage, got '{}'", type);
    storage.dtype = known ? known->type : kUInt8;
    storage.key = argument(id, 2, Kind::string, "the key of a storage").text;
    storage.location = argument(id, 3, Kind::string, "the device of a storage").text;
    const std::int64_t numel = argument(id, 4, Kind::integer, "the size of a storage").integer;
    check(numel >= 0 && numel < kMostElements, "a storage claims {} elements", numel);
    storage.numel = static_cast<std::uint64_t>(numel);
    if (id.items.size() > 5)
      check(id.items[5]->kind == Kind::none,
            "views of storages, as PyTorch below 0.4 wrote them, are not supported");
    const auto [found, added] = storage_index_.emplace(storage.key, out_.storages.size());
    if (added) {
      out_.storages.push_back(std::move(storage));
    } else {
      const PickledStorage& first = out_.storages[found->second];
      check(first.dtype == storage.dtype && first.numel == storage.numel,
            "storage '{}' occurs with two types or sizes", storage.key);
    }
    push(Kind::storage)->integer = static_cast<std::int64_t>(found->second);
  }

  Shape shape_of(const Object& tuple) {
    Shape shape;
    check(tuple.items.size() <= static_cast<std::size_t>(kMaxDims),
          "a tensor of {} dimensions; at most {} are supported", tuple.items.size(), kMaxDims);
    for (std::size_t i = 0; i < tuple.items.size(); ++i) {
      const std::int64_t size = argument(tuple, i, Kind::integer, "a size or stride").integer;
      check(size >= 0, "expected sizes and strides of 0 or more, got {}", size);
      shape.push_back(size);
    }
    return shape;
  }

  /// A tensor lies within its storage, and 64 bits can count its bytes; a size of 0 counts as 1.
  void check_extent(PickledTensor& tensor, const PickledStorage& memory) {
    std::int64_t end = 0;  // the last element, from the first one
    std::uint64_t bytes = itemsize(tensor.dtype);
    bool fits = true, counts = true, empty = false;
    for (int d = 0; d < tensor.shape.size(); ++d) {
      const std::int64_t size = std::max<std::int64_t>(tensor.shape[d], 1);
      std::int64_t step = 0;
      empty |= tensor.shape[d] == 0;
      fits &= !__builtin_mul_overflow(size - 1, tensor.strides[d], &step) &&
              !__builtin_add_overflow(end, step, &end);
      counts &= !__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(size), &bytes);
    }
    const std::uint64_t elements =
        memory.numel / itemsize(tensor.dtype) * itemsize(memory.dtype) +
        memory.numel % itemsize(tensor.dtype) * itemsize(memory.dtype) / itemsize(tensor.dtype);
    check(empty || (fits && !__builtin_add_overflow(end, tensor.offset, &end) &&
                    static_cast<std::uint64_t>(end) < elements),
          "a tensor {} reaches beyond its storage of {} elements", tensor.shape.str(),
          memory.numel);
    check(counts && bytes < std::uint64_t{1} << 62,
          "a tensor {} has more bytes than 64 bits can count", tensor.shape.str());
    if (!empty) return;
    // Without elements it may lie anywhere, and views of it must not overflow.
    tensor.offset = 0;
    if (!fits || end >= kMostElements) tensor.strides = contiguous_strides(tensor.shape);
  }

  /// The argument after all others, if there is one: {"conj": True, "neg": True}.
  void read_metadata(const Object& arguments, std::size_t metadata_at, PickledTensor& tensor) {
    if (arguments.items.size() <= metadata_at || at(arguments, metadata_at, Kind::none)) return;
    const Object& metadata = argument(arguments, metadata_at, Kind::dict, "a dict of metadata");
    for (std::size_t i = 0; i < metadata.items.size(); i += 2) {
      const Object &key = *metadata.items[i], &value = *metadata.items[i + 1];
      const bool known = key.kind == Kind::string && (key.text == "conj" || key.text == "neg");
      check(known && value.kind == Kind::boolean,
            "expected 'conj' and 'neg' as the metadata of a tensor, and True or False for them");
      (key.text == "conj" ? tensor.conj : tensor.neg) = value.integer != 0;
    }
    check(!tensor.conj || is_complex(tensor.dtype), "the conj bit of a tensor of {}", tensor.dtype);
    check(!tensor.neg || is_complex(tensor.dtype) || is_floating(tensor.dtype),
          "the neg bit of a tensor of {}; call resolve_neg() before saving", tensor.dtype);
  }

  /// `dtype_at`: the argument that is the element type, if the storage does not say it.
  void rebuild_tensor(const Object& arguments, std::optional<std::size_t> dtype_at,
                      std::size_t metadata_at) {
    const Object& storage = argument(arguments, 0, Kind::storage, "a storage");
    const PickledStorage& memory = out_.storages[static_cast<std::size_t>(storage.integer)];
    PickledTensor tensor{.storage = static_cast<std::size_t>(storage.integer)};
    tensor.offset = argument(arguments, 1, Kind::integer, "an offset").integer;
    tensor.shape = shape_of(argument(arguments, 2, Kind::tuple, "a tuple of sizes"));
    tensor.strides = shape_of(argument(arguments, 3, Kind::tuple, "a tuple of strides"));
    tensor.dtype = memory.dtype;
    if (dtype_at)
      tensor.dtype = argument(arguments, *dtype_at, Kind::dtype, "an element type").dtype;
    check(tensor.shape.size() == tensor.strides.size() && tensor.offset >= 0,
          "expected as many strides as sizes, and an offset of 0 or more");
    check(dtype_at || memory.typed, "the tensor and its storage have no element type");
    check_extent(tensor, memory);
    read_metadata(arguments, metadata_at, tensor);
    push(Kind::tensor)->integer = static_cast<std::int64_t>(out_.tensors.size());
    out_.tensors.push_back(tensor);
  }

 private:
  static constexpr std::int64_t kMostElements = std::int64_t{1} << 56;  // of a storage

  std::unordered_map<std::string, std::size_t> storage_index_;
};

}  // namespace ferrite::data
