#include "ferrite/optim/lbfgs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/core/profiler/range.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/matmul.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/unary.h"

namespace ferrite::optim {

namespace {

double largest(const Tensor& x) { return abs(x).max().item<double>(); }
double product(const Tensor& a, const Tensor& b) { return dot(a, b).item<double>(); }

/// Where the cubic through two points with these values and slopes has its minimum, between `low`
/// and `high`; their middle if it has none.
double cubic_minimum(std::array<double, 2> x, std::array<double, 2> f, std::array<double, 2> g,
                     double low, double high) {
  const double d1 = g[0] + g[1] - 3 * (f[0] - f[1]) / (x[0] - x[1]);
  const double square = d1 * d1 - g[0] * g[1];
  if (!(square >= 0)) return (low + high) / 2;
  const double d2 = std::sqrt(square);
  const std::size_t a = x[0] <= x[1] ? 0 : 1, b = 1 - a;
  const double least = x[b] - (x[b] - x[a]) * ((g[b] + d2 - d1) / (g[b] - g[a] + 2 * d2));
  return std::min(std::max(least, low), high);
}

}  // namespace

namespace {

constexpr std::string_view kLineSearches[] = {"", "strong_wolfe"};

}  // namespace

Fields LBFGSOptions::fields() {
  return {{"lr", &lr, kNonNegative},
          {"max_iter", &max_iter, kNonNegative},
          {"max_eval", &max_eval},
          {"tolerance_grad", &tolerance_grad, kNonNegative},
          {"tolerance_change", &tolerance_change, kNonNegative},
          {"history_size", &history_size, kPositive},
          {"line_search_fn", Word{&line_search_fn, kLineSearches}},
          {"maximize", &maximize}};
}

void LBFGSOptions::check() const {
  FERRITE_CHECK(line_search_fn.empty() || line_search_fn == "strong_wolfe", ValueError, kName,
                "expected line_search_fn \"strong_wolfe\" or none, got \"{}\"", line_search_fn);
}

void LBFGSOptions::check_parameter(const Tensor& p) {
  FERRITE_CHECK(!p.defined() || itemsize(p.dtype()) >= 4, ValueError, kName,
                "expected parameters of float32 or float64, in which curvature can be seen, got {}",
                p.describe());
}

void LBFGS::step_group(std::size_t, const Tensor&, const Tensor&) {
  FERRITE_CHECK(
      false, ValueError, name_,
      "a step needs the closure that computes the loss: step([&] {{ ... return loss; }})");
}

const std::vector<Tensor>& LBFGS::checked_parameters() const {
  FERRITE_CHECK(num_groups() == 1, ValueError, name_, "expected one group of parameters, got {}",
                num_groups());
  const std::vector<Tensor>& all = parameters(0);
  for (const Tensor& p : all)
    FERRITE_CHECK(p.device() == all[0].device() && p.dtype() == all[0].dtype(), ValueError, name_,
                  "expected parameters of one type on one device, got {} and {}", all[0].describe(),
                  p.describe());
  return all;
}

/// The gradient is zero for parameters that have none.
LBFGS::Value LBFGS::evaluate(const Closure& closure, Tensor* loss) const {
  Tensor result;
  {
    EnableGradGuard guard;
    result = closure();
  }
  FERRITE_CHECK(result.defined() && result.numel() == 1, ValueError, name_,
                "expected the closure to return the loss, one number, got {}", result.describe());
  std::vector<Tensor> parts;
  for (const Tensor& p : parameters(0))
    parts.push_back(p.grad().defined() ? p.grad().detach().reshape({-1})
                                       : zeros({p.numel()}, p.options()));
  const Tensor grad = cat(parts);
  if (loss) *loss = result;
  const double value = result.item<double>();
  return options().maximize ? Value{-value, neg(grad)} : Value{value, grad};
}

void LBFGS::move(double t, const Tensor& direction) const {
  std::int64_t offset = 0;
  for (const Tensor& p : parameters(0)) {
    p.add_(direction.narrow(0, offset, p.numel()).reshape(p.shape()), t);
    offset += p.numel();
  }
}

/// Takes the last step into the history.
void LBFGS::remember(const Tensor& grad) {
  const Tensor change = grad - prev_flat_grad_, step = d_ * t_;
  const double both = product(change, step);
  if (!(both > 1e-10)) return;  // no curvature, which would make the matrix indefinite
  if (static_cast<std::int64_t>(history_.size()) >= options().history_size) history_.pop_front();
  history_.push_back({change, step, 1 / both});
  h_diag_ = both / product(change, change);
}

/// The history's approximation of the inverse Hessian times -grad (the two-loop recursion).
Tensor LBFGS::direction(const Tensor& grad) const {
  const Tensor q = neg(grad);
  std::vector<double> al(history_.size());
  for (std::size_t i = history_.size(); i-- > 0;) {
    al[i] = product(history_[i].step, q) * history_[i].ro;
    q.add_(history_[i].change, -al[i]);
  }
  q.mul_(h_diag_);
  for (std::size_t i = 0; i < history_.size(); ++i) {
    const double be = product(history_[i].change, q) * history_[i].ro;
    q.add_(history_[i].step, al[i] - be);
  }
  return q;
}

/// The strong Wolfe conditions (Nocedal and Wright, algorithms 3.5 and 3.6), with the tries and
/// bounds of torch.optim. Ends with the parameters where it began.
LBFGS::Point LBFGS::search(const Closure& closure, const Point& start, double t, std::int64_t most,
                           std::int64_t& evaluations) const {
  constexpr double c1 = 1e-4, c2 = 0.9, kShortest = 1e-9;
  std::vector<Tensor> origin;
  for (const Tensor& p : parameters(0)) origin.push_back(p.detach().clone());
  const auto at = [&](double where) {
    move(where, d_);
    const Value value = evaluate(closure);
    for (std::size_t i = 0; i < origin.size(); ++i) parameters(0)[i].copy_(origin[i]);
    ++evaluations;
    return Point{where, value, product(value.grad, d_)};
  };
  const auto falls_enough = [&](const Point& p) {
    return !(p.value.loss > start.value.loss + c1 * p.t * start.slope);
  };
  const auto is_flat = [&](const Point& p) { return std::abs(p.slope) <= -c2 * start.slope; };

  // Steps grow until there is a point that will do, or two with a minimum between them.
  Point before = start, now = at(t);
  std::int64_t tries = 0;
  for (;; ++tries) {
    if (tries >= most) return start.value.loss <= now.value.loss ? start : now;
    if (!falls_enough(now) || (tries > 1 && now.value.loss >= before.value.loss)) break;
    if (is_flat(now)) return now;
    if (now.slope >= 0) break;
    const double next =
        cubic_minimum({before.t, now.t}, {before.value.loss, now.value.loss},
                      {before.slope, now.slope}, now.t + 0.01 * (now.t - before.t), now.t * 10);
    before = now;
    now = at(next);
  }

  // The interval between them shrinks around a minimum.
  std::array<Point, 2> ends = {before, now};
  const double scale = largest(d_);
  std::size_t low = ends[0].value.loss <= ends[1].value.loss ? 0 : 1;
  bool was_near_end = false;
  for (; tries < most && std::abs(ends[1].t - ends[0].t) * scale >= kShortest; ++tries) {
    const auto [left, right] = std::minmax(ends[0].t, ends[1].t);
    double next = cubic_minimum({ends[0].t, ends[1].t}, {ends[0].value.loss, ends[1].value.loss},
                                {ends[0].slope, ends[1].slope}, left, right);
    // A try near an end, twice or at the end itself, is moved inwards: progress is too slow there.
    const double margin = 0.1 * (right - left);
    const bool near_end = std::min(right - next, next - left) < margin;
    const bool moved = near_end && (was_near_end || next >= right || next <= left);
    if (moved)
      next = std::abs(next - right) < std::abs(next - left) ? right - margin : left + margin;
    was_near_end = near_end && !moved;

    now = at(next);
    if (!falls_enough(now) || now.value.loss >= ends[low].value.loss) {
      ends[1 - low] = now;
      low = ends[0].value.loss <= ends[1].value.loss ? 0 : 1;
      continue;
    }
    const bool done = is_flat(now);
    if (!done && now.slope * (ends[1 - low].t - ends[low].t) >= 0) ends[1 - low] = ends[low];
    ends[low] = now;
    if (done) break;
  }
  return ends[low];
}

namespace {

std::int64_t most_evaluations(const LBFGSOptions& o) {
  return o.max_eval < 0 ? o.max_iter * 5 / 4 : o.max_eval;
}

}  // namespace

/// From the value at the parameters.
void LBFGS::iterate(const Closure& closure, Value value, std::int64_t evaluations) {
  const LBFGSOptions& o = options();
  const std::int64_t max_eval = most_evaluations(o);
  for (std::int64_t i = 1; i <= o.max_iter; ++i) {
    if (n_iter_++ > 0) {
      remember(value.grad);
      d_ = direction(value.grad);
      t_ = o.lr;
    } else {
      d_ = neg(value.grad);
      t_ = std::min(1.0, 1 / abs(value.grad).sum().item<double>()) * o.lr;
    }
    prev_flat_grad_ = value.grad;
    prev_loss_ = value.loss;
    const double slope = product(value.grad, d_);
    if (slope > -o.tolerance_change) return;

    const std::int64_t evaluations_before = evaluations;
    if (!o.line_search_fn.empty()) {
      const Point found =
          search(closure, {0, value, slope}, t_, max_eval - evaluations, evaluations);
      value = found.value;
      t_ = found.t;
      move(t_, d_);
    } else {
      move(t_, d_);
      if (i == o.max_iter) return;  // the loss there is not needed
      value = evaluate(closure);
      ++evaluations;
    }
    func_evals_ += evaluations - evaluations_before;
    if (evaluations >= max_eval || largest(value.grad) <= o.tolerance_grad ||
        largest(d_) * std::abs(t_) <= o.tolerance_change ||
        std::abs(value.loss - prev_loss_) < o.tolerance_change)
      return;
  }
}

/// The state has the parameters' type and device.
void LBFGS::keep_up_with_parameters() {
  const Tensor& p = checked_parameters()[0];
  const auto follow = [&](Tensor& t) {
    if (t.defined()) t = t.to(p.device(), p.dtype());
  };
  follow(d_);
  follow(prev_flat_grad_);
  for (Pair& pair : history_) {
    follow(pair.change);
    follow(pair.step);
  }
}

Tensor LBFGS::step(const std::function<Tensor()>& closure) {
  const profiler::detail::LibraryRange range(profiler::Kind::optimizer, name_);
  note_step();
  NoGradGuard guard;
  keep_up_with_parameters();
  Tensor loss;
  const Value value = evaluate(closure, &loss);
  ++func_evals_;
  if (value.grad.numel() > 0 && !(largest(value.grad) <= options().tolerance_grad))
    iterate(closure, value, 1);
  return loss;
}

StateDict LBFGS::state_dict() const {
  StateDict dict = Optimizer::state_dict();
  // PyTorch takes a number below 0 for a limit that is reached.
  dict.insert_or_assign("param_groups.0.max_eval", host_scalar(most_evaluations(options())));
  if (func_evals_ == 0) return dict;
  const auto add = [&](const std::string& name, const Tensor& t) {
    dict.insert("state.0." + name, t);
  };
  add("func_evals", host_scalar(func_evals_));
  add("n_iter", host_scalar(n_iter_));
  if (!d_.defined()) return dict;
  add("d", d_);
  add("t", host_scalar(t_));
  for (std::size_t i = 0; i < history_.size(); ++i) {
    add(fmt::format("old_dirs.{}", i), history_[i].change);
    add(fmt::format("old_stps.{}", i), history_[i].step);
    add(fmt::format("ro.{}", i), host_scalar(history_[i].ro));
  }
  add("H_diag", host_scalar(h_diag_));
  add("prev_flat_grad", prev_flat_grad_);
  add("prev_loss", host_scalar(prev_loss_));
  return dict;
}

void LBFGS::load_state_dict(const StateDict& dict) {
  std::int64_t size = 0;
  for (const Tensor& p : checked_parameters()) size += p.numel();
  const auto find = [&](const std::string& name, const Shape& shape) {
    const auto found = dict.find("state.0." + name);
    FERRITE_CHECK(found != dict.end(), ValueError, name_, "the dict lacks state.0.{}", name);
    FERRITE_CHECK(shape.empty() ? found->second.numel() == 1 : found->second.shape() == shape,
                  ShapeError, name_, "state.0.{}: expected {}, got {}", name, shape,
                  found->second.shape());
    return found->second;
  };
  const auto number = [&](const std::string& name) { return find(name, {}).item<double>(); };
  const auto vector = [&](const std::string& name) {
    return find(name, {size}).to(parameters(0)[0].device(), parameters(0)[0].dtype()).clone();
  };
  const auto has = [&](const std::string& name) { return dict.contains("state.0." + name); };

  std::int64_t n_iter = 0, func_evals = 0;
  double t = 0, h_diag = 1, prev_loss = 0;
  Tensor d, prev_flat_grad;
  std::deque<Pair> history;
  if (has("func_evals")) {
    func_evals = find("func_evals", {}).item<std::int64_t>();
    n_iter = find("n_iter", {}).item<std::int64_t>();
  }
  if (n_iter > 0) {
    d = vector("d"), prev_flat_grad = vector("prev_flat_grad");
    t = number("t"), h_diag = number("H_diag"), prev_loss = number("prev_loss");
    for (std::size_t i = 0; has(fmt::format("old_dirs.{}", i)); ++i)
      history.push_back({vector(fmt::format("old_dirs.{}", i)),
                         vector(fmt::format("old_stps.{}", i)), number(fmt::format("ro.{}", i))});
  }

  StateDict options;
  for (const auto& [name, tensor] : dict)
    if (!name.starts_with("state.")) options.insert(name, tensor);
  Optimizer::load_state_dict(options);
  n_iter_ = n_iter, func_evals_ = func_evals;
  t_ = t, h_diag_ = h_diag, prev_loss_ = prev_loss;
  d_ = d, prev_flat_grad_ = prev_flat_grad;
  history_ = std::move(history);
}

}  // namespace ferrite::optim
