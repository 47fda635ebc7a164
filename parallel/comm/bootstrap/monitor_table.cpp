#include "ferrite/parallel/comm/bootstrap/monitor_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

namespace ferrite::parallel::bootstrap {

using protocol::Answer;
using protocol::Command;
using protocol::Reader;
using protocol::Writer;

namespace {

constexpr std::size_t kMaxName = 512, kMaxReason = 16384;
constexpr std::size_t kMaxGroups = 4096;  // per rank
constexpr std::uint32_t kMaxRanks = 65536;
/// How long a failure, or a question that the last reports do not answer, is held back for an event
/// that explains it: when a process ends, its connections notice one after the other.
constexpr std::chrono::milliseconds kHold{250};

}  // namespace

bool MonitorTable::is_command(std::uint8_t command) {
  return command >= static_cast<std::uint8_t>(Command::join) &&
         command <= static_cast<std::uint8_t>(Command::blame);
}

bool MonitorTable::handle(ClientId client, Command command, Reader& message, TimePoint now) {
  if (command == Command::join) return join(client, message, now);
  const auto found = rank_of_client_.find(client);
  if (found == rank_of_client_.end()) return false;
  auto& [run, rank] = found->second;
  switch (command) {
    case Command::beat:
      return beat(*run, rank, message, now);
    case Command::leave:
      return message.ended() && leave(client, *run, rank, now);
    case Command::failure:
      return failure(*run, rank, message, now);
    case Command::blame:
      return blame(client, *run, rank, message, now);
    default:
      return false;
  }
}

bool MonitorTable::join(ClientId client, Reader& message, TimePoint now) {
  const std::string name(message.text(kMaxName));
  const auto rank = message.number<std::uint32_t>();
  const auto world_size = message.number<std::uint32_t>();
  const auto timeout = message.number<std::uint32_t>();
  const auto interval = message.number<std::uint32_t>();
  const std::string_view who = message.text(kMaxName);
  if (!message.ended() || world_size > kMaxRanks || rank >= world_size ||
      rank_of_client_.count(client)) {
    return false;
  }
  Run& run = runs_[name];
  if (run.ranks.empty()) {
    run.name = name;
    run.timeout = std::chrono::milliseconds(timeout);
    run.interval = std::chrono::milliseconds(interval);
    run.ranks.resize(world_size);
  }
  if (run.ranks.size() != world_size || run.ranks[rank].state != State::absent) return false;
  run.ranks[rank] = {State::present, client, std::string(who), now, now, {}};
  rank_of_client_.emplace(client, RankOfClient{&run, static_cast<int>(rank)});
  send_(client, Writer(Answer::joined).take());
  affected_.erase(static_cast<int>(rank));
  if (!run.first_loss.empty()) {
    affected_[static_cast<int>(rank)] = now;
    send_(client, Writer(Answer::lost).text(run.first_loss).take());
  }
  return true;
}

bool MonitorTable::beat(Run& run, int rank, Reader& message, TimePoint now) {
  Rank& state = run.ranks[rank];
  const auto count = message.number<std::uint32_t>();
  for (std::uint32_t i = 0; i < count && message.ok(); ++i) {
    const std::string group(message.text(kMaxName));
    const auto known = message.number<std::uint8_t>();
    Operation operation;
    operation.sequence = message.number<std::uint64_t>();
    operation.op = message.text(kMaxName);
    operation.running = message.number<std::uint8_t>() != 0;
    // Clocks of hosts differ, so a report says how long ago it was.
    const auto age =
        std::min<std::uint64_t>(message.number<std::uint64_t>(), std::uint64_t{1} << 50);
    operation.since = now - std::chrono::microseconds(age);
    if (!message.ok()) return false;
    if (known == 0) {
      state.operations.erase(group);
    } else if (state.operations.size() < kMaxGroups || state.operations.count(group)) {
      state.operations[group] = std::move(operation);
    } else {
      return false;
    }
  }
  if (!message.ended()) return false;
  state.heard = now;
  send_(state.client, Writer(Answer::heard).take());
  return true;
}

bool MonitorTable::leave(ClientId client, Run& run, int rank, TimePoint now) {
  if (run.ranks[rank].state == State::present) {
    run.ranks[rank].state = State::left;
    run.ranks[rank].changed = now;
  }
  rank_of_client_.erase(client);
  std::erase_if(run.questions, [&](const Question& q) { return q.client == client; });
  forget_if_over(run);
  return true;
}

bool MonitorTable::failure(Run& run, int rank, Reader& message, TimePoint now) {
  const std::string group(message.text(kMaxName));
  const std::string reason(message.text(kMaxReason));
  if (!message.ended()) return false;
  if (run.failures.size() < kMaxGroups &&
      run.failures.try_emplace(group, Failure{rank, reason, now + kHold, false}).second)
    run.new_failures = true;
  return true;
}

bool MonitorTable::blame(ClientId client, Run& run, int rank, Reader& message, TimePoint now) {
  Question question{client, rank, message.number<std::uint32_t>(), {}, 0, now};
  question.group = message.text(kMaxName);
  question.sequence = message.number<std::uint64_t>();
  if (!message.ended()) return false;
  if (const std::string words = certainty(run, question); !words.empty()) {
    answer(question, words, now);
  } else {
    run.questions.push_back(std::move(question));
    tell(run, Writer(Answer::report).take());
  }
  return true;
}

/// What needs no more reports; empty if there is nothing.
std::string MonitorTable::certainty(const Run& run, const Question& question) {
  if (!run.first_loss.empty()) return run.first_loss;
  // Reported by that rank itself.
  const auto known = run.failures.find(question.group);
  if (known == run.failures.end() || known->second.reporter == question.asker) return "";
  return known->second.reason;
}

/// Answers the questions for which it is not too early. A question is looked at as it is asked,
/// when there are new failures, when all ranks have reported, and at last; never at every call,
/// which would take a time quadratic in their number.
void MonitorTable::answer(Run& run, TimePoint now) {
  auto& questions = run.questions;
  if (std::exchange(run.new_failures, false) || !run.first_loss.empty())
    std::erase_if(questions, [&](const Question& q) {
      const std::string words = certainty(run, q);
      if (!words.empty()) answer(q, words, now);
      return !words.empty();
    });
  if (questions.empty()) return;
  TimePoint all_heard = TimePoint::max();
  for (const Rank& rank : run.ranks)
    if (rank.state == State::present) all_heard = std::min(all_heard, rank.heard);
  const auto first = std::partition_point(questions.begin(), questions.end(),
                                          [](const Question& q) { return q.judged; });
  const auto last =
      std::find_if(first, questions.end(), [&](const Question& q) { return q.asked >= all_heard; });
  const auto kept = std::remove_if(first, last, [&](Question& q) {
    const std::string words = verdict(run, q, now);
    if (!words.empty()) answer(q, words, now);
    q.judged = true;
    return !words.empty();
  });
  questions.erase(kept, last);
  for (; !questions.empty() && now >= questions.front().asked + kHold; questions.pop_front())
    answer(questions.front(), verdict(run, questions.front(), now), now);
}

void MonitorTable::answer(const Question& question, const std::string& words, TimePoint now) {
  // Nothing may be known of the other end of a send or a recv, which has failed nevertheless.
  if (!words.empty() || question.sequence == 0) affected_.try_emplace(question.asker, now);
  send_(question.client, Writer(Answer::blamed).number(question.request).text(words).take());
}

void MonitorTable::disconnected(ClientId client, TimePoint now) {
  const auto found = rank_of_client_.find(client);
  if (found == rank_of_client_.end()) return;
  auto [run, rank] = found->second;
  rank_of_client_.erase(found);
  std::erase_if(run->questions, [&](const Question& q) { return q.client == client; });
  const Rank& state = run->ranks[rank];
  if (state.state == State::present) {
    lose(*run, rank,
         fmt::format("rank {} was lost: its process ({}) ended, or its connection broke, without a "
                     "goodbye; {}",
                     rank, state.who, last_operation(state, "", now)),
         now);
  }
  forget_if_over(*run);
}

void MonitorTable::lose(Run& run, int rank, std::string reason, TimePoint now) {
  run.ranks[rank].state = State::lost;
  run.ranks[rank].changed = now;
  if (!run.first_loss.empty()) return;
  // A rank that reports a failure and ends does so because of the failure, which is not held back
  // then.
  for (auto& [group, failure] : run.failures)
    if (failure.reporter == rank) tell_failure(run, group, failure, now);
  // Ranks are lost because of a failure: the one reported first is the cause.
  for (const auto& [group, failure] : run.failures) {
    if (failure.told) {
      reason += fmt::format(", after rank {} had reported: {}", failure.reporter, failure.reason);
      break;
    }
  }
  run.first_loss = std::move(reason);
  // A rank that ended because of another one is no cause: that one may still be ending.
  if (!affected_.contains(rank)) mark_affected(run, rank, now);
  tell(run, Writer(Answer::lost).text(run.first_loss).take());
}

void MonitorTable::tell_failure(const Run& run, const std::string& group, Failure& failure,
                                TimePoint now) {
  if (std::exchange(failure.told, true)) return;
  mark_affected(run, failure.reporter, now);
  tell(run, Writer(Answer::failed).text(group).text(failure.reason).take(), failure.reporter);
}

void MonitorTable::tell(const Run& run, const std::string& message, int except) {
  for (int rank = 0; rank < static_cast<int>(run.ranks.size()); ++rank) {
    // A rank that was wrongly considered lost is told too.
    if (rank != except && rank_of_client_.count(run.ranks[rank].client)) {
      send_(run.ranks[rank].client, message);
    }
  }
}

void MonitorTable::mark_affected(const Run& run, int cause, TimePoint now) {
  for (int rank = 0; rank < static_cast<int>(run.ranks.size()); ++rank)
    if (rank != cause && run.ranks[rank].state == State::present) affected_.try_emplace(rank, now);
}

void MonitorTable::forget_if_over(Run& run) {
  const bool over = std::none_of(run.ranks.begin(), run.ranks.end(), [&](const Rank& rank) {
    return rank.state == State::absent || rank_of_client_.count(rank.client) > 0;
  });
  if (over) runs_.erase(std::string(run.name));
}

TimePoint MonitorTable::tick(TimePoint now) {
  TimePoint next = TimePoint::max();
  for (auto& [name, run] : runs_) next = std::min(next, tick(run, now));
  return next;
}

TimePoint MonitorTable::tick(Run& run, TimePoint now) {
  TimePoint next = TimePoint::max();
  for (int rank = 0; rank < static_cast<int>(run.ranks.size()); ++rank) {
    const Rank& state = run.ranks[rank];
    if (state.state != State::present) continue;
    if (now - state.heard > run.timeout) {
      lose(run, rank,
           fmt::format("rank {} ({}) stopped answering {:.1f} s ago; {}", rank, state.who,
                       std::chrono::duration<double>(now - state.heard).count(),
                       last_operation(state, "", now)),
           now);
    } else {
      next = std::min(next, state.heard + run.timeout + std::chrono::milliseconds(1));
    }
  }
  for (auto& [group, failure] : run.failures) {
    if (failure.told) continue;
    if (!run.first_loss.empty()) {
      failure.told = true;  // the loss was reported, and is the cause
    } else if (now >= failure.tell_at) {
      tell_failure(run, group, failure, now);
    } else {
      next = std::min(next, failure.tell_at);
    }
  }
  answer(run, now);
  return run.questions.empty() ? next : std::min(next, run.questions.front().asked + kHold);
}

std::size_t MonitorTable::present() const {
  return static_cast<std::size_t>(
      std::count_if(rank_of_client_.begin(), rank_of_client_.end(), [](const auto& entry) {
        const auto& [run, rank] = entry.second;
        return run->ranks[static_cast<std::size_t>(rank)].state == State::present;
      }));
}

std::vector<PresentRank> MonitorTable::present_ranks(TimePoint now) const {
  std::vector<PresentRank> found;
  for (const auto& [name, run] : runs_)
    for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
      const Rank& state = run.ranks[rank];
      // A rank that has long been silent and is still connected is hung.
      const bool silent = state.state == State::lost && rank_of_client_.contains(state.client);
      if (state.state != State::present && !silent) continue;
      found.push_back({static_cast<int>(rank), state.who,
                       std::chrono::duration<double>(now - state.heard).count(),
                       last_operation(state, "", now)});
    }
  return found;
}

void MonitorTable::forgive(Duration pause) {
  for (auto& [name, run] : runs_) {
    for (Rank& rank : run.ranks) rank.heard += pause;
  }
}

void MonitorTable::close() {
  for (const auto& [name, run] : runs_) tell(run, Writer(Answer::closing).take());
}

}  // namespace ferrite::parallel::bootstrap
