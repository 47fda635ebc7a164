#include "ferrite/parallel/data_parallel/data_parallel_report.h"

#include <fmt/format.h>

#include <ostream>

namespace ferrite::parallel {

namespace {

std::string size(double bytes) {
  if (bytes < 1024) return fmt::format("{:.0f} B", bytes);
  if (bytes < 1024 * 1024) return fmt::format("{:.1f} KB", bytes / 1024);
  return fmt::format("{:.1f} MB", bytes / (1024 * 1024));
}

}  // namespace

double DataParallelReport::overlap() const {
  return reduction_ms > 0 ? 1 - exposed_reduction_ms / reduction_ms : 1;
}

std::string DataParallelReport::str() const {
  std::string out = fmt::format(
      "DataParallel on {}{}: {} steps, {} timed, {} with gradients\n", fmt::join(devices, ", "),
      backend.empty() ? "" : fmt::format(" ({})", backend), steps, timed, reduced);
  const auto row = [&](auto what, const std::string& bytes, bool has, double ms,
                       const std::string& note = {}) {
    out += fmt::format("{:<22}  {:>10}  {:>10}  {}", what, bytes,
                       has ? fmt::format("{:.2f} ms", ms) : "-", note);
    out.erase(out.find_last_not_of(' ') + 1);
    out += '\n';
  };
  out += fmt::format("{:<22}  {:>10}  {:>10}\n", "a step", "moved", "time");
  row("scatter", size(bytes_scattered), timed > 0, scatter_replicate_ms, "with broadcast");
  row("broadcast", size(bytes_broadcast), false, 0);
  std::string each;
  if (timed > 0)
    for (std::size_t i = 0; i < devices.size(); ++i)
      each += fmt::format("{}{} {:.2f}", i == 0 ? "" : ", ", devices[i], device_forward_ms[i]);
  row("parallel forward", "", timed > 0, forward_ms, each);
  row("gather", size(bytes_gathered), timed > 0, gather_ms);
  row("reduce gradients", size(bytes_reduced), reduced > 0, reduction_ms,
      reduced > 0 ? fmt::format("{:.2f} ms after backward: {:.0f}% hidden", exposed_reduction_ms,
                                100 * overlap())
                  : "");
  return out;
}

std::ostream& operator<<(std::ostream& out, const DataParallelReport& report) {
  return out << report.str();
}

}  // namespace ferrite::parallel
