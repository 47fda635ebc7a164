#include "ferrite/parallel/ddp/report.h"

#include <fmt/format.h>

#include <ostream>

namespace ferrite::parallel {

namespace {

std::string size(std::int64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  if (bytes < 1024 * 1024) return fmt::format("{:.1f} KB", static_cast<double>(bytes) / 1024);
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / (1024 * 1024));
}

/// "fc.bias ... conv1.weight".
std::string range(const std::vector<std::string>& names) {
  if (names.size() == 1) return names.front();
  return fmt::format("{} ... {}", names.front(), names.back());
}

}  // namespace

double DDPReport::overlap() const {
  return communication_ms > 0 ? 1 - exposed_ms / communication_ms : 1;
}

std::string DDPReport::str() const {
  std::string out = fmt::format(
      "DistributedDataParallel on {}: {} a step for {} parameters in {} bucket{}, {}\n", group,
      size(bytes), parameters, buckets.size(), buckets.size() == 1 ? "" : "s",
      rebuilt ? "in the order in which gradients arrive" : "in reverse order of registration");
  const auto row = [&](auto... cells) {
    out += fmt::format("{:>6}  {:>10}  {:>10}  {:>9}  {:<8}  {:>8}  {:>8}  {:>8}  {}\n", cells...);
  };
  row("bucket", "parameters", "elements", "size", "dtype", "ready", "begun", "ended",
      "from ... to");
  const auto time = [&](double ms) {
    return timed > 0 ? fmt::format("{:.2f} ms", ms) : std::string("-");
  };
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    const Bucket& b = buckets[i];
    row(i, b.parameters.size(), b.numel, size(b.bytes), fmt::format("{}", b.dtype),
        time(b.ready_ms), time(b.begun_ms), time(b.ended_ms), range(b.parameters));
  }
  if (timed == 0)
    out += fmt::format("{} steps, none with timed communication\n", steps);
  else
    out += fmt::format(
        "{} steps: backward {:.2f} ms; communication {:.2f} ms, of which {:.2f} ms after backward: "
        "{:.0f}% hidden\n",
        timed, backward_ms, communication_ms, exposed_ms, 100 * overlap());
  return out;
}

std::ostream& operator<<(std::ostream& out, const DDPReport& report) { return out << report.str(); }

}  // namespace ferrite::parallel
