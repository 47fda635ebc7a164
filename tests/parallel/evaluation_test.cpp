#include "ferrite/parallel/ddp/evaluation.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>

#include "ferrite/core/generator.h"
#include "ferrite/data/sampler.h"
#include "ferrite/metrics/accuracy.h"
#include "ferrite/metrics/average_meter.h"
#include "ferrite/metrics/confusion_matrix.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/index.h"
#include "ferrite/parallel/comm/local/local_group.h"
#include "ferrite/tests/support/close.h"
#include "ferrite/tests/support/message.h"

using namespace ferrite;
using parallel::ProcessGroup;
using test::check_close;
using test::check_equal;

namespace {

const parallel::LocalGroupOptions kShort{.timeout = std::chrono::seconds(60)};

Tensor counting(const Shape& shape, DType dtype) {
  return arange(shape.numel(), {.dtype = kInt64}).to(dtype).view(shape);
}

/// The samples of a rank, from the sampler used for evaluation.
std::vector<std::int64_t> samples(std::int64_t size, const ProcessGroup& group, bool pad) {
  return data::DistributedSampler(
             size, {.rank = group.rank(), .world_size = group.size(), .shuffle = false, .pad = pad})
      .order(0);
}

}  // namespace

TEST_CASE("all_gather_uneven joins parts of any length") {
  const std::vector<std::vector<std::int64_t>> lengths = {{3, 3}, {4, 0, 1}, {0, 0}, {1, 2, 3, 4}};
  for (const auto& n : lengths)
    for (const DType dtype :
         {kFloat32, kFloat64, kFloat16, kBFloat16, kInt64, kInt32, kInt16, kInt8, kUInt8, kBool})
      parallel::run_ranks(
          static_cast<int>(n.size()),
          [&](ProcessGroup& group) {
            std::int64_t total = 0, before = 0;
            for (std::size_t r = 0; r < n.size(); ++r) {
              if (static_cast<int>(r) < group.rank()) before += n[r];
              total += n[r];
            }
            const std::int64_t mine = n[static_cast<std::size_t>(group.rank())];
            const Tensor whole = counting({total, 2}, dtype);
            Tensor part = whole.narrow(0, before, mine);
            if (group.rank() == 1) part = part.t().contiguous().t();  // any layout
            const Tensor all = parallel::all_gather_uneven(part);
            check_equal(all, whole);
            CHECK(all.is_contiguous());
          },
          kShort);
  // Single process: a copy, off the tape.
  const Tensor x = ones({2, 3}).set_requires_grad();
  const Tensor alone = parallel::all_gather_uneven(x);
  check_close(alone, x.detach(), 0, 0);
  CHECK_FALSE(alone.requires_grad());
  CHECK(alone.data_ptr() != x.data_ptr());
}

TEST_CASE("all_gather_uneven names the rank that differs, on all ranks") {
  CHECK_THROWS_AS(parallel::all_gather_uneven(ones({})), ValueError);
  CHECK_THROWS_AS(parallel::all_gather_uneven(Tensor()), ValueError);
  parallel::run_ranks(
      3,
      [](ProcessGroup& group) {
        const bool odd = group.rank() == 2;
        const std::string shapes = test::message_of<ShapeError>([&] {
          parallel::all_gather_uneven(ones({2, odd ? 4 : 3}));
        });
        CHECK(shapes.find("from rank 2") != std::string::npos);
        const std::string dims = test::message_of<ShapeError>([&] {
          parallel::all_gather_uneven(odd ? ones({2}) : ones({2, 3}));
        });
        CHECK(dims.find("from rank 2") != std::string::npos);
        const std::string types = test::message_of<DTypeError>(
            [&] { parallel::all_gather_uneven(ones({2}, {.dtype = odd ? kInt64 : kFloat32})); });
        CHECK(types.find("int64 from rank 2") != std::string::npos);
      },
      kShort);
}

TEST_CASE("all_gather_samples puts results into the data set's order") {
  for (const int ranks : {2, 3, 4})
    for (const std::int64_t size : {0, 1, 2, 7, 8, 12})
      for (const bool pad : {true, false}) {
        if (pad && size == 0) continue;
        parallel::run_ranks(
            ranks,
            [&](ProcessGroup& group) {
              const std::vector<std::int64_t> mine = samples(size, group, pad);
              const auto n = static_cast<std::int64_t>(mine.size());
              const Tensor results = from_vector(mine, {n}).unsqueeze(1).expand({n, 2});
              const Tensor all = parallel::all_gather_samples(results, size);
              check_equal(all, arange(size, {.dtype = kInt64}).unsqueeze(1).expand({size, 2}));
              CHECK_THROWS_AS(parallel::all_gather_samples(results, size + 2 * ranks), ValueError);
            },
            kShort);
      }
  check_close(parallel::all_gather_samples(ones({3}), 3), ones({3}), 0, 0);
  CHECK_THROWS_AS(parallel::all_gather_samples(ones({3}), 4), ValueError);
}

TEST_CASE("metrics of all ranks are those of one process, no sample counted twice") {
  constexpr std::int64_t kSize = 23, kClasses = 4;
  Generator random(5);
  const Tensor logits = randn({kSize, kClasses}, {}, &random);
  const Tensor labels = randint(0, kClasses, {kSize}, {.dtype = kInt64}, &random);
  const Tensor losses = randn({kSize}, {.dtype = kFloat64}, &random);
  metrics::Accuracy accuracy(Device(), {1, 3});
  metrics::ConfusionMatrix confusion(kClasses);
  metrics::DeviceAverageMeter mean{Device()};
  metrics::AverageMeter host("Loss");
  metrics::SmoothedValue smoothed(5);
  accuracy.update(logits, labels);
  confusion.update(logits, labels);
  for (std::int64_t i = 0; i < kSize; ++i) {
    mean.update(losses[i]);
    host.update(losses[i].item<double>());
    smoothed.update(losses[i].item<double>());
  }
  for (const int ranks : {2, 3, 4})
    parallel::run_ranks(
        ranks,
        [&](ProcessGroup& group) {
          metrics::Accuracy own_accuracy(Device(), {1, 3});
          metrics::ConfusionMatrix own_confusion(kClasses);
          metrics::DeviceAverageMeter own_mean{Device()};
          metrics::AverageMeter own_host("Loss");
          metrics::SmoothedValue own_smoothed(5);
          for (const std::int64_t i : samples(kSize, group, /*pad=*/false)) {
            own_accuracy.update(logits.narrow(0, i, 1), labels.narrow(0, i, 1));
            own_confusion.update(logits.narrow(0, i, 1), labels.narrow(0, i, 1));
            own_mean.update(losses[i]);
            own_host.update(losses[i].item<double>());
            own_smoothed.update(losses[i].item<double>());
          }
          const double last = own_host.val();
          parallel::all_reduce_metrics(own_accuracy, own_mean, own_confusion);
          parallel::all_reduce_metrics(group.shared_from_this(), own_host, own_smoothed);
          CHECK(own_accuracy.values() == accuracy.values());
          CHECK(own_accuracy.total() == kSize);
          check_equal(own_confusion.counts(), confusion.counts());
          CHECK(own_mean.value().avg() == doctest::Approx(mean.value().avg()).epsilon(1e-12));
          CHECK(own_mean.value().count() == kSize);
          CHECK(own_host.avg() == doctest::Approx(host.avg()).epsilon(1e-12));
          CHECK(own_host.count() == kSize);
          CHECK(own_host.val() == last);
          CHECK(own_smoothed.global_avg() == doctest::Approx(smoothed.global_avg()).epsilon(1e-12));
        },
        kShort);
  // A single process changes nothing.
  parallel::all_reduce_metrics(accuracy, host);
  CHECK(accuracy.total() == kSize);
  CHECK(host.count() == kSize);
}

TEST_CASE("a DistributedSampler takes its place from the default group") {
  CHECK(data::DistributedSampler(5, {.shuffle = false}).order(0).size() == 5);  // one process
  parallel::run_ranks(
      3,
      [](ProcessGroup& group) {
        const std::int64_t rank = group.rank();
        using Indices = std::vector<std::int64_t>;
        CHECK(data::DistributedSampler(6, {.shuffle = false}).order(0) == Indices{rank, rank + 3});
        const data::DistributedSampler other(4, {.num_replicas = 2, .rank = 1, .shuffle = false});
        CHECK(other.order(0) == Indices{1, 3});
      },
      kShort);
  ::setenv("WORLD_SIZE", "2", 1);
  CHECK_THROWS_WITH_AS(data::DistributedSampler(6),
                       doctest::Contains("call init_process_group() first"), ValueError);
  CHECK(data::DistributedSampler(6, {.num_replicas = 2, .rank = 1}).size() == 3);
  ::unsetenv("WORLD_SIZE");
}
