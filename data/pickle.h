// Python's pickle format (pickletools.py describes it), restricted to what torch.save() writes for
// weights and checkpoints. Reading one executes nothing: names of Python functions and classes are
// looked up in a list of what tensors, dicts and numbers need, and any other is an error.
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ferrite/data/file.h"
#include "ferrite/data/value.h"

namespace ferrite::data {

/// The memory of tensors in a file, under PyTorch's name for it.
struct PickledStorage {
  std::string key;
  std::string location;    ///< "cpu", "cuda:0"
  DType dtype = kFloat32;  ///< uint8 where the storage has no type
  bool typed = true;
  std::uint64_t numel = 0;
};

/// An object of a pickle. Objects refer to each other, perhaps in circles.
struct PickledObject {
  enum class Kind : std::uint8_t {
    none,
    boolean,
    integer,
    real,
    string,
    bytes,
    list,
    tuple,
    dict,     ///< `items` are keys and values in turn
    name,     ///< "module name" of a function or class, in `text`
    dtype,    ///< torch.float32 and the like
    storage,  ///< Pickle::storages[integer]
    tensor    ///< Pickle::tensors[integer]
  };
  Kind kind = Kind::none;
  DType dtype = kFloat32;
  std::int64_t integer = 0;  ///< or boolean
  double real = 0;
  std::string text = {};
  std::vector<PickledObject*> items = {};
  const char* was = nullptr;  ///< "set" where it is a list for lack of a kind, else null
};

/// A tensor over a storage; its geometry fits the storage's size.
struct PickledTensor {
  std::size_t storage = 0;
  DType dtype = kFloat32;
  std::int64_t offset = 0;  ///< in elements
  Shape shape = {};
  Strides strides = {};
  /// PyTorch's bits for values that differ from those in the storage: their conjugates, and their
  /// negatives.
  bool conj = false, neg = false;
};

/// What a pickle holds, in memory of at most 400 times the pickle's size.
struct Pickle {
  std::deque<PickledObject> objects;
  std::vector<PickledTensor> tensors;
  PickledObject* root = nullptr;
  std::vector<PickledStorage> storages;
  std::size_t bytes = 0;  ///< that it took, of perhaps more
};

/// Reads the pickle at the beginning of `bytes`, which are those from `offset` of the file on.
/// Protocols 0 to 5. IoError, with the position, for what is damaged or not on the list.
Pickle parse_pickle(Bytes bytes, const Where& where, std::uint64_t offset);

/// Whether objects that Value has no kind for become text and lists.
enum class Inexact : std::uint8_t { convert, refuse };

/// The value of a pickle, with `tensors` in the place of its tensors. IoError for values that
/// contain themselves, nest deeper than 500 levels, or are, written out, more than 64 for each byte
/// of the pickle.
Value to_value(const Pickle& pickle, const Where& where, const std::vector<Tensor>& tensors,
               Inexact inexact = Inexact::convert);

/// Where the elements of a tensor lie that is to be pickled.
struct TensorInStorage {
  PickledStorage storage;
  std::int64_t offset = 0;
  Strides strides = {};
};
/// The pickle of a value, protocol 2, as torch.load(weights_only=True) reads it. Dicts are
/// OrderedDicts where all keys are strings and all entries tensors, as state dicts are.
std::string to_pickle(const Value& value,
                      const std::function<TensorInStorage(const Tensor&)>& place);

}  // namespace ferrite::data
