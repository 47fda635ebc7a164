#include "ferrite/nn/packed_sequence.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "ferrite/ops/concat.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/index.h"
#include "ferrite/ops/place.h"
#include "ferrite/ops/rearrange.h"
#include "ferrite/ops/views.h"

namespace ferrite::nn::utils::rnn {

namespace {

using Integers = std::vector<std::int64_t>;

Tensor tensor_of(const Integers& values) {
  return from_vector(values, {static_cast<std::int64_t>(values.size())});
}

/// The lengths of sequences with `steps` steps, [T, N, *] or with `batch_first` [N, T, *].
Integers checked_lengths(const Tensor& padded, const Tensor& lengths, bool batch_first,
                         std::int64_t least, const char* op) {
  FERRITE_CHECK(padded.defined() && padded.dim() >= 2, ShapeError, op, "expected {}, got {}",
                batch_first ? "[N, T, *]" : "[T, N, *]", padded.describe());
  FERRITE_CHECK(lengths.defined() && lengths.dtype() == kInt64, DTypeError, op,
                "expected lengths of int64, got {}", lengths.describe());
  FERRITE_CHECK(lengths.device().is_cpu(), DeviceError, op,
                "expected lengths on the host, got {}: use lengths.cpu()", lengths.describe());
  const std::int64_t count = padded.size(batch_first ? 0 : 1),
                     steps = padded.size(batch_first ? 1 : 0);
  FERRITE_CHECK(lengths.dim() == 1 && lengths.size(0) == count, ShapeError, op,
                "expected a length for each of {} sequences, got {}", count, lengths.describe());
  const Integers all = lengths.to_vector<std::int64_t>();
  for (const std::int64_t length : all)
    FERRITE_CHECK(length >= least && length <= steps, ValueError, op,
                  "expected lengths from {} to {}, the number of steps, got {}", least, steps,
                  length);
  return all;
}

/// The places of sequences, the longest first.
Integers longest_first(const Integers& lengths) {
  Integers order(lengths.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, std::greater(),
                           [&](std::int64_t n) { return lengths[static_cast<std::size_t>(n)]; });
  return order;
}

Integers inverse(const Integers& order) {
  Integers places(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    places[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  return places;
}

/// How many of the sequences have a step, for all steps.
Integers count_steps(const Integers& lengths) {
  Integers counts(static_cast<std::size_t>(*std::ranges::max_element(lengths)));
  for (const std::int64_t length : lengths) ++counts[static_cast<std::size_t>(length - 1)];
  for (std::size_t t = counts.size() - 1; t-- > 0;) counts[t] += counts[t + 1];
  return counts;
}

/// The lengths of sequences, the longest first, with these numbers of them at each step.
Integers lengths_of(const Integers& batch_sizes) {
  Integers lengths(static_cast<std::size_t>(batch_sizes.front()));
  for (const std::int64_t size : batch_sizes)
    for (std::int64_t i = 0; i < size; ++i) ++lengths[static_cast<std::size_t>(i)];
  return lengths;
}

/// The places of the sequences of a batch, the longest first; waits for a device.
Integers order_of(const PackedSequence& sequence, const Integers& batch_sizes, const char* op) {
  Integers all(static_cast<std::size_t>(batch_sizes.front()));
  std::iota(all.begin(), all.end(), 0);
  if (!sequence.sorted_indices.defined()) return all;
  const Integers order = sequence.sorted_indices.cpu().to_vector<std::int64_t>();
  Integers sorted = order;
  std::ranges::sort(sorted);
  FERRITE_CHECK(sorted == all, ValueError, op, "expected each index below {} once, got {}",
                all.size(), sequence.sorted_indices.str());
  return order;
}

/// row(n, t) for each row of packed data, of step t of sequence n.
template <class Row>
Tensor rows_of(const Integers& batch_sizes, const Integers& order, const Row& row) {
  Integers rows;
  for (std::size_t t = 0; t < batch_sizes.size(); ++t)
    for (std::int64_t i = 0; i < batch_sizes[t]; ++i)
      rows.push_back(row(order[static_cast<std::size_t>(i)], static_cast<std::int64_t>(t)));
  return tensor_of(rows);
}

/// The row of step t of sequence n in [T * N, *], or with `batch_first` in [N * T, *].
auto padded_row(std::int64_t steps, std::int64_t count, bool batch_first) {
  return
      [=](std::int64_t n, std::int64_t t) { return batch_first ? n * steps + t : t * count + n; };
}

/// Packs the rows of `all`; row(n, t) is that of step t of sequence n.
template <class Row>
PackedSequence pack(const Tensor& all, const Integers& lengths, bool enforce_sorted, const char* op,
                    const Row& row) {
  FERRITE_CHECK(!lengths.empty(), ValueError, op, "expected sequences, got none");
  const auto out_of_order = std::ranges::adjacent_find(lengths, std::less());
  FERRITE_CHECK(
      !enforce_sorted || out_of_order == lengths.end(), ValueError, op,
      "expected lengths that do not increase, got {} after {}: pass enforce_sorted = false",
      *std::next(out_of_order), *out_of_order);
  const Integers order = longest_first(lengths), sizes = count_steps(lengths);
  const Device device = all.device();
  PackedSequence packed{index_select(all, 0, rows_of(sizes, order, row).to(device)),
                        tensor_of(sizes)};
  if (!enforce_sorted) {
    packed.sorted_indices = tensor_of(order).to(device);
    packed.unsorted_indices = tensor_of(inverse(order)).to(device);
  }
  return packed;
}

}  // namespace

PackedSequence pack_padded_sequence(const Tensor& input, const Tensor& lengths, bool batch_first,
                                    bool enforce_sorted) {
  constexpr const char* kOp = "pack_padded_sequence";
  const Integers all = checked_lengths(input, lengths, batch_first, 1, kOp);
  return pack(input.flatten(0, 1), all, enforce_sorted, kOp,
              padded_row(input.size(batch_first ? 1 : 0), lengths.size(0), batch_first));
}

PackedSequence pack_padded_sequence(const Tensor& input, const std::vector<std::int64_t>& lengths,
                                    bool batch_first, bool enforce_sorted) {
  return pack_padded_sequence(input, tensor_of(lengths), batch_first, enforce_sorted);
}

PaddedSequences pad_packed_sequence(const PackedSequence& sequence, bool batch_first,
                                    Scalar padding_value, std::int64_t total_length) {
  constexpr const char* kOp = "pad_packed_sequence";
  const Integers sizes = detail::checked_batch_sizes(sequence, kOp), sorted = lengths_of(sizes);
  const auto longest = static_cast<std::int64_t>(sizes.size()), count = sizes.front();
  FERRITE_CHECK(total_length == 0 || total_length >= longest, ValueError, kOp,
                "expected a total_length of 0 or at least {}, the longest sequence, got {}",
                longest, total_length);
  const std::int64_t steps = std::max(longest, total_length);
  const Integers order = order_of(sequence, sizes, kOp);
  Integers lengths(sorted.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    lengths[static_cast<std::size_t>(order[i])] = sorted[i];

  const Tensor& data = sequence.data;
  Shape rows = data.shape();
  rows[0] = steps * count;
  const Tensor index = rows_of(sizes, order, padded_row(steps, count, batch_first));
  const Tensor padded =
      index_copy(full(rows, padding_value, {.dtype = data.dtype(), .device = data.device()}), 0,
                 index.to(data.device()), data);
  return {unflatten(padded, 0, batch_first ? Shape{count, steps} : Shape{steps, count}),
          tensor_of(lengths)};
}

Tensor pad_sequence(std::span<const Tensor> sequences, bool batch_first, Scalar padding_value,
                    std::string_view padding_side) {
  constexpr const char* kOp = "pad_sequence";
  FERRITE_CHECK(!sequences.empty(), ValueError, kOp, "expected sequences, got none");
  FERRITE_CHECK(padding_side == "right" || padding_side == "left", ValueError, kOp,
                "padding_side: expected \"right\" or \"left\", got \"{}\"", padding_side);
  std::int64_t steps = 0;
  for (const Tensor& s : sequences) {
    FERRITE_CHECK(s.defined() && s.dim() >= 1, ShapeError, kOp,
                  "expected sequences [length, *], got {}", s.describe());
    steps = std::max(steps, s.size(0));
  }
  std::vector<Tensor> padded;
  for (const Tensor& s : sequences) {
    Integers amounts(2 * static_cast<std::size_t>(s.dim()));
    amounts[amounts.size() - (padding_side == "left" ? 2 : 1)] = steps - s.size(0);
    padded.push_back(pad(s, amounts, PadMode::constant, padding_value));
  }
  return stack(padded, batch_first ? 0 : 1);
}

std::vector<Tensor> unpad_sequence(const Tensor& padded, const Tensor& lengths, bool batch_first) {
  const Integers all = checked_lengths(padded, lengths, batch_first, 0, "unpad_sequence");
  std::vector<Tensor> sequences = unbind(padded, batch_first ? 0 : 1);
  for (std::size_t n = 0; n < all.size(); ++n) sequences[n] = sequences[n].narrow(0, 0, all[n]);
  return sequences;
}

PackedSequence pack_sequence(std::span<const Tensor> sequences, bool enforce_sorted) {
  constexpr const char* kOp = "pack_sequence";
  Integers lengths, begins;
  std::int64_t begin = 0;
  for (const Tensor& s : sequences) {
    FERRITE_CHECK(s.defined() && s.dim() >= 1 && s.size(0) >= 1, ShapeError, kOp,
                  "expected sequences [length, *] of one step or more, got {}", s.describe());
    lengths.push_back(s.size(0)), begins.push_back(begin);
    begin += s.size(0);
  }
  FERRITE_CHECK(!lengths.empty(), ValueError, kOp, "expected sequences, got none");
  return pack(cat(sequences), lengths, enforce_sorted, kOp, [&](std::int64_t n, std::int64_t t) {
    return begins[static_cast<std::size_t>(n)] + t;
  });
}

std::vector<Tensor> unpack_sequence(const PackedSequence& sequence) {
  const auto [padded, lengths] = pad_packed_sequence(sequence, /*batch_first=*/true);
  return unpad_sequence(padded, lengths, /*batch_first=*/true);
}

namespace detail {

std::vector<std::int64_t> checked_batch_sizes(const PackedSequence& s, const char* op) {
  FERRITE_CHECK(s.data.defined() && s.data.dim() >= 1, ShapeError, op,
                "expected packed data [rows, *], got {}", s.data.describe());
  FERRITE_CHECK(s.batch_sizes.defined() && s.batch_sizes.dtype() == kInt64 &&
                    s.batch_sizes.device().is_cpu() && s.batch_sizes.dim() == 1,
                ValueError, op, "expected batch_sizes [T] of int64 on the host, got {}",
                s.batch_sizes.describe());
  const Integers sizes = s.batch_sizes.to_vector<std::int64_t>();
  FERRITE_CHECK(!sizes.empty() && sizes.back() > 0 &&
                    std::ranges::is_sorted(sizes, std::greater()) &&
                    std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}) == s.data.size(0),
                ValueError, op,
                "expected batch_sizes above 0 that do not increase and add up to the rows of {}, "
                "got {}",
                s.data.describe(), s.batch_sizes.str());
  for (const Tensor& indices : {s.sorted_indices, s.unsorted_indices})
    FERRITE_CHECK(!indices.defined() || (indices.dim() == 1 && indices.size(0) == sizes.front()),
                  ShapeError, op, "expected indices of {} sequences, got {}", sizes.front(),
                  indices.describe());
  return sizes;
}

}  // namespace detail

}  // namespace ferrite::nn::utils::rnn
