#include "ferrite/parallel/comm/nccl/library.h"

#include <fmt/format.h>

#include "ferrite/parallel/comm/backend.h"

namespace ferrite::parallel::nccl {

namespace {

std::string readable(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

struct Checked {
  Found found = find_library();
  int version = 0;

  Checked() {
    if (!found.why_not.empty()) return;
    if (found.functions.get_version(&version) != ncclSuccess)
      found.why_not = "NCCL does not tell its version";
    else if (version < kOldestVersion)
      found.why_not = fmt::format("NCCL {} is older than {}, the first that serves",
                                  readable(version), readable(kOldestVersion));
  }
};

const Checked& checked() {
  static const Checked& instance = *new Checked;
  return instance;
}

}  // namespace

const Library* library() {
  return checked().found.why_not.empty() ? &checked().found.functions : nullptr;
}
const std::string& why_not() { return checked().found.why_not; }

std::string describe(const Library& library, ncclResult_t result, ncclComm_t communicator) {
  const char* const last = library.last_error(communicator);
  return fmt::format("NCCL: {}{}{}; {}", library.error_string(result), last && *last ? ": " : "",
                     last ? last : "", kAdvice);
}

}  // namespace ferrite::parallel::nccl

namespace ferrite::nccl {

/// For cuda::versions(); "" if there is none.
std::string version() {
  using namespace parallel::nccl;
  return library() ? readable(checked().version) : "";
}

}  // namespace ferrite::nccl

bool ferrite::parallel::has_nccl() {
  return nccl::library() && nccl::checked().found.joins_processes;
}
