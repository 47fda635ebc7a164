// Many arrays cut into pieces for the threads, by size alone: sums of pieces are always the same.
#pragma once

#include <algorithm>
#include <vector>

#include "ferrite/core/parallel_for.h"
#include "ferrite/kernels/optim.h"

namespace ferrite::kernels::cpu {

constexpr std::int64_t kPiece = 32768;

/// A part of an array, small enough for one thread.
struct Piece {
  std::size_t array;
  std::int64_t begin, count;
};

/// The arrays cut by size alone, in order.
inline std::vector<Piece> cut(const FlatTensors& tensors) {
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < tensors.arrays.size(); ++i)
    for (std::int64_t at = 0; at < tensors.arrays[i].numel; at += kPiece)
      pieces.push_back({i, at, std::min(kPiece, tensors.arrays[i].numel - at)});
  return pieces;
}

/// Calls each(number of the piece, piece), on several threads.
template <class Each>
void for_each_piece(const std::vector<Piece>& pieces, Each&& each) {
  const auto count = static_cast<std::int64_t>(pieces.size());
  // Small arrays go to a thread several at a time.
  std::int64_t total = 0;
  for (const Piece& p : pieces) total += p.count;
  const std::int64_t grain =
      std::max<std::int64_t>(1, count * kPiece / std::max<std::int64_t>(1, total) / 2);
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
