// NCCL through its C interface. The library is loaded when it is first asked for, so that programs
// start where it is not; headers are all that the build needs.
#pragma once

#include <nccl.h>

#include <string>
#include <string_view>

namespace ferrite::parallel::nccl {

// What is used of it: the member that it becomes, and its name.
#define FERRITE_NCCL_FUNCTIONS(F)             \
  F(get_version, ncclGetVersion)              \
  F(error_string, ncclGetErrorString)         \
  F(last_error, ncclGetLastError)             \
  F(get_unique_id, ncclGetUniqueId)           \
  F(init_rank_config, ncclCommInitRankConfig) \
  F(async_error, ncclCommGetAsyncError)       \
  F(finalize, ncclCommFinalize)               \
  F(destroy, ncclCommDestroy)                 \
  F(abort, ncclCommAbort)                     \
  F(all_reduce, ncclAllReduce)                \
  F(broadcast, ncclBroadcast)                 \
  F(reduce, ncclReduce)                       \
  F(all_gather, ncclAllGather)                \
  F(reduce_scatter, ncclReduceScatter)        \
  F(send, ncclSend)                           \
  F(recv, ncclRecv)                           \
  F(group_start, ncclGroupStart)              \
  F(group_end, ncclGroupEnd)

struct Library {
#define FERRITE_NCCL_MEMBER(member, name) decltype(&::name) member = nullptr;
  FERRITE_NCCL_FUNCTIONS(FERRITE_NCCL_MEMBER)
#undef FERRITE_NCCL_MEMBER
};

/// For messages.
inline constexpr std::string_view kAdvice = "NCCL_DEBUG=INFO has NCCL say more";

/// The oldest version whose communicators never hold up the host (NCCL_VERSION_CODE).
inline constexpr int kOldestVersion = NCCL_VERSION(2, 18, 0);

/// Null where the library cannot be loaded or is too old, and then why_not() says why.
const Library* library();
const std::string& why_not();

/// What NCCL says of a result, for messages; of `communicator`, or of the calling thread where that
/// is null.
std::string describe(const Library& library, ncclResult_t result, ncclComm_t communicator);

/// The functions and "", or why they are not there: in loaded/ from a shared library, in linked/
/// from what the program is linked with, which is the emulator's: its ranks are threads.
struct Found {
  Library functions;
  std::string why_not;
  bool joins_processes = true;
};
Found find_library();

}  // namespace ferrite::parallel::nccl
