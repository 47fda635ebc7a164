#include "ferrite/examples/compare_parallel/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <memory>
#include <mutex>

#include "ferrite/core/allocator.h"
#include "ferrite/core/error.h"
#include "ferrite/core/parallel_for.h"
#include "ferrite/core/stream.h"
#include "ferrite/core/terminal.h"
#include "ferrite/data/file.h"
#include "ferrite/examples/compare_parallel/strategies.h"
#include "ferrite/parallel/comm/local/local_group.h"
#include "ferrite/parallel/comm/process_group.h"

namespace examples::compare {

using nlohmann::json;
using namespace ferrite;

namespace {

using Clock = std::chrono::steady_clock;

bool is_ddp(const Case& c) { return c.strategy.starts_with("ddp"); }

std::unique_ptr<Strategy> make_strategy(const Options& o, const Case& c) {
  if (c.strategy == "single") return make_single(o, c);
  return is_ddp(c) ? make_ddp(o, c) : make_data_parallel(o, c);
}

template <class F>
double milliseconds_a_step(Strategy& strategy, int steps, const F& step) {
  strategy.meet();
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < steps; ++i) step();
  for (const Device& device : strategy.devices()) synchronize(device);
  const std::chrono::duration<double, std::milli> taken = Clock::now() - start;
  strategy.meet();
  return taken.count() / steps;
}

RankResult measure_case(const Options& o, const Case& c) {
  const std::unique_ptr<Strategy> strategy = make_strategy(o, c);
  const auto step = [&] { strategy->step(); };
  const auto alone = [&] { strategy->step_alone(); };
  milliseconds_a_step(*strategy, o.warmup, step);
  strategy->reset_counts();
  for (const Device& device : strategy->devices()) reset_peak_memory_stats(device);

  RankResult result;
  result.step_ms = milliseconds_a_step(*strategy, o.steps, step);
  for (const Device& device : strategy->devices())
    result.peak_memory.push_back(static_cast<std::int64_t>(max_memory_allocated(device)));
  result.communication = strategy->communication();

  if (c.strategy == "single") {
    result.alone_ms = result.step_ms;
  } else {
    milliseconds_a_step(*strategy, o.warmup, alone);
    result.alone_ms = milliseconds_a_step(*strategy, o.steps, alone);
  }
  return result;
}

/// Seconds of each step without communication, which all ranks begin together.
std::vector<double> measure_side_by_side(const Options& o, const Case& c) {
  const std::unique_ptr<Strategy> strategy = make_strategy(o, c);
  std::vector<double> seconds;
  for (int i = 0; i < o.warmup + std::max(5, o.steps); ++i) {
    const double ms = milliseconds_a_step(*strategy, 1, [&] { strategy->step_alone(); });
    if (i >= o.warmup) seconds.push_back(1e-3 * ms);
  }
  return seconds;
}

// ---- Ranks

bool ranks_are_threads(const Options& o, const Job& job) {
  return o.ranks == "thread" && (is_ddp(job.what) || job.task == "links");
}

parallel::Milliseconds timeout_of(const Options& o) {
  return std::chrono::duration_cast<parallel::Milliseconds>(
      std::chrono::duration<double>(o.timeout));
}

/// What each rank has found, of this process. `f` runs as each of them.
template <class F>
std::vector<json> as_ranks(const Options& o, const Job& job, const F& f) {
  const int devices = job.what.devices;
  if (ranks_are_threads(o, job)) {
    std::vector<json> results(static_cast<std::size_t>(devices));
    parallel::run_ranks(devices,
                        [&](parallel::ProcessGroup& group) {
                          results[static_cast<std::size_t>(group.rank())] = f();
                        },
                        {.timeout = timeout_of(o)});
    return results;
  }
  if (processes_of(o, job) == 1) return {f()};
  parallel::InitOptions options{.init_method = "file://" + o.worker + "/store",
                                .timeout = timeout_of(o)};
  if (o.is_cuda()) options.device = device_of(o, parallel::get_local_rank(), false);
  parallel::init_process_group(o.backend, options);
  json result = f();
  parallel::destroy_process_group();
  return {std::move(result)};
}

int threads_of(const Options& o, const Job& job) {
  const bool shared = !o.is_cuda() && processes_of(o, job) == 1;
  // Workers of virtual devices compute themselves; more threads are one pool for all of them.
  return shared && job.what.threads > 1 ? job.what.threads * job.what.devices : job.what.threads;
}

std::vector<json> run_job(const Options& o, const Job& job) {
  if (job.task == "case") return as_ranks(o, job, [&] { return json(measure_case(o, job.what)); });
  if (job.task == "side by side")
    return as_ranks(o, job, [&] { return json(measure_side_by_side(o, job.what)); });
  if (job.task == "links" && job.what.strategy == "dp")
    return {json(measure_device_links(o, job.what.devices))};
  if (job.task == "links") return as_ranks(o, job, [&] { return json(measure_group_links(o)); });
  if (job.task == "model") return {json(measure_model(o))};
  return {json::parse(planning::to_json(measure_profile(o, job.what)))};
}

}  // namespace

int processes_of(const Options& o, const Job& job) {
  const bool ranks = is_ddp(job.what) && job.task != "model";
  return ranks && o.ranks == "process" ? job.what.devices : 1;
}

int run_worker(const Options& o) try {
  const Job job = json::parse(o.job).get<Job>();
  set_num_threads(threads_of(o, job));
  const json results = run_job(o, job);
  data::AtomicFile file(fmt::format("{}/rank-{}.json", o.worker, parallel::get_local_rank()),
                        "compare_parallel");
  file.write(results.dump());
  file.commit();
  return 0;
} catch (const DistributedError& error) {
  fmt::print(stderr, "{}", terminal::error_line(error.what()));
  return kFailedWithOthers;
}

}  // namespace examples::compare
