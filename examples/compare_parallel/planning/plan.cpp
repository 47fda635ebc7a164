#include "ferrite/examples/compare_parallel/planning/plan.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "ferrite/core/error.h"
#include "ferrite/examples/compare_parallel/planning/op_name.h"

namespace ferrite::planning {

namespace {

class Planner {
 public:
  Planner(const ModelProfile& profile, const Cluster& cluster, const PlanOptions& options)
      : profile_(profile),
        cluster_(cluster),
        options_(options),
        global_batch_(options.global_batch > 0 ? options.global_batch : profile.batch) {}

  std::optional<PlanRow> row(Strategy strategy, int devices) const {
    const bool strong = options_.scaling == Scaling::strong;
    if (strong && devices > global_batch_) return {};
    const ModelProfile part = strong ? of_batch((global_batch_ + devices - 1) / devices) : profile_;
    PlanRow row{.strategy = strategy,
                .devices = devices,
                .batch = strong ? global_batch_ : profile_.batch * devices};
    row.step = simulate_step(strategy, part, devices, cluster_, options_.step);
    row.throughput = static_cast<double>(row.batch) / row.step.step_s;
    row.efficiency = row.throughput / (single_throughput() * devices);
    row.goodput = goodput(options_.failures, devices);
    row.checkpoint_interval_s = checkpoint_interval_s(options_.failures, devices);
    return row;
  }

  /// The throughput of one device with the whole batch (strong scaling), or with its own.
  double single_throughput() const {
    const ModelProfile whole =
        options_.scaling == Scaling::strong ? of_batch(global_batch_) : profile_;
    return static_cast<double>(whole.batch) / whole.step_s();
  }

 private:
  ModelProfile of_batch(std::int64_t batch) const {
    if (batch == profile_.batch) return profile_;
    return options_.other_batch ? with_batch(profile_, *options_.other_batch, batch)
                                : with_batch(profile_, batch);
  }

  const ModelProfile& profile_;
  const Cluster& cluster_;
  const PlanOptions& options_;
  const std::int64_t global_batch_;
};

double best_throughput(const Plan& plan, int devices, bool ddp) {
  double best = 0;
  for (const PlanRow& row : plan.rows)
    if (row.devices == devices && (row.strategy == Strategy::ddp) == ddp)
      best = std::max(best, row.throughput);
  return best;
}

}  // namespace

std::vector<int> powers_of_two(int greatest) {
  FERRITE_CHECK(greatest > 0, ValueError, kOp, "expected 1 device or more, got {}", greatest);
  std::vector<int> devices;
  for (std::int64_t n = 2; n < greatest; n *= 2) devices.push_back(static_cast<int>(n));
  devices.push_back(greatest);
  return devices;
}

Plan plan(const ModelProfile& profile, const Cluster& cluster, const PlanOptions& options) {
  profile.check();
  cluster.check();
  options.failures.check();
  FERRITE_CHECK(!options.devices.empty(), ValueError, kOp, "expected numbers of devices, got none");
  FERRITE_CHECK(!options.strategies.empty(), ValueError, kOp, "expected strategies, got none");
  FERRITE_CHECK(options.global_batch >= 0, ValueError, kOp,
                "expected a batch of 1 or more (0: the profile's), got {}", options.global_batch);
  FERRITE_CHECK(options.worthwhile > 0 && options.worthwhile < 1, ValueError, kOp,
                "expected worthwhile between 0 and 1, got {}", options.worthwhile);
  for (const int n : options.devices)
    FERRITE_CHECK(n > 0, ValueError, kOp, "expected 1 device or more, got {}", n);
  const Planner planner(profile, cluster, options);
  Plan plan{.model = profile.dtype.empty() ? profile.model : profile.model + ", " + profile.dtype,
            .device = profile.device,
            .cluster = cluster.name,
            .scaling = options.scaling,
            .single_step_s = profile.step_s(),
            .single_throughput = static_cast<double>(profile.batch) / profile.step_s(),
            .worthwhile = options.worthwhile};
  const std::set<int> devices(options.devices.begin(), options.devices.end());
  for (const Strategy strategy : options.strategies)
    for (const int n : devices)
      if (auto row = planner.row(strategy, n)) plan.rows.push_back(*row);
  return plan;
}

const PlanRow* Plan::find(Strategy strategy, int devices) const {
  const auto found = std::ranges::find_if(
      rows, [&](const PlanRow& row) { return row.strategy == strategy && row.devices == devices; });
  return found == rows.end() ? nullptr : &*found;
}

std::vector<PlanRow> Plan::of(Strategy strategy) const {
  std::vector<PlanRow> result;
  std::ranges::copy_if(rows, std::back_inserter(result),
                       [&](const PlanRow& row) { return row.strategy == strategy; });
  return result;
}

std::optional<int> Plan::crossover() const {
  std::set<int, std::greater<>> devices;
  for (const PlanRow& row : rows) devices.insert(row.devices);
  std::optional<int> from;
  for (const int n : devices) {
    const double dp = best_throughput(*this, n, false), ddp = best_throughput(*this, n, true);
    if (dp == 0 || ddp <= dp) break;
    from = n;
  }
  return from;
}

std::optional<int> Plan::pays_until(Strategy strategy) const {
  const PlanRow* last = nullptr;
  const auto all = of(strategy);
  for (const PlanRow& row : all) {
    if (last != nullptr) {
      const double more = static_cast<double>(row.devices) / last->devices - 1;
      if (row.net_throughput() < last->net_throughput() * (1 + worthwhile * more)) break;
    } else if (row.net_throughput() < single_throughput * (1 + worthwhile * (row.devices - 1))) {
      return 1;
    }
    last = &row;
  }
  return last == nullptr ? std::optional<int>() : last->devices;
}

std::optional<int> Plan::best(Strategy strategy) const {
  const auto all = of(strategy);
  const auto found = std::ranges::max_element(all, {}, &PlanRow::net_throughput);
  return found == all.end() ? std::optional<int>() : found->devices;
}

}  // namespace ferrite::planning
