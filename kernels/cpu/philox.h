// Philox words for runs of elements, in a form that vectorises.
#pragma once

#include <algorithm>
#include <cstdint>

#include "ferrite/core/generator.h"

namespace ferrite::kernels::cpu {

/// Blocks made at a time: 256 words.
inline constexpr int kPhiloxBatch = 64;

/// The words of the kPhiloxBatch blocks from `block` on, in order: words[4 * i + j] is
/// philox(seed, block + i).v[j].
inline void philox_batch(std::uint64_t seed, std::uint64_t block, std::uint32_t* words) {
  std::uint32_t v[4][kPhiloxBatch];
  for (int i = 0; i < kPhiloxBatch; ++i) {
    const PhiloxBlock b = philox(seed, block + static_cast<std::uint64_t>(i));
    for (int j = 0; j < 4; ++j) v[j][i] = b.v[j];
  }
  for (int i = 0; i < kPhiloxBatch; ++i)
    for (int j = 0; j < 4; ++j) words[4 * i + j] = v[j][i];
}

/// Calls use(words, first, count) for elements [begin, end) in runs within one batch, where an
/// element takes `words_per_element` (1 or 2) words; `words` are those of element `first`'s batch,
/// and `skip` the elements of the batch before `first`.
template <int words_per_element, class Use>
void for_each_batch(PhiloxState state, std::int64_t begin, std::int64_t end, Use&& use) {
  constexpr std::int64_t kElements = 4 * kPhiloxBatch / words_per_element;
  alignas(64) std::uint32_t words[4 * kPhiloxBatch];
  while (begin < end) {
    const std::int64_t batch = begin / kElements, skip = begin % kElements;
    const std::int64_t count = std::min(kElements - skip, end - begin);
    philox_batch(state.seed, state.offset + static_cast<std::uint64_t>(batch * kPhiloxBatch),
                 words);
    use(static_cast<const std::uint32_t*>(words), begin, skip, count);
    begin += count;
  }
}

}  // namespace ferrite::kernels::cpu
