#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>

#include "ferrite/examples/compare_parallel/report.h"
#include "ferrite/metrics/bar_chart.h"

namespace examples::compare {

namespace metrics = ferrite::metrics;

namespace {

std::string heading_of(const Case& c) {
  if (c.scaling == "none") return "single device";
  return fmt::format("{} scaling, {} devices, {} images", c.scaling, c.devices, c.batch);
}

template <class F>
void add_rows(metrics::BarChart::Panel& panel, const Measurement& m, const F& bar) {
  std::string heading;
  for (const Row& row : m.rows) {
    if (heading_of(row.what) != heading) panel.group(heading = heading_of(row.what));
    const std::string label =
        row.what.amp == "O0" ? row.what.label() : row.what.label() + ", " + row.what.amp;
    if (row.error.empty())
      bar(label, row);
    else
      panel.note(label, "failed: " + row.error);
  }
}

/// A bar for each strategy with its first settings, which compares the first device with the
/// others: that of DataParallel holds more.
void add_memory(metrics::BarChart& chart, const Measurement& m) {
  const auto megabytes = [](std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  metrics::BarChart::Panel* panel = nullptr;
  std::set<std::string> seen;
  std::string heading;
  for (const Row& row : m.rows) {
    const Case& c = row.what;
    if (!row.error.empty() || c.devices == 1) continue;
    const std::string group = heading_of(c) + ", " + c.amp;
    if (!seen.insert(group + c.strategy).second) continue;
    if (!panel) panel = &chart.panel("peak tensor memory, MB");
    if (group != heading) panel->group(heading = group);
    const auto others =
        std::ranges::max_element(row.peak_memory.begin() + 1, row.peak_memory.end());
    panel->bar(c.strategy + ", first device", {megabytes(row.peak_memory[0])});
    panel->bar("others", {megabytes(*others)});
  }
}

}  // namespace

std::string chart(const Measurement& m) {
  metrics::BarChart chart(fmt::format("{} on {}", m.model.name, m.machine.kind));
  auto& images = chart.panel("images per second");
  add_rows(images, m, [&](const std::string& label, const Row& row) {
    const Samples& s = row.images_per_second;
    images.bar(label, {s.median()}, s.low(), s.high());
  });
  auto& step = chart.panel("milliseconds per step", {"compute", "exposed communication"});
  add_rows(step, m, [&](const std::string& label, const Row& row) {
    step.bar(label, {row.compute_ms.median(), row.exposed_ms.median()}, row.step_ms.low(),
             row.step_ms.high());
  });
  add_memory(chart, m);
  return chart.svg();
}

}  // namespace examples::compare
