// batch_norm of a batch that lies in parts, each in a thread of its own.
#include <doctest/doctest.h>

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "ferrite/autograd/grad_mode.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/concat.h"
#include "ferrite/ops/conv.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/norm.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using test::check_close;

namespace {

/// Where the threads of a test meet; a thread that failed is waited for 10 s.
class Meeting {
 public:
  explicit Meeting(std::size_t parts) : slots_(parts) {}

  /// What all threads brought, in their order.
  std::vector<Tensor> exchange(std::size_t part, const Tensor& mine) {
    std::unique_lock lock(mutex_);
    slots_[part] = mine;
    arrive(lock);
    std::vector<Tensor> all = slots_;
    arrive(lock);
    return all;
  }

 private:
  void arrive(std::unique_lock<std::mutex>& lock) {
    const std::uint64_t round = round_;
    if (++arrived_ == slots_.size()) {
      arrived_ = 0, ++round_;
      changed_.notify_all();
      return;
    }
    FERRITE_CHECK(changed_.wait_for(lock, std::chrono::seconds(10), [&] { return round_ > round; }),
                  Error, "meeting", "not all parts have come");
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Tensor> slots_;
  std::size_t arrived_ = 0;
  std::uint64_t round_ = 0;
};

class ThreadParts final : public BatchParts {
 public:
  ThreadParts(Meeting& meeting, std::size_t part) : meeting_(meeting), part_(part) {}
  Tensor gather(const Tensor& mine) override {
    ++exchanges;
    return stack(meeting_.exchange(part_, mine.to(Device()).clone()), 0).to(mine.device());
  }
  void sum(const Tensor& mine) override {
    ++exchanges;
    const std::vector<Tensor> all = meeting_.exchange(part_, mine.to(Device()).clone());
    Tensor total = all[0];
    for (std::size_t i = 1; i < all.size(); ++i) total = total + all[i];
    mine.copy_(total);
  }

  int exchanges = 0;

 private:
  Meeting& meeting_;
  std::size_t part_;
};

enum class Form { plain, relu, add_relu };

struct Case {
  Form form = Form::plain;
  DType dtype = kFloat64;
  Shape shape = {7, 3, 2, 3};
  MemoryFormat format = kContiguous;
  std::vector<std::int64_t> cuts = {0, 3, 7};
  bool affine = true, tracked = true, from_conv = false;
};

struct Operands {
  Tensor x, residual, dy, weight, bias, running_mean, running_var;
};

/// What the op gives and changes; on the host.
struct Outcome {
  Tensor y, dx, dresidual, dweight, dbias, running_mean, running_var;
};

Operands operands_of(const Case& c) {
  const DType statistics = c.dtype == kFloat64 ? kFloat64 : kFloat32;
  Generator random(17);
  const auto noise = [&](const Shape& shape, DType dtype) {
    return randn(shape, {.dtype = kFloat64}, &random).to(dtype);
  };
  const Shape channels{c.shape[1]};
  Operands o;
  o.x = (noise(c.shape, kFloat64) * 2.0 + 3.0).to(c.dtype).contiguous(c.format);
  o.residual = noise(c.shape, c.dtype).contiguous(c.format);
  o.dy = noise(c.shape, c.dtype).contiguous(c.format);
  if (c.affine) o.weight = noise(channels, statistics), o.bias = noise(channels, statistics);
  if (c.tracked)
    o.running_mean = noise(channels, statistics), o.running_var = ones(channels).to(statistics);
  return o;
}

Outcome run(const Case& c, const Operands& all, std::int64_t begin, std::int64_t end,
            const std::shared_ptr<BatchParts>& parts) {
  const auto part = [&](const Tensor& t) {
    return t.slice(0, begin, end).clone().contiguous(c.format);
  };
  const auto own = [](const Tensor& t) { return t.defined() ? t.clone() : Tensor(); };
  Operands o{part(all.x),   part(all.residual),    part(all.dy),        own(all.weight),
             own(all.bias), own(all.running_mean), own(all.running_var)};
  for (Tensor* t : {&o.x, &o.residual, &o.weight, &o.bias})
    if (t->defined()) t->set_requires_grad();
  ChannelStatistics known;
  Tensor x = o.x;
  if (c.from_conv) {
    const Tensor identity = zeros({3, 3, 1, 1}, {.dtype = c.dtype});
    for (int i = 0; i < 3; ++i) identity[i][i].fill_(1.0);
    const ConvStatistics convolved = conv2d_statistics(o.x, identity);
    x = convolved.output;
    known = convolved.statistics;
  }
  const Tensor y = batch_norm(x, o.running_mean, o.running_var, o.weight, o.bias,
                              {.training = true,
                               .momentum = 0.3,
                               .eps = 1e-3,
                               .residual = c.form == Form::add_relu ? o.residual : Tensor(),
                               .relu = c.form != Form::plain,
                               .statistics = known,
                               .parts = parts});
  y.backward(o.dy);
  const auto home = [](const Tensor& t) {
    return t.defined() ? t.detach().to(kFloat64) : Tensor();
  };
  return {home(y),
          home(o.x.grad()),
          c.form == Form::add_relu ? home(o.residual.grad()) : Tensor(),
          home(o.weight.defined() ? o.weight.grad() : Tensor()),
          home(o.bias.defined() ? o.bias.grad() : Tensor()),
          home(o.running_mean),
          home(o.running_var)};
}

Tensor added(const std::vector<Outcome>& parts, Tensor Outcome::*member) {
  Tensor total = parts[0].*member;
  for (std::size_t i = 1; i < parts.size(); ++i)
    if (total.defined()) total = total + parts[i].*member;
  return total;
}

Tensor joined(const std::vector<Outcome>& parts, Tensor Outcome::*member) {
  std::vector<Tensor> all;
  for (const Outcome& p : parts)
    if ((p.*member).defined()) all.push_back(p.*member);
  return all.empty() ? Tensor() : cat(all, 0);
}

void check(const Case& c) {
  const std::string what = fmt::format("form {}, {}, {} parts of {}", static_cast<int>(c.form),
                                       c.dtype, c.cuts.size() - 1, c.shape);
  CAPTURE(what);
  const Operands operands = operands_of(c);
  const std::size_t n = c.cuts.size() - 1;
  Meeting meeting(n);
  std::vector<Outcome> parts(n);
  std::vector<int> exchanges(n);
  std::vector<std::exception_ptr> errors(n);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < n; ++i)
      threads.emplace_back([&, i] {
        try {
          const auto mine = std::make_shared<ThreadParts>(meeting, i);
          parts[i] = run(c, operands, c.cuts[i], c.cuts[i + 1], mine);
          exchanges[i] = mine->exchanges;
        } catch (...) {
          errors[i] = std::current_exception();
        }
      });
  }
  for (const std::exception_ptr& e : errors)
    if (e) std::rethrow_exception(e);
  const Outcome whole = run(c, operands, 0, c.shape[0], nullptr);

  // Results of 16 bits differ where float32 statistics do in their last digits.
  const double rounding = test::rounding_of(c.dtype);
  const double value = c.dtype == kFloat64 ? 1e-12 : 16 * rounding;
  const double sum = c.dtype == kFloat64 ? 1e-12 : 1e-5;
  check_close(joined(parts, &Outcome::y), whole.y, value, value);
  check_close(joined(parts, &Outcome::dx), whole.dx, value, value);
  if (whole.dresidual.defined())
    check_close(joined(parts, &Outcome::dresidual), whole.dresidual, 0, 0);
  if (c.affine) {
    // Of 16 bits: an element at the ReLU's edge may fall to the other side.
    check_close(added(parts, &Outcome::dweight), whole.dweight, 10 * sum, 10 * sum);
    check_close(added(parts, &Outcome::dbias), whole.dbias, 10 * sum, 10 * sum);
  }
  for (std::size_t i = 0; i < n; ++i) {
    CHECK(exchanges[i] == 2);
    if (!c.tracked) continue;
    check_close(parts[i].running_mean, whole.running_mean, sum, sum);
    check_close(parts[i].running_var, whole.running_var, sum, sum);
    // All parts have the same bits.
    check_close(parts[i].running_var, parts[0].running_var, 0, 0);
  }
}

}  // namespace

TEST_CASE("batch norm of a batch in parts is that of the whole batch") {
  for (const Form form : {Form::plain, Form::relu, Form::add_relu}) {
    check({.form = form});
    check({.form = form, .format = kChannelsLast, .cuts = {0, 1, 5, 7}});
    check({.form = form, .cuts = {0, 0, 4, 5, 7}});  // one part is empty
    check({.form = form, .format = kChannelsLast, .cuts = {0, 2, 2, 7}});
    check({.form = form, .shape = {5, 4}, .cuts = {0, 1, 2, 5}});  // a value a channel in some
    check({.form = form, .shape = {6, 2, 5}, .affine = false});
    check({.form = form, .tracked = false});
    check({.form = form, .cuts = {0, 2, 2, 7}, .from_conv = true});
    for (const DType dtype : {kFloat32, kFloat16, kBFloat16})
      check({.form = form, .dtype = dtype, .cuts = {0, 3, 7}});
  }
}

TEST_CASE("batch norm in parts: what is not there") {
  // Nothing at all, and a single value: running statistics stay.
  for (const std::int64_t n : {0, 1}) {
    Meeting meeting(1);
    const auto parts = std::make_shared<ThreadParts>(meeting, 0);
    const Tensor mean = full({2}, 3), var = full({2}, 5);
    const Tensor y =
        batch_norm(ones({n, 2}), mean, var, {}, {}, {.training = true, .parts = parts});
    CHECK(y.shape() == Shape{n, 2});
    check_close(mean, full({2}, 3), 0, 0);
    check_close(var, full({2}, 5), 0, 0);
  }
  // Evaluation asks nobody.
  Meeting meeting(2);
  const auto parts = std::make_shared<ThreadParts>(meeting, 0);
  batch_norm(ones({3, 2}), zeros({2}), ones({2}), {}, {}, {.parts = parts});
  CHECK(parts->exchanges == 0);
}
