// Batches of sequences of different lengths, as torch.nn.utils.rnn has them. RNN, LSTM and GRU take
// packed sequences and compute no step that a sequence does not have.
//
//   namespace rnn = nn::utils::rnn;
//   auto packed = rnn::pack_padded_sequence(x, lengths, /*batch_first=*/true,
//                                           /*enforce_sorted=*/false);
//   auto [output, state] = lstm(packed);                                   // packed, too
//   auto [y, n] = rnn::pad_packed_sequence(output, /*batch_first=*/true);  // y: [N, T, *]
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <tuple>
#include <vector>

#include "ferrite/core/named_tuple.h"
#include "ferrite/core/scalar.h"
#include "ferrite/core/tensor.h"

namespace ferrite::nn::utils::rnn {

/// N sequences with T steps at most, without padding: a NamedTuple (core/named_tuple.h). Usually
/// made by pack_padded_sequence() or pack_sequence().
struct PackedSequence {
  /// [sum of the lengths, *]: the first step of each sequence, the longest sequence first, then the
  /// second step of each sequence that has one, and so on.
  Tensor data;
  Tensor batch_sizes;  ///< int64 [T] on the host: how many sequences have step t
  /// int64 [N] on the device of data: the places that the sequences, longest first, have in the
  /// batch. Undefined where the batch is in this order.
  Tensor sorted_indices = {};
  Tensor unsorted_indices = {};  ///< the inverse of sorted_indices
  /// The parts, for structured bindings.
  auto fields() { return std::tie(data, batch_sizes, sorted_indices, unsorted_indices); }
  auto fields() const { return std::tie(data, batch_sizes, sorted_indices, unsorted_indices); }

  /// The same sequences with data.to(arguments...), and the indices on its device.
  template <class... Arguments>
  PackedSequence to(const Arguments&... arguments) const {
    return with(data.to(arguments...));
  }
  /// The same sequences on the host.
  PackedSequence cpu() const { return with(data.cpu()); }
  /// The same sequences on this CUDA device, or the current one.
  PackedSequence cuda(int index = -1) const { return with(data.cuda(index)); }
  /// The same sequences with other values, a row for each row of data.
  PackedSequence with(const Tensor& values) const {
    const auto moved = [&](const Tensor& t) { return t.defined() ? t.to(values.device()) : t; };
    return {values, batch_sizes, moved(sorted_indices), moved(unsorted_indices)};
  }
};

/// What pad_packed_sequence() gives: `auto [padded, lengths] = ...`.
struct PaddedSequences {
  Tensor padded;   ///< [T, N, *], or [N, T, *] with batch_first
  Tensor lengths;  ///< int64 [N] on the host
  /// The parts, for structured bindings.
  auto fields() { return std::tie(padded, lengths); }
  auto fields() const { return std::tie(padded, lengths); }
  operator std::tuple<Tensor&, Tensor&>() && { return fields(); }
  operator std::tuple<Tensor, Tensor>() const { return fields(); }
};

/// Packs `input` [T, N, *], or [N, T, *] with `batch_first`, of which the first lengths[n] steps of
/// sequence n count. `lengths` is int64 [N] on the host. By default they must not increase; without
/// `enforce_sorted` they may be in any order, and results that are padded, and states, are in the
/// order of `input`. Differentiable. ShapeError for other shapes, DTypeError and DeviceError for
/// other lengths, ValueError for lengths below 1 or above T, or in the wrong order.
PackedSequence pack_padded_sequence(const Tensor& input, const Tensor& lengths,
                                    bool batch_first = false, bool enforce_sorted = true);
PackedSequence pack_padded_sequence(const Tensor& input, const std::vector<std::int64_t>& lengths,
                                    bool batch_first = false, bool enforce_sorted = true);
/// The other way round: [T, N, *], or [N, T, *] with `batch_first`, with `padding_value` behind the
/// sequences, and their lengths. T is the greatest length, or `total_length`, which is 0 or at
/// least that (ValueError). Differentiable. Indices on a device are waited for.
PaddedSequences pad_packed_sequence(const PackedSequence& sequence, bool batch_first = false,
                                    Scalar padding_value = 0, std::int64_t total_length = 0);

/// Sequences [length, *] side by side, [T, N, *] or with `batch_first` [N, T, *], with
/// `padding_value` behind them, or before them if `padding_side` is "left". T is the greatest
/// length. Dtypes are promoted. Differentiable. ValueError for no sequence and for another side,
/// ShapeError unless their other sizes agree, DeviceError for mixed devices.
Tensor pad_sequence(std::span<const Tensor> sequences, bool batch_first = false,
                    Scalar padding_value = 0, std::string_view padding_side = "right");
/// The other way round: views of the first lengths[n] steps of sequence n. Errors as of
/// pack_padded_sequence(), but that a length may be 0.
std::vector<Tensor> unpad_sequence(const Tensor& padded, const Tensor& lengths,
                                   bool batch_first = false);

/// Packs sequences [length, *]; otherwise as pad_sequence() and pack_padded_sequence().
PackedSequence pack_sequence(std::span<const Tensor> sequences, bool enforce_sorted = true);
/// The other way round.
std::vector<Tensor> unpack_sequence(const PackedSequence& sequence);

inline Tensor pad_sequence(std::initializer_list<Tensor> sequences, bool batch_first = false,
                           Scalar padding_value = 0, std::string_view padding_side = "right") {
  return pad_sequence(std::span(sequences.begin(), sequences.size()), batch_first, padding_value,
                      padding_side);
}
inline PackedSequence pack_sequence(std::initializer_list<Tensor> sequences,
                                    bool enforce_sorted = true) {
  return pack_sequence(std::span(sequences.begin(), sequences.size()), enforce_sorted);
}

namespace detail {

/// The values of batch_sizes. ValueError unless `sequence` holds together: sizes above 0 that do
/// not increase, and as many rows of data as they add up to.
std::vector<std::int64_t> checked_batch_sizes(const PackedSequence& sequence, const char* op);

}  // namespace detail

}  // namespace ferrite::nn::utils::rnn
