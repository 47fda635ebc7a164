#include "ferrite/core/profiler/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <span>
#include <tuple>
#include <unordered_map>

#include "ferrite/core/error.h"

namespace ferrite::profiler {

namespace {

/// Finds the average that an event belongs to.
class Rows {
 public:
  Average& at(std::string name, Kind kind, bool is_device_work, std::string inputs) {
    const auto [known, is_new] = known_.try_emplace({name, is_device_work, inputs}, all_.size());
    if (is_new)
      all_.push_back({.name = std::move(name),
                      .kind = kind,
                      .is_device_work = is_device_work,
                      .inputs = std::move(inputs)});
    return all_[known->second];
  }
  Average& of(const Recording& recording, const HostEvent& e, bool by_shape) {
    const std::int32_t inputs = by_shape ? e.inputs : -1;
    const auto [known, is_new] = by_event_.try_emplace({e.name, e.kind, inputs}, 0);
    if (is_new) {
      const Average& row = at(display_name(e.name, e.kind), e.kind, false,
                              inputs < 0 ? "" : recording.inputs[static_cast<std::size_t>(inputs)]);
      known->second = static_cast<std::size_t>(&row - all_.data());
    }
    return all_[known->second];
  }
  std::vector<Average> take() { return std::move(all_); }

 private:
  std::vector<Average> all_;
  std::map<std::tuple<std::string, bool, std::string>, std::size_t> known_;
  std::map<std::tuple<const char*, Kind, std::int32_t>, std::size_t> by_event_;
};

}  // namespace

std::vector<Average> key_averages(const Recording& recording, bool group_by_shape, bool kernels) {
  const auto parent = [&](const HostEvent& e) {
    return e.parent < 0 ? nullptr : &recording.host[static_cast<std::size_t>(e.parent)];
  };
  Rows rows;
  if (recording.has_host) {
    for (const HostEvent& e : recording.host) {
      // A kernel's self time belongs to its op, if there is one.
      const HostEvent* owner = &e;
      while (!kernels && owner->kind == Kind::kernel && parent(*owner)) owner = parent(*owner);
      Average& row = rows.of(recording, *owner, group_by_shape);
      row.self_cpu_time += e.self_time;
      row.self_device_time += e.self_device_time;
      row.self_cpu_memory += e.self_host_bytes;
      row.self_device_memory += e.self_device_bytes;
      if (owner != &e) continue;
      ++row.count;
      const HostEvent* around = parent(e);
      while (around && !(around->kind == e.kind && around->name == e.name))
        around = parent(*around);
      if (around) continue;
      row.cpu_time += e.time;
      row.device_time += e.device_time;
      row.cpu_memory += e.host_bytes;
      row.device_memory += e.device_bytes;
    }
  }
  for (const DeviceEvent& e : recording.device) {
    if (!kernels && recording.has_host && e.host >= 0) continue;
    Average& row = rows.at(e.name, Kind::kernel, true, "");
    ++row.count;
    row.device_time += e.time;
    row.self_device_time += e.time;
  }
  return rows.take();
}

namespace {

std::string readable_time(double nanoseconds) {
  const double size = std::abs(nanoseconds);
  if (size >= 1e9) return fmt::format("{:.3f}s", nanoseconds / 1e9);
  if (size >= 1e6) return fmt::format("{:.3f}ms", nanoseconds / 1e6);
  return fmt::format("{:.3f}us", nanoseconds / 1e3);
}

std::string readable_memory(std::int64_t bytes) {
  constexpr std::array units = {"b", "Kb", "Mb", "Gb", "Tb"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; std::abs(value) >= 1024 && unit + 1 < units.size(); ++unit) value /= 1024;
  return unit == 0 ? fmt::format("{} b", bytes) : fmt::format("{:.2f} {}", value, units[unit]);
}

std::string percent(std::int64_t part, std::int64_t whole) {
  if (whole == 0) return "--";
  return fmt::format("{:.2f}%", 100 * static_cast<double>(part) / static_cast<double>(whole));
}

double average(std::int64_t sum, std::int64_t count) {
  return count == 0 ? 0 : static_cast<double>(sum) / static_cast<double>(count);
}

std::string shortened(const std::string& text, int width) {
  const auto most = static_cast<std::size_t>(std::max(width, 4));
  return text.size() <= most ? text : text.substr(0, most - 3) + "...";
}

using Value = double (*)(const Average&);

/// The keys that rows may be sorted by.
const std::map<std::string_view, Value>& orders() {
  static const std::map<std::string_view, Value> all = {
      {"count", [](const Average& a) { return static_cast<double>(a.count); }},
      {"cpu_time", [](const Average& a) { return average(a.cpu_time, a.count); }},
      {"cpu_time_total", [](const Average& a) { return static_cast<double>(a.cpu_time); }},
      {"self_cpu_time_total",
       [](const Average& a) { return static_cast<double>(a.self_cpu_time); }},
      {"device_time", [](const Average& a) { return average(a.device_time, a.count); }},
      {"device_time_total", [](const Average& a) { return static_cast<double>(a.device_time); }},
      {"self_device_time_total",
       [](const Average& a) { return static_cast<double>(a.self_device_time); }},
      {"cpu_memory_usage", [](const Average& a) { return static_cast<double>(a.cpu_memory); }},
      {"self_cpu_memory_usage",
       [](const Average& a) { return static_cast<double>(a.self_cpu_memory); }},
      {"device_memory_usage",
       [](const Average& a) { return static_cast<double>(a.device_memory); }},
      {"self_device_memory_usage",
       [](const Average& a) { return static_cast<double>(a.self_device_memory); }},
  };
  return all;
}

Value order_named(std::string_view name) {
  std::string word(name);  // torch says "cuda" for devices
  if (const std::size_t at = word.find("cuda"); at != std::string::npos)
    word.replace(at, 4, "device");
  const auto found = orders().find(word);
  if (found != orders().end()) return found->second;
  std::string known;
  for (const auto& [key, value] : orders())
    known += fmt::format("{}{}", known.empty() ? "" : ", ", key);
  fail<ValueError>("profiler", "cannot sort by '{}'; by one of {}", name, known);
}

struct Totals {
  std::int64_t cpu = 0, device = 0;
};

struct Column {
  std::string title;
  std::vector<std::string> cells;
};

/// The columns for which this recording has data.
std::vector<Column> columns(const Recording& recording, std::span<const Average> rows,
                            const Totals& totals, const TableOptions& options) {
  std::vector<Column> all;
  const auto add = [&](const char* title, const auto& cell) {
    Column column{title, {}};
    for (const Average& row : rows) column.cells.push_back(cell(row));
    all.push_back(std::move(column));
  };
  const auto time = [](std::int64_t t) { return readable_time(static_cast<double>(t)); };
  add("Name", [&](const Average& a) { return shortened(a.name, options.max_name_width); });
  if (recording.has_host) {
    add("Self CPU %", [&](const Average& a) { return percent(a.self_cpu_time, totals.cpu); });
    add("Self CPU", [&](const Average& a) { return time(a.self_cpu_time); });
    add("CPU total %", [&](const Average& a) { return percent(a.cpu_time, totals.cpu); });
    add("CPU total", [&](const Average& a) { return time(a.cpu_time); });
    add("CPU time avg",
        [](const Average& a) { return readable_time(average(a.cpu_time, a.count)); });
  }
  if (!recording.device.empty()) {
    add("Self device", [&](const Average& a) { return time(a.self_device_time); });
    add("Self device %",
        [&](const Average& a) { return percent(a.self_device_time, totals.device); });
    add("Device total", [&](const Average& a) { return time(a.device_time); });
    add("Device time avg",
        [](const Average& a) { return readable_time(average(a.device_time, a.count)); });
  }
  if (recording.has_memory && recording.has_host) {
    add("CPU Mem", [](const Average& a) { return readable_memory(a.cpu_memory); });
    add("Self CPU Mem", [](const Average& a) { return readable_memory(a.self_cpu_memory); });
    if (std::ranges::any_of(recording.memory,
                            [](const MemoryEvent& e) { return !e.device.is_host(); })) {
      add("Device Mem", [](const Average& a) { return readable_memory(a.device_memory); });
      add("Self Device Mem",
          [](const Average& a) { return readable_memory(a.self_device_memory); });
    }
  }
  add("# of Calls", [](const Average& a) { return std::to_string(a.count); });
  if (options.group_by_shape && recording.has_inputs)
    add("Input Shapes", [](const Average& a) { return shortened("[" + a.inputs + "]", 80); });
  return all;
}

std::string layout(const std::vector<Column>& columns, std::size_t rows) {
  constexpr std::string_view kGap = "  ";
  std::string rule, head, body;
  std::vector<std::size_t> widths;
  for (const Column& column : columns) {
    std::size_t width = column.title.size();
    for (const std::string& cell : column.cells) width = std::max(width, cell.size());
    widths.push_back(width);
    rule += std::string(width, '-') + std::string(kGap);
  }
  const auto line = [&](const auto& cell) {
    std::string text;
    for (std::size_t c = 0; c < columns.size(); ++c) {
      // Names are left-aligned, numbers right-aligned.
      const bool left = c == 0 || columns[c].title == "Input Shapes";
      text += left ? fmt::format("{:<{}}", cell(c), widths[c])
                   : fmt::format("{:>{}}", cell(c), widths[c]);
      text += kGap;
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text + "\n";
  };
  rule.erase(rule.find_last_not_of(' ') + 1);
  rule += "\n";
  head = line([&](std::size_t c) { return columns[c].title; });
  for (std::size_t r = 0; r < rows; ++r)
    body += line([&](std::size_t c) { return columns[c].cells[r]; });
  return rule + head + rule + body + rule;
}

std::string footer(const Recording& recording, const Totals& totals, std::size_t hidden) {
  std::string text;
  if (hidden > 0) text += fmt::format("{} more rows (row_limit)\n", hidden);
  if (recording.has_host)
    text +=
        fmt::format("Self CPU time total: {}\n", readable_time(static_cast<double>(totals.cpu)));
  if (!recording.device.empty())
    text += fmt::format("Self device time total: {}\n",
                        readable_time(static_cast<double>(totals.device)));
  text += fmt::format("Wall time: {}", readable_time(static_cast<double>(recording.time)));
  if (const std::size_t steps = recording.steps.size(); steps > 0) {
    std::int64_t sum = 0;
    for (const StepEvent& step : recording.steps) sum += step.time;
    text += fmt::format(", {} steps of {}", steps,
                        readable_time(average(sum, static_cast<std::int64_t>(steps))));
  }
  text += "\n";
  std::vector<Device> devices;
  for (const MemoryEvent& e : recording.memory)
    if (std::ranges::find(devices, e.device) == devices.end()) devices.push_back(e.device);
  for (const Device& device : devices)
    text += fmt::format("Peak memory of {}: {}\n", device,
                        readable_memory(static_cast<std::int64_t>(recording.peak_memory(device))));
  if (recording.dropped > 0)
    text += fmt::format(
        "{} events are missing: there was no room for them; raise max_events, or record fewer "
        "steps\n",
        recording.dropped);
  if (recording.unfinished > 0)
    text += fmt::format("{} ranges are missing: they had not ended when the profile did\n",
                        recording.unfinished);
  if (recording.unresolved > 0)
    text += fmt::format("{} pieces of device work are missing: their times are not known\n",
                        recording.unresolved);
  return text;
}

}  // namespace

std::string table(const Recording& recording, const TableOptions& options) {
  std::vector<Average> rows = key_averages(recording, options.group_by_shape, options.kernels);
  Totals totals;
  for (const Average& row : rows) totals.cpu += row.self_cpu_time;
  for (const DeviceEvent& e : recording.device) totals.device += e.time;
  const std::string_view wanted = !options.sort_by.empty() ? options.sort_by
                                  : totals.device > 0      ? "self_device_time_total"
                                                           : "self_cpu_time_total";
  const Value value = order_named(wanted);
  std::ranges::stable_sort(rows, std::greater{}, value);
  std::size_t shown = rows.size();
  if (options.row_limit >= 0) shown = std::min(shown, static_cast<std::size_t>(options.row_limit));
  const std::size_t hidden = rows.size() - shown;
  rows.resize(shown);
  return layout(columns(recording, rows, totals, options), shown) +
         footer(recording, totals, hidden);
}

}  // namespace ferrite::profiler
