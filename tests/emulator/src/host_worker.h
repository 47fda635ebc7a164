// The thread that runs host functions of streams (cudaLaunchHostFunc), like the driver's: the
// thread that submits them does not wait.
#pragma once

#include <memory>

struct CUstream_st;

namespace emulator {

/// Runs the stream from its current position, including host functions. Called with the lock held.
void host_worker_take(const std::shared_ptr<CUstream_st>& stream);

/// The same after a while, if no thread has waited for the stream before.
void host_worker_take_later(const std::shared_ptr<CUstream_st>& stream);

/// Makes it run everything that can run, unless streams are deferred.
void host_worker_advance();

}  // namespace emulator
