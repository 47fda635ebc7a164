#include "ferrite/data/inspect/statistics.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ferrite/core/parallel_for.h"
#include "ferrite/data/host.h"

namespace ferrite::inspect {

namespace {

constexpr const char* kStatisticsOp = "ferrite-inspect";
constexpr std::int64_t kChunk = 1 << 14;

/// What f(begin, end) gives for each chunk of `count` elements, computed on all threads.
template <class Part, class F>
std::vector<Part> by_chunk(std::int64_t count, F&& f) {
  std::vector<Part> parts(static_cast<std::size_t>((count + kChunk - 1) / kChunk));
  parallel_for(std::ssize(parts), 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t i = first; i < last; ++i)
      parts[static_cast<std::size_t>(i)] = f(i * kChunk, std::min(count, (i + 1) * kChunk));
  });
  return parts;
}

/// The elements from `begin` to `end` of a dense tensor.
std::vector<double> doubles(const Tensor& tensor, std::int64_t begin, std::int64_t end) {
  std::vector<double> out(static_cast<std::size_t>(end - begin));
  dispatch_all(tensor.dtype(), kStatisticsOp, [&]<class T>() {
    const T* const p = static_cast<const T*>(tensor.data_ptr());
    std::transform(p + begin, p + end, out.begin(), [](T v) { return static_cast<double>(v); });
  });
  return out;
}

/// Whether x is a greater difference than y: NaN is the greatest.
bool is_greater(double x, double y) { return x > y || (std::isnan(x) && !std::isnan(y)); }

struct Compared {
  Difference& found;

  void operator()(double difference, std::int64_t position) const {
    ++found.unequal;
    if (found.unequal > 1 && !is_greater(difference, found.greatest)) return;
    found.greatest = difference;
    found.position = position;
  }
};

Difference compare(const Tensor& a, const Tensor& b, std::int64_t begin, std::int64_t end) {
  Difference found;
  const Compared add{found};
  if (a.dtype() == kInt64 && b.dtype() == kInt64) {  // which have more digits than a double
    const auto* const x = a.data<std::int64_t>();
    const auto* const y = b.data<std::int64_t>();
    for (std::int64_t i = begin; i < end; ++i)
      if (x[i] != y[i])
        add(static_cast<double>(static_cast<std::uint64_t>(std::max(x[i], y[i])) -
                                static_cast<std::uint64_t>(std::min(x[i], y[i]))),
            i);
    return found;
  }
  const std::vector<double> x = doubles(a, begin, end), y = doubles(b, begin, end);
  for (std::size_t i = 0; i < x.size(); ++i)
    if (x[i] != y[i] && !(std::isnan(x[i]) && std::isnan(y[i])))
      add(std::abs(x[i] - y[i]), begin + static_cast<std::int64_t>(i));
  return found;
}

}  // namespace

Statistics statistics_of(const Tensor& tensor) {
  const Tensor dense = data::host_contiguous(tensor, kStatisticsOp);
  const auto add = [&](std::int64_t begin, std::int64_t end) {
    Statistics part;
    for (const double v : doubles(dense, begin, end)) {
      part.sum += v;
      part.norm += v * v;
    }
    return part;
  };
  Statistics all;
  for (const Statistics& part : by_chunk<Statistics>(dense.numel(), add)) {
    all.sum += part.sum;
    all.norm += part.norm;
  }
  all.norm = std::sqrt(all.norm);
  return all;
}

Difference difference_of(const Tensor& a, const Tensor& b) {
  const Tensor x = data::host_contiguous(a, kStatisticsOp),
               y = data::host_contiguous(b, kStatisticsOp);
  const auto between = [&](std::int64_t begin, std::int64_t end) {
    return compare(x, y, begin, end);
  };
  Difference all;
  for (const Difference& part : by_chunk<Difference>(x.numel(), between)) {
    if (part.unequal > 0 && (all.unequal == 0 || is_greater(part.greatest, all.greatest))) {
      all.greatest = part.greatest;
      all.position = part.position;
    }
    all.unequal += part.unequal;
  }
  return all;
}

}  // namespace ferrite::inspect
