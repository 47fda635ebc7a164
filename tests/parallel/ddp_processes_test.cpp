// DistributedDataParallel on ranks that are processes.
#include <doctest/doctest.h>

#include "ferrite/nn/layers.h"
#include "ferrite/nn/models/lenet.h"
#include "ferrite/nn/models/resnet.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/parallel/ddp/model_check.h"
#include "ferrite/parallel/ddp/sync_batch_norm.h"
#include "ferrite/tests/parallel/ddp_training.h"
#include "ferrite/tests/parallel/processes.h"
#include "ferrite/tests/support/sanitizers.h"

using namespace ferrite;
using namespace ferrite::parallel;
using test::DdpTraining;

namespace {

DdpTraining training() {
  if (test::environment_or("MODEL", "lenet") == "lenet")
    return {.make = [] { return std::make_unique<nn::LeNet5>(); }};
  return {.make =
              [] {
                auto net = std::make_unique<nn::ResNet18>(
                    nn::ResNetOptions{.classes = 4, .stem = nn::ResNetStem::small, .width = 4});
                convert_sync_batchnorm(*net);
                net->to(kFloat64);
                return net;
              },
          .batch = {12, 3, 8, 8},
          .classes = 4,
          .dtype = kFloat64};
}

}  // namespace

RANK_FUNCTION(ddp_trains) {
  const auto group = init_process_group("gloo", test::rank_init_options());
  DdpTraining c = training();
  if (test::sanitized()) c.steps = 8;
  // Initial weights become rank 0's, whatever they were.
  const auto model = test::make_seeded(c, 1 + static_cast<unsigned>(group->rank()));
  const std::vector<Tensor> ended =
      test::train_rank(c, *model, group->rank(), group->size(), test::data_of(c));
  std::vector<std::int64_t> bits;
  for (const Tensor& t : ended) {
    std::uint64_t hash = 0xcbf29ce484222325u;
    const Tensor dense = t.contiguous();
    const auto* bytes = static_cast<const unsigned char*>(dense.data_ptr());
    for (std::size_t i = 0; i < dense.nbytes(); ++i) hash = (hash ^ bytes[i]) * 0x100000001b3u;
    bits.push_back(static_cast<std::int64_t>(hash));
  }
  const std::vector<std::int64_t> all = ddp::gather_numbers(*group, bits);
  for (std::size_t i = 0; i < all.size(); ++i) CHECK(all[i] == bits[i % bits.size()]);
  destroy_process_group();
  if (test::rank_of_process() != 0) return;
  const std::vector<Tensor> expected = test::train_alone(c);
  const double tolerance = c.dtype == kFloat64 ? 1e-9 : 1e-5;
  for (std::size_t i = 0; i < expected.size(); ++i)
    test::check_close(ended[i], expected[i], tolerance, tolerance);
}

TEST_CASE("processes on parts of a batch end as one on the whole") {
  for (const int ranks : {2, 3, 4}) test::check_processes("ddp_trains", ranks);
  test::check_processes("ddp_trains", 2, {.environment = {{"MODEL", "resnet"}}});
}

namespace {

struct Choice : nn::Cloneable<Choice> {
  Choice() {
    register_module("first", first);
    register_module("second", second);
  }
  using nn::Module::forward;
  Tensor forward(const Tensor& x, bool both) { return both ? first(x) + second(x) : first(x); }
  nn::Linear first{3, 2}, second{3, 2};
};

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const DistributedError& e) {
    return e.what();
  }
  return "";
}

}  // namespace

RANK_FUNCTION(ddp_mistakes) {
  const auto start = std::chrono::steady_clock::now();
  const auto group = init_process_group("gloo", test::rank_init_options());
  Choice net;
  const std::string error = error_of([&] {
    DistributedDataParallel ddp(net);
    for (int step = 0; step < 4; ++step)
      ddp(ones({1, 3}), step < 2 || group->rank() != 1).sum().backward();
  });
  CHECK_MESSAGE(error.find("rank 1: 2 of 4 parameters got no gradient in this backward pass: "
                           "second.weight, second.bias") != std::string::npos,
                error);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(18));
  destroy_process_group();
}

TEST_CASE("an unused parameter of one process is an error on all, before the timeout") {
  test::check_processes("ddp_mistakes", 3);
}

RANK_FUNCTION(ddp_uneven) {
  const auto group = init_process_group("gloo", test::rank_init_options(std::chrono::seconds(10)));
  Choice net;
  DistributedDataParallel ddp(net);
  const std::string error = error_of([&] {
    for (int step = 0; step < 2 + group->rank(); ++step) ddp(ones({1, 3}), true).sum().backward();
  });
  CHECK_MESSAGE((group->rank() == 0 ? error.empty() : error.find("rank 0") != std::string::npos),
                error);
  destroy_process_group();
}

TEST_CASE("a process that has no more inputs, without a join") {
  test::check_processes("ddp_uneven", 2);
}
