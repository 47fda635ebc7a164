// Many arrays cut into pieces for the threads, by size alone: sums of pieces are always the same.
#pragma once

#include <algorithm>
#include <vector>

#include "ferrite/core/parallel_for.h"
#include "ferrite/kernels/multi_tensor.h"

namespace ferrite::kernels::cpu {

constexpr std::int64_t kPiece = 32768;

/// A part of an array, small enough for one thread.
struct Piece {
  std::size_t array;
  std::int64_t begin, count;
};

/// `count` arrays of numel(i) elements, cut by size alone, in order.
template <class Numel>
std::vector<Piece> cut(std::size_t count, Numel&& numel, std::int64_t most = kPiece) {
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < count; ++i)
    for (std::int64_t at = 0, n = numel(i); at < n; at += most)
      pieces.push_back({i, at, std::min(most, n - at)});
  return pieces;
}
inline std::vector<Piece> cut(const FlatTensors& tensors) {
  return cut(tensors.arrays.size(), [&](std::size_t i) { return tensors.arrays[i].numel; });
}

/// Calls each(number of the piece, piece), on several threads.
template <class Each>
void for_each_piece(const std::vector<Piece>& pieces, Each&& each, std::int64_t most = kPiece) {
  const auto count = static_cast<std::int64_t>(pieces.size());
  // Small arrays go to a thread several at a time.
  std::int64_t total = 0;
  for (const Piece& p : pieces) total += p.count;
  const std::int64_t grain =
      std::max<std::int64_t>(1, count * most / std::max<std::int64_t>(1, total) / 2);
  parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
      each(i, pieces[i]);
  });
}

template <class T>
T* start_of(const FlatTensors& tensors, const Piece& piece) {
  return static_cast<T*>(tensors.arrays[piece.array].data) + piece.begin;
}

}  // namespace ferrite::kernels::cpu
