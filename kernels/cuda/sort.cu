// Sorting and the k largest. Elements are converted to keys whose order as unsigned integers is the
// required order. The position is appended to the key, so no two are equal and any sort is stable.
// A bitonic network sorts tiles in shared memory. If few elements of a long row are wanted, each
// tile passes on its first elements until one tile is left. Otherwise sorted runs are merged in
// pairs, and each block finds its part by binary search (Green, McColl and Bader, "GPU Merge Path",
// ICS 2012).
#include <algorithm>
#include <bit>

#include "ferrite/kernels/cuda/element.cuh"
#include "ferrite/kernels/cuda/reduce_dims.cuh"
#include "ferrite/kernels/cuda/workspace.h"
#include "ferrite/kernels/order.h"

namespace ferrite::kernels::cuda {

namespace {

constexpr int kSortThreads = 256;
constexpr std::size_t kScratchBytes = std::size_t{256} << 20;  // at most, unless one row needs more

/// A 32-bit key and a position in one word.
struct Narrow {
  static constexpr int kTile = 2048;  // elements that a block sorts or merges
  std::uint64_t word;
  __device__ static Narrow of(std::uint64_t key, std::int64_t index) {
    return {key << 32 | static_cast<std::uint64_t>(index)};
  }
  __device__ static Narrow last() { return {~std::uint64_t{0}}; }
  __device__ std::int64_t index() const { return static_cast<std::int64_t>(word & 0xffffffffu); }
  __device__ bool operator<(const Narrow& other) const { return word < other.word; }
};

struct alignas(16) Wide {
  static constexpr int kTile = 1024;
  std::uint64_t key;
  std::int64_t position;
  __device__ static Wide of(std::uint64_t key, std::int64_t index) { return {key, index}; }
  __device__ static Wide last() { return {~std::uint64_t{0}, INT64_MAX}; }
  __device__ std::int64_t index() const { return position; }
  __device__ bool operator<(const Wide& other) const {
    return key < other.key || (key == other.key && position < other.position);
  }
};

/// Maps a float to an unsigned integer of the same order, with NaN last and -0 equal to 0.
template <class Bits, class Float>
__device__ __forceinline__ Bits ordered(Float x) {
  if (x != x) return ~Bits{0};
  if (x == 0) x = 0;  // of either sign
  Bits bits;
  memcpy(&bits, &x, sizeof(bits));
  constexpr Bits kSign = Bits{1} << (sizeof(Bits) * 8 - 1);
  return bits & kSign ? ~bits : bits | kSign;
}

struct Problem {
  Elements in, values, indices;
  ReduceDims positions;
  std::int64_t first, count;  // of positions, those of this launch
  std::int64_t size, wanted;  // elements of a row, and how many sorted elements are wanted
  std::int64_t in_step, out_step;
  int bytes;  // of an element
  bool descending;

  /// 32 bits for dtypes of at most 32 bits, else 64.
  __device__ std::uint64_t key(std::int64_t at) const {
    switch (in.dtype) {
      case DType::float64: {
        const auto key = ordered<std::uint64_t>(in.get<double>(at));
        return descending ? ~key : key;
      }
      case DType::int64: {
        const auto key = static_cast<std::uint64_t>(in.get<std::int64_t>(at)) ^ std::uint64_t{1}
                                                                                    << 63;
        return descending ? ~key : key;
      }
      case DType::float32:
      case DType::float16:
      case DType::bfloat16: {
        const auto key = ordered<std::uint32_t>(in.get<float>(at));
        return descending ? ~key : key;
      }
      default: {
        const auto key = static_cast<std::uint32_t>(in.get<std::int32_t>(at)) ^ 0x80000000u;
        return descending ? ~key : key;
      }
    }
  }
  template <class Item>
  __device__ Item item(const ReduceDims::Offsets& row, std::int64_t i) const {
    return Item::of(key(row.in + i * in_step), i);
  }
  /// Writes result number `rank` of a row.
  __device__ void write(const ReduceDims::Offsets& row, std::int64_t rank,
                        std::int64_t index) const {
    const std::int64_t to = row.out + rank * out_step, from = row.in + index * in_step;
    static_cast<std::int64_t*>(indices.data)[to] = index;
    switch (bytes) {
      case 1:
        return copy<std::uint8_t>(to, from);
      case 2:
        return copy<std::uint16_t>(to, from);
      case 4:
        return copy<std::uint32_t>(to, from);
      default:
        return copy<std::uint64_t>(to, from);
    }
  }
  template <class Word>
  __device__ void copy(std::int64_t to, std::int64_t from) const {
    static_cast<Word*>(values.data)[to] = static_cast<const Word*>(in.data)[from];
  }
};

/// Rows of items that a kernel reads: the problem's elements, or the output of an earlier kernel.
template <class Item>
struct Source {
  const Item* items;  // [count, size]; null: the problem's elements
  std::int64_t size;

  __device__ Item get(const Problem& p, std::int64_t row, std::int64_t i) const {
    return items ? items[row * size + i] : p.item<Item>(p.positions.offsets(p.first + row), i);
  }
};

/// Sorts spans of 2^bits elements, of which a row has `spans` and a tile one or several. The first
/// `kept` of each span go to `out` [count, out_size], span by span; if `out` is null, they go to
/// the results.
template <class Item>
__global__ void __launch_bounds__(kSortThreads)
    sort_tiles(Problem p, Source<Item> source, Item* out, std::int64_t out_size, int bits,
               std::int64_t spans, int kept) {
  FERRITE_SHARED(tile, Item[Item::kTile]);
  const int thread = static_cast<int>(threadIdx.x), span = 1 << bits;
  const std::int64_t first = std::int64_t{blockIdx.x} * (Item::kTile >> bits);
  const std::int64_t last = p.count * spans;
  for (int e = thread; e < Item::kTile; e += kSortThreads) {
    const std::int64_t s = first + (e >> bits);
    const std::int64_t row = s / spans, i = (s % spans << bits) + (e & (span - 1));
    tile[e] = s < last && i < source.size ? source.get(p, row, i) : Item::last();
  }
  for (int size = 2; size <= span; size *= 2) {
    for (int distance = size / 2; distance > 0; distance /= 2) {
      __syncthreads();
      for (int pair = thread; pair < Item::kTile / 2; pair += kSortThreads) {
        const int low = 2 * pair - (pair & (distance - 1)), high = low + distance;
        const bool rises = size == span || (low & size) == 0;
        const Item a = tile[low], b = tile[high];
        if ((b < a) == rises) tile[low] = b, tile[high] = a;
      }
    }
  }
  __syncthreads();
  for (int e = thread; e < Item::kTile; e += kSortThreads) {
    const std::int64_t s = first + (e >> bits);
    const int rank = e & (span - 1);
    if (s >= last || rank >= kept) continue;
    const std::int64_t row = s / spans, place = s % spans * kept + rank;
    if (!out)
      p.write(p.positions.offsets(p.first + row), rank, tile[e].index());
    else if (place < out_size)  // not the padding of the last span
      out[row * out_size + place] = tile[e];
  }
}

/// How many of the first `diagonal` elements of the merged a and b come from a.
template <class Item>
__device__ std::int64_t merge_path(const Item* a, std::int64_t a_size, const Item* b,
                                   std::int64_t b_size, std::int64_t diagonal) {
  std::int64_t low = diagonal > b_size ? diagonal - b_size : 0;
  std::int64_t high = diagonal < a_size ? diagonal : a_size;
  while (low < high) {
    const std::int64_t middle = (low + high) / 2;
    if (a[middle] < b[diagonal - 1 - middle])
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/// Merges runs of `run` elements in pairs; each block writes one tile.
template <class Item>
__global__ void __launch_bounds__(kSortThreads)
    merge_runs(const Item* in, Item* out, std::int64_t size, std::int64_t run) {
  constexpr int kShare = Item::kTile / kSortThreads;
  FERRITE_SHARED(tile, Item[Item::kTile]);
  FERRITE_SHARED(bounds, std::int64_t[2]);
  const std::int64_t tiles = (size + Item::kTile - 1) / Item::kTile;
  const std::int64_t row = blockIdx.x / tiles, place = blockIdx.x % tiles * Item::kTile;
  const std::int64_t pair = place / (2 * run) * 2 * run;
  const std::int64_t a_size = run < size - pair ? run : size - pair;
  const std::int64_t b_size = run < size - pair - a_size ? run : size - pair - a_size;
  const Item* const a = in + row * size + pair;
  const Item* const b = a + a_size;
  const std::int64_t begin = place - pair;
  const std::int64_t left = a_size + b_size - begin;
  const int count = static_cast<int>(left < Item::kTile ? left : Item::kTile);
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < 2) bounds[thread] = merge_path(a, a_size, b, b_size, begin + thread * count);
  __syncthreads();
  const std::int64_t a_first = bounds[0], b_first = begin - a_first;
  const int a_count = static_cast<int>(bounds[1] - a_first), b_count = count - a_count;
  for (int i = thread; i < count; i += kSortThreads)
    tile[i] = i < a_count ? a[a_first + i] : b[b_first + i - a_count];
  __syncthreads();

  const int mine = thread * kShare < count ? thread * kShare : count;
  auto i = static_cast<int>(merge_path(tile, a_count, tile + a_count, b_count, mine));
  int j = a_count + mine - i;
  Item share[kShare];
#pragma unroll
  for (int k = 0; k < kShare; ++k) {
    if (mine + k >= count) break;
    const bool from_a = j >= count || (i < a_count && tile[i] < tile[j]);
    share[k] = tile[from_a ? i++ : j++];
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kShare; ++k)
    if (mine + k < count) tile[mine + k] = share[k];
  __syncthreads();
  for (int k = thread; k < count; k += kSortThreads) out[row * size + place + k] = tile[k];
}

/// Writes the results of sorted rows.
template <class Item>
__global__ void __launch_bounds__(kSortThreads) write_sorted(Problem p, const Item* items) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kSortThreads + threadIdx.x;
  const std::int64_t row = i / p.wanted, rank = i % p.wanted;
  if (row < p.count)
    p.write(p.positions.offsets(p.first + row), rank, items[row * p.size + rank].index());
}

std::int64_t ceil_divide(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

template <class Item>
class Sorter {
  static constexpr int kTile = Item::kTile;

 public:
  Sorter(const Stream& stream, const Problem& problem) : stream_(stream), p_(problem) {}

  void run() {
    const std::int64_t rows = p_.count;
    if (p_.size <= kTile) return sort_into_results({nullptr, p_.size});
    const bool few = p_.wanted <= kTile / 4;
    // Elements of a row that remain after the first pass, and after the second.
    const std::int64_t first = few ? ceil_divide(p_.size, kTile) * p_.wanted : p_.size;
    const std::int64_t second = few ? ceil_divide(first, kTile) * p_.wanted : p_.size;
    const std::size_t bytes = static_cast<std::size_t>(first + second) * sizeof(Item);
    const auto at_once = static_cast<std::int64_t>(std::max<std::size_t>(1, kScratchBytes / bytes));
    const std::int64_t most = std::min(rows, at_once);
    const Workspace scratch(stream_, static_cast<std::size_t>(most) * bytes);
    Item* const a = scratch.template as<Item>();
    Item* const b = a + most * first;
    for (std::int64_t done = 0; done < rows; done += most) {
      p_.first = done;
      p_.count = std::min(most, rows - done);
      few ? select(a, b) : merge(a, b);
    }
  }

 private:
  /// Sorts the spans of each row and passes on the first `kept` elements of each.
  void sort_spans(const Source<Item>& source, Item* out, std::int64_t out_size, std::int64_t kept) {
    const auto longest = static_cast<std::uint64_t>(std::min<std::int64_t>(source.size, kTile));
    const auto bits = static_cast<int>(std::bit_width(longest - 1));
    const std::int64_t spans = ceil_divide(source.size, std::int64_t{1} << bits);
    launch({"sort tiles", stream_, blocks_for(p_.count * spans, kTile >> bits), kSortThreads},
           sort_tiles<Item>, p_, source, out, out_size, bits, spans, static_cast<int>(kept));
  }
  void sort_into_results(const Source<Item>& source) { sort_spans(source, nullptr, 0, p_.wanted); }

  void select(Item* to, Item* other) {
    Source<Item> source{nullptr, p_.size};
    while (source.size > kTile) {
      const std::int64_t size = ceil_divide(source.size, kTile) * p_.wanted;
      sort_spans(source, to, size, p_.wanted);
      source = {to, size};
      std::swap(to, other);
    }
    sort_into_results(source);
  }

  void merge(Item* from, Item* to) {
    sort_spans({nullptr, p_.size}, from, p_.size, kTile);
    const std::int64_t tiles = p_.count * ceil_divide(p_.size, kTile);
    for (std::int64_t run = kTile; run < p_.size; run *= 2) {
      launch({"sort merge", stream_, static_cast<unsigned>(tiles), kSortThreads}, merge_runs<Item>,
             static_cast<const Item*>(from), to, p_.size, run);
      std::swap(from, to);
    }
    launch({"sort results", stream_, blocks_for(p_.count * p_.wanted, kSortThreads), kSortThreads},
           write_sorted<Item>, p_, static_cast<const Item*>(from));
  }

  const Stream& stream_;
  Problem p_;
};

}  // namespace

void sort(const Stream& stream, Extremum first, const View& values, const View& indices,
          const View& in, int dim) {
  if (indices.numel == 0) return;
  View place = indices;  // one element a row
  place.sizes[dim] = 1;
  const ReduceNest nest(place, in);
  const Problem problem{.in = in,
                        .values = values,
                        .indices = indices,
                        .positions = ReduceDims(nest.kept),
                        .first = 0,
                        .count = nest.outputs,
                        .size = in.sizes[dim],
                        .wanted = indices.sizes[dim],
                        .in_step = in.strides[dim],
                        .out_step = indices.strides[dim],
                        .bytes = static_cast<int>(itemsize(in.dtype)),
                        .descending = first == Extremum::max};
  if (itemsize(in.dtype) == 8 || problem.size >= std::int64_t{1} << 32)
    Sorter<Wide>(stream, problem).run();
  else
    Sorter<Narrow>(stream, problem).run();
}

}  // namespace ferrite::kernels::cuda
