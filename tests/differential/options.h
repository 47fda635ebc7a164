// Options of layers and optimizers from JSON objects that have PyTorch's names. What is taken is
// removed, so that what is left over is an option that does not exist.
#pragma once

#include <array>
#include <utility>

#include "ferrite/nn/layers.h"
#include "ferrite/ops/creation.h"
#include "ferrite/optim/lr_scheduler.h"
#include "ferrite/tests/differential/ops.h"

namespace ferrite::differential {

/// A value of an option's type.
template <class T>
struct Convert {
  static T from(const Json& v) { return v.get<T>(); }
};

template <>
struct Convert<double> {
  static double from(const Json& v) {
    return v.is_string() ? std::stod(v.get<std::string>()) : v.get<double>();  // "inf"
  }
};

template <>
struct Convert<std::int64_t> {
  static std::int64_t from(const Json& v) { return (v.is_array() ? v[0] : v).get<std::int64_t>(); }
};

template <>
struct Convert<Pair> {
  static Pair from(const Json& v) {
    return v.is_array() ? Pair(v[0], v[1]) : Pair(v.get<std::int64_t>());
  }
};

template <>
struct Convert<Triple> {
  static Triple from(const Json& v) {
    return v.is_array() ? Triple(v[0], v[1], v[2]) : Triple(v.get<std::int64_t>());
  }
};

template <int N>
struct Convert<PaddingOf<N>> {
  static PaddingOf<N> from(const Json& v) {
    if (v == "same") return PaddingOf<N>::same;
    if (v == "valid") return "valid";
    return Convert<SizeOf<N>>::from(v);
  }
};

/// std::optional, OptionalPair and OptionalTriple.
template <class T>
requires requires(const T& option) { option.has_value(); }
struct Convert<T> {
  static T from(const Json& v) {
    return v.is_null() ? T() : T(Convert<typename T::value_type>::from(v));
  }
};

/// ScaleFactor and InterpolateSize.
template <class T>
requires requires(const T& option) { option.d + option.h + option.w + option.count; }
struct Convert<T> {
  using V = decltype(T::w);
  static T from(const Json& v) {
    if (v.is_null()) return T(0);
    if (!v.is_array()) return T(v.get<V>());
    if (v.size() == 1) return T(v[0].get<V>());
    if (v.size() == 2) return T(v[0].get<V>(), v[1].get<V>());
    return T(v[0].get<V>(), v[1].get<V>(), v[2].get<V>());
  }
};

template <>
struct Convert<Shape> {
  static Shape from(const Json& v) { return v.is_array() ? to_shape(v) : Shape{v.get<int>()}; }
};

/// {"shape": [...], "value": 1}
template <>
struct Convert<Tensor> {
  static Tensor from(const Json& v) {
    return full(to_shape(v["shape"]), v["value"].get<double>(), {.dtype = kFloat32});
  }
};

template <class E>
struct Convert<Choice<E>> {
  static Choice<E> from(const Json& v) { return v.get<std::string>(); }
};

template <>
struct Convert<nn::TransformerActivation> {
  static nn::TransformerActivation from(const Json& v) { return v.get<std::string>(); }
};

template <>
struct Convert<optim::PerGroup> {
  static optim::PerGroup from(const Json& v) {
    if (!v.is_array()) return v.get<double>();
    return v.get<std::vector<double>>();
  }
};

template <>
struct Convert<MetricGoal> {
  static MetricGoal from(const Json& v) { return MetricGoal(v.get<std::string>()); }
};

/// An option that must be there.
template <class T>
T take(Json& a, const char* name) {
  const Json value = a.at(name);
  a.erase(name);
  return Convert<T>::from(value);
}
/// One that may be left out.
template <class T>
T take(Json& a, const char* name, T otherwise) {
  return a.contains(name) ? take<T>(a, name) : otherwise;
}

/// How options<O>() takes the fields of O: FERRITE_OPTIONS defines it.
template <class O>
struct OptionFields;

/// A struct of options, with those that are there.
template <class O>
O options(Json& a) {
  O o{};
  OptionFields<O>::fill(o, a);
  return o;
}

/// ValueError for what nothing has taken.
inline void check_all_taken(const Json& a) {
  FERRITE_CHECK(a.empty(), ValueError, "differential", "there are no such options: {}", a.dump());
}

#define FERRITE_TAKE(field) \
  if (a.contains(#field)) o.field = take<std::remove_cvref_t<decltype(o.field)>>(a, #field);
/// The fields of a struct that options<Struct>() takes: `template <> FERRITE_OPTIONS(Struct, a,
/// b)`.
#define FERRITE_OPTIONS(Struct, ...)                                       \
  struct OptionFields<Struct> {                                            \
    static void fill(Struct& o, Json& a) {                                 \
      NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(FERRITE_TAKE, __VA_ARGS__)) \
    }                                                                      \
  }

}  // namespace ferrite::differential
