#include "ferrite/parallel/launcher/rank_watch.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

namespace ferrite::launcher {
namespace {

/// The exit status of timeout(1).
constexpr int kTimedOut = 124;
/// Heartbeats come at least twice a second.
constexpr double kNotable = 2.5;

std::vector<parallel::bootstrap::PresentRank> present(
    const parallel::bootstrap::TcpStoreServer& server, double lived) {
  auto ranks = server.present();
  std::erase_if(ranks,
                [&](const parallel::bootstrap::PresentRank& rank) { return rank.silent > lived; });
  return ranks;
}

}  // namespace

std::optional<RankReport> hung_rank(const parallel::bootstrap::TcpStoreServer& server,
                                    double timeout, double lived) {
  const auto ranks = present(server, lived);
  const auto longest =
      std::ranges::max_element(ranks, {}, &parallel::bootstrap::PresentRank::silent);
  if (longest == ranks.end() || longest->silent <= timeout) return std::nullopt;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return RankReport{.rank = longest->rank,
                    .host = longest->who,
                    .code = kTimedOut,
                    .what = fmt::format("has not answered for {:.1f} s, and is taken for hung; {}",
                                        longest->silent, longest->doing),
                    .at = std::chrono::duration<double>(now).count()};
}

std::string silent_ranks(const parallel::bootstrap::TcpStoreServer& server, int except,
                         double lived) {
  std::string text;
  for (const parallel::bootstrap::PresentRank& rank : present(server, lived))
    if (rank.rank != except && rank.silent > kNotable)
      text += fmt::format("{}rank {} ({}) had not answered for {:.1f} s", text.empty() ? "" : "; ",
                          rank.rank, rank.who, rank.silent);
  return text;
}

bool is_consequence(const RankReport& failure, const parallel::bootstrap::TcpStoreServer& server,
                    double lived) {
  // Nobody fails by these signals because an operation ended with an error; an exception that is
  // not caught is SIGABRT.
  if (by_signal(failure) && failure.code != 128 + SIGABRT) return false;
  const auto affected = server.affected();
  const auto found = affected.find(failure.rank);
  return found != affected.end() && found->second <= lived;
}

const RankReport& cause_of(const std::vector<RankReport>& failures,
                           const parallel::bootstrap::TcpStoreServer& server, double lived) {
  return *std::ranges::min_element(failures, {}, [&](const RankReport& failure) {
    return std::pair(is_consequence(failure, server, lived), !by_signal(failure));
  });
}

}  // namespace ferrite::launcher
