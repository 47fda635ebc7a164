#include "ferrite/data/pickle_names.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>

namespace ferrite::data {

namespace {

constexpr PickleType kPickleTypes[] = {
    {"FloatStorage", "float32", kFloat32},
    {"DoubleStorage", "float64", kFloat64},
    {"HalfStorage", "float16", kFloat16},
    {"BFloat16Storage", "bfloat16", kBFloat16},
    {"LongStorage", "int64", kInt64},
    {"IntStorage", "int32", kInt32},
    {"ShortStorage", "int16", kInt16},
    {"CharStorage", "int8", kInt8},
    {"ByteStorage", "uint8", kUInt8},
    {"BoolStorage", "bool", kBool},
    {"ComplexFloatStorage", "complex64", kComplex64},
    {"ComplexDoubleStorage", "complex128", kComplex128},
};

const std::unordered_map<std::string_view, PickleCallable>& pickle_callables() {
  static const std::unordered_map<std::string_view, PickleCallable> table{
      {"collections OrderedDict", PickleCallable::dict},
      {"collections defaultdict", PickleCallable::default_dict},
      {"collections Counter", PickleCallable::counter},
      {"__builtin__ set", PickleCallable::set},
      {"builtins set", PickleCallable::set},
      {"__builtin__ frozenset", PickleCallable::set},
      {"builtins frozenset", PickleCallable::set},
      {"__builtin__ dict", PickleCallable::dict},
      {"builtins dict", PickleCallable::dict},
      {"__builtin__ bytearray", PickleCallable::bytearray},
      {"builtins bytearray", PickleCallable::bytearray},
      {"__builtin__ complex", PickleCallable::complex},
      {"builtins complex", PickleCallable::complex},
      {"__builtin__ list", PickleCallable::passive},
      {"builtins list", PickleCallable::passive},
      {"__builtin__ int", PickleCallable::passive},
      {"builtins int", PickleCallable::passive},
      {"__builtin__ float", PickleCallable::passive},
      {"builtins float", PickleCallable::passive},
      {"torch._utils _rebuild_tensor", PickleCallable::rebuild_tensor},
      {"torch._utils _rebuild_tensor_v2", PickleCallable::rebuild_tensor_v2},
      {"torch._utils _rebuild_tensor_v3", PickleCallable::rebuild_tensor_v3},
      {"torch._utils _rebuild_parameter", PickleCallable::rebuild_parameter},
      {"torch._utils _rebuild_parameter_with_state", PickleCallable::rebuild_parameter},
      {"torch._tensor _rebuild_from_type_v2", PickleCallable::rebuild_from_type},
      {"torch Tensor", PickleCallable::passive},
      {"torch.nn.parameter Parameter", PickleCallable::passive},
      {"torch.nn.parameter Buffer", PickleCallable::passive},
      {"torch Size", PickleCallable::size},
      {"torch device", PickleCallable::device},
      {"_codecs encode", PickleCallable::encode},
      {"numpy dtype", PickleCallable::numpy_dtype},
      {"numpy.core.multiarray scalar", PickleCallable::numpy_scalar},
      {"numpy._core.multiarray scalar", PickleCallable::numpy_scalar},
  };
  return table;
}

}  // namespace

const PickleCallable* find_callable(std::string_view name) {
  const auto found = pickle_callables().find(name);
  return found == pickle_callables().end() ? nullptr : &found->second;
}

const PickleType* find_pickle_type(std::string_view name) {
  const auto* found = std::ranges::find_if(
      kPickleTypes, [&](const PickleType& t) { return t.storage == name || t.dtype == name; });
  return found == std::end(kPickleTypes) ? nullptr : found;
}
const PickleType* find_pickle_type(DType type) {
  const auto* found = std::ranges::find(kPickleTypes, type, &PickleType::type);
  return found == std::end(kPickleTypes) ? nullptr : found;
}

}  // namespace ferrite::data
