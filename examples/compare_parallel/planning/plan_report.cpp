// What a plan looks like.
#include <cmath>
#include <nlohmann/json.hpp>

#include "ferrite/core/error.h"
#include "ferrite/core/terminal.h"
#include "ferrite/examples/compare_parallel/planning/plan.h"

namespace ferrite::planning {

namespace {

using Json = nlohmann::ordered_json;

std::string milliseconds(double seconds) {
  const double ms = seconds * 1e3;
  return fmt::format("{:.{}f}", ms, ms < 10 ? 2 : ms < 1000 ? 1 : 0);
}

std::string count(double value) {
  if (value >= 1e6) return fmt::format("{:.2f}M", value / 1e6);
  if (value >= 1e4) return fmt::format("{:.1f}k", value / 1e3);
  return fmt::format("{:.{}f}", value, value < 100 ? 1 : 0);
}

std::string name_of(const PlanRow& row) {
  if (row.strategy != Strategy::ddp || row.devices == 1)
    return std::string(to_string(row.strategy));
  return fmt::format("{} {}", to_string(row.strategy), to_string(row.step.algorithm));
}

Json optional(const std::optional<int>& value) { return value ? Json(*value) : Json(); }
/// The figures of a row that have their names in CSV and JSON.
template <class F>
void for_each_figure(const PlanRow& row, const F& f) {
  f("step_ms", 1e3 * row.step.step_s);
  f("compute_ms", 1e3 * row.step.compute_s);
  f("straggler_ms", 1e3 * row.step.straggler_s);
  f("communication_ms", 1e3 * row.step.communication_s);
  f("exposed_ms", 1e3 * row.step.exposed_s);
  f("hidden_ms", 1e3 * row.step.hidden_s());
  f("bytes_busiest", row.step.bytes_busiest);
  f("samples_per_second", row.throughput);
  f("efficiency", row.efficiency);
  f("goodput", row.goodput);
  f("net_samples_per_second", row.net_throughput());
  f("checkpoint_interval_s", row.checkpoint_interval_s);
}

}  // namespace

std::string Plan::table() const {
  terminal::Table table({{"devices"},
                         {"strategy", terminal::Align::left},
                         {"batch"},
                         {"step ms"},
                         {"compute"},
                         {"slowest +"},
                         {"exposed"},
                         {"hidden"},
                         {"samples/s"},
                         {"eff"},
                         {"goodput"}});
  for (const PlanRow& row : rows) {
    std::vector<std::string> cells = {std::to_string(row.devices), name_of(row),
                                      fmt::format("{}", row.batch)};
    for (const double seconds : {row.step.step_s, row.step.compute_s, row.step.straggler_s,
                                 row.step.exposed_s, row.step.hidden_s()})
      cells.push_back(milliseconds(seconds));
    cells.push_back(count(row.throughput));
    for (const double part : {row.efficiency, row.goodput})
      cells.push_back(fmt::format("{:.1f}%", 100 * part));
    table.add(std::move(cells));
  }
  std::string out =
      fmt::format("{} on {}; {}; {} scaling\none device: {} ms per step, {} samples/s\n\n{}", model,
                  device, cluster, scaling == Scaling::weak ? "weak" : "strong",
                  milliseconds(single_step_s), count(single_throughput), table.str());
  out += "\n";
  if (const auto from = crossover())
    out += fmt::format("DDP has the higher throughput on {} devices or more\n", *from);
  else if (best(Strategy::ddp) && (best(Strategy::dp) || best(Strategy::dp_balanced)))
    out += "DDP does not have the higher throughput on the largest number of devices\n";
  for (const Strategy strategy : kAllStrategies)
    if (const auto until = pays_until(strategy))
      out += fmt::format(
          "{}: more devices are worthwhile up to {} (twice as many give at least {:.2g} times the "
          "throughput); {} have the highest net throughput\n",
          to_string(strategy), *until, 1 + worthwhile, *best(strategy));
  return out;
}

std::string Plan::csv() const {
  std::string out = "strategy,devices,batch,algorithm";
  for_each_figure({}, [&](std::string_view name, double) { out += fmt::format(",{}", name); });
  for (const PlanRow& row : rows) {
    out += fmt::format("\n{},{},{},{}", to_string(row.strategy), row.devices, row.batch,
                       row.strategy == Strategy::ddp ? to_string(row.step.algorithm) : "");
    for_each_figure(row, [&](std::string_view name, double value) {
      out +=
          name == "bytes_busiest" ? fmt::format(",{:.0f}", value) : fmt::format(",{:.6g}", value);
    });
  }
  return out + "\n";
}

std::string Plan::json() const {
  Json lines = Json::array();
  for (const PlanRow& row : rows) {
    Json line = {
        {"strategy", to_string(row.strategy)}, {"devices", row.devices}, {"batch", row.batch}};
    // JSON has no infinity.
    for_each_figure(row, [&](const char* name, double value) {
      line[name] = std::isfinite(value) ? Json(value) : Json();
    });
    if (row.strategy == Strategy::ddp) line["algorithm"] = to_string(row.step.algorithm);
    lines.push_back(std::move(line));
  }
  Json pays, highest;
  for (const Strategy strategy : kAllStrategies) {
    if (!best(strategy)) continue;
    pays[std::string(to_string(strategy))] = optional(pays_until(strategy));
    highest[std::string(to_string(strategy))] = optional(best(strategy));
  }
  const Json out = {{"schema", "ferrite.plan"},
                    {"version", 1},
                    {"model", model},
                    {"device", device},
                    {"cluster", cluster},
                    {"scaling", scaling == Scaling::weak ? "weak" : "strong"},
                    {"single_step_ms", 1e3 * single_step_s},
                    {"single_samples_per_second", single_throughput},
                    {"rows", lines},
                    {"ddp_faster_from", optional(crossover())},
                    {"pays_until", pays},
                    {"best", highest}};
  return out.dump(2) + "\n";
}

}  // namespace ferrite::planning
