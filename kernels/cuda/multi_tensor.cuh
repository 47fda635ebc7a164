// Many arrays in one launch: each block works on a chunk of one of them.
//
// The list of arrays is passed by value as a kernel argument, so that nothing has to be copied to
// the device, and a captured launch contains it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "ferrite/kernels/cuda/launch.cuh"

namespace ferrite::kernels::cuda {

/// At most N arrays, described by entries with a member `numel`.
template <class Entry, int N>
struct ArrayList {
  static constexpr int kMax = N;

  int count = 0;
  unsigned blocks = 0;  ///< of all arrays
  unsigned first_block[N];
  Entry entries[N];

  /// The array that `block` works on: the last one whose first block is at most `block`, because
  /// empty arrays have no blocks.
  __device__ __forceinline__ int array_of(unsigned block) const {
    int low = 0, high = count - 1;
    while (low < high) {
      const int middle = (low + high + 1) / 2;
      if (first_block[middle] <= block)
        low = middle;
      else
        high = middle - 1;
    }
    return low;
  }
};

/// The limit of a kernel's arguments in bytes, minus its arguments besides the list.
constexpr std::size_t kListBytes = 3968;
template <class Entry>
inline constexpr int kListCapacity = static_cast<int>((kListBytes - 8) /
                                                      (sizeof(Entry) + sizeof(unsigned)));

template <class Entry>
using ArrayListFor = ArrayList<Entry, kListCapacity<Entry>>;

/// Cuts arrays into chunks of `chunk` elements, but into `least` chunks at least, and calls
/// launch(list, index of the list's first array) for each list; launch must start `list.blocks`
/// blocks. entry(i) is the i-th of `count` entries.
template <class Entry, class MakeEntry, class Launch>
void for_each_list(std::size_t count, std::int64_t chunk, MakeEntry&& entry, Launch&& launch,
                   std::int64_t least = 0) {
  ArrayListFor<Entry> list;
  std::size_t first = 0;
  const auto flush = [&] {
    if (list.count > 0) launch(std::as_const(list), first);
    first += static_cast<std::size_t>(list.count);
    list.count = 0;
    list.blocks = 0;
  };
  for (std::size_t i = 0; i < count; ++i) {
    const Entry e = entry(i);
    const std::int64_t blocks = std::max(least, (e.numel + chunk - 1) / chunk);
    if (list.count == list.kMax || list.blocks + blocks > INT32_MAX) flush();
    list.entries[list.count] = e;
    list.first_block[list.count] = list.blocks;
    list.blocks += static_cast<unsigned>(blocks);
    ++list.count;
  }
  flush();
}

}  // namespace ferrite::kernels::cuda
