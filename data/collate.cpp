#include "ferrite/data/collate.h"

#include <fmt/format.h>

#include <algorithm>

#include "ferrite/data/collation.h"

namespace ferrite::data::impl {

namespace {

constexpr std::string_view kCollate = "default_collate";

/// "sample 7", by its index in the data set.
std::string sample_at(const FieldPath& path, std::size_t position) {
  return fmt::format("sample {}", path.indices.empty() ? static_cast<std::int64_t>(position)
                                                       : path.indices[position]);
}

/// "field 1.label", or nothing for the whole sample.
std::string field_at(const FieldPath& path) {
  if (!path.outer) return {};
  const std::string before = field_at(*path.outer);
  const std::string own = path.name.empty() ? fmt::to_string(path.number) : std::string(path.name);
  return before.empty() ? "field " + own : before + "." + own;
}

/// ", field 1.label" for the end of a message.
std::string in_field(const FieldPath& path) {
  const std::string field = field_at(path);
  return field.empty() ? field : ", " + field;
}

}  // namespace

Tensor stack_tensors(std::span<const Tensor* const> tensors, const FieldPath& path, Field field) {
  Collation batch(static_cast<std::int64_t>(tensors.size()));
  if (tensors[0]->defined() || field == Field::required) {
    for (std::size_t i = 0; i < tensors.size(); ++i)
      FERRITE_CHECK(tensors[i]->defined(), ValueError, kCollate,
                    "expected a tensor in {}{}, got an undefined one", sample_at(path, i),
                    in_field(path));
  } else {
    const auto defined =
        std::ranges::find_if(tensors, [](const Tensor* t) { return t->defined(); });
    if (defined == tensors.end()) return {};
    fail<ValueError>(kCollate,
                     "expected the tensors of a field to be defined in all samples or in none; "
                     "{} has none, {} has one{}",
                     sample_at(path, 0),
                     sample_at(path, static_cast<std::size_t>(defined - tensors.begin())),
                     in_field(path));
  }
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Tensor &first = *tensors[0], &t = *tensors[i];
    FERRITE_CHECK(t.shape() == first.shape(), ShapeError, kCollate,
                  "expected samples of one shape, got {} in {} and {} in {}{}; pad them, or give "
                  "the loader a function that makes the batch",
                  first.shape(), sample_at(path, 0), t.shape(), sample_at(path, i), in_field(path));
    FERRITE_CHECK(t.dtype() == first.dtype(), DTypeError, kCollate,
                  "expected samples of one dtype, got {} in {} and {} in {}{}", first.dtype(),
                  sample_at(path, 0), t.dtype(), sample_at(path, i), in_field(path));
    batch.add(t);
  }
  return batch.take();
}

Tensor stack_numbers(std::span<const std::int64_t> values, DType dtype) {
  const auto n = static_cast<std::int64_t>(values.size());
  FERRITE_CHECK(n > 0, ValueError, kCollate, "expected at least one sample");
  Tensor out = empty({n}, {.dtype = dtype, .device = kCPU});
  if (dtype == kBool)
    std::ranges::transform(values, out.data<bool>(), [](std::int64_t v) { return v != 0; });
  else
    std::ranges::copy(values, out.data<std::int64_t>());
  return out;
}

Tensor stack_numbers(std::span<const double> values, DType dtype) {
  const auto n = static_cast<std::int64_t>(values.size());
  FERRITE_CHECK(n > 0, ValueError, kCollate, "expected at least one sample");
  Tensor out = empty({n}, {.dtype = dtype, .device = kCPU});
  if (dtype == kFloat32)
    std::ranges::transform(values, out.data<float>(),
                           [](double v) { return static_cast<float>(v); });
  else
    std::ranges::copy(values, out.data<double>());
  return out;
}

void check_samples(std::size_t count) {
  FERRITE_CHECK(count > 0, ValueError, kCollate, "expected at least one sample, got none");
}

void check_count(const FieldPath& path, std::size_t position, std::size_t expected,
                 std::size_t got) {
  FERRITE_CHECK(got == expected, ValueError, kCollate,
                "expected samples of one length, got {} elements in {} and {} in {}{}", expected,
                sample_at(path, 0), got, sample_at(path, position), in_field(path));
}

void fail_missing(const FieldPath& path, std::size_t position) {
  fail<ValueError>(kCollate, "expected 1 entry of this name in each sample, got none in {}{}",
                   sample_at(path, position), in_field(path));
}

Batch Stacking<Sample>::stack(const Samples<Sample>& samples, const FieldPath& path) {
  std::vector<const Tensor*> inputs, labels;
  inputs.reserve(samples.size()), labels.reserve(samples.size());
  for (const Sample* sample : samples) {
    inputs.push_back(&sample->input);
    labels.push_back(&sample->label);
  }
  return {stack_tensors(inputs, path["input"], Field::required),
          stack_tensors(labels, path["label"], Field::optional)};
}

StateDict Stacking<StateDict>::stack(const Samples<StateDict>& samples, const FieldPath& path) {
  StateDict all;
  stack_entries(samples, path,
                [&](const std::string& name, Tensor batch) { all.insert(name, std::move(batch)); });
  return all;
}

}  // namespace ferrite::data::impl
