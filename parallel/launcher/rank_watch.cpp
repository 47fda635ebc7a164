#include "parallel/launcher/rank_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace ferrite::launcher {
namespace {

/// Of timeout(1).
constexpr int kTimedOut = 124;
/// Heartbeats come twice a second, or oftener.
constexpr double kNotable = 2.5;

}  // namespace

std::optional<RankReport> hung_rank(const parallel::TcpStoreServer& server, double timeout) {
  const auto ranks = server.present();
  const auto longest = std::ranges::max_element(ranks, {}, &parallel::PresentRank::silent);
  if (longest == ranks.end() || longest->silent <= timeout) return std::nullopt;
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return RankReport{.rank = longest->rank,
                    .host = longest->who,
                    .code = kTimedOut,
                    .what = fmt::format("has not answered for {:.1f} s, and is taken for hung; {}",
                                        longest->silent, longest->doing),
                    .at = std::chrono::duration<double>(now).count()};
}

std::string silent_ranks(const parallel::TcpStoreServer& server, int except) {
  std::string text;
  for (const parallel::PresentRank& rank : server.present())
    if (rank.rank != except && rank.silent > kNotable)
      text += fmt::format("{}rank {} ({}) had not answered for {:.1f} s", text.empty() ? "" : "; ",
                          rank.rank, rank.who, rank.silent);
  return text;
}

}  // namespace ferrite::launcher
