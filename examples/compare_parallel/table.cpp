#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "ferrite/core/terminal.h"
#include "ferrite/data/file.h"
#include "ferrite/examples/compare_parallel/report.h"
#include "ferrite/metrics/text.h"

namespace examples::compare {

using namespace ferrite;

namespace {

using Cells = std::vector<std::string>;

const Cells kHead = {"strategy", "devices",    "batch",   "amp",    "images/s",    "efficiency",
                     "step ms",  "compute ms", "exposed", "hidden", "MB a device", "peak MB"};

double megabytes(std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

/// Three digits that count.
std::string figure(double value) {
  const double size = std::abs(value);
  return fmt::format("{:.{}f}", value, size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3);
}

std::string with_spread(const Samples& samples) {
  if (samples.values.size() < 2) return figure(samples.median());
  return fmt::format("{} ±{}", figure(samples.median()), figure(samples.spread()));
}

Cells cells_of(const Row& row) {
  const Case& c = row.what;
  Cells cells = {c.label(), std::to_string(c.devices), std::to_string(c.batch), c.amp};
  if (!row.error.empty()) {
    cells.push_back("failed: " + row.error);
    return cells;
  }
  const bool alone = c.devices == 1;
  std::vector<std::string> peaks;
  for (const std::int64_t peak : row.peak_memory) peaks.push_back(figure(megabytes(peak)));
  for (const std::string& cell :
       {with_spread(row.images_per_second),
        row.efficiency ? fmt::format("{:.0f}%", 100 * *row.efficiency) : std::string("-"),
        with_spread(row.step_ms), with_spread(row.compute_ms),
        alone ? "-" : with_spread(row.exposed_ms),
        alone || row.hidden_ms.empty() ? "-" : figure(row.hidden_ms.median()),
        alone ? "-" : figure(megabytes(row.bytes_busiest)),
        fmt::format("{}", fmt::join(peaks, " / "))})
    cells.push_back(cell);
  return cells;
}

/// Failed rows, which have few cells, may be as long as they are.
std::string lines_of(const std::vector<Cells>& rows) {
  std::vector<std::size_t> widths(kHead.size(), 0);
  for (const Cells& row : rows)
    for (std::size_t i = 0; i < row.size() && row.size() == kHead.size(); ++i)
      widths[i] = std::max(widths[i], terminal::text_columns(row[i]));
  std::string text;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    text += "|";
    for (std::size_t i = 0; i < kHead.size(); ++i) {
      const std::string cell = i < rows[r].size() ? rows[r][i] : "";
      text += fmt::format(
          " {} |", terminal::text_padded(cell, widths[i],
                                         i == 0 ? terminal::Align::left : terminal::Align::right));
    }
    text += "\n";
    if (r > 0) continue;
    text += "|";
    for (std::size_t i = 0; i < widths.size(); ++i)
      text += i == 0 ? fmt::format(" :{:-<{}} |", "", widths[i] - 1)
                     : fmt::format(" {:-<{}}: |", "", widths[i] - 1);
    text += "\n";
  }
  return text;
}

std::string head_of(const Measurement& m) {
  return fmt::format(
      "{} with {} parameters ({} MB), images {}, {} data\n"
      "{}; {} steps after {} warm-up steps in each of {} repetitions; ranks: {}, {}\n{}\n",
      m.model.name, m.model.parameters, figure(megabytes(m.model.parameter_bytes)),
      fmt::join(m.model.input_shape, " x "), m.data, m.machine.kind, m.steps, m.warmup,
      m.repetitions, m.machine.ranks == "process" ? "processes" : "threads", m.machine.backend,
      m.machine.meaning);
}

constexpr const char* kLegend =
    "Medians of the repetitions, ± half the interquartile range. Exposed: the time that\n"
    "communication adds to the step; compute + exposed = step, in every repetition. Hidden: the\n"
    "time of communication during backward. MB a device: sent or received per step by the busiest "
    "device.\n"
    "Peak MB: peak memory of tensors during steps, per device.\n";

}  // namespace

std::string table(const Measurement& m) {
  std::string text = head_of(m);
  for (const std::string scaling : {"strong", "weak"}) {
    std::vector<Cells> rows = {kHead};
    bool any = false;
    for (const Row& row : m.rows) {
      if (row.what.scaling != scaling && row.what.scaling != "none") continue;
      any = any || row.what.scaling == scaling;
      rows.push_back(cells_of(row));
    }
    const bool none =
        std::ranges::none_of(m.rows, [](const Row& row) { return row.what.scaling != "none"; });
    if (!any && (!none || scaling == "weak")) continue;
    text += none
                ? "\n"
                : fmt::format("\n{} scaling: {}\n\n", scaling == "strong" ? "Strong" : "Weak",
                              scaling == "strong" ? "the same total batch for any number of devices"
                                                  : "the same batch for each device");
    text += lines_of(rows);
  }
  return text + "\n" + kLegend;
}

std::string csv(const Measurement& m) {
  std::string text =
      "strategy,devices,scaling,amp,batch,bucket_mb,overlap,threads,error,images_per_second,"
      "images_per_second_spread,images_per_second_low,images_per_second_high,speedup,efficiency,"
      "step_ms,step_ms_spread,compute_ms,compute_ms_spread,exposed_ms,exposed_ms_spread,"
      "communication_ms,hidden_ms,bytes_total,bytes_busiest,peak_memory\n";
  for (const Row& row : m.rows) {
    const Case& c = row.what;
    text +=
        fmt::format("{},{},{},{},{},{},{},{},{}", c.strategy, c.devices, c.scaling, c.amp, c.batch,
                    c.bucket_mb, c.overlap ? 1 : 0, c.threads, metrics::csv_field(row.error));
    const auto number = [&](double value) {
      text += row.error.empty() ? fmt::format(",{}", value) : ",";
    };
    const auto optional = [&](const std::optional<double>& value) {
      text += value ? fmt::format(",{}", *value) : ",";
    };
    const Samples& images = row.images_per_second;
    for (const double value : {images.median(), images.spread(), images.low(), images.high()})
      number(value);
    optional(row.speedup);
    optional(row.efficiency);
    for (const Samples* samples : {&row.step_ms, &row.compute_ms, &row.exposed_ms}) {
      number(samples->median());
      number(samples->spread());
    }
    number(row.communication_ms.median());
    if (row.hidden_ms.empty())
      text += ",";
    else
      number(row.hidden_ms.median());
    number(static_cast<double>(row.bytes_total));
    number(static_cast<double>(row.bytes_busiest));
    text += fmt::format(",{}\n", fmt::join(row.peak_memory, ";"));
  }
  return text;
}

std::string to_text(const nlohmann::json& json) {
  return json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

void write_file(const std::filesystem::path& path, const std::string& text) {
  data::AtomicFile file(path, "compare_parallel");
  file.write(text);
  file.commit();
}

}  // namespace examples::compare
