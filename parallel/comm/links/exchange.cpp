#include "ferrite/parallel/comm/links/exchange.h"

#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>

#include "ferrite/core/error.h"
#include "ferrite/parallel/comm/links/link.h"

namespace ferrite::parallel::links {

namespace {

/// Rank losses reported by the monitor in the meantime.
struct RankLoss {
  std::mutex mutex;
  std::string reason;
  std::atomic<bool> known{false};

  void tell(const std::string& why) {
    const std::lock_guard lock(mutex);
    reason = why;
    known = true;
  }
};

/// Store::get() with interruption.
std::string wait_for_key(Store& store, const std::string& key, const Interrupt& interrupt) {
  constexpr Milliseconds kSlice{100};
  for (;;) {
    try {
      return store.get(key, kSlice);
    } catch (const DistributedError&) {
      interrupt.check();
      store.check({key});  // fails if the store itself is lost
    }
  }
}

}  // namespace

std::vector<std::string> exchange(const GroupContext& context, std::string_view name,
                                  const std::string& mine) {
  const auto loss = std::make_shared<RankLoss>();
  if (context.monitor)
    context.monitor->watch(context.name, [loss](const std::string& reason) { loss->tell(reason); });
  const Interrupt interrupt{"link", loss->known,
                            std::chrono::steady_clock::now() + context.timeout};
  const auto key = [&](int rank) { return fmt::format("{}/{}", name, rank); };
  std::vector<std::string> all(static_cast<std::size_t>(context.size));
  std::string error;
  int rank = 0;
  try {
    context.store->set(key(context.rank), mine);
    for (; rank < context.size; ++rank)
      all[static_cast<std::size_t>(rank)] =
          rank == context.rank ? mine : wait_for_key(*context.store, key(rank), interrupt);
  } catch (const std::exception& e) {
    error = e.what();
  }
  if (context.monitor) context.monitor->unwatch(context.name);
  if (error.empty()) return all;
  const std::lock_guard lock(loss->mutex);
  FERRITE_CHECK(!loss->known, DistributedError, "link", "group {} cannot connect: {}", context.name,
                loss->reason);
  const std::string blamed = context.monitor ? context.monitor->blame(context.name, 0) : "";
  fail<DistributedError>("link", "group {} cannot connect: rank {} has not arrived: {}{}{}",
                         context.name, context.job_rank(rank), error, blamed.empty() ? "" : "; ",
                         blamed);
}

}  // namespace ferrite::parallel::links
