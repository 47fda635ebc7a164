#include "ferrite/data/inspect/statistics.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ferrite/core/parallel_for.h"

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

/// Converts the elements of type T from `begin` to `end`, in row-major order.
template <class T, class To>
void read_elements(const Tensor& tensor, std::int64_t begin, std::int64_t end, To* out) {
  const T* const p = static_cast<const T*>(tensor.data_ptr());
  const auto convert = [](T v) { return static_cast<To>(v); };
  if (tensor.is_contiguous()) {
    std::transform(p + begin, p + end, out, convert);
    return;
  }
  const Shape& shape = tensor.shape();
  const Strides& strides = tensor.strides();
  const int last = shape.size() - 1;
  Shape index = shape;
  std::int64_t rest = begin, at = 0;
  for (int d = last; d >= 0; rest /= shape[d--]) {
    index[d] = rest % shape[d];
    at += index[d] * strides[d];
  }
  while (begin < end) {
    const std::int64_t run = std::min(shape[last] - index[last], end - begin);
    for (std::int64_t i = 0; i < run; ++i) *out++ = convert(p[at + i * strides[last]]);
    begin += run;
    index[last] += run;
    at += run * strides[last];
    for (int d = last; d > 0 && index[d] == shape[d]; --d) {
      at += strides[d - 1] - shape[d] * strides[d];
      index[d] = 0;
      ++index[d - 1];
    }
  }
}

/// The elements as numbers: double, or complex, which every type can be.
template <class Number>
std::vector<Number> elements(const Tensor& tensor, std::int64_t begin, std::int64_t end) {
  std::vector<Number> out(static_cast<std::size_t>(end - begin));
  if constexpr (is_complex_type<Number>) {
    if (tensor.dtype() == kComplex64) {
      read_elements<std::complex<float>>(tensor, begin, end, out.data());
    } else if (tensor.dtype() == kComplex128) {
      read_elements<std::complex<double>>(tensor, begin, end, out.data());
    } else {
      std::ranges::copy(elements<double>(tensor, begin, end), out.begin());
    }
  } else {
    dispatch_all(tensor.dtype(), kStatisticsOp,
                 [&]<class T>() { read_elements<T>(tensor, begin, end, out.data()); });
  }
  return out;
}

bool is_nan(double v) { return std::isnan(v); }
bool is_nan(std::complex<double> v) { return std::isnan(v.real()) || std::isnan(v.imag()); }

/// |x - y|; infinities are equal to themselves.
double distance(double x, double y) { return x == y ? 0 : std::abs(x - y); }
double distance(std::complex<double> x, std::complex<double> y) {
  return std::hypot(distance(x.real(), y.real()), distance(x.imag(), y.imag()));
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

/// Integers have more digits than a double.
Difference compare_integers(const Tensor& a, const Tensor& b, std::int64_t begin,
                            std::int64_t end) {
  Difference found;
  const Compared add{found};
  std::vector<std::int64_t> x(static_cast<std::size_t>(end - begin)), y = x;
  read_elements<std::int64_t>(a, begin, end, x.data());
  read_elements<std::int64_t>(b, begin, end, y.data());
  for (std::size_t i = 0; i < x.size(); ++i)
    if (x[i] != y[i])
      add(static_cast<double>(static_cast<std::uint64_t>(std::max(x[i], y[i])) -
                              static_cast<std::uint64_t>(std::min(x[i], y[i]))),
          begin + static_cast<std::int64_t>(i));
  return found;
}

template <class Number>
Difference compare(const Tensor& a, const Tensor& b, std::int64_t begin, std::int64_t end) {
  Difference found;
  const Compared add{found};
  const std::vector<Number> x = elements<Number>(a, begin, end),
                            y = elements<Number>(b, begin, end);
  for (std::size_t i = 0; i < x.size(); ++i)
    if (x[i] != y[i] && !(is_nan(x[i]) && is_nan(y[i])))
      add(is_nan(x[i]) || is_nan(y[i]) ? std::nan("") : distance(x[i], y[i]),
          begin + static_cast<std::int64_t>(i));
  return found;
}

template <class Number>
Statistics sum_up(const Tensor& tensor, std::int64_t begin, std::int64_t end) {
  Number sum = 0;
  double squares = 0;
  for (const Number v : elements<Number>(tensor, begin, end)) {
    sum += v;
    squares += std::norm(v);
  }
  return {sum, squares};
}

}  // namespace

Statistics statistics_of(const Tensor& tensor) {
  const auto part_of = [&](std::int64_t begin, std::int64_t end) {
    return tensor.is_complex() ? sum_up<std::complex<double>>(tensor, begin, end)
                               : sum_up<double>(tensor, begin, end);
  };
  Statistics all;
  for (const Statistics& part : by_chunk<Statistics>(tensor.numel(), part_of)) {
    all.sum += part.sum;
    all.norm += part.norm;
  }
  all.norm = std::sqrt(all.norm);
  return all;
}

Difference difference_of(const Tensor& a, const Tensor& b) {
  const auto between = [&](std::int64_t begin, std::int64_t end) {
    if (a.dtype() == kInt64 && b.dtype() == kInt64) return compare_integers(a, b, begin, end);
    return a.is_complex() || b.is_complex() ? compare<std::complex<double>>(a, b, begin, end)
                                            : compare<double>(a, b, begin, end);
  };
  Difference all;
  for (const Difference& part : by_chunk<Difference>(a.numel(), between)) {
    if (part.unequal > 0 && (all.unequal == 0 || is_greater(part.greatest, all.greatest))) {
      all.greatest = part.greatest;
      all.position = part.position;
    }
    all.unequal += part.unequal;
  }
  return all;
}

void ElementBudget::add(const StateDict& tensors) {
  constexpr std::int64_t kPerByte = 16;
  for (const auto& [name, tensor] : tensors) {
    const Storage* const storage = tensor.storage().get();
    if (counted_.insert(storage).second)
      left_ += kPerByte * static_cast<std::int64_t>(storage->nbytes());
  }
}

bool ElementBudget::take(const Tensor& tensor) {
  if (tensor.numel() > left_) return false;
  left_ -= tensor.numel();
  return true;
}

}  // namespace ferrite::inspect
