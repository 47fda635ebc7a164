#include "ferrite/parallel/launcher/report.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cmath>
#include <ctime>

namespace ferrite::launcher {
namespace {

std::string local_time(double seconds_since_1970) {
  const auto whole = static_cast<std::time_t>(std::floor(seconds_since_1970));
  std::tm parts{};
  localtime_r(&whole, &parts);
  const int milliseconds =
      static_cast<int>((seconds_since_1970 - static_cast<double>(whole)) * 1000);
  return fmt::format("{:%Y-%m-%d %H:%M:%S}.{:03}", parts, milliseconds);
}

std::string indented(std::string_view text, std::string_view indent) {
  std::string out;
  for (;;) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    out += fmt::format("\n{}{}", indent, text.substr(0, end));
    if (end == text.size()) return out;
    text.remove_prefix(end + 1);
  }
}

std::string last_line(std::string_view text) {
  const std::size_t end = text.rfind('\n');
  return std::string(end == std::string_view::npos ? text : text.substr(end + 1));
}

}  // namespace

std::string failure_text(const RankReport& first, const LocalWorkers* workers, const Round& round) {
  std::string text;
  if (first.rank < 0)
    text = fmt::format("node {} ({}): {}", first.node, first.host, first.what);
  else if (first.pid == 0)  // known only by its heartbeat
    text = fmt::format("rank {} ({}) {}", first.rank, first.host, first.what);
  else
    text = fmt::format(
        "rank {} (node {}, {}, local rank {}, process {}) {} at {}, {:.1f} s after "
        "its start",
        first.rank, first.node, first.host, first.local_rank, first.pid, first.what,
        local_time(first.at), first.after);
  std::string tail = first.tail;
  const int local = first.rank - round.first_rank;
  const bool here = workers && local >= 0 && local < workers->size();
  if (first.pid == 0 && here) tail = workers->report(local).tail;
  if (!tail.empty()) text += "\nlast lines of its stderr:" + indented(tail, "  ");
  if (!first.note.empty()) text += "\n" + first.note;
  std::string others;
  for (int i = 0; workers && i < workers->size(); ++i) {
    const RankReport other = workers->report(i);
    if (other.rank == first.rank && first.pid != 0) continue;
    others += fmt::format("\n  rank {} {}", other.rank, other.what);
    if (other.code != 0 && other.code < 128 && !other.tail.empty())
      others += fmt::format(": {}", last_line(other.tail));
  }
  if (!others.empty())
    text += fmt::format("\nafter it{}:", round.nnodes > 1 ? ", on this node" : "") + others;
  return text;
}

std::string restart_text(const Verdict& verdict, const Options& options) {
  return fmt::format("restart {} of {} in {:.1f} s", verdict.restarts_used, options.max_restarts,
                     verdict.wait);
}

}  // namespace ferrite::launcher
