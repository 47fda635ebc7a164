#include "ferrite/kernels/parts.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "ferrite/core/parallel_for.h"
#include "ferrite/kernels/cpu/lanes.h"

namespace ferrite::kernels::cpu {

namespace {

constexpr std::int64_t kPartPieceBytes = 1 << 18;

/// Calls body(part, begin, end) for pieces of the parts, several at a time; a part that is not cut
/// may come together with its neighbours.
template <class Part, class Length, class Body>
void for_each_piece(const std::vector<Part>& parts, Length&& length, std::int64_t most,
                    Body&& body) {
  struct Piece {
    const Part* part;
    std::int64_t begin, end;
  };
  std::vector<Piece> pieces;
  std::int64_t total = 0;
  for (const Part& part : parts) {
    const std::int64_t n = length(part);
    total += n;
    for (std::int64_t at = 0; at < n; at += most)
      pieces.push_back({&part, at, std::min(n, at + most)});
  }
  const auto count = static_cast<std::int64_t>(pieces.size());
  const std::int64_t grain =
      std::max<std::int64_t>(1, count * most / std::max<std::int64_t>(1, total));
  parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Piece& piece = pieces[static_cast<std::size_t>(i)];
      body(*piece.part, piece.begin, piece.end);
    }
  });
}

/// What T is added as: integers wrap around.
template <class T>
struct AddedAs {
  using type = Compute<T>;
};
template <class T>
requires std::is_integral_v<T>
struct AddedAs<T> {
  using type = std::make_unsigned_t<T>;
};

template <class T>
void sum_piece(const SumPart& part, const void* const* inputs, std::int64_t begin,
               std::int64_t end) {
  constexpr int kWidth = 16;
  const auto block = [&](std::int64_t i, auto width) {
    constexpr int kW = width;
    using Sum = Lanes<typename AddedAs<T>::type, kW>;
    const auto values = [&](std::int32_t k) {
      return bits_as<Sum>(load<kW>(static_cast<const T*>(inputs[k]) + i));
    };
    Sum sum = values(0);
    for (std::int32_t k = 1; k < part.count; ++k) sum = sum + values(k);
    store<kW>(static_cast<T*>(part.out) + i, bits_as<Lanes<Compute<T>, kW>>(sum));
  };
  std::int64_t i = begin;
  for (; i + kWidth <= end; i += kWidth) block(i, std::integral_constant<int, kWidth>());
  for (; i < end; ++i) block(i, std::integral_constant<int, 1>());
}

}  // namespace

void copy_parts(const std::vector<CopyPart>& parts) {
  for_each_piece(
      parts, [](const CopyPart& part) { return part.bytes; }, kPartPieceBytes,
      [](const CopyPart& part, std::int64_t begin, std::int64_t end) {
        std::memcpy(static_cast<char*>(part.to) + begin,
                    static_cast<const char*>(part.from) + begin,
                    static_cast<std::size_t>(end - begin));
      });
}

void sum_parts(DType dtype, const std::vector<SumPart>& parts,
               const std::vector<const void*>& inputs) {
  dispatch_numeric(dtype, "sum_parts", [&]<class T>() {
    for_each_piece(
        parts, [](const SumPart& part) { return part.numel; },
        kPartPieceBytes / static_cast<std::int64_t>(sizeof(T)),
        [&](const SumPart& part, std::int64_t begin, std::int64_t end) {
          sum_piece<T>(part, inputs.data() + part.first, begin, end);
        });
  });
}

}  // namespace ferrite::kernels::cpu

namespace ferrite::kernels {

void sum_parts(const Stream& stream, DType dtype, const std::vector<SumPart>& parts,
               const std::vector<const void*>& inputs) {
  FERRITE_CHECK(dtype != kBool, DTypeError, "sum_parts", "expected numbers to add, got bool");
  launch<cpu::sum_parts, cuda::sum_parts>(stream, "sum_parts", dtype, parts, inputs);
}

}  // namespace ferrite::kernels
