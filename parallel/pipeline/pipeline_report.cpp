#include "ferrite/parallel/pipeline/pipeline_report.h"

#include <fmt/format.h>

#include <ostream>

#include "ferrite/core/allocator.h"

namespace ferrite::parallel {

namespace {

std::string size(std::int64_t bytes) {
  return detail::readable_bytes(static_cast<std::size_t>(bytes));
}

}  // namespace

std::string PipelineReport::str() const {
  std::string out =
      fmt::format("Pipeline of {} stage{}, {} micro-batch{}, {} moved between devices a step\n",
                  stages.size(), stages.size() == 1 ? "" : "s", micro_batches,
                  micro_batches == 1 ? "" : "es", size(bytes_moved));
  const auto row = [&](auto... cells) {
    out += fmt::format("{:>6}  {:<8}  {:>9}  {:>12}  {:>11}  {:>11}  {:>11}\n", cells...);
  };
  row("stage", "device", "layers", "parameters", "forward", "recompute", "backward");
  const auto time = [&](double ms) {
    return timed > 0 ? fmt::format("{:.2f} ms", ms) : std::string("-");
  };
  for (std::size_t i = 0; i < stages.size(); ++i) {
    const Stage& s = stages[i];
    row(i, s.device.str(), fmt::format("{}..{}", s.first_layer, s.first_layer + s.layers - 1),
        s.parameters, time(s.forward_ms), time(s.recompute_ms), time(s.backward_ms));
  }
  for (const Memory& m : memory)
    out += fmt::format("{}: at most {} of activations\n", m.device, size(m.peak_activations));
  if (timed == 0)
    out += fmt::format("{} steps, none timed yet\n", steps);
  else
    out += fmt::format(
        "{} steps: {:.2f} ms each, in which the devices were idle for {:.0f}%; {:.0f}% if all "
        "stages took the same time\n",
        timed, step_ms, 100 * measured_bubble, 100 * expected_bubble);
  return out;
}

std::ostream& operator<<(std::ostream& out, const PipelineReport& report) {
  return out << report.str();
}

}  // namespace ferrite::parallel
