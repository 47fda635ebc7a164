// Values that contain tensors, as arguments and results of modules: how scatter, gather and
// broadcast find the tensors and replace them.
//
// A value is a tensor; an optional, pair, tuple, vector, array, list, map or unordered_map of
// values; a struct of up to four tensors and nothing else; or a struct that declares its members:
//
//   struct Batch { Tensor images, labels; std::string source; };
//   template <> struct ferrite::parallel::FieldsOf<Batch> {
//     static auto of(auto& batch) { return std::tie(batch.images, batch.labels, batch.source); }
//   };
//
// Anything else (numbers, strings, keys of maps, pointees, other structs) counts as containing no
// tensors and is copied unchanged. Values are copied, so they and all their parts must be copyable,
// and their tensors must not be const. Spans and other views, which own nothing, do not compile.
#pragma once

#include <fmt/core.h>

#include <array>
#include <concepts>
#include <cstddef>
#include <iterator>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "ferrite/core/tensor.h"
#include "ferrite/nn/hooks.h"

namespace ferrite::parallel {

/// The members of a struct, as returned by std::tie; const if the struct is.
template <class T>
struct FieldsOf;

namespace detail {

template <class T>
concept HasFieldsOf = requires(T& value) {
  FieldsOf<std::remove_const_t<T>>::of(value);
};
template <class T>
concept OptionalLike = requires(T& value) {
  value.has_value();
  *value;
};
template <class T>
concept TupleLike = requires {
  std::tuple_size<std::remove_const_t<T>>::value;
};
/// With one value per key: those of a multimap could not be distinguished.
template <class T>
concept MapLike = std::ranges::forward_range<T> && requires(T& value) {
  typename std::remove_const_t<T>::mapped_type;
  value.at(value.begin()->first);
};
/// A range whose elements may hold tensors; excludes paths, whose elements are paths.
template <class T>
concept ListLike =
    std::ranges::forward_range<T> && std::is_class_v<std::ranges::range_value_t<T>> &&
    !std::same_as<std::ranges::range_value_t<T>, std::remove_const_t<T>>;

template <class T>
std::string text_of_key(const T& key) {
  if constexpr (std::is_convertible_v<const T&, std::string_view>)
    return fmt::format("the key \"{}\"", std::string_view(key));
  else if constexpr (std::is_arithmetic_v<T>)
    return fmt::format("the key {}", key);
  else
    return "one of the keys";
}

/// Two values of one type, part by part.
template <class F, class D>
class Zip {
 public:
  Zip(const F& f, const D& differ) : f_(f), differ_(differ) {}

  template <class M, class T>
  void operator()(M& model, T& other) const {
    if constexpr (nn::detail::is_tensor<T>)
      f_(model, other);
    else if constexpr (HasFieldsOf<T>)
      tuples(FieldsOf<std::remove_const_t<M>>::of(model),
             FieldsOf<std::remove_const_t<T>>::of(other));
    else if constexpr (NamedTuple<T>)
      tuples(model.fields(), other.fields());
    else if constexpr (OptionalLike<T>)
      optionals(model, other);
    else if constexpr (TupleLike<T>)
      tuples(model, other);
    else if constexpr (nn::detail::TensorStruct<T>)
      structs(model, other);
    else if constexpr (MapLike<T>)
      maps(model, other);
    else if constexpr (ListLike<T>)
      lists(model, other);
  }

 private:
  template <class M, class T>
  void optionals(M& model, T& other) const {
    if (model.has_value() != other.has_value())
      differ_(other.has_value() ? "an optional value" : "nothing for an optional value",
              model.has_value() ? "one" : "none");
    else if (model.has_value())
      (*this)(*model, *other);
  }
  template <class M, class T>
  void tuples(M&& model, T&& other) const {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      ((*this)(std::get<I>(model), std::get<I>(other)), ...);
    }
    (std::make_index_sequence<std::tuple_size_v<std::remove_cvref_t<M>>>{});
  }
  template <class M, class T>
  void structs(M& model, T& other) const {
    std::array<const Tensor*, sizeof(T) / sizeof(Tensor)> fields;
    std::size_t i = 0;
    nn::detail::for_each_field(model, [&](const Tensor& field) { fields[i++] = &field; });
    i = 0;
    nn::detail::for_each_field(other, [&](auto& field) { f_(*fields[i++], field); });
  }
  template <class M, class T>
  void maps(M& model, T& other) const {
    if (model.size() != other.size())
      return differ_(fmt::format("a map of {} keys", other.size()),
                     fmt::format("{}", model.size()));
    for (auto& [key, part] : model) {
      const auto found = other.find(key);
      if (found == other.end())
        return differ_(fmt::format("a map without {}", text_of_key(key)), "one with it");
      (*this)(part, found->second);
    }
  }
  template <class M, class T>
  void lists(M& model, T& other) const {
    static_assert(!std::ranges::view<std::remove_const_t<T>>,
                  "a view (std::span) owns no tensors: pass a vector");
    const auto counts = std::pair(std::ranges::distance(model), std::ranges::distance(other));
    if (counts.first != counts.second)
      return differ_(fmt::format("a list of {}", counts.second), fmt::format("{}", counts.first));
    auto part = std::ranges::begin(other);
    for (auto& of_model : model) (*this)(of_model, *part++);
  }

  const F& f_;
  const D& differ_;
};

/// f(tensor of `model`, the corresponding one of `other`), in the order of `model`. If their
/// structures differ, calls differ("a list of 2", "3"): that of `other`, and that of `model`.
template <class T, class U, class F, class D>
void zip_tensors(T& model, U& other, const F& f, const D& differ) {
  static_assert(std::same_as<std::remove_const_t<T>, std::remove_const_t<U>>);
  Zip<F, D>{f, differ}(model, other);
}

inline constexpr auto kSameForm = [](auto&&, auto&&) {};

}  // namespace detail

/// Calls f(tensor) on every tensor in `value`, including undefined ones; they may be changed if
/// `value` is not const.
template <class T, class F>
void for_each_tensor(T& value, const F& f) {
  detail::zip_tensors(
      value, value, [&](const auto&, auto& tensor) { f(tensor); }, detail::kSameForm);
}

/// The tensors in `value`, in the order used by all functions here.
template <class T>
std::vector<Tensor> tensors_in(const T& value) {
  std::vector<Tensor> tensors;
  for_each_tensor(value, [&](const Tensor& tensor) { tensors.push_back(tensor); });
  return tensors;
}

/// A copy of `value` with every tensor replaced by f(tensor).
template <class T, class F>
T map_tensors(const T& value, const F& f) {
  static_assert(std::copy_constructible<T>, "values are copied to the devices");
  T result = value;
  detail::zip_tensors(
      value, result, [&](const Tensor& from, Tensor& to) { to = f(from); }, detail::kSameForm);
  return result;
}

/// A copy of `value` with these tensors, in the order of tensors_in(value).
template <class T>
T with_tensors(const T& value, std::span<const Tensor> tensors) {
  std::size_t i = 0;
  return map_tensors(value, [&](const Tensor&) { return tensors[i++]; });
}

}  // namespace ferrite::parallel
