// Samples of any type, stacked to batches.
//
// | a sample | its batch |
// | --- | --- |
// | Sample | Batch |
// | Tensor | Tensor, along a new first dimension |
// | a number or bool | Tensor [N]: int64, float32, float64 or bool |
// | std::string | std::vector<std::string> |
// | std::tuple, std::pair, std::array | the same of the batches of its elements |
// | std::map<std::string, T>, StateDict, std::vector<T> | the same of the batches of its entries |
// | a struct whose members are their own batches: tensors, or maps, vectors and structs of them |
// the same struct |
//
// Samples of other types need a function of the user's: the loader's `collate`.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "ferrite/core/state_dict.h"
#include "ferrite/core/tensor.h"
#include "ferrite/data/fields.h"

namespace ferrite::data {

/// One input and its label.
struct Sample {
  Tensor input;  ///< the input
  Tensor label;  ///< may be undefined; then so is that of the batch
};

/// Samples along a new first dimension; reads as `auto& [images, labels]`.
struct Batch {
  Tensor inputs;  ///< [N, ...], the inputs of the batch
  Tensor labels;  ///< [N], the labels of the batch

  std::int64_t size() const { return inputs.defined() ? inputs.size(0) : 0; }
};

namespace impl {

/// Where in a sample a tensor is, for errors: the names of fields, innermost first.
struct FieldPath {
  std::span<const std::int64_t> indices;  // of the samples in their data set; empty: 0, 1, ...
  const FieldPath* outer = nullptr;
  std::string_view name = {};  // empty: the number counts
  std::size_t number = 0;

  FieldPath operator[](std::string_view inner) const { return {indices, this, inner, 0}; }
  FieldPath operator[](std::size_t inner) const { return {indices, this, {}, inner}; }
};

/// Whether a field may be undefined.
enum class Field : std::uint8_t { optional, required };
/// Along a new first dimension, copied on the host. A field that is undefined in all samples is
/// undefined in the batch, unless it is `required`. ShapeError, DTypeError or ValueError name the
/// samples and the field that differ.
Tensor stack_tensors(std::span<const Tensor* const> tensors, const FieldPath& path, Field field);
Tensor stack_numbers(std::span<const std::int64_t> values, DType dtype);
Tensor stack_numbers(std::span<const double> values, DType dtype);
/// Throws ValueError for no samples.
void check_samples(std::size_t count);
/// Throws ValueError if the sample at `position` has another number of elements.
void check_count(const FieldPath& path, std::size_t position, std::size_t expected,
                 std::size_t got);
/// Throws ValueError: the sample at `position` has no entry of the name that the path ends with.
[[noreturn]] void fail_missing(const FieldPath& path, std::size_t position);

/// Samples by address.
template <class S>
using Samples = std::vector<const S*>;

/// How samples of type S are stacked: `type` and `stack()`; this one for those that cannot be.
template <class S>
struct Stacking {
  static constexpr bool possible = false;
  using type = std::vector<S>;
};

template <class S>
concept Stackable = Stacking<S>::possible;

/// stack() of one field of every sample.
template <class S, class Get>
auto stack_field(const Samples<S>& samples, const FieldPath& path, const Get& get) {
  using Field = std::remove_cvref_t<decltype(get(*samples[0]))>;
  Samples<Field> fields;
  fields.reserve(samples.size());
  for (const S* sample : samples) fields.push_back(&get(*sample));
  return Stacking<Field>::stack(fields, path);
}

template <>
struct Stacking<Tensor> {
  static constexpr bool possible = true;
  using type = Tensor;
  static Tensor stack(const Samples<Tensor>& samples, const FieldPath& path) {
    return stack_tensors(samples, path, path.outer ? Field::optional : Field::required);
  }
};

template <>
struct Stacking<Sample> {
  static constexpr bool possible = true;
  using type = Batch;
  static Batch stack(const Samples<Sample>& samples, const FieldPath& path);
};

template <class T>
requires std::is_arithmetic_v<T>
struct Stacking<T> {
  static constexpr bool possible = true;
  using type = Tensor;
  static Tensor stack(const Samples<T>& samples, const FieldPath&) {
    using Wide = std::conditional_t<std::floating_point<T>, double, std::int64_t>;
    std::vector<Wide> values;
    values.reserve(samples.size());
    for (const T* sample : samples) values.push_back(static_cast<Wide>(*sample));
    const DType dtype = std::same_as<T, bool>    ? kBool
                        : std::same_as<T, float> ? kFloat32
                        : std::integral<T>       ? kInt64
                                                 : kFloat64;
    return stack_numbers(values, dtype);
  }
};

template <>
struct Stacking<std::string> {
  static constexpr bool possible = true;
  using type = std::vector<std::string>;
  static type stack(const Samples<std::string>& samples, const FieldPath&) {
    type all;
    for (const std::string* sample : samples) all.push_back(*sample);
    return all;
  }
};

template <Stackable T>
struct Stacking<std::vector<T>> {
  static constexpr bool possible = true;
  using type = std::vector<typename Stacking<T>::type>;
  static type stack(const Samples<std::vector<T>>& samples, const FieldPath& path) {
    for (std::size_t i = 0; i < samples.size(); ++i)
      check_count(path, i, samples[0]->size(), samples[i]->size());
    type all;
    for (std::size_t k = 0; k < samples[0]->size(); ++k) {
      if constexpr (std::same_as<T, bool>) {  // whose vectors have no references to elements
        std::vector<std::int64_t> values;
        for (const std::vector<bool>* sample : samples) values.push_back((*sample)[k] ? 1 : 0);
        all.push_back(stack_numbers(values, kBool));
      } else {
        all.push_back(
            stack_field(samples, path[k], [k](const auto& v) -> const T& { return v[k]; }));
      }
    }
    return all;
  }
};

/// Maps from names.
template <class Map, class Insert>
void stack_entries(const Samples<Map>& samples, const FieldPath& path, const Insert& insert) {
  for (std::size_t i = 0; i < samples.size(); ++i)
    check_count(path, i, samples[0]->size(), samples[i]->size());
  for (const auto& [name, first] : *samples[0]) {
    for (std::size_t i = 0; i < samples.size(); ++i)
      if (!samples[i]->contains(name)) fail_missing(path[name], i);
    insert(name, stack_field(
                     samples, path[name], [&name = name](const Map& map) -> const auto& {
                       return map.find(name)->second;
                     }));
  }
}

template <Stackable T>
struct Stacking<std::map<std::string, T>> {
  static constexpr bool possible = true;
  using type = std::map<std::string, typename Stacking<T>::type>;
  static type stack(const Samples<std::map<std::string, T>>& samples, const FieldPath& path) {
    type all;
    stack_entries(samples, path, [&](const std::string& name, auto batch) {
      all.emplace(name, std::move(batch));
    });
    return all;
  }
};

template <>
struct Stacking<StateDict> {
  static constexpr bool possible = true;
  using type = StateDict;
  static StateDict stack(const Samples<StateDict>& samples, const FieldPath& path);
};

/// Calls f(field I of every sample, stacked) for each I, and gives `make` the results.
template <class S, class Make>
auto stack_fields(const Samples<S>& samples, const FieldPath& path, const Make& make) {
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    return make(stack_field(samples, path[I], [](const S& sample) -> const FieldOf<S, I>& {
      return std::get<I>(fields_of(sample));
    })...);
  }
  (std::make_index_sequence<std::tuple_size_v<FieldsOf<S>>>());
}

template <Stackable... T>
struct Stacking<std::tuple<T...>> {
  static constexpr bool possible = true;
  using type = std::tuple<typename Stacking<T>::type...>;
  static type stack(const Samples<std::tuple<T...>>& samples, const FieldPath& path) {
    return stack_fields(samples, path, [](auto... parts) { return type(std::move(parts)...); });
  }
};

template <Stackable A, Stackable B>
struct Stacking<std::pair<A, B>> {
  static constexpr bool possible = true;
  using type = std::pair<typename Stacking<A>::type, typename Stacking<B>::type>;
  static type stack(const Samples<std::pair<A, B>>& samples, const FieldPath& path) {
    return stack_fields(samples, path, [](auto... parts) { return type(std::move(parts)...); });
  }
};

template <Stackable T, std::size_t N>
struct Stacking<std::array<T, N>> {
  static constexpr bool possible = true;
  using type = std::array<typename Stacking<T>::type, N>;
  static type stack(const Samples<std::array<T, N>>& samples, const FieldPath& path) {
    return stack_fields(samples, path, [](auto... parts) { return type{std::move(parts)...}; });
  }
};

/// Whether each field is its own batch: then so is the struct.
template <class S, std::size_t... I>
constexpr bool keeps_types(std::index_sequence<I...>) {
  return (std::same_as<typename Stacking<FieldOf<S, I>>::type, FieldOf<S, I>> && ...);
}
template <class S>
concept StackableStruct =
    (Plain<S> || ListsFields<S>)&&std::default_initializable<S>&& keeps_types<S>(
        std::make_index_sequence<std::tuple_size_v<FieldsOf<S>>>());

template <StackableStruct S>
struct Stacking<S> {
  static constexpr bool possible = true;
  using type = S;
  static S stack(const Samples<S>& samples, const FieldPath& path) {
    return stack_fields(samples, path, [](auto... parts) {
      S out{};
      fields_of(out) = std::tuple(std::move(parts)...);
      return out;
    });
  }
};

/// The batch of samples that have these indices in their data set.
template <class S>
typename Stacking<S>::type collate(const std::vector<S>& samples,
                                   std::span<const std::int64_t> indices) {
  check_samples(samples.size());
  Samples<S> all;
  all.reserve(samples.size());
  for (const S& sample : samples) all.push_back(&sample);
  return Stacking<S>::stack(all, {indices});
}

}  // namespace impl

/// The type of a batch of samples S (the table above).
template <class S>
using BatchOf = typename impl::Stacking<S>::type;

/// Stacks samples, at least one, as loaders do without a function of the user's; copies on the
/// host. ShapeError, DTypeError or ValueError, which name the samples and the field, unless they
/// have the same shapes, dtypes, keys and lengths. A tensor that is a part of a sample and
/// undefined in all of them is undefined in the batch.
template <class S>
BatchOf<S> default_collate(const std::vector<S>& samples) {
  static_assert(impl::Stackable<S>,
                "samples of this type cannot be stacked: see the table in data/collate.h");
  return impl::collate(samples, {});
}

}  // namespace ferrite::data
