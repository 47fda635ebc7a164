// A whole training under the profiler: loader, modules, optimizer, replicas, ranks.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>

#include "ferrite/core/profiler/profile.h"
#include "ferrite/data/dataloader.h"
#include "ferrite/data/dataset.h"
#include "ferrite/nn/layers.h"
#include "ferrite/ops/arithmetic.h"
#include "ferrite/ops/creation.h"
#include "ferrite/ops/loss.h"
#include "ferrite/optim/sgd.h"
#include "ferrite/parallel/comm/local/local_group.h"
#include "ferrite/parallel/data_parallel/data_parallel.h"
#include "ferrite/parallel/ddp/distributed_data_parallel.h"

using namespace ferrite;
using profiler::HostEvent;
using profiler::Kind;
using profiler::Profile;
using profiler::Recording;

namespace {

class Net : public nn::Cloneable<Net> {
 public:
  Net() {
    register_module("hidden", hidden_);
    register_module("out", out_);
  }
  Tensor forward(const Tensor& x) override { return out_(relu(hidden_(x))); }

 private:
  nn::Linear hidden_{8, 16};
  nn::Linear out_{16, 4};
};

std::map<std::string, std::int64_t> calls(const Recording& r) {
  std::map<std::string, std::int64_t> counts;
  for (const HostEvent& e : r.host) ++counts[profiler::display_name(e.name, e.kind)];
  return counts;
}

std::set<std::string> names_of_threads(const Recording& r) {
  std::set<std::string> names;
  for (const auto& thread : r.threads) names.insert(thread.name);
  return names;
}

data::DataLoader<> loader_of(std::int64_t samples, int workers) {
  manual_seed(1);
  const Tensor labels = randint(4, {samples});
  return data::DataLoader(
      std::make_shared<data::TensorDataset<data::Sample>>(randn({samples, 8}), labels),
      {.batch_size = 4, .num_workers = workers, .prefetch_factor = 2});
}

}  // namespace

TEST_CASE("a training step: batches, modules, ops, backward and the optimizer") {
  Net net;
  optim::SGD sgd(net.parameters(), {.lr = 0.1});
  data::DataLoader loader = loader_of(16, 2);
  Profile profile({.memory = true, .shapes = true, .modules = true});
  profile.name_modules(net);
  for (auto& [inputs, labels] : loader) {
    const Tensor loss = cross_entropy(net(inputs), labels);
    sgd.zero_grad();
    loss.backward();
    sgd.step();
    profile.step();
  }
  profile.stop();
  const Recording& r = profile.recording();
  const auto n = calls(r);
  CHECK(n.at("DataLoader.next") == 5);  // the last call finds the end
  CHECK(n.at("DataLoader.get_batch") == 4);
  CHECK(n.at("nn.Net") == 4);
  CHECK(n.at("nn.Linear") == 8);
  CHECK(n.at("linear") == 8);
  CHECK(n.at("linear backward") == 8);
  CHECK(n.at("relu backward") == 4);
  CHECK(n.at("accumulate_grad") == 16);
  CHECK(n.at("Optimizer.step#SGD") == 4);
  CHECK(n.at("zero_grad") == 4);
  CHECK(r.steps.size() == 4);
  CHECK(names_of_threads(r).contains("data loader"));
  CHECK(r.unfinished == 0);
  for (const HostEvent& e : r.host)
    if (e.kind == Kind::data && std::string_view(e.name) == "get_batch")
      CHECK(r.threads[e.thread].name == "data loader");

  std::ostringstream text;
  profiler::write_trace(r, text);
  const auto trace = nlohmann::json::parse(text.str());
  std::set<std::string> names;
  for (const auto& e : trace["traceEvents"])
    if (e.value("cat", "") == "module") names.insert(e["name"]);
  CHECK(names == std::set<std::string>{"nn.Net", "nn.Linear hidden", "nn.Linear out"});

  Profile without;  // module names alone do not record modules
  net(randn({1, 8}));
  without.stop();
  CHECK_FALSE(calls(without.recording()).contains("nn.Net"));
}

TEST_CASE("replicas of DataParallel run in separate threads on separate devices") {
  Net net;
  net.to("cpu:0");
  parallel::DataParallel dp(net, {"cpu:0", "cpu:1"});
  const Tensor x = randn({8, 8}, {.device = "cpu:0"});
  Profile profile({.modules = true});
  dp(x).sum().backward();
  profile.stop();
  const Recording& r = profile.recording();
  CHECK(calls(r).at("nn.Net") == 2);
  for (const char* part :
       {"comm::scatter", "comm::replicate", "comm::parallel_apply", "comm::gather"})
    CHECK(calls(r).contains(part));
  std::set<std::string> devices;
  for (const auto& e : r.device) devices.insert(e.device.str());
  CHECK(devices == std::set<std::string>{"cpu:0", "cpu:1"});
  CHECK(r.threads.size() >= 3);
  CHECK(r.unfinished == 0);
}

TEST_CASE("ranks: buckets, collectives, and the threads that run them") {
  Profile profile;
  parallel::run_ranks(2,
                      [](parallel::ProcessGroup&) {
                        Net net;
                        parallel::DistributedDataParallel ddp(net);
                        for (int i = 0; i < 2; ++i) ddp(randn({4, 8})).sum().backward();
                      },
                      {.timeout = std::chrono::seconds(120)});
  profile.stop();
  const auto n = calls(profile.recording());
  CHECK(n.at("comm::ddp_bucket") >= 4);
  CHECK(n.at("comm::all_reduce") >= 8);  // once for the call, once for the execution
  CHECK(profile.recording().unfinished == 0);
}
