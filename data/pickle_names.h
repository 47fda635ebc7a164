// The Python classes and functions that a pickle of weights may name.
#pragma once

#include <string_view>

#include "ferrite/core/dtype.h"

namespace ferrite::data {

/// What becomes of the arguments of a class or function.
enum class PickleCallable : std::uint8_t {
  dict,               // OrderedDict(), OrderedDict([[key, value]...])
  default_dict,       // defaultdict(factory)
  counter,            // Counter({...})
  set,                // set([...]), as a list
  rebuild_tensor,     // storage, offset, size, stride
  rebuild_tensor_v2,  // ..., requires_grad, hooks, metadata
  rebuild_tensor_v3,  // ..., dtype, metadata
  rebuild_parameter,  // tensor, ...
  rebuild_from_type,  // function, type, arguments, state
  bytearray,          // bytearray(bytes), bytearray(text, "latin-1"), bytearray(), as bytes
  complex,            // complex(real, imaginary), as a tuple
  size,               // torch.Size
  device,             // torch.device("cuda", 0), as the text "cuda:0"
  encode,             // _codecs.encode(text, "latin1"): bytes in protocol 2
  numpy_dtype,        // numpy.dtype("f8", False, True)
  numpy_scalar,       // dtype, bytes
  passive,            // a class that only stands as an argument
};

/// By module and name with a space between; null for one that is not allowed.
const PickleCallable* find_callable(std::string_view name);

/// PyTorch's names of an element type and of the memory of such elements.
struct PickleType {
  std::string_view storage, dtype;
  DType type;
};
/// By either name, or by type; null if there is none.
const PickleType* find_pickle_type(std::string_view name);
const PickleType* find_pickle_type(DType type);

}  // namespace ferrite::data
