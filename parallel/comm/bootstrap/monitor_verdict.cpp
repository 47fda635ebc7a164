// The monitor's answers to the question which rank is to blame.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "ferrite/parallel/comm/bootstrap/monitor_table.h"

namespace ferrite::parallel::bootstrap {
namespace {

constexpr std::size_t kMostNamed = 8;

std::string ago(TimePoint then, TimePoint now) {
  const double seconds = std::chrono::duration<double>(now - then).count();
  return fmt::format("{:.1f} s ago", std::max(seconds, 0.0));
}

void add(std::string& words, std::string_view more) {
  if (!words.empty() && !more.empty()) words += "; ";
  words += more;
}

/// "all_reduce" of "all_reduce of float32[1024]".
std::string_view kind(std::string_view op) { return op.substr(0, op.find(' ')); }

/// Sends and receives are between two ranks: others' calls with the same number are unrelated.
bool of_all_ranks(std::string_view op) { return kind(op) != "send" && kind(op) != "recv"; }

}  // namespace

/// The rank's last operation in the group, which has just reported; or with "" the last one in any
/// group that it had reported, after which it may have begun others.
std::string MonitorTable::last_operation(const Rank& rank, const std::string& group,
                                         TimePoint now) {
  const Operation* last = nullptr;
  const std::string* where = nullptr;
  for (const auto& [name, operation] : rank.operations) {
    if (operation.op.empty() || (!group.empty() && name != group)) continue;
    // A running operation is more informative than one that has ended.
    if (!last ||
        std::pair(operation.running, operation.since) > std::pair(last->running, last->since)) {
      last = &operation;
      where = &name;
    }
  }
  if (!last) return group.empty() ? "it had reported no operation" : "it had begun no operation";
  return fmt::format("{} is {} number {}{}, {} {}",
                     group.empty() ? "the last operation that it reported" : "its last operation",
                     last->op, last->sequence, group.empty() ? " of group " + *where : "",
                     last->running ? "begun" : "ended", ago(last->since, now));
}

std::string MonitorTable::verdict(const Run& run, const Question& question, TimePoint now) {
  std::string words = departures(run, question, now);
  add(words, silences(run, question, now));
  // 0 is not an operation of all ranks: none lags behind it.
  if (question.sequence > 0) add(words, laggards(run, question, now));
  if (words.empty()) words = others_calls(run, question);
  return words;
}

/// Ranks that left without having ended the operation.
std::string MonitorTable::departures(const Run& run, const Question& question, TimePoint now) {
  std::string words;
  for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
    const Rank& state = run.ranks[rank];
    const auto in_group = state.operations.find(question.group);
    if (state.state != State::left || in_group == state.operations.end()) continue;
    const Operation& last = in_group->second;
    const bool had_ended =
        !last.op.empty() && (last.sequence > question.sequence ||
                             (last.sequence == question.sequence && !last.running));
    if (had_ended) continue;
    add(words, fmt::format("rank {} has left the job {}: {}", rank, ago(state.changed, now),
                           last_operation(state, question.group, now)));
  }
  return words;
}

std::string MonitorTable::silences(const Run& run, const Question& question, TimePoint now) {
  std::string words;
  for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
    const Rank& state = run.ranks[rank];
    // All were asked to report when the question arrived.
    const bool silent = state.state == State::present && state.heard <= question.asked &&
                        now - state.heard > 2 * run.interval;
    if (!silent || !state.operations.count(question.group)) continue;
    add(words, fmt::format("rank {} ({}) stopped answering {}; {}", rank, state.who,
                           ago(state.heard, now), last_operation(state, "", now)));
  }
  return words;
}

/// Ranks that answer, but have not begun the operation.
std::string MonitorTable::laggards(const Run& run, const Question& question, TimePoint now) {
  std::string words;
  std::size_t found = 0;
  for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
    const Rank& state = run.ranks[rank];
    const auto in_group = state.operations.find(question.group);
    const bool answers = state.state == State::present && state.heard > question.asked;
    if (!answers || in_group == state.operations.end()) continue;
    const Operation& last = in_group->second;
    if (!last.op.empty() && last.sequence >= question.sequence) continue;
    if (++found > kMostNamed) continue;
    std::string elsewhere;
    for (const auto& [group, operation] : state.operations) {
      if (group == question.group || !operation.running) continue;
      elsewhere = fmt::format(", and it is in {} number {} of group {} since {:.1f} s",
                              operation.op, operation.sequence, group,
                              std::chrono::duration<double>(now - operation.since).count());
    }
    add(words, fmt::format("rank {} has not begun it: {}{}", rank,
                           last_operation(state, question.group, now), elsewhere));
  }
  if (found > kMostNamed) words += fmt::format("; nor have {} others", found - kMostNamed);
  return words;
}

/// Ranks that have begun another operation under this number.
std::string MonitorTable::others_calls(const Run& run, const Question& question) {
  const auto call_of = [&](const Rank& rank) -> const Operation* {
    const auto found = rank.operations.find(question.group);
    const bool it = found != rank.operations.end() && !found->second.op.empty() &&
                    found->second.sequence == question.sequence && of_all_ranks(found->second.op);
    return it ? &found->second : nullptr;
  };
  const Operation* own = call_of(run.ranks[question.asker]);
  std::string words;
  for (std::size_t rank = 0; own && rank < run.ranks.size(); ++rank) {
    const Operation* other = call_of(run.ranks[rank]);
    if (!other || kind(other->op) == kind(own->op)) continue;
    add(words, fmt::format("rank {} has begun {} as number {}, not {}", rank, other->op,
                           question.sequence, own->op));
  }
  return words;
}

}  // namespace ferrite::parallel::bootstrap
