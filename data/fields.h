// The tensors inside a value of any type: elements of tuples, arrays and containers, and members of
// plain structs, which are found without a list of them.
#pragma once

#include <concepts>
#include <cstddef>
#include <functional>
#include <ranges>
#include <tuple>
#include <type_traits>
#include <utility>

#include "ferrite/core/state_dict.h"
#include "ferrite/core/tensor.h"

namespace ferrite::data::impl {

/// std::tuple, std::pair and std::array.
template <class T>
concept TupleLike = requires {
  std::tuple_size<T>::value;
};

/// A struct that lists its members: `auto fields() { return std::tie(a, b); }`, and the same const.
/// Needed only where they cannot be found: with base classes, constructors, C arrays, or more than
/// kMostFields members.
template <class T>
concept ListsFields = requires(T& value, const T& constant) {
  { value.fields() } -> TupleLike;
  { constant.fields() } -> TupleLike;
};

/// A container whose elements may be changed in place: std::vector, std::map, ...
template <class T>
concept Container = std::ranges::range<T> && std::is_class_v<std::ranges::range_value_t<T>> &&
    !std::same_as<std::ranges::range_value_t<T>, T>;

constexpr std::size_t kMostFields = 10;

/// Stands for a value of any type where nothing is computed.
struct Anything {
  template <class T>
  operator T() const;
};

template <class T, std::size_t... I>
constexpr bool initialized_by(std::index_sequence<I...>) {
  return requires { T{(static_cast<void>(I), Anything{})...}; };
}

/// How many members a plain struct has.
template <class T, std::size_t N = kMostFields>
constexpr std::size_t count_members() {
  if constexpr (initialized_by<T>(std::make_index_sequence<N + 1>()))
    return kMostFields + 1;
  else if constexpr (N == 0 || initialized_by<T>(std::make_index_sequence<N>()))
    return N;
  else
    return count_members<T, N - 1>();
}

template <class T>
concept Plain = std::is_class_v<T> && std::is_aggregate_v<T> && !std::is_empty_v<T> &&
                !TupleLike<T> && !ListsFields<T>;

/// Whether fields_of() takes it.
template <class T>
concept Fielded = TupleLike<T> || ListsFields<T> || Plain<T>;

/// References to the members of a struct or the elements of a tuple, as a std::tuple.
template <class V>
requires Fielded<std::remove_const_t<V>>
constexpr auto fields_of(V& value) {
  using T = std::remove_const_t<V>;
  if constexpr (TupleLike<T>) {
    return std::apply([](auto&... parts) { return std::tie(parts...); }, value);
  } else if constexpr (ListsFields<T>) {
    return value.fields();
  } else {
    constexpr std::size_t n = count_members<T>();
    static_assert(n <= kMostFields,
                  "a struct with so many members has to list them: auto fields() { return "
                  "std::tie(a, b, ...); }, and the same const");
    if constexpr (n == 1) {
      auto& [a] = value;
      return std::tie(a);
    } else if constexpr (n == 2) {
      auto& [a, b] = value;
      return std::tie(a, b);
    } else if constexpr (n == 3) {
      auto& [a, b, c] = value;
      return std::tie(a, b, c);
    } else if constexpr (n == 4) {
      auto& [a, b, c, d] = value;
      return std::tie(a, b, c, d);
    } else if constexpr (n == 5) {
      auto& [a, b, c, d, e] = value;
      return std::tie(a, b, c, d, e);
    } else if constexpr (n == 6) {
      auto& [a, b, c, d, e, f] = value;
      return std::tie(a, b, c, d, e, f);
    } else if constexpr (n == 7) {
      auto& [a, b, c, d, e, f, g] = value;
      return std::tie(a, b, c, d, e, f, g);
    } else if constexpr (n == 8) {
      auto& [a, b, c, d, e, f, g, h] = value;
      return std::tie(a, b, c, d, e, f, g, h);
    } else if constexpr (n == 9) {
      auto& [a, b, c, d, e, f, g, h, i] = value;
      return std::tie(a, b, c, d, e, f, g, h, i);
    } else {
      auto& [a, b, c, d, e, f, g, h, i, j] = value;
      return std::tie(a, b, c, d, e, f, g, h, i, j);
    }
  }
}

/// The types of those, without references and const.
template <class T>
using FieldsOf = decltype(fields_of(std::declval<T&>()));
template <class T, std::size_t I>
using FieldOf = std::remove_cvref_t<std::tuple_element_t<I, FieldsOf<T>>>;

/// Calls f(Tensor&) for every tensor in `value`, also undefined ones, in the order of declaration.
/// What is neither a tensor nor made of fields or elements has none.
template <class V, class F>
void each_tensor(V& value, const F& f) {
  if constexpr (std::same_as<V, Tensor>) {
    f(value);
  } else if constexpr (std::same_as<V, StateDict>) {
    for (const auto& [name, tensor] : value) f(const_cast<Tensor&>(tensor));  // names stay
  } else if constexpr (std::is_const_v<V>) {                                  // a key
  } else if constexpr (Fielded<V>) {
    std::apply([&](auto&... parts) { (each_tensor(parts, f), ...); }, fields_of(value));
  } else if constexpr (Container<V>) {
    for (auto& element : value) each_tensor(element, f);
  }
}

}  // namespace ferrite::data::impl
