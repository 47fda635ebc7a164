#include "ferrite/ops/creation.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "ferrite/core/cuda_control.h"
#include "ferrite/core/parallel_for.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/arrange.h"
#include "ferrite/ops/copy.h"
#include "ferrite/ops/fft.h"
#include "ferrite/ops/reduce.h"
#include "ferrite/ops/stft.h"
#include "ferrite/ops/views.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/golden.h"

using namespace ferrite;
using namespace ferrite::test;

TEST_CASE("creation: constants") {
  CHECK(zeros({2, 3}).dtype() == kFloat32);
  check_close(zeros({2, 3}), std::vector<double>(6, 0), 0);
  check_close(ones({2}, {.dtype = kBool}), {1, 1}, 0);
  check_close(full({3}, 2.5, {.dtype = kFloat16}), {2.5, 2.5, 2.5}, 0);
  check_close(full({2}, 2.9, {.dtype = kInt64, .device = "cpu:0"}), {2, 2}, 0);
  CHECK(zeros({0, 4}).numel() == 0);
  CHECK(zeros({}).dim() == 0);
  const Tensor like = zeros({2, 3, 4, 5}, {.dtype = kBFloat16, .memory_format = kChannelsLast});
  CHECK(like.is_contiguous(kChannelsLast));
  for (const Tensor& t :
       {zeros_like(like), ones_like(like), full_like(like, 4), randn_like(like)}) {
    CHECK(t.dtype() == kBFloat16);
    CHECK(t.is_contiguous(kChannelsLast));
    CHECK(t.shape() == like.shape());
  }
  for (const Tensor& t : {zeros_like(like, kDouble), ones_like(like, requires_grad()),
                          full_like(like, 4, device("cpu:1"))}) {
    CHECK(t.is_contiguous(kChannelsLast));
    CHECK(t.shape() == like.shape());
  }
  CHECK(zeros_like(like, memory_format(kContiguous)).is_contiguous());
  CHECK_THROWS_AS(zeros({-1}), ShapeError);
  CHECK_THROWS_AS(zeros_like(Tensor()), ValueError);
  const Tensor weight = like.new_full({2}, 3, dtype(kFloat64).requires_grad(true));
  CHECK(weight.requires_grad());
  CHECK(weight.is_leaf());
  check_close(weight.detach(), {3, 3}, 0);
  CHECK(like.new_zeros({2}, requires_grad()).dtype() == kBFloat16);
}

TEST_CASE("creation: pinned memory") {
  using Make = Tensor (*)();
  for (const Make make : std::initializer_list<Make>{
           [] { return zeros({2}, {.pinned = true}); }, [] { return arange(3, pinned_memory()); },
           [] { return linspace(0, 1, 3, {.pinned = true}); },
           [] {
             return tensor({1, 2}, {.pinned = true});
           },
           [] { return randperm(3, {.pinned = true}); },
           [] { return hann_window(4, true, {.pinned = true}); },
           [] { return tril_indices(2, 2, 0, {.pinned = true}); },
           [] { return fft::fftfreq(4, 1, {.pinned = true}); }})
    if (cuda::is_available())
      CHECK(make().is_pinned());
    else
      CHECK_THROWS_AS(make(), DeviceError);
}

TEST_CASE("creation: arange, linspace, eye") {
  const Golden golden("elementwise");
  check_close(arange(-1, 2, 0.3), golden.get("arange", "out"), 1e-5, 1e-7);
  check_equal(arange(7, -8, -4), golden.get("arange", "ints"));
  check_close(linspace(-2, 5, 9), golden.get("arange", "linspace"), 1e-6);
  check_equal(arange(4), tensor({0, 1, 2, 3}));
  CHECK(arange(3.0).dtype() == kFloat32);
  CHECK(arange(3, {.dtype = kFloat64, .device = "cpu:0"}).device() == Device("cpu:0"));
  CHECK(arange(5, 5).numel() == 0);
  CHECK(arange(INT64_MAX - 2, INT64_MAX).to_vector<std::int64_t>().back() == INT64_MAX - 1);
  CHECK(linspace(3, 4, 1).item<float>() == 3);
  CHECK(linspace(0, 1, 7).to_vector<float>().back() == 1);
  CHECK(linspace(0, 1, 0).numel() == 0);
  check_equal(eye(2, 3), tensor({{1.0, 0.0, 0.0}, {0.0, 1.0, 0.0}}));
  check_equal(eye(3, 2, {.dtype = kInt64}), tensor({{1, 0}, {0, 1}, {0, 0}}));
  CHECK(eye(0).numel() == 0);
  CHECK_THROWS_AS(arange(0, 5, 0), ValueError);
  CHECK_THROWS_AS(arange(0, 5, -1), ValueError);
  CHECK_THROWS_AS(arange(0, INFINITY), ValueError);
  CHECK_THROWS_AS(linspace(0, 1, -1), ValueError);
  CHECK_THROWS_AS(eye(-1), ValueError);
  CHECK_THROWS_AS(arange(3, {.dtype = kBool}), DTypeError);
}

TEST_CASE("creation: tensor of values") {
  CHECK(tensor({1, 2}).dtype() == kInt64);
  CHECK(tensor({1.0, 2.0}).dtype() == kFloat32);
  CHECK(tensor({1.5f}).dtype() == kFloat32);
  CHECK(tensor({true}).dtype() == kBool);
  CHECK(tensor({1.5, 2}).dtype() == kFloat32);
  CHECK(tensor(3).dim() == 0);
  CHECK(tensor(3).dtype() == kInt64);
  CHECK(tensor(0.1, {.dtype = kFloat64}).item<double>() == 0.1);
  CHECK(tensor({0.1, 0.2}, {.dtype = kFloat64}).to_vector<double>() ==
        std::vector<double>{0.1, 0.2});
  CHECK(tensor({{1, 2, 3}, {4, 5, 6}}).shape() == Shape{2, 3});
  check_close(tensor({{1, 2.5}, {3, 4}}), {1, 2.5, 3, 4}, 0);
  check_close(tensor(std::vector<int>{4, 5}, {.dtype = kFloat16}), {4, 5}, 0);
  check_close(tensor(std::vector<bool>{true, false}), {1, 0}, 0);
  CHECK(tensor(std::vector<std::vector<float>>{{1}, {2}}).shape() == Shape{2, 1});
  CHECK(tensor(std::vector<float>{}).numel() == 0);
  CHECK(tensor({1}, {.dtype = kInt64, .device = "cpu:0"}).device() == Device("cpu:0"));
  CHECK_THROWS_AS(tensor({{1, 2}, {3}}), ShapeError);
}

namespace {

struct Moments {
  double mean = 0, variance = 0, low = INFINITY, high = -INFINITY;
};
Moments moments(const Tensor& t) {
  Moments m;
  const std::vector<double> values = t.to_vector<double>();
  for (double v : values) {
    m.mean += v / static_cast<double>(values.size());
    m.low = std::min(m.low, v);
    m.high = std::max(m.high, v);
  }
  for (double v : values)
    m.variance += (v - m.mean) * (v - m.mean) / static_cast<double>(values.size());
  return m;
}

constexpr std::int64_t kMany = 200003;

}  // namespace

TEST_CASE("creation: from_blob with strides") {
  std::vector<double> data{1, 2, 3, 4, 5, 6};
  const Tensor columns = from_blob(data.data(), {2, 3}, {1, 2}, kFloat64);
  CHECK(columns.to_vector<double>() == std::vector<double>{1, 3, 5, 2, 4, 6});
  CHECK(columns.storage()->nbytes() == 6 * 8);
  const Tensor same = from_blob(data.data(), {3}, {0}, dtype(kFloat64).requires_grad(true));
  CHECK(same.to_vector<double>() == std::vector<double>{1, 1, 1});
  CHECK(same.requires_grad());
  CHECK_THROWS_AS(from_blob(data.data(), {2, 3}, {1}, kFloat64), ShapeError);
  CHECK_THROWS_AS(from_blob(data.data(), {2, 3}, {1, -2}, kFloat64), ValueError);
}

TEST_CASE("random: distributions") {
  for (DType dtype : {kFloat32, kFloat64, kFloat16, kBFloat16}) {
    CAPTURE(dtype);
    Generator g(1);
    // Five standard errors, and what rounding to bfloat16 adds.
    const double slack = dtype == kBFloat16 ? 2e-3 : 0;
    const Moments u = moments(rand({kMany}, {.dtype = dtype}, &g));
    CHECK(std::abs(u.mean - 0.5) < 5 * std::sqrt(1.0 / 12 / kMany) + slack);
    CHECK(std::abs(u.variance - 1.0 / 12) < 2e-3);
    CHECK(u.low >= 0);
    CHECK(u.high < 1);
    const Moments n = moments(randn({kMany}, {.dtype = dtype}, &g));
    CHECK(std::abs(n.mean) < 5 / std::sqrt(kMany));
    CHECK(std::abs(n.variance - 1) < 5 * std::sqrt(2.0 / kMany) + slack);
    CHECK(n.high > 3.5);
    CHECK(n.low < -3.5);
    const Moments s = moments(normal(3, 0.5, {kMany}, {.dtype = dtype}, &g));
    CHECK(std::abs(s.mean - 3) < 5 * 0.5 / std::sqrt(kMany) + slack);
    Tensor t = empty({kMany}, {.dtype = dtype});
    uniform_(t, -2, -1, &g);
    CHECK(moments(t).low >= -2);
    CHECK(moments(t).high < -1);
  }
}

TEST_CASE("random: the distribution function of randn (Kolmogorov-Smirnov)") {
  Generator g(11);
  for (DType dtype : {kFloat32, kFloat64}) {
    std::vector<double> v = randn({20000}, {.dtype = dtype}, &g).to_vector<double>();
    std::sort(v.begin(), v.end());
    double worst = 0;
    for (std::size_t i = 0; i < v.size(); ++i)
      worst = std::max(worst, std::abs(0.5 * std::erfc(-v[i] / std::sqrt(2.0)) -
                                       (static_cast<double>(i) + 0.5) / 20000));
    CHECK(worst < 1.95 / std::sqrt(20000.0));  // 0.1 % level
  }
}

TEST_CASE("random: elements are a function of seed, offset and index alone") {
  for (DType dtype : {kFloat32, kFloat64, kFloat16}) {
    Generator a(9), b(9), c(9), d(9);
    const Tensor x = randn({50000}, {.dtype = dtype}, &a);
    const int threads = num_threads();
    set_num_threads(1);
    check_equal(randn({50000}, {.dtype = dtype}, &b), x);
    set_num_threads(threads);
    // A shorter draw is the beginning of a longer one; views and layouts count row-major.
    check_equal(randn({3, 7}, {.dtype = dtype}, &c), x.slice(0, 0, 21).reshape({3, 7}));
    const Tensor nhwc = randn({2, 3, 4, 5}, {.dtype = dtype, .memory_format = kChannelsLast}, &d);
    CHECK(nhwc.is_contiguous(kChannelsLast));
    check_equal(nhwc, x.slice(0, 0, 120).reshape({2, 3, 4, 5}));
    d.manual_seed(9);
    check_equal(randn({50000}, {.dtype = dtype, .device = "cpu:0"}, &d).cpu(), x);
    d.manual_seed(9);
    const Tensor view = zeros({6, 4}, {.dtype = dtype}).t();
    normal_(view, 0, 1, &d);
    check_equal(view, x.slice(0, 0, 24).reshape({4, 6}));
    CHECK_FALSE(randn({10}, {.dtype = dtype}, &a).to_vector<double>() ==
                x.slice(0, 0, 10).to_vector<double>());
  }
  manual_seed(3);
  const Tensor first = rand({5});
  const Tensor second = rand({5});
  manual_seed(3);
  check_equal(rand({5}), first);
  check_equal(rand({5}), second);
  manual_seed(3);
  check_equal(rand({5}, {.device = "cpu:0"}).cpu(), first);
}

TEST_CASE("random: randint, randperm, bernoulli") {
  Generator g(2);
  for (DType dtype : {kInt64, kInt32, kUInt8, kFloat32, kFloat16}) {
    const Tensor x = randint(3, 8, {50000}, {.dtype = dtype}, &g);
    CHECK(x.dtype() == dtype);
    std::vector<int> counts(10);
    for (std::int64_t v : x.to_vector<std::int64_t>()) ++counts.at(static_cast<std::size_t>(v));
    for (int i = 0; i < 10; ++i)
      CHECK(std::abs(counts[static_cast<std::size_t>(i)] - (i >= 3 && i < 8 ? 10000 : 0)) < 450);
  }
  CHECK(randint(2, {4}).dtype() == kInt64);
  const Tensor wide = randint(INT64_MIN, INT64_MAX, {100}, {.dtype = kInt64}, &g);
  CHECK(moments(wide.to(kFloat64)).low < -1e18);
  CHECK(moments(wide.to(kFloat64)).high > 1e18);

  for (std::int64_t n : {0, 1, 2, 1000}) {
    std::vector<std::int64_t> v = randperm(n, {.dtype = kInt64}, &g).to_vector<std::int64_t>();
    if (n == 1000) CHECK_FALSE(std::is_sorted(v.begin(), v.end()));
    std::sort(v.begin(), v.end());
    for (std::int64_t i = 0; i < n; ++i) CHECK(v[static_cast<std::size_t>(i)] == i);
  }
  CHECK(randperm(5, {.dtype = kInt32, .device = "cpu:0"}).dtype() == kInt32);
  // All orders of three are equally likely.
  std::map<std::vector<std::int64_t>, int> orders;
  for (int i = 0; i < 6000; ++i) ++orders[randperm(3).to_vector<std::int64_t>()];
  CHECK(orders.size() == 6);
  for (const auto& [order, count] : orders) CHECK(std::abs(count - 1000) < 160);

  for (DType dtype : {kFloat32, kFloat64, kFloat16}) {
    const Tensor p = tensor({0.0, 1.0, 0.25}, {.dtype = dtype}).expand({30000, 3});
    const Tensor x = bernoulli(p, &g);
    CHECK(x.dtype() == dtype);
    const std::vector<double> means = mean(x.to(kFloat64), {0}).to_vector<double>();
    CHECK(means[0] == 0);
    CHECK(means[1] == 1);
    CHECK(std::abs(means[2] - 0.25) < 0.0125);
  }
  const Tensor mask = zeros({kMany}, {.dtype = kBool});
  bernoulli_(mask, 0.1, &g);
  CHECK(std::abs(mean(mask.to(kFloat64)).item<double>() - 0.1) < 0.0035);
}

TEST_CASE("a list's values fit the integer type that is asked for") {
  CHECK_THROWS_AS(tensor({300}, kUInt8), ValueError);
  CHECK_THROWS_AS(tensor({1, -129}, kInt8), ValueError);
  CHECK_THROWS_AS(tensor({{1, 2}, {3, 40000}}, kInt16), ValueError);
  CHECK_THROWS_AS(tensor({1, 2, std::int64_t{1} << 40}, kInt32), ValueError);
  CHECK_THROWS_AS(tensor(std::vector<double>{1, 3e9}, kInt32), ValueError);
  CHECK_THROWS_AS(tensor({1.0, double(NAN), 2.0}, kInt64), ValueError);
  CHECK_THROWS_AS(tensor({double(INFINITY)}, kInt64), ValueError);
  CHECK_THROWS_AS(tensor({1, 2.5, 300}, kUInt8), ValueError);
  check_equal(tensor({-1, 255}, kUInt8), tensor({255, 255}, kUInt8));  // as full() takes it
  check_equal(tensor({255.9, 0.5}, kUInt8), tensor({255, 0}, kUInt8));
  CHECK_THROWS_AS(tensor({-0.5}, kUInt8), ValueError);
  check_equal(tensor({INT64_MIN, INT64_MAX}, kInt64), tensor({INT64_MIN, INT64_MAX}));
  check_equal(tensor({2, 0}, kBool), tensor({true, false}));
  check_close(tensor({1e300, 70000.0}, kFloat16), {INFINITY, INFINITY}, 0);
  CHECK(tensor(std::vector<std::int64_t>{}, kUInt8).numel() == 0);
}

TEST_CASE("random: probabilities out of range") {
  for (const DType dtype : {kFloat32, kFloat64, kFloat16})
    for (const double bad : {1.5, -0.25, double(NAN), double(INFINITY)}) {
      const Tensor p = full({3, 40}, 0.5, {.dtype = dtype});
      p[2][39] = bad;
      CHECK_THROWS_AS(bernoulli(p), ValueError);
      CHECK_THROWS_AS(bernoulli(p.t()), ValueError);
    }
  CHECK(bernoulli(zeros({0})).numel() == 0);
}

TEST_CASE("random: normal of tensors, randint_like") {
  manual_seed(4);
  const Tensor mean = tensor({-10.0, 0.0, 10.0}), std = tensor({{1.0}, {0.0}});
  const Tensor x = normal(mean.expand({20000, 1, 3}), std);
  CHECK(x.shape() == Shape{20000, 2, 3});
  check_equal(x.select(1, 1), mean.expand({20000, 3}));
  check_close(x.select(1, 0).mean(0), {-10, 0, 10}, 0, 0.03);
  check_close(x.select(1, 0).std(0), {1, 1, 1}, 0, 0.03);
  check_equal(normal(mean, 0), mean);
  check_equal(normal(2, zeros({3}, {.dtype = kFloat64})), full({3}, 2, {.dtype = kFloat64}));
  CHECK_FALSE(normal(mean.set_requires_grad(), 1).requires_grad());
  CHECK_THROWS_AS(normal(mean, tensor({1.0, -1.0, 1.0})), ValueError);
  CHECK_THROWS_AS(normal(mean, -1), ValueError);
  CHECK_THROWS_AS(normal(tensor({1, 2}), 1), DTypeError);
  CHECK_THROWS_AS(normal(tensor({1, 2}), tensor({1, 2})), DTypeError);
  CHECK_THROWS_AS(normal(1, Tensor()), ValueError);

  const Tensor i = randint_like(zeros({500}, {.dtype = kUInt8}), 3, 6);
  CHECK(i.dtype() == kUInt8);
  CHECK(i.min().item<int>() == 3);
  CHECK(i.max().item<int>() == 5);
  CHECK(randint_like(zeros({4}), 2).dtype() == kFloat32);
  CHECK_THROWS_AS(randint_like(i, 300), ValueError);
}

TEST_CASE("random: members, the tape, errors") {
  const Tensor x = zeros({3}).set_requires_grad(), y = x * 2;
  y.normal_(0, 1).uniform_().fill_(2).bernoulli_().zero_();
  sum(y).backward();
  if (x.grad().defined()) check_equal(x.grad(), zeros({3}));  // nothing of x is left in y
  CHECK_THROWS_AS(x.fill_(1), AutogradError);
  CHECK_THROWS_AS(x.normal_(), AutogradError);
  CHECK_THROWS_AS(zeros({1}).expand({3}).uniform_(), ValueError);
  CHECK_THROWS_AS(rand({2}, {.dtype = kInt64}), DTypeError);
  CHECK_THROWS_AS(arange(3).normal_(), DTypeError);
  CHECK_THROWS_AS(zeros({2}).normal_(0, -1), ValueError);
  CHECK_THROWS_AS(zeros({2}).uniform_(2, 1), ValueError);
  CHECK_THROWS_AS(zeros({2}).bernoulli_(1.5), ValueError);
  CHECK_THROWS_AS(bernoulli(arange(3)), DTypeError);
  CHECK_THROWS_AS(bernoulli(Tensor()), ValueError);
  CHECK_THROWS_AS(randint(3, 3, {2}), ValueError);
  CHECK_THROWS_AS(randint(0, 300, {2}, {.dtype = kUInt8}), ValueError);
  CHECK_THROWS_AS(randperm(-1), ValueError);
  CHECK_THROWS_AS(randperm(300, {.dtype = kUInt8}), ValueError);
  CHECK_THROWS_AS(Tensor().fill_(1), ValueError);
}
