#include "ferrite/kernels/concat.h"

#include <algorithm>
#include <cstring>

#include "ferrite/core/parallel_for.h"

namespace ferrite::kernels::cpu {

namespace {

constexpr std::int64_t kPieceBytes = 1 << 16;

/// Some rows of a part, or some bytes of one row.
struct ConcatPiece {
  char* to;
  const char* from;
  std::int64_t rows, bytes, from_step;
};

/// Rows of a single word, without a call for each.
template <class Word>
void copy_words(const ConcatPiece& piece, std::int64_t to_step) {
  for (std::int64_t r = 0; r < piece.rows; ++r)
    std::memcpy(piece.to + r * to_step, piece.from + r * piece.from_step, sizeof(Word));
}

void copy_piece(const ConcatPiece& piece, std::int64_t to_step) {
  switch (piece.bytes) {
    case 1:
      return copy_words<std::uint8_t>(piece, to_step);
    case 2:
      return copy_words<std::uint16_t>(piece, to_step);
    case 4:
      return copy_words<std::uint32_t>(piece, to_step);
    case 8:
      return copy_words<std::uint64_t>(piece, to_step);
    default:
      for (std::int64_t r = 0; r < piece.rows; ++r)
        std::memcpy(piece.to + r * to_step, piece.from + r * piece.from_step,
                    static_cast<std::size_t>(piece.bytes));
  }
}

}  // namespace

void concat(void* out, std::int64_t rows, const std::vector<ConcatPart>& parts) {
  std::vector<ConcatPiece> pieces;
  std::int64_t row_bytes = 0;
  for (const ConcatPart& part : parts) row_bytes += part.bytes;
  char* start = static_cast<char*>(out);
  for (const ConcatPart& part : parts) {
    const char* from = static_cast<const char*>(part.data);
    if (part.bytes > kPieceBytes) {
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t at = 0; at < part.bytes; at += kPieceBytes)
          pieces.push_back({start + r * row_bytes + at, from + r * part.bytes + at, 1,
                            std::min(kPieceBytes, part.bytes - at), part.bytes});
    } else if (part.bytes > 0) {
      const std::int64_t step = std::max<std::int64_t>(1, kPieceBytes / part.bytes);
      for (std::int64_t r = 0; r < rows; r += step)
        pieces.push_back({start + r * row_bytes, from + r * part.bytes, std::min(step, rows - r),
                          part.bytes, part.bytes});
    }
    start += part.bytes;
  }
  // Small pieces go to a thread several at a time.
  const auto count = static_cast<std::int64_t>(pieces.size());
  const std::int64_t total = std::max<std::int64_t>(1, rows * row_bytes);
  const std::int64_t grain = std::max<std::int64_t>(1, count * kPieceBytes / total);
  parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      copy_piece(pieces[static_cast<std::size_t>(i)], row_bytes);
  });
}

}  // namespace ferrite::kernels::cpu
