#include "ferrite/parallel/reports/reports.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "ferrite/core/allocator.h"
#include "ferrite/core/terminal.h"

namespace ferrite::parallel {

namespace {

constexpr auto kLeft = terminal::Align::left;

std::string size(auto bytes) {
  return ferrite::detail::readable_bytes(static_cast<std::size_t>(bytes));
}

const char* plural(auto count, const char* ending = "s") { return count == 1 ? "" : ending; }

std::string milliseconds(bool timed, double ms) {
  return timed ? fmt::format("{:.2f} ms", ms) : std::string("-");
}

/// "fc.bias ... conv1.weight".
std::string first_and_last(const std::vector<std::string>& names) {
  if (names.size() == 1) return names.front();
  return fmt::format("{} ... {}", names.front(), names.back());
}

double hidden(double total, double exposed) { return total > 0 ? 1 - exposed / total : 1; }

}  // namespace

reports::Overlap reports::overlap(std::vector<std::pair<double, double>> spans,
                                  double hidden_until) {
  std::ranges::sort(spans);
  Overlap sum;
  double counted = 0;  // end of the time counted so far
  for (const auto& [begin, end] : spans) {
    const double from = std::max(begin, counted);
    if (end <= from) continue;
    sum.total += end - from;
    sum.exposed += std::max(end, hidden_until) - std::max(from, hidden_until);
    counted = end;
  }
  return sum;
}

double DDPReport::overlap() const { return hidden(communication_ms, exposed_ms); }
double DataParallelReport::overlap() const { return hidden(reduction_ms, exposed_reduction_ms); }

std::string DDPReport::str() const {
  std::string out = fmt::format(
      "DistributedDataParallel on {}: {} a step for {} parameters in {} bucket{}, {}\n", group,
      size(bytes), parameters, buckets.size(), plural(buckets.size()),
      rebuilt ? "in the order in which gradients arrive" : "in reverse order of registration");
  terminal::Table table({{"bucket"},
                         {"parameters"},
                         {"elements"},
                         {"size"},
                         {"dtype", kLeft},
                         {"ready"},
                         {"begun"},
                         {"ended"},
                         {"from ... to", kLeft}});
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    const Bucket& b = buckets[i];
    table.add({std::to_string(i), std::to_string(b.parameters.size()), std::to_string(b.numel),
               size(b.bytes), fmt::format("{}", b.dtype), milliseconds(timed > 0, b.ready_ms),
               milliseconds(timed > 0, b.begun_ms), milliseconds(timed > 0, b.ended_ms),
               first_and_last(b.parameters)});
  }
  out += table.str();
  if (timed == 0) return out + fmt::format("{} steps, none with timed communication\n", steps);
  return out +
         fmt::format(
             "{} steps: backward {:.2f} ms; communication {:.2f} ms, of which {:.2f} ms after "
             "backward: {:.0f}% hidden\n",
             timed, backward_ms, communication_ms, exposed_ms, 100 * overlap());
}

std::string DataParallelReport::str() const {
  std::string out = fmt::format(
      "DataParallel on {}{}: {} steps, {} timed, {} with gradients\n", fmt::join(devices, ", "),
      backend.empty() ? "" : fmt::format(" ({})", backend), steps, timed, reduced);
  terminal::Table table({{"a step", kLeft}, {"moved"}, {"time"}, {"", kLeft}});
  const auto row = [&](std::string what, std::string moved, std::string time,
                       std::string note = {}) {
    table.add({std::move(what), std::move(moved), std::move(time), std::move(note)});
  };
  row("scatter", size(bytes_scattered), milliseconds(timed > 0, scatter_replicate_ms),
      "with broadcast");
  row("broadcast", size(bytes_broadcast), "-");
  std::string each;
  if (timed > 0)
    for (std::size_t i = 0; i < devices.size(); ++i)
      each += fmt::format("{}{} {:.2f}", i == 0 ? "" : ", ", devices[i], device_forward_ms[i]);
  row("parallel forward", "", milliseconds(timed > 0, forward_ms), each);
  row("gather", size(bytes_gathered), milliseconds(timed > 0, gather_ms));
  row("reduce gradients", size(bytes_reduced), milliseconds(reduced > 0, reduction_ms),
      reduced > 0 ? fmt::format("{:.2f} ms after backward: {:.0f}% hidden", exposed_reduction_ms,
                                100 * overlap())
                  : "");
  return out + table.str();
}

std::string PipelineReport::str() const {
  std::string out = fmt::format(
      "Pipeline of {} stage{}, {} micro-batch{}, {} moved between devices a step\n", stages.size(),
      plural(stages.size()), micro_batches, plural(micro_batches, "es"), size(bytes_moved));
  terminal::Table table({{"stage"},
                         {"device", kLeft},
                         {"layers"},
                         {"parameters"},
                         {"forward"},
                         {"recompute"},
                         {"backward"}});
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const Stage& s = stages[i];
    table.add({std::to_string(i), s.device.str(),
               fmt::format("{}..{}", s.first_layer, s.first_layer + s.layers - 1),
               std::to_string(s.parameters), milliseconds(timed > 0, s.forward_ms),
               milliseconds(timed > 0, s.recompute_ms), milliseconds(timed > 0, s.backward_ms)});
  }
  out += table.str();
  for (const Memory& m : memory)
    out += fmt::format("{}: at most {} of activations\n", m.device, size(m.peak_activations));
  if (timed == 0) return out + fmt::format("{} steps, none timed yet\n", steps);
  return out + fmt::format(
                   "{} steps: {:.2f} ms each, in which the devices were idle for {:.0f}%; {:.0f}% "
                   "if all stages took the same time\n",
                   timed, step_ms, 100 * measured_bubble, 100 * expected_bubble);
}

std::ostream& operator<<(std::ostream& out, const DDPReport& report) { return out << report.str(); }
std::ostream& operator<<(std::ostream& out, const DataParallelReport& report) {
  return out << report.str();
}
std::ostream& operator<<(std::ostream& out, const PipelineReport& report) {
  return out << report.str();
}

}  // namespace ferrite::parallel
