#include "ferrite/kernels/cross_entropy.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "ferrite/kernels/cpu/axis_loop.h"
#include "ferrite/kernels/cpu/simd_math.h"

namespace ferrite::kernels::cpu {

namespace {

[[noreturn]] void fail_class(const CrossEntropyArgs& args, std::int64_t value,
                             std::int64_t offset) {
  std::string position;
  for (int d = 0; d < args.target.ndim; ++d) {
    if (d == args.dim) continue;
    const std::int64_t index =
        args.target.sizes[d] > 1 ? offset / args.target.strides[d] % args.target.sizes[d] : 0;
    position += (position.empty() ? "" : ", ") + std::to_string(index);
  }
  fail<IndexError>(args.log_probabilities ? "nll_loss" : "cross_entropy",
                   "target {} at position [{}] is out of range for {} classes (ignore_index is {})",
                   value, position, args.logits.sizes[args.dim], args.ignore_index);
}

/// Element `offset` of `v` as a double.
double element(const View& v, std::int64_t offset) {
  double value;
  load_run(&value, v.as<char>() + offset * static_cast<std::int64_t>(itemsize(v.dtype)), v.dtype, 1,
           1);
  return value;
}
void set_element(const View& v, std::int64_t offset, double value) {
  if (v.data)
    store_run(v.as<char>() + offset * static_cast<std::int64_t>(itemsize(v.dtype)), v.dtype, 1,
              &value, 1);
}

/// What both directions share. E is what they compute in.
template <class E>
struct Problem {
  explicit Problem(const CrossEntropyArgs& a)
      : args(a),
        loop(a.logits, a.target),
        logits(a.logits.data, a.logits.dtype),
        weight(a.weight.as<const E>()),
        classes(a.logits.sizes[a.dim]),
        smooth(a.label_smoothing / static_cast<double>(classes)) {
    for (std::int64_t c = 0; c < classes; ++c) all_weights += weight_of(c);
  }
  double weight_of(std::int64_t c) const { return weight ? static_cast<double>(weight[c]) : 1.0; }

  /// The class at a position, or -1 where it is ignored.
  std::int64_t target(std::int64_t position) const {
    const std::int64_t t = args.target.as<std::int64_t>()[position];
    if (t == args.ignore_index) return -1;
    if (t < 0 || t >= classes) [[unlikely]]
      fail_class(args, t, position);
    return t;
  }
  std::int64_t position_step() const { return loop.nest.kept.inner().out; }

  CrossEntropyArgs args;
  AxisLoop loop;
  RunReader<E> logits;
  const E* weight;
  std::int64_t classes;
  double smooth;  // a class's share of the smoothed label
  double all_weights = 0;
};

template <class E>
class Forward {
 public:
  Forward(const CrossEntropyArgs& args, const CrossEntropyResult& result)
      : p_(args), result_(result) {
    const std::int64_t chunks = (p_.loop.nest.outputs - 1) / p_.loop.grain() + 1;
    partial_.resize(static_cast<std::size_t>(std::max<std::int64_t>(1, chunks)));
  }

  void run() {
    p_.loop.run([&](std::int64_t chunk, std::int64_t at, std::int64_t position, std::int64_t n) {
      Sums& sums = partial_[static_cast<std::size_t>(chunk)];
      if (p_.args.log_probabilities)
        picks(sums, at, position, n);
      else if (!p_.loop.rows())
        columns(sums, at, position, n);
      else if (p_.classes <= kAxisBlock)
        short_rows(sums, at, position, n);
      else
        long_row(sums, at, position);
    });
    Sums total;
    for (const Sums& s : partial_) total.loss += s.loss, total.weight += s.weight;
    set_element(result_.sum, 0, total.loss);
    set_element(result_.mean, 0, total.loss / total.weight);
    set_element(result_.divisor, 0, total.weight);
  }

 private:
  struct Sums {
    double loss = 0, weight = 0;
  };

  /// Takes in one position: logits are given relative to their maximum `top`; `sum` is that of
  /// their exponentials, `weighted` that of the logits times the classes' weights.
  void emit(Sums& sums, std::int64_t position, std::int64_t t, E top, double sum, double picked,
            double weighted) const {
    const double log_sum = std::log(sum);
    set_element(result_.log_sums, position, static_cast<double>(top) + log_sum);
    double loss = 0;
    if (t >= 0) {
      const double w = p_.weight_of(t);
      loss = (1 - p_.args.label_smoothing) * w * (log_sum - picked);
      if (p_.smooth > 0) loss += p_.smooth * (p_.all_weights * log_sum - weighted);
      sums.loss += loss;
      sums.weight += w;
    }
    set_element(result_.losses, position, loss);
  }

  /// Of x - top.
  double weighted_sum(const E* x, E top, std::int64_t first, std::int64_t n) const {
    double sum = 0;
    for (std::int64_t i = 0; i < n; ++i)
      sum += static_cast<double>(x[i] - top) * p_.weight_of(first + i);
    return sum;
  }

  void short_rows(Sums& sums, std::int64_t at, std::int64_t position, std::int64_t n) const {
    const std::int64_t c = p_.classes;
    E buffer[kAxisBlock];
    const E* x = p_.logits.read(at, 1, n * c, buffer);
    for (std::int64_t r = 0; r < n; ++r, x += c, position += p_.position_step()) {
      const std::int64_t t = p_.target(position);
      const E top = largest(x, c);
      emit(sums, position, t, top, static_cast<double>(exp_sum(x, top, c)),
           t >= 0 ? static_cast<double>(x[t] - top) : 0.0,
           p_.smooth > 0 ? weighted_sum(x, top, 0, c) : 0.0);
    }
  }

  void long_row(Sums& sums, std::int64_t at, std::int64_t position) const {
    const std::int64_t c = p_.classes, t = p_.target(position);
    E buffer[kAxisBlock];
    E top = -std::numeric_limits<E>::infinity();
    double sum = 0, picked = 0, weighted = 0;
    for (std::int64_t i = 0; i < c; i += kAxisBlock) {
      const std::int64_t n = std::min(kAxisBlock, c - i);
      top = greater(top, largest(p_.logits.read(at + i, 1, n, buffer), n));
    }
    for (std::int64_t i = 0; i < c; i += kAxisBlock) {
      const std::int64_t n = std::min(kAxisBlock, c - i);
      const E* x = p_.logits.read(at + i, 1, n, buffer);
      sum += static_cast<double>(exp_sum(x, top, n));
      if (t >= i && t < i + n) picked = static_cast<double>(x[t - i] - top);
      if (p_.smooth > 0) weighted += weighted_sum(x, top, i, n);
    }
    emit(sums, position, t, top, sum, picked, weighted);
  }

  void columns(Sums& sums, std::int64_t at, std::int64_t position, std::int64_t n) const {
    E buffer[kAxisColumns], top[kAxisColumns], total[kAxisColumns] = {}, e[kAxisColumns];
    double picked[kAxisColumns] = {}, weighted[kAxisColumns] = {};
    std::int64_t targets[kAxisColumns];
    std::fill_n(top, n, -std::numeric_limits<E>::infinity());
    for (std::int64_t j = 0; j < n; ++j) targets[j] = p_.target(position + j * p_.position_step());
    for (std::int64_t c = 0; c < p_.classes; ++c) {
      const E* x = p_.logits.read(at + c * p_.loop.stride, 1, n, buffer);
      for (std::int64_t j = 0; j < n; ++j) top[j] = greater(top[j], x[j]);
    }
    for (std::int64_t c = 0; c < p_.classes; ++c) {
      const E* x = p_.logits.read(at + c * p_.loop.stride, 1, n, buffer);
      for (std::int64_t j = 0; j < n; ++j) e[j] = x[j] - top[j];
      if (p_.smooth > 0)
        for (std::int64_t j = 0; j < n; ++j)
          weighted[j] += static_cast<double>(e[j]) * p_.weight_of(c);
      exp_run(e, e, n);
      for (std::int64_t j = 0; j < n; ++j) total[j] += e[j];
    }
    for (std::int64_t j = 0; j < n; ++j) {
      if (targets[j] < 0) continue;
      const std::int64_t from = at + targets[j] * p_.loop.stride + j;
      picked[j] = static_cast<double>(*p_.logits.read(from, 1, 1, buffer) - top[j]);
    }
    for (std::int64_t j = 0; j < n; ++j)
      emit(sums, position + j * p_.position_step(), targets[j], top[j],
           static_cast<double>(total[j]), picked[j], weighted[j]);
  }

  /// Log probabilities need nothing but the picking.
  void picks(Sums& sums, std::int64_t at, std::int64_t position, std::int64_t n) const {
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t where = position + i * p_.position_step(), t = p_.target(where);
      const std::int64_t from = at + i * p_.loop.nest.kept.inner().in + t * p_.loop.stride;
      emit(sums, where, t, E(0), 1.0, t >= 0 ? element(p_.args.logits, from) : 0.0, 0.0);
    }
  }

  Problem<E> p_;
  CrossEntropyResult result_;
  std::vector<Sums> partial_;
};

template <class E>
class Backward {
 public:
  Backward(const View& out, const CrossEntropyArgs& args, const View& log_sums, const View& grad,
           const View& divisor)
      : p_(args), out_(out.data, out.dtype), log_sums_(log_sums), grad_(grad) {
    if (grad.numel == 1) {
      shared_ = element(grad, 0);
      if (divisor.data) shared_ /= element(divisor, 0);
    }
  }

  void run() const {
    p_.loop.run([&](auto, std::int64_t at, std::int64_t position, std::int64_t n) {
      p_.loop.rows() ? rows(at, position, n) : columns(at, position, n);
    });
  }

 private:
  /// What a position contributes: gradient_c = probability * p_c - picked (c == t) - share * w_c.
  struct Position {  // trivial, so that blocks of them are not filled with zeros first
    std::int64_t t;
    E high, low;  // log_sum in two parts, as its float32 would be too coarse
    E probability, picked, share;
  };
  Position position(std::int64_t at) const {
    Position p{};
    p.t = p_.target(at);
    if (p.t < 0) return p;
    const double grad = grad_.numel == 1 ? shared_ : element(grad_, at);
    const double picked = grad * (1 - p_.args.label_smoothing) * p_.weight_of(p.t);
    p.picked = static_cast<E>(picked);
    if (p_.args.log_probabilities) return p;
    const double log_sum = log_sums_.as<double>()[at];
    p.high = static_cast<E>(log_sum);
    p.low = static_cast<E>(log_sum - static_cast<double>(p.high));
    p.share = static_cast<E>(grad * p_.smooth);
    p.probability = static_cast<E>(picked + grad * p_.smooth * p_.all_weights);
    return p;
  }

  /// `n` rows, in pieces of at most a block.
  void rows(std::int64_t at, std::int64_t where, std::int64_t n) const {
    const std::int64_t c = p_.classes;
    E buffer[kAxisBlock], results[kAxisBlock];
    Position positions[kAxisBlock];
    for (std::int64_t r = 0; r < n; ++r) positions[r] = position(where + r * p_.position_step());
    for (std::int64_t first = 0; first < c; first += kAxisBlock) {
      const std::int64_t m = std::min(kAxisBlock, c - first);  // c itself where n > 1
      const E* x = p_.logits.read(at + first, 1, n * m, buffer);
      E* const to = out_.begin(at + first, results);
      for (std::int64_t r = 0; r < n; ++r) piece(positions[r], x + r * m, to + r * m, first, m);
      out_.end(at + first, to, n * m);
    }
  }
  /// Of one row, the classes [first, first + m).
  void piece(const Position& p, const E* x, E* to, std::int64_t first, std::int64_t m) const {
    if (p.probability == 0)  // ignored, or log probabilities: no NaN of theirs comes through
      std::fill_n(to, m, E(0));
    else
      simd::transform(
          to, m, [&](const auto& v) { return simd::exp((v - p.high) - p.low) * p.probability; }, x);
    if (p.share != 0)
      for (std::int64_t i = 0; i < m; ++i)
        to[i] -= p_.weight ? p.share * p_.weight[first + i] : p.share;
    if (p.t >= first && p.t < first + m) to[p.t - first] -= p.picked;
  }

  void columns(std::int64_t at, std::int64_t where, std::int64_t n) const {
    E buffer[kAxisColumns], results[kAxisColumns];
    // Side by side, so that the loops vectorise.
    E high[kAxisColumns], low[kAxisColumns], probability[kAxisColumns], picked[kAxisColumns];
    E share[kAxisColumns];
    std::int32_t target[kAxisColumns];
    for (std::int64_t j = 0; j < n; ++j) {
      const Position p = position(where + j * p_.position_step());
      high[j] = p.high, low[j] = p.low, probability[j] = p.probability;
      picked[j] = p.picked, share[j] = p.share, target[j] = static_cast<std::int32_t>(p.t);
    }
    for (std::int64_t c = 0; c < p_.classes; ++c, at += p_.loop.stride) {
      E* const e = out_.begin(at, results);
      if (p_.args.log_probabilities) {
        std::fill_n(e, n, E(0));
      } else {
        const E* x = p_.logits.read(at, 1, n, buffer);
#pragma GCC ivdep
        for (std::int64_t j = 0; j < n; ++j) e[j] = (x[j] - high[j]) - low[j];
        exp_run(e, e, n);
        for (std::int64_t j = 0; j < n; ++j)
          e[j] = probability[j] == 0 ? E(0) : e[j] * probability[j];
      }
      if (p_.smooth > 0) {
        const E w = static_cast<E>(p_.weight_of(c));
        for (std::int64_t j = 0; j < n; ++j) e[j] -= share[j] * w;
      }
      for (std::int64_t j = 0; j < n; ++j) e[j] -= target[j] == c ? picked[j] : E(0);
      out_.end(at, e, n);
    }
  }

  Problem<E> p_;
  RunWriter<E> out_;
  View log_sums_, grad_;
  double shared_ = 0;
};

}  // namespace

void cross_entropy(const CrossEntropyArgs& args, const CrossEntropyResult& result) {
  FERRITE_CHECK(!result.gradient.data, ValueError, "cross_entropy",
                "the forward pass computes no gradient on the CPU");
  args.logits.dtype == kFloat64 ? Forward<double>(args, result).run()
                                : Forward<float>(args, result).run();
}

void cross_entropy_backward(const View& out, const CrossEntropyArgs& args, const View& log_sums,
                            const View& grad, const View& divisor) {
  if (out.numel == 0) return;
  args.logits.dtype == kFloat64 ? Backward<double>(out, args, log_sums, grad, divisor).run()
                                : Backward<float>(out, args, log_sums, grad, divisor).run();
}

}  // namespace ferrite::kernels::cpu
