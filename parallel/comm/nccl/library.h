// NCCL through its C interface. The library is loaded on first use, so that programs start without
// it; only its headers are needed to build.
#pragma once

#include <nccl.h>

#include <string>
#include <string_view>

namespace ferrite::parallel::nccl {

// The functions used: the member's name, and the symbol's.
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

/// The oldest version with non-blocking communicators (NCCL_VERSION_CODE).
inline constexpr int kOldestVersion = NCCL_VERSION(2, 18, 0);

/// Null if the library cannot be loaded or is too old; why_not() then has the reason.
const Library* library();
const std::string& why_not();

/// NCCL's description of a result, for messages; for `communicator`, or for the calling thread if
/// that is null.
std::string describe(const Library& library, ncclResult_t result, ncclComm_t communicator);

/// The functions and "", or why they are missing: loaded/ takes them from a shared library, linked/
/// from the program itself, with the emulator's NCCL, whose ranks are threads.
struct Found {
  Library functions;
  std::string why_not;
  bool joins_processes = true;
};
Found find_library();

}  // namespace ferrite::parallel::nccl
