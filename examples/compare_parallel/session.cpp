#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <thread>

#include "ferrite/core/cuda.h"
#include "ferrite/core/error.h"
#include "ferrite/core/terminal.h"
#include "ferrite/examples/compare_parallel/measure.h"

namespace examples::compare {

using nlohmann::json;
using namespace ferrite;

namespace {

/// Shows on stderr what is being measured, if that is a terminal.
class Progress {
 public:
  Progress(std::size_t total, bool quiet) : total_(total), quiet_(quiet) {}
  void next(const std::string& what) {
    ++done_;
    if (!quiet_) line_.show(fmt::format("[{}/{}] {}", done_, total_, what));
  }

 private:
  std::size_t done_ = 0;
  const std::size_t total_;
  const bool quiet_;
  terminal::Line line_{stderr};
};

bool is_emulated() { return cuda::properties(0).name.find("emulated") != std::string::npos; }

class Session {
 public:
  Session(const Options& o, const std::vector<std::string>& arguments)
      : options_(o), arguments_(arguments), cases_(cases_of(o)) {
    result_.machine = describe_machine(o);
    result_.data =
        o.dataset == "synthetic" || o.data.empty() ? o.dataset : o.dataset + " in " + o.data;
    result_.steps = o.steps;
    result_.warmup = o.warmup;
    result_.repetitions = o.repetitions;
    for (const Case& c : cases_) {
      Row row;
      row.what = c;
      result_.rows.push_back(row);
    }
  }

  Measurement run() {
    measure_the_model();
    Progress progress(cases_.size() * static_cast<std::size_t>(options_.repetitions),
                      options_.quiet);
    for (int round = 0; round < options_.repetitions; ++round)
      for (std::size_t i = 0; i < cases_.size(); ++i) {
        Row& row = result_.rows[round % 2 == 0 ? i : cases_.size() - 1 - i];
        progress.next(
            fmt::format("round {}: {} on {}", round + 1, row.what.label(), row.what.devices));
        if (row.error.empty()) measure(row);
      }
    for (Row& row : result_.rows) compare_with_single(row);
    if (options_.profile && !options_.json.empty()) profile();
    return std::move(result_);
  }

 private:
  void measure_the_model() {
    Job job{"model", {}};
    const Outcome outcome = run_processes(options_, arguments_, job);
    FERRITE_CHECK(outcome.error.empty(), Error, "compare_parallel", "{}", outcome.error);
    outcome.ranks.at(0).get_to(result_.model);
  }
  void measure(Row& row);
  void compare_with_single(Row& row) const;
  void profile();

  const Options& options_;
  const std::vector<std::string>& arguments_;
  const std::vector<Case> cases_;
  Measurement result_;
};

void Session::measure(Row& row) {
  const Outcome outcome = run_processes(options_, arguments_, {"case", row.what});
  if (!outcome.error.empty()) {
    Row failed;
    failed.what = row.what;
    failed.error = outcome.error;
    row = failed;
    return;
  }
  double step = 0, alone = 0;
  std::optional<RankResult> least;  // the rank that the others wait for
  row.peak_memory.resize(static_cast<std::size_t>(row.what.devices));
  std::size_t device = 0;
  for (const json& one : outcome.ranks) {
    const auto rank = one.get<RankResult>();
    step = std::max(step, rank.step_ms);
    alone = std::max(alone, rank.alone_ms);
    if (!least || rank.communication.ms < least->communication.ms) least = rank;
    for (const std::int64_t peak : rank.peak_memory) {
      auto& most = row.peak_memory.at(device++);
      most = std::max(most, peak);
    }
    if (&one != &outcome.ranks.front()) continue;
    row.bytes_total = rank.communication.bytes_total;
    row.bytes_busiest = rank.communication.bytes_busiest;
    row.buckets = rank.communication.buckets;
    row.parts = rank.communication.parts;
  }
  row.step_ms.values.push_back(step);
  row.compute_ms.values.push_back(alone);
  row.exposed_ms.values.push_back(step - alone);
  row.communication_ms.values.push_back(least.value().communication.ms);
  // On GPUs a rank's backward ends for the reducer when its kernels are launched, not when they are
  // done: what was hidden is not known.
  if (!options_.is_cuda() || !row.what.strategy.starts_with("ddp"))
    row.hidden_ms.values.push_back(least.value().communication.hidden_ms);
  row.images_per_second.values.push_back(static_cast<double>(row.what.batch) / (step * 1e-3));
}

/// Round by round, as what else the machine did in a round has met both.
void Session::compare_with_single(Row& row) const {
  if (!row.error.empty()) return;
  const auto single = std::ranges::find_if(result_.rows, [&](const Row& r) {
    return r.what.strategy == "single" && !r.what.all_threads && r.what.amp == row.what.amp &&
           r.error.empty();
  });
  if (single == result_.rows.end()) return;
  Samples ratios;
  for (std::size_t i = 0; i < row.images_per_second.values.size(); ++i)
    ratios.values.push_back(row.images_per_second.values[i] /
                            single->images_per_second.values.at(i));
  row.speedup = ratios.median();
  row.efficiency = ratios.median() / row.what.devices;
}

/// What simulations are made of. What fails is left out: the table is complete without it.
void Session::profile() {
  Progress progress(1, options_.quiet);
  progress.next("layers and links");
  std::vector<Case> seen;
  for (const Case& c : cases_) {
    Case one{.amp = c.amp, .batch = c.batch_per_device(), .threads = options_.threads};
    one.strategy = "single";
    if (std::ranges::find(seen, one) != seen.end()) continue;
    seen.push_back(one);
    const Outcome outcome = run_processes(options_, arguments_, {"profile", one});
    if (outcome.error.empty())
      result_.profiles.push_back(planning::profile_from_json(outcome.ranks.at(0).dump()));
  }
  for (const int devices : options_.devices) {
    if (devices == 1) continue;
    for (const std::string strategy : {"ddp", "dp"}) {
      if (std::ranges::none_of(cases_, [&](const Case& c) {
            return c.strategy.starts_with("ddp") == (strategy == "ddp") && c.devices == devices;
          }))
        continue;
      Case one{.strategy = strategy, .devices = devices, .threads = options_.threads};
      const Outcome outcome = run_processes(options_, arguments_, {"links", one});
      if (!outcome.error.empty()) continue;
      for (const json& link : outcome.ranks.at(0)) result_.links.push_back(link.get<Link>());
    }
  }
}

}  // namespace

Machine describe_machine(const Options& o) {
  Machine m;
  m.cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  m.threads = o.threads;
  m.ranks = o.ranks;
  m.backend = o.backend;
  const LinkDelay delay = link_delay(o.link_delay);
  m.link_delay_us = delay.microseconds;
  m.link_gbps = delay.gbps;
  const int most = o.devices.back();
  for (int i = 0; i < most; ++i)
    m.devices.push_back(o.is_cuda() ? fmt::format("cuda:{} {}", i, cuda::properties(i).name)
                                    : fmt::format("cpu:{}", i));
  if (!o.is_cuda()) {
    m.kind = "virtual cpu devices";
    m.meaning = fmt::format(
        "Each device uses {} of a host with {} processors, and devices exchange data through its "
        "memory. Times and shares are valid for this host and say nothing about GPUs. {}",
        terminal::counted(o.threads, "thread"), m.cores,
        most * o.threads > m.cores
            ? "The devices have more threads than there are processors, which lowers the "
              "efficiency."
            : "Devices share memory bandwidth and caches, which causes part of the loss in "
              "efficiency.");
  } else if (is_emulated()) {
    m.kind = "emulated gpus";
    m.meaning =
        "CUDA kernels run on the CPU, thread by thread, so the times are meaningless. Bytes, peak "
        "memory and buckets are the same as on GPUs.";
  } else {
    m.kind = "gpus";
    m.meaning = "The times are those of these GPUs and of their links.";
  }
  if (delay.any())
    m.meaning += fmt::format(
        " Links between ranks that are processes are slowed down to {:g} us and {:g} GB/s; "
        "DataParallel's copies within a process and broadcasts of buffers are not slowed down.",
        delay.microseconds, delay.gbps);
  return m;
}

Measurement measure_all(const Options& options, const std::vector<std::string>& arguments) {
  return Session(options, arguments).run();
}

}  // namespace examples::compare
