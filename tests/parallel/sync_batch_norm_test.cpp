#include "ferrite/parallel/ddp/sync_batch_norm.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <sstream>

#include "ferrite/nn/layers.h"
#include "ferrite/nn/models/resnet.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/parallel/pipeline/pipeline.h"
#include "ferrite/tests/parallel/parts_of_batch.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using parallel::ProcessGroup;
using test::check_close;
using test::check_parts;
using test::PartsOfBatch;

namespace {

const parallel::LocalGroupOptions kShort{.timeout = std::chrono::seconds(60)};

nn::ResNet small_resnet(bool checkpoint_blocks = false) {
  return nn::ResNet(nn::ResNetBlock::basic, {1, 1, 1, 1},
                    {.classes = 3,
                     .in_channels = 2,
                     .stem = nn::ResNetStem::small,
                     .width = 2,
                     .checkpoint_blocks = checkpoint_blocks});
}

nn::Sequential mixed(const nn::BatchNormOptions& options) {
  return nn::Sequential(nn::Conv2d(2, 3, 3), nn::BatchNorm2d(3, options), nn::ReLU(),
                        nn::BatchNorm2d(3, options), nn::ReLU(), nn::Flatten(), nn::Linear(48, 4),
                        nn::BatchNorm1d(4, options));
}

}  // namespace

TEST_CASE("SyncBatchNorm: ranks on parts of a batch are one process on the whole") {
  const auto resnet = [] { return std::make_unique<nn::ResNet>(small_resnet()); };
  check_parts({.make = resnet, .cuts = {0, 4, 8}});
  check_parts({.make = resnet, .cuts = {0, 3, 5, 8}});
  check_parts({.make = resnet, .cuts = {0, 2, 3, 6, 8}, .format = kChannelsLast});
  check_parts(
      {.make = [] { return std::make_unique<nn::ResNet>(small_resnet(true)); }, .cuts = {0, 3, 8}});
  for (const nn::BatchNormOptions& options :
       {nn::BatchNormOptions{}, nn::BatchNormOptions{.momentum = std::nullopt},
        nn::BatchNormOptions{.affine = false},
        nn::BatchNormOptions{.eps = 0.1, .momentum = 0.5, .track_running_stats = false}})
    check_parts({.make = [&] { return std::make_unique<nn::Sequential>(mixed(options)); },
                 .cuts = {0, 1, 1, 5, 8}});  // one rank has no samples
}

TEST_CASE("SyncBatchNorm in float32") {
  check_parts({.make = [] { return std::make_unique<nn::Sequential>(mixed({})); },
               .cuts = {0, 3, 8},
               .dtype = kFloat32,
               .tolerance = 1e-5});
}

TEST_CASE("SyncBatchNorm of 16-bit inputs has float32 statistics") {
  for (const DType dtype : {kFloat16, kBFloat16}) {
    const Tensor x = (randn({6, 3, 4}) * 0.5 + 7.0).to(dtype);
    nn::BatchNorm1d whole(3);
    const Tensor expected = whole(x);
    parallel::run_ranks(
        3,
        [&](ProcessGroup& group) {
          parallel::SyncBatchNorm norm(3);
          const Tensor y = norm(x.narrow(0, 2 * group.rank(), 2).clone());
          CHECK(y.dtype() == dtype);
          check_close(y, expected.narrow(0, 2 * group.rank(), 2).detach(), 1e-2, 1e-2);
          CHECK(norm.running_mean.dtype() == kFloat32);
          check_close(norm.running_mean, whole.running_mean, 1e-6);
          check_close(norm.running_var, whole.running_var, 1e-6);
        },
        kShort);
  }
}

TEST_CASE("SyncBatchNorm does not communicate in eval mode, and alone is a batch norm") {
  const Tensor x = randn({4, 3, 2, 2});
  nn::BatchNorm2d plain(3);
  parallel::SyncBatchNorm alone(3);
  check_close(alone(x), plain(x), 0, 0);
  check_close(alone.running_var, plain.running_var, 0, 0);
  CHECK_THROWS_AS(alone(ones({1, 3})), ShapeError);
  CHECK_THROWS_AS(alone(ones({3})), ShapeError);
  parallel::run_ranks(
      2,
      [&](ProcessGroup& group) {
        parallel::SyncBatchNorm norm(3);
        norm.eval();
        nn::BatchNorm2d untracked(3, {.track_running_stats = false});
        parallel::convert_sync_batchnorm(untracked);
        untracked.eval();
        // A collective called by one rank alone would wait for the other.
        if (group.rank() == 0) norm(x), untracked(x);
        group.barrier().wait();
      },
      kShort);
}

TEST_CASE("SyncBatchNorm over a group of some ranks, other than the default") {
  const Tensor x = randn({6, 2}, {.dtype = kFloat64});
  parallel::run_ranks(
      3,
      [&](ProcessGroup& group) {
        const auto pair = group.new_group({0, 2});
        if (!pair) return;
        parallel::SyncBatchNorm norm(2, {}, pair);
        norm.to(kFloat64);
        const Tensor both = cat({x.narrow(0, 0, 2), x.narrow(0, 4, 2)}, 0);
        nn::BatchNorm1d whole(2);
        whole.to(kFloat64);
        const Tensor expected = whole(both).detach();
        const Tensor y = norm(x.narrow(0, 2 * group.rank(), 2).clone());
        check_close(y.detach(), expected.narrow(0, 2 * pair->rank(), 2), 1e-12, 1e-12);
        check_close(norm.running_var, whole.running_var, 1e-12);
      },
      kShort);
}

TEST_CASE("convert_sync_batchnorm keeps everything but the statistics") {
  nn::ResNet net = small_resnet();
  const StateDict before = net.state_dict();
  auto& bn1 = dynamic_cast<nn::BatchNorm&>(net.get_submodule("bn1"));
  int calls = 0;
  const nn::ModuleHook hook =
      bn1.register_forward_hook([&](nn::Module&, const Tensor&, const Tensor&) { ++calls; });
  nn::Module& converted = parallel::convert_sync_batchnorm(net);
  CHECK(&converted == &net);
  CHECK(&bn1 == &net.get_submodule("bn1"));
  CHECK(bn1.is_synchronized());
  const StateDict after = net.state_dict();
  REQUIRE(after.size() == before.size());
  for (const auto& [name, t] : before) CHECK(after.at(name).data_ptr() == t.data_ptr());
  const std::string text = net.str();
  CHECK(text.find("(bn1): SyncBatchNorm(2, eps=1e-05, momentum=0.1, affine=True, "
                  "track_running_stats=True)") != std::string::npos);
  CHECK(text.find("BatchNorm2d") == std::string::npos);
  // Also for a copy; no difference for a single process.
  const Tensor x = randn({3, 2, 8, 8});
  const auto copy = net.clone();
  CHECK(copy->str() == text);
  nn::ResNet other = small_resnet();
  other.load_state_dict(before);
  check_close(net(x).detach(), other(x).detach(), 1e-6, 1e-6);  // a hook prevents fusion
  CHECK(calls == 1);
  parallel::revert_sync_batchnorm(net);
  CHECK_FALSE(bn1.is_synchronized());
  CHECK(net.str().find("SyncBatchNorm") == std::string::npos);
}

TEST_CASE("SyncBatchNorm: a rank that fails ends the others") {
  CHECK_THROWS_AS(parallel::run_ranks(
                      2,
                      [&](ProcessGroup& group) {
                        parallel::SyncBatchNorm norm(3);
                        if (group.rank() == 1) fail<ValueError>("test", "lost");
                        norm(randn({4, 3}));
                      },
                      kShort),
                  ValueError);
}

TEST_CASE("SyncBatchNorm in the stages of a pipeline: all ranks exchange sums in one order") {
  using parallel::PipelineCheckpoint;
  const auto make = [] {
    return nn::Sequential(nn::Linear(8, 64), nn::BatchNorm1d(64), nn::Linear(64, 64),
                          nn::BatchNorm1d(64), nn::Linear(64, 3));
  };
  for (const PipelineCheckpoint checkpoint :
       {PipelineCheckpoint::never, PipelineCheckpoint::always})
    parallel::run_ranks(
        2,
        [&](ProcessGroup& group) {
          nn::Sequential split = make(), whole = make();
          manual_seed(5);
          for (const Tensor& p : whole.parameters()) no_grad([&] { p.normal_(); });
          split.load_state_dict(whole.state_dict());
          parallel::convert_sync_batchnorm(split, group.shared_from_this());
          parallel::convert_sync_batchnorm(whole, group.shared_from_this());
          parallel::Pipeline pipe(split, {"cpu:0", "cpu:1"},
                                  {.chunks = 2, .checkpoint = checkpoint, .balance = {2, 3}});
          for (int step = 0; step < 20; ++step) {
            Generator numbers(static_cast<std::uint64_t>(2 * step + group.rank()));
            const Tensor x = randn({16, 8}, {}, &numbers);
            split.zero_grad();
            whole.zero_grad();
            pipe(x).pow(2).mean().backward();
            cat({whole(x.narrow(0, 0, 8)), whole(x.narrow(0, 8, 8))}).pow(2).mean().backward();
            for (std::size_t i = 0; i < whole.parameters().size(); ++i)
              check_close(split.parameters()[i].grad().cpu(), whole.parameters()[i].grad(), 1e-4,
                          1e-3);
          }
        },
        kShort);
}
