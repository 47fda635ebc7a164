#include "ferrite/kernels/order.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "ferrite/core/error.h"
#include "ferrite/core/parallel_for.h"
#include "ferrite/kernels/cpu/convert.h"
#include "ferrite/kernels/cpu/loops.h"
#include "ferrite/kernels/reduce_nest.h"
#include "ferrite/kernels/scan.h"

namespace ferrite::kernels::cpu {

namespace {

constexpr std::int64_t kColumns = 128;  // positions at a time
constexpr std::int64_t kChunk = 1024;   // elements of a row at a time

View with_size(const View& like, int dim, std::int64_t size) {
  View v = like;
  v.sizes[dim] = size;
  return v;
}

char* at(const View& v, std::int64_t offset) {
  return v.as<char>() + offset * static_cast<std::int64_t>(itemsize(v.dtype));
}

/// Positions beside `dim`, in blocks of at most kColumns.
class Positions {
 public:
  Positions(const View& out, const View& in, int dim)
      : nest_(with_size(out, dim, 1), in), size_(std::max<std::int64_t>(1, in.sizes[dim])) {}

  /// Strides from a position to the next.
  const ReduceNest::Dim& step() const { return nest_.kept.inner(); }

  /// Calls body(in offset, out offset, n). `cost` is the work of an element.
  template <class Body>
  void run(std::int64_t cost, Body&& body) const {
    const std::int64_t grain = std::max<std::int64_t>(1, kElementGrain / cost / size_);
    parallel_for(nest_.outputs, grain, [&](std::int64_t begin, std::int64_t end) {
      for_each_piece(nest_.kept, begin, end,
                     [&](std::int64_t in, std::int64_t out, std::int64_t n) {
                       for (std::int64_t i = 0; i < n; i += kColumns)
                         body(in + i * step().in, out + i * step().out, std::min(kColumns, n - i));
                     });
    });
  }

 private:
  ReduceNest nest_;
  std::int64_t size_;
};

/// Whether x comes before the best so far. The first NaN beats all numbers.
template <class E>
bool beats(bool max, E x, E best) {
  return (max ? x > best : x < best) | ((x != x) & (best == best));
}

template <class E>
struct Best {
  E value;
  std::int64_t index;
};

template <class E>
class ArgExtremum {
 public:
  ArgExtremum(Extremum kind, const View& values, const View& indices, const View& in, int dim)
      : max_(kind == Extremum::max),
        values_(values),
        indices_(indices),
        in_(in.data, in.dtype),
        size_(in.sizes[dim]),
        stride_(in.strides[dim]),
        positions_(indices, in, dim) {}

  void run() const {
    positions_.run(1, [&](std::int64_t from, std::int64_t to, std::int64_t n) {
      E best[kColumns];
      std::int64_t index[kColumns];
      if (stride_ < positions_.step().in || n == 1) {
        for (std::int64_t j = 0; j < n; ++j) {
          const Best<E> b = row(from + j * positions_.step().in);
          best[j] = b.value, index[j] = b.index;
        }
      } else {
        columns(from, n, best, index);
      }
      store_run(at(indices_, to), kInt64, positions_.step().out, index, n);
      if (values_.data) store_run(at(values_, to), values_.dtype, positions_.step().out, best, n);
    });
  }

 private:
  Best<E> row(std::int64_t from) const {
    E buffer[kChunk];
    Best<E> best{*in_.read(from, stride_, 1, buffer), 0};
    for (std::int64_t i = 0; i < size_ && best.value == best.value; i += kChunk) {
      const std::int64_t n = std::min(kChunk, size_ - i);
      search(in_.read(from + i * stride_, stride_, n, buffer), i, n, best);
    }
    return best;
  }

  /// A vectorised pass finds the extremum of x, another its place.
  void search(const E* x, std::int64_t first, std::int64_t n, Best<E>& best) const {
    constexpr std::int64_t kLanes = 32;
    if (n < 2 * kLanes) {
      for (std::int64_t j = 0; j < n; ++j)
        if (beats(max_, x[j], best.value)) best = {x[j], first + j};
      return;
    }
    const auto better = [this](E a, E b) { return beats(max_, b, a) ? b : a; };
    E lanes[kLanes];
    std::copy_n(x, kLanes, lanes);
    std::int64_t j = kLanes;
    for (; j + kLanes <= n; j += kLanes)
      for (std::int64_t k = 0; k < kLanes; ++k) lanes[k] = better(lanes[k], x[j + k]);
    for (; j < n; ++j) lanes[0] = better(lanes[0], x[j]);
    for (std::int64_t k = 1; k < kLanes; ++k) lanes[0] = better(lanes[0], lanes[k]);
    const E value = lanes[0];
    if (!beats(max_, value, best.value)) return;
    const auto is_it = [value](E e) { return (e == value) | ((e != e) & (value != value)); };
    for (j = 0; j + kLanes <= n; j += kLanes) {
      bool found = false;
      for (std::int64_t k = 0; k < kLanes; ++k) found |= is_it(x[j + k]);
      if (found) break;
    }
    while (!is_it(x[j])) ++j;
    best = {value, first + j};
  }

  void columns(std::int64_t from, std::int64_t n, E* best, std::int64_t* index) const {
    E buffer[kColumns];
    std::copy_n(in_.read(from, positions_.step().in, n, buffer), n, best);
    std::fill_n(index, n, std::int64_t{0});
    for (std::int64_t i = 1; i < size_; ++i) {
      const E* x = in_.read(from + i * stride_, positions_.step().in, n, buffer);
      for (std::int64_t j = 0; j < n; ++j) {
        const bool better = beats(max_, x[j], best[j]);
        best[j] = better ? x[j] : best[j];
        index[j] = better ? i : index[j];
      }
    }
  }

  bool max_;
  View values_, indices_;
  RunReader<E> in_;
  std::int64_t size_, stride_;
  Positions positions_;
};

/// Unsigned numbers in the order of E's: NaNs are equal and last, and so are the two zeros equal.
template <class E>
struct KeyOf {
  using Key = std::conditional_t<sizeof(E) == 4, std::uint32_t, std::uint64_t>;
  static constexpr Key kSign = Key(1) << (8 * sizeof(E) - 1);

  /// Without a jump, so that loops of it vectorise.
  static Key of(E x) {
    constexpr bool kFloating = std::is_floating_point_v<E>;
    if constexpr (kFloating) x += E(0);  // -0 becomes 0
    Key bits;
    std::memcpy(&bits, &x, sizeof bits);
    const Key turned = kFloating ? Key(0) - (bits >> (8 * sizeof(E) - 1)) : 0;
    return (bits ^ (turned | kSign)) | (Key(0) - static_cast<Key>(x != x));
  }
};

/// Puts the places of a row's elements into their order; equal ones stay in theirs.
template <class E>
class RowOrder {
  using Key = typename KeyOf<E>::Key;

 public:
  struct Item {
    Key key;
    std::uint32_t index;
    bool operator<(const Item& o) const { return key != o.key ? key < o.key : index < o.index; }
  };

  RowOrder(bool descending, std::int64_t size)
      : flip_(descending ? ~Key(0) : Key(0)), items_(static_cast<std::size_t>(size)) {}

  /// The first `wanted` of the elements at x.
  const Item* first(const E* x, std::int64_t wanted) {
    const std::size_t count = static_cast<std::size_t>(wanted);
    if (count < items_.size() / 4) {
      select(x, count);
    } else {
      for (std::size_t i = 0; i < items_.size(); ++i) items_[i] = item(x, i);
      if (items_.size() < kFewest)
        std::sort(items_.begin(), items_.end());
      else
        sort_by_digits();
    }
    return items_.data();
  }

 private:
  static constexpr std::size_t kFewest = 128;  // from which on the counters pay
  static constexpr std::size_t kDigits = sizeof(Key), kValues = 256;
  static constexpr std::size_t kBlock = 64;  // elements of which mostly none is among the first

  Item item(const E* x, std::size_t i) const {
    return {KeyOf<E>::of(x[i]) ^ flip_, static_cast<std::uint32_t>(i)};
  }

  /// A heap of the first ones so far, the last of them on top: few elements get past that.
  void select(const E* x, std::size_t count) {
    const auto begin = items_.begin(), end = begin + static_cast<std::ptrdiff_t>(count);
    for (std::size_t i = 0; i < count; ++i) items_[i] = item(x, i);
    std::make_heap(begin, end);
    Key last = items_[0].key, keys[kBlock];
    for (std::size_t i = count; i < items_.size(); i += kBlock) {
      const std::size_t n = std::min(kBlock, items_.size() - i);
      for (std::size_t j = 0; j < n; ++j) keys[j] = KeyOf<E>::of(x[i + j]) ^ flip_;
      Key least = keys[0];
      for (std::size_t j = 1; j < n; ++j) least = std::min(least, keys[j]);
      for (std::size_t j = 0; least < last && j < n; ++j) {
        if (keys[j] >= last) continue;
        std::pop_heap(begin, end);
        *(end - 1) = {keys[j], static_cast<std::uint32_t>(i + j)};
        std::push_heap(begin, end);
        last = items_[0].key;
      }
    }
    std::sort_heap(begin, end);
  }

  /// From the least significant byte on, which keeps the order of what is equal so far.
  void sort_by_digits() {
    std::array<std::array<std::uint32_t, kValues>, kDigits> counts{};
    const auto digit = [](Key key, std::size_t d) { return (key >> (8 * d)) & (kValues - 1); };
    for (const Item& i : items_)
      for (std::size_t d = 0; d < kDigits; ++d) ++counts[d][digit(i.key, d)];
    sorted_.resize(items_.size());
    for (std::size_t d = 0; d < kDigits; ++d) {
      auto& count = counts[d];
      if (count[digit(items_[0].key, d)] == items_.size()) continue;  // all the same
      std::uint32_t before = 0;
      for (std::uint32_t& c : count) before += std::exchange(c, before);
      for (const Item& i : items_) sorted_[count[digit(i.key, d)]++] = i;
      items_.swap(sorted_);
    }
  }

  Key flip_;
  std::vector<Item> items_, sorted_;
};

template <class E>
void sort_rows(bool descending, const View& values, const View& indices, const View& in, int dim) {
  const Positions positions(indices, in, dim);
  const RunReader<E> reader(in.data, in.dtype);
  const std::int64_t size = in.sizes[dim], wanted = indices.sizes[dim];
  const std::int64_t out_stride = indices.strides[dim];
  FERRITE_CHECK(size <= std::numeric_limits<std::uint32_t>::max(), ValueError, "sort",
                "expected at most 2^32 - 1 elements in a row, got {}", size);
  positions.run(16, [&](std::int64_t from, std::int64_t to, std::int64_t n) {
    RowOrder<E> order(descending, size);
    std::vector<E> row(static_cast<std::size_t>(size)), value(static_cast<std::size_t>(wanted));
    std::vector<std::int64_t> index(value.size());
    for (std::int64_t j = 0; j < n; ++j, from += positions.step().in, to += positions.step().out) {
      const E* x = reader.read(from, in.strides[dim], size, row.data());
      const auto* first = order.first(x, wanted);
      for (std::size_t i = 0; i < value.size(); ++i)
        value[i] = x[first[i].index], index[i] = first[i].index;
      store_run(at(values, to), values.dtype, out_stride, value.data(), wanted);
      store_run(at(indices, to), kInt64, out_stride, index.data(), wanted);
    }
  });
}

template <class E, class F>
void scan_rows(const View& out, const View& in, int dim, F join) {
  using State = typename F::State;
  using Result = typename F::Result;
  const Positions positions(out, in, dim);
  const RunReader<E> reader(in.data, in.dtype);
  const std::int64_t size = in.sizes[dim], stride = in.strides[dim], to_stride = out.strides[dim];
  const auto step = positions.step();
  positions.run(1, [&](std::int64_t from, std::int64_t to, std::int64_t n) {
    E buffer[kChunk];
    Result results[kChunk];
    const auto next = [&](State& state, E x, std::int64_t at) {
      state = join(state, F::of(x, at));
      return F::result(state);
    };
    if (stride < step.in || n == 1) {
      for (std::int64_t j = 0; j < n; ++j) {
        State state = F::identity();
        for (std::int64_t i = 0; i < size; i += kChunk) {
          const std::int64_t m = std::min(kChunk, size - i);
          const E* x = reader.read(from + j * step.in + i * stride, stride, m, buffer);
          for (std::int64_t k = 0; k < m; ++k) results[k] = next(state, x[k], i + k);
          store_run(at(out, to + j * step.out + i * to_stride), out.dtype, to_stride, results, m);
        }
      }
      return;
    }
    State states[kColumns];
    std::fill_n(states, n, F::identity());
    for (std::int64_t i = 0; i < size; ++i) {
      const E* x = reader.read(from + i * stride, step.in, n, buffer);
      for (std::int64_t j = 0; j < n; ++j) results[j] = next(states[j], x[j], i);
      store_run(at(out, to + i * to_stride), out.dtype, step.out, results, n);
    }
  });
}

template <class E>
void scan_as(ScanOp op, const View& out, const View& in, int dim) {
  switch (op) {
    case ScanOp::sum:
      return scan_rows<E>(out, in, dim, SumScan<E>());
    case ScanOp::prod:
      return scan_rows<E>(out, in, dim, ProductScan<E>());
    case ScanOp::logsumexp:
      return scan_rows<E>(out, in, dim, LogSumScan<E>());
    case ScanOp::argmax:
      return scan_rows<E>(out, in, dim, ExtremumScan<E, true>());
    case ScanOp::argmin:
      return scan_rows<E>(out, in, dim, ExtremumScan<E, false>());
  }
}

}  // namespace

void arg_extremum(Extremum kind, const View& values, const View& indices, const View& in, int dim) {
  if (in.numel == 0) return;
  dispatch_wide(in.dtype, [&]<class E>() { ArgExtremum<E>(kind, values, indices, in, dim).run(); });
}

void sort(Extremum first, const View& values, const View& indices, const View& in, int dim) {
  if (indices.numel == 0) return;
  dispatch_wide(in.dtype,
                [&]<class E>() { sort_rows<E>(first == Extremum::max, values, indices, in, dim); });
}

void scan(ScanOp op, const View& out, const View& in, int dim) {
  if (in.numel == 0) return;
  dispatch_wide(in.dtype, [&]<class E>() { scan_as<E>(op, out, in, dim); });
}

}  // namespace ferrite::kernels::cpu
