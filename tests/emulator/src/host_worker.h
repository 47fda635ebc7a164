// The thread that runs host functions of streams (cudaLaunchHostFunc), as the driver has one: who
// put them there does not wait for them.
#pragma once

#include <memory>

struct CUstream_st;

namespace emulator {

/// Runs the stream from where it is, host functions and all. Under the lock.
void host_worker_take(const std::shared_ptr<CUstream_st>& stream);

/// The same after a while, should nobody have waited for the stream before.
void host_worker_take_later(const std::shared_ptr<CUstream_st>& stream);

/// Has it run all that can run, unless streams are deferred.
void host_worker_advance();

}  // namespace emulator
