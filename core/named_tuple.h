// Results of several tensors, such as x.max(1): structs whose members have names, and which can be
// taken apart as tuples are.
//
//   x.max(1).values                    auto [values, indices] = x.max(1);
//   std::get<0>(x.max(1))              std::tie(values, indices) = x.max(1);
#pragma once

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

namespace ferrite {

/// A struct that lists its members: `auto fields() { return std::tie(a, b); }`, and the same const.
template <class T>
concept NamedTuple = std::is_aggregate_v<std::remove_cvref_t<T>> &&
    requires(std::remove_cvref_t<T>& t, const std::remove_cvref_t<T>& constant) {
  std::tuple_size<decltype(t.fields())>::value;
  std::tuple_size<decltype(constant.fields())>::value;
};

}  // namespace ferrite

// std::get is called by its full name, which finds no overload elsewhere.
namespace std {

/// The I-th field: a reference, or a value if `t` is a temporary.
template <size_t I, ferrite::NamedTuple T>
decltype(auto) get(T&& t) {
  if constexpr (is_lvalue_reference_v<T>)
    return get<I>(t.fields());
  else
    return remove_cvref_t<decltype(get<I>(t.fields()))>(std::move(get<I>(t.fields())));
}

}  // namespace std
