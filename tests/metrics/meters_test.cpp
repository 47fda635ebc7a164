// Averages, timers, accuracies and confusion matrices, on the host; cuda_metrics_test.cpp has the
// same on CUDA devices.
#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "ferrite/core/generator.h"
#include "ferrite/metrics/accuracy.h"
#include "ferrite/metrics/average_meter.h"
#include "ferrite/metrics/confusion_matrix.h"
#include "ferrite/metrics/timer.h"
#include "ferrite/ops/activation.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/tests/metrics/reference.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/message.h"

using namespace ferrite;
using namespace ferrite::metrics;
using test::contains;
using test::message_of;

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

}  // namespace

// ---- AverageMeter

TEST_CASE("AverageMeter weighs by n and shows the last value and the average") {
  AverageMeter meter("Loss", ":.3f");
  CHECK(meter.val() == 0);
  CHECK(meter.avg() == 0);
  CHECK(meter.ema() == 0);
  CHECK(meter.str() == "Loss 0.000 (0.000)");
  meter.update(1, 3);
  meter.update(5);
  CHECK(meter.val() == 5);
  CHECK(meter.sum() == 8);
  CHECK(meter.count() == 4);
  CHECK(meter.avg() == 2);
  CHECK(meter.ema() == 5);  // no smoothing
  CHECK(meter.str() == "Loss 5.000 (2.000)");
  meter.update(kNaN);
  CHECK(std::isnan(meter.avg()));
  CHECK(meter.count() == 5);
  meter.reset();
  CHECK(meter.count() == 0);
  CHECK(meter.avg() == 0);
  CHECK(AverageMeter("", ":.1e").str() == "0.0e+00 (0.0e+00)");
}

TEST_CASE("AverageMeter's moving average is corrected for its start") {
  AverageMeter meter("", ":.4f", 0.9);
  double ema = 0;
  for (int i = 1; i <= 30; ++i) {
    const double v = std::sin(i);
    meter.update(v, i);
    ema = 0.9 * ema + 0.1 * v;
    CHECK(meter.ema() == doctest::Approx(ema / (1 - std::pow(0.9, i))));
  }
  AverageMeter constant("", ":.4f", 0.99);
  constant.update(7);
  CHECK(constant.ema() == doctest::Approx(7));
}

TEST_CASE("AverageMeter refuses formats and smoothings that are none") {
  CHECK(contains(message_of<ValueError>([] { AverageMeter("x", "%.4f"); }), "such as ':.4f'"));
  CHECK(contains(message_of<ValueError>([] { AverageMeter("x", ":.4q"); }), ":.4q"));
  for (const double smoothing : {-0.1, 1.0, kNaN})
    CHECK_THROWS_AS(AverageMeter("x", ":.4f", smoothing), ValueError);
}

TEST_CASE("DeviceAverageMeter agrees with AverageMeter") {
  for (const char* name : {"cpu", "cpu:0"})
    for (const double smoothing : {0.0, 0.7}) {
      CAPTURE(name);
      AverageMeter expected("acc", ":.2f", smoothing);
      DeviceAverageMeter meter(name, "acc", ":.2f", smoothing);
      CHECK(meter.value().avg() == 0);
      CHECK(meter.value().ema() == 0);
      const auto check = [&] {
        const AverageMeter got = meter.value();
        CHECK(got.val() == expected.val());
        CHECK(got.sum() == expected.sum());
        CHECK(got.count() == expected.count());
        CHECK(got.ema() == doctest::Approx(expected.ema()));
        CHECK(meter.str() == expected.str());
      };
      // On the tape, with one element, of every type; and host numbers.
      const Tensor loss = tensor({2.5}, {.device = name}).set_requires_grad() * 3;
      meter.update(loss, 4);
      expected.update(7.5, 4);
      for (const DType dtype : {kFloat16, kBFloat16, kFloat32, kFloat64, kInt64, kInt32, kUInt8}) {
        meter.update(tensor(3, {.dtype = dtype, .device = name}), 2);
        expected.update(3, 2);
      }
      meter.update(0.25, 5);
      expected.update(0.25, 5);
      check();
      loss.sum().backward();  // nothing that the tape needs was changed

      DeviceAverageMeter other(name, "acc", ":.2f", smoothing);
      other.load_state_dict(meter.state_dict());
      AverageMeter host("acc", ":.2f", smoothing);
      host.load_state_dict(meter.state_dict());
      meter.reset();
      CHECK(meter.value().count() == 0);
      CHECK(meter.value().ema() == 0);
      meter.load_state_dict(host.state_dict());
      check();
      for (int i = 0; i < 3; ++i) {
        other.update(i);
        meter.update(i);
        expected.update(i);
      }
      check();
      CHECK(other.value().ema() == doctest::Approx(expected.ema()));
    }
  DeviceAverageMeter meter{Device()};
  CHECK_THROWS_AS(meter.update(ones({2})), ShapeError);
  CHECK_THROWS_AS(meter.update(Tensor()), ShapeError);
  CHECK_THROWS_AS(meter.load_state_dict({}), IndexError);
}

TEST_CASE("SmoothedValue looks at its window and at everything") {
  SmoothedValue v(4);
  CHECK(v.median() == 0);
  CHECK(v.max() == 0);
  CHECK(v.str() == "0.0000 (0.0000)");
  for (const double x : {100.0, 3.0, 1.0, 4.0, 2.0}) v.update(x, 2);
  CHECK(v.median() == 2);  // of 3 1 4 2, the lower of 2 and 3
  CHECK(v.avg() == 2.5);
  CHECK(v.max() == 4);
  CHECK(v.value() == 2);
  CHECK(v.global_avg() == 22);
  CHECK(v.total() == 220);
  CHECK(v.count() == 10);
  CHECK(v.str() == "2.0000 (22.0000)");
  SmoothedValue copy(3, "{value:.0f} of {max:.0f}, {avg}");
  copy.load_state_dict(v.state_dict());
  CHECK(copy.count() == 10);
  CHECK(copy.median() == 2);  // of 1 4 2
  CHECK(copy.str() == "2 of 4, 2.3333333333333335");
  v.update(kNaN);
  CHECK(std::isnan(v.median()));
  v.reset();
  CHECK(v.count() == 0);
  CHECK(v.avg() == 0);
  CHECK_THROWS_AS(SmoothedValue(0), ValueError);
  CHECK_THROWS_AS(SmoothedValue(2, "{mode}"), ValueError);
}

// ---- Clocks

TEST_CASE("Timer counts while it runs") {
  const auto wait = [] { std::this_thread::sleep_for(std::chrono::milliseconds(15)); };
  Timer timer;
  wait();
  timer.pause();
  const double first = timer.seconds();
  CHECK(first >= 0.015);
  CHECK_FALSE(timer.running());
  timer.pause();
  wait();
  CHECK(timer.seconds() == first);
  timer.resume();
  timer.resume();
  wait();
  CHECK(timer.seconds() >= first + 0.015);
  const Timer since;
  timer.reset();
  CHECK(timer.running());
  const double again = timer.seconds();
  CHECK(again <= since.seconds());
}

TEST_CASE("DeviceTimer takes the time of a device's work, not of the host") {
  for (const char* name : {"cpu", "cpu:1"}) {
    const Device device(name);
    DeviceTimer timer(device);
    CHECK(timer.seconds() == 0);
    CHECK_THROWS_AS(timer.stop(), ValueError);
    for (int i = 0; i < 3; ++i) {
      timer.start();
      CHECK_THROWS_AS(timer.start(), ValueError);
      current_stream(device).enqueue(
          [] { std::this_thread::sleep_for(std::chrono::milliseconds(5)); });
      timer.stop();
      synchronize(device);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    CHECK(timer.count() == 3);
    CHECK(timer.seconds() >= 0.015);
    timer.reset();
    CHECK(timer.seconds() == 0);
    CHECK(timer.count() == 0);
  }
}

TEST_CASE("Throughput, over all and of late") {
  Throughput speed(2);
  CHECK(speed.recent() == 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  speed.update(10);
  speed.pause();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  speed.resume();
  const double slow = speed.recent();
  CHECK(slow > 0);
  CHECK(slow <= 10 / 0.02);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  for (int i = 0; i < 3; ++i) speed.update(1000);
  CHECK(speed.total() == 3010);
  CHECK(speed.rate() <= 3010 / 0.022);
  CHECK(speed.rate() > 0);
  CHECK(speed.recent() > slow);
  speed.reset();
  CHECK(speed.total() == 0);
  CHECK_THROWS_AS(Throughput(0), ValueError);
}

TEST_CASE("durations for people") {
  CHECK(format_duration(0) == "0:00");
  CHECK(format_duration(59.4) == "0:59");
  CHECK(format_duration(59.5) == "1:00");
  CHECK(format_duration(3599) == "59:59");
  CHECK(format_duration(3600 + 62) == "1:01:02");
  CHECK(format_duration(86400 + 3723) == "1 day 1:02:03");
  CHECK(format_duration(10 * 86400) == "10 days 0:00:00");
  for (const double bad : {-1.0, kNaN, 1.0 * INFINITY, 1e300}) CHECK(format_duration(bad) == "?");
  CHECK(format_eta(1, 4, 20) == "1:00");
  CHECK(format_eta(4, 4, 20) == "0:00");
  CHECK(format_eta(5, 4, 20) == "0:00");
  CHECK(format_eta(0, 4, 20) == "?");
}

// ---- Accuracy

TEST_CASE("accuracy counts as a loop over the samples does") {
  Generator generator(3);
  for (const Shape& shape : {Shape{1, 1}, {7, 3}, {64, 10}, {33, 2}, {5, 4, 3}, {2, 6, 3, 5}}) {
    Shape labels_shape = shape;
    labels_shape.erase(1);
    // Few distinct values: many ties.
    const Tensor output = randint(0, 6, shape, {.dtype = kFloat32}, &generator);
    const Tensor target = randint(-1, shape[1] + 1, labels_shape, {.dtype = kInt64}, &generator);
    for (const std::int64_t ignored : {-100L, -1L, 0L}) {
      Accuracy metric({}, {2, 1, 5}, ignored);
      CHECK(metric.values() == std::vector<double>{0, 0, 0});
      metric.update(output, target);
      metric.update(output.to(kFloat16), target.to(kInt32));
      metric.update(output.slice(0, 0, 0), target.slice(0, 0, 0));
      const test::Places expected = test::places(output, target, ignored);
      CHECK(metric.total() == 2 * expected.total);
      for (const std::int64_t k : {1, 2, 5})
        CHECK(metric.value(k) == doctest::Approx(expected.top(k)));
      CHECK(metric.value() == metric.value(2));
      CHECK_THROWS_AS(metric.value(3), ValueError);
      if (ignored != -100) continue;
      const std::vector<Tensor> percent = accuracy(output, target, {1, 5});
      REQUIRE(percent.size() == 2);
      CHECK(percent[0].shape() == Shape{});
      CHECK(percent[0].item<double>() == doctest::Approx(100 * expected.top(1)));
      CHECK(percent[1].item<double>() == doctest::Approx(100 * expected.top(5)));
    }
  }
}

TEST_CASE("Accuracy of mixed labels, of NaN, and resumed") {
  const Tensor output = tensor({{0.1, 0.7, 0.2}, {0.5, 0.3, 0.2}, {kNaN, 1.0, 0.0}});
  const Tensor mixed = tensor({{0.4, 0.6, 0.0}, {0.0, 0.0, 1.0}, {0.9, 0.1, 0.0}});
  Accuracy metric({}, {1, 3});
  metric.update(output, mixed);
  CHECK(metric.value(1) == doctest::Approx(2.0 / 3));
  CHECK(metric.value(3) == 1);
  Accuracy other({}, {3, 1});
  other.load_state_dict(metric.state_dict());
  CHECK(other.values() == std::vector<double>{1, 2.0 / 3});
  metric.reset();
  CHECK(metric.total() == 0);
  CHECK(other.total() == 3);
  CHECK_THROWS_AS(Accuracy({}, {1}).load_state_dict(other.state_dict()), ShapeError);
}

TEST_CASE("Accuracy rejects invalid input") {
  CHECK_THROWS_AS(Accuracy({}, {}), ValueError);
  CHECK_THROWS_AS(Accuracy({}, {1, 0}), ValueError);
  CHECK_THROWS_AS(accuracy(ones({2, 3}), zeros({2}, {.dtype = kInt64}), {}), ValueError);
  Accuracy metric;
  CHECK_THROWS_AS(metric.update(ones({3}), zeros({3}, {.dtype = kInt64})), ShapeError);
  CHECK_THROWS_AS(metric.update(ones({2, 3}), zeros({3}, {.dtype = kInt64})), ShapeError);
  CHECK_THROWS_AS(metric.update(ones({2, 3}), zeros({2})), ShapeError);
  CHECK_THROWS_AS(metric.update(ones({2, 3}), zeros({2}, {.dtype = kBool})), DTypeError);
  CHECK_THROWS_AS(metric.update(ones({2, 3}, {.device = "cpu:0"}),
                                zeros({2}, {.dtype = kInt64, .device = "cpu:0"})),
                  DeviceError);
  CHECK(metric.total() == 0);
}

// ---- ConfusionMatrix

TEST_CASE("ConfusionMatrix counts scores and predictions alike, without ignored targets") {
  Generator generator(5);
  for (const std::int64_t ignored : {-100L, 2L, 255L}) {
    ConfusionMatrix by_scores(4, {}, ignored), by_class(4, {}, ignored);
    std::vector<std::int64_t> expected(16);
    for (const Shape& shape : {Shape{50}, {3, 5}, {1}, {0}}) {
      Shape with_classes = shape;
      with_classes.insert(1, 4);
      const Tensor scores = randn(with_classes, {}, &generator);
      Tensor target = randint(0, 4, shape, {.dtype = kInt64}, &generator);
      if (ignored == 255 && target.numel() > 2)
        target = target.masked_fill(target.eq(tensor(1)), 255);
      by_scores.update(scores, target);
      const Tensor predicted = target.numel() ? scores.argmax(1) : zeros({0}, {.dtype = kInt64});
      by_class.update(predicted.to(kInt32), target);
      const auto t = target.to_vector<std::int64_t>(), p = predicted.to_vector<std::int64_t>();
      for (std::size_t i = 0; i < t.size(); ++i)
        if (t[i] != ignored) ++expected[static_cast<std::size_t>(t[i] * 4 + p[i])];
    }
    CHECK(by_scores.counts().to_vector<std::int64_t>() == expected);
    CHECK(by_class.counts().to_vector<std::int64_t>() == expected);
    ConfusionMatrix resumed(4, {}, ignored);
    resumed.load_state_dict(by_class.state_dict());
    by_class.reset();
    CHECK(by_class.value().total() == 0);
    CHECK(resumed.counts().to_vector<std::int64_t>() == expected);
  }
}

TEST_CASE("ConfusionMatrix refuses classes that do not exist") {
  ConfusionMatrix matrix(3);
  const auto ints = [](std::vector<std::int64_t> v) { return tensor(v); };
  for (const std::int64_t bad : {-1L, 3L, 9L}) {
    CHECK_THROWS_AS(matrix.update(ints({0, 1}), ints({1, bad})), IndexError);
    CHECK_THROWS_AS(matrix.update(ints({0, bad}), ints({1, 1})), IndexError);
  }
  CHECK_THROWS_AS(matrix.update(ones({2, 4}), ints({0, 1})), ShapeError);
  CHECK_THROWS_AS(matrix.update(ints({0, 1, 2}), ints({0, 1})), ShapeError);
  CHECK_THROWS_AS(matrix.update(ints({0, 1}), ones({2})), DTypeError);
  CHECK_THROWS_AS(matrix.update(ints({0, 1}), ones({2}, kComplex64)), DTypeError);
  CHECK_THROWS_AS(matrix.update(ones({2}, kComplex64), ints({0, 1})), DTypeError);
  CHECK_THROWS_AS(matrix.update(Tensor(), ints({0})), ValueError);
  CHECK_THROWS_AS(ConfusionMatrix(0), ValueError);
  CHECK_THROWS_AS(ConfusionMatrix(2).load_state_dict(matrix.state_dict()), ShapeError);
  CHECK(matrix.value().total() == 0);
}

TEST_CASE("ConfusionCounts: scores as scikit-learn gives them") {
  // classification_report of y_true = [0,0,0,0,1,1,2,2,2,2], y_pred = [0,0,1,2,1,0,2,2,2,1], and a
  // class 3 that does not occur.
  const ConfusionCounts counts(4, {2, 1, 1, 0, 1, 1, 0, 0, 0, 1, 3, 0, 0, 0, 0, 0});
  CHECK(counts.at(0, 2) == 1);
  CHECK(counts.total() == 10);
  CHECK(counts.accuracy() == doctest::Approx(0.6));
  CHECK(counts.of(0).precision == doctest::Approx(2.0 / 3));
  CHECK(counts.of(0).recall == doctest::Approx(0.5));
  CHECK(counts.of(0).f1 == doctest::Approx(4.0 / 7));
  CHECK(counts.of(1).precision == doctest::Approx(1.0 / 3));
  CHECK(counts.of(2).support == 4);
  CHECK(counts.of(3).f1 == 0);
  CHECK(counts.macro().precision == doctest::Approx((2.0 / 3 + 1.0 / 3 + 0.75) / 3));
  CHECK(counts.macro().recall == doctest::Approx((0.5 + 0.5 + 0.75) / 3));
  CHECK(counts.weighted().precision ==
        doctest::Approx((4 * 2.0 / 3 + 2 * 1.0 / 3 + 4 * 0.75) / 10));
  CHECK(counts.weighted().recall == doctest::Approx(0.6));
  CHECK(counts.micro().f1 == doctest::Approx(0.6));
  CHECK(counts.normalized(NormalizeBy::true_class)[2] == 0.25);
  CHECK(counts.normalized(NormalizeBy::predicted_class)[2] == 0.25);
  CHECK(counts.normalized(NormalizeBy::all)[2] == 0.1);
  CHECK(counts.normalized(NormalizeBy::true_class)[15] == 0);
  CHECK_THROWS_AS(counts.at(0, 4), IndexError);
  CHECK_THROWS_AS(ConfusionCounts(2, {1, 2, 3}), ShapeError);
}

TEST_CASE("ConfusionCounts as text") {
  const ConfusionCounts counts(2, {12, 3, 0, 5});
  const std::vector<std::string> names = {"Größe, klein", "x"};
  CHECK(counts.str(names) ==
        "true \\ predicted   Größe,        x\n"
        "Größe, klein           12        3\n"
        "x                       0        5\n");
  CHECK(counts.str({}, NormalizeBy::true_class) ==
        "true \\ predicted, %      0      1\n"
        "0                     80.0   20.0\n"
        "1                      0.0  100.0\n");
  CHECK(counts.csv(names) == "true\\predicted,\"Größe, klein\",x\n\"Größe, klein\",12,3\nx,0,5\n");
  CHECK(counts.csv({}, NormalizeBy::true_class) == "true\\predicted,0,1\n0,0.8,0.2\n1,0,1\n");
  const std::string report = counts.report(names);
  CHECK(contains(report, "class          precision     recall         f1    support\n"));
  CHECK(contains(report, "Größe, klein      1.0000     0.8000     0.8889         15\n"));
  CHECK(contains(report, "macro mean "));
  CHECK_THROWS_AS(counts.str(std::vector<std::string>{"one"}), ValueError);
}
