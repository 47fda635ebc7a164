#include "ferrite/parallel/comm/backend.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ferrite/parallel/comm/links/secret.h"

namespace ferrite::parallel {

GroupContext context_of_some(const GroupContext& all, const std::vector<int>& ranks, int rank,
                             const std::string& name, Milliseconds timeout) {
  GroupContext context = all;
  context.name = name;
  context.rank = rank;
  context.size = static_cast<int>(ranks.size());
  context.job_ranks.clear();
  for (const int r : ranks) context.job_ranks.push_back(all.job_rank(r));
  context.timeout = timeout;
  // Named after its members: if other ranks create another group with the same call, the two do not
  // mix. Their list may be longer than a key.
  if (all.store) {
    const std::string members = fmt::format("{}", fmt::join(context.job_ranks, ","));
    context.store = std::make_shared<PrefixStore>(
        fmt::format("{}/{}/", name, links::hexadecimal(links::derive("", {members}))), all.store);
  }
  return context;
}

}  // namespace ferrite::parallel
