#include <fmt/format.h>

#include <string>

#include "examples/compare_parallel/report.h"
#include "metrics/bar_chart.h"

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

}  // namespace

std::string chart(const Measurement& m) {
  metrics::BarChart chart(fmt::format("{} on {}", m.model.name, m.machine.kind));
  auto& images = chart.panel("images a second");
  add_rows(images, m, [&](const std::string& label, const Row& row) {
    const Samples& s = row.images_per_second;
    images.bar(label, {s.median()}, s.low(), s.high());
  });
  auto& step = chart.panel("milliseconds a step", {"compute", "exposed communication"});
  add_rows(step, m, [&](const std::string& label, const Row& row) {
    step.bar(label, {row.compute_ms.median(), row.exposed_ms.median()}, row.step_ms.low(),
             row.step_ms.high());
  });
  return chart.svg();
}

}  // namespace examples::compare
