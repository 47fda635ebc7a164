// A ledger of what the devices did: every kernel, copy, fill and library call in its order, with
// the bytes of device memory that it touched.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <vector>

namespace emulator {

struct LedgerEntry {
  std::string name;
  dim3 grid = dim3(0), block = dim3(0);  // of 0 unless it is a kernel of the program
  /// Bytes in the sectors of 32 bytes, as device memory moves them, that it touched: each counts
  /// once, whatever a cache would have to hold for that, and is not read if it was written before.
  std::uint64_t read = 0, written = 0;
  std::uint64_t operations = 0;  // of a library's products: two for a multiplication and addition
};

/// Starts an empty ledger. It counts the bytes of kernels in builds with the race detector only,
/// whether or not that looks for races.
void open_ledger();
/// Ends it. The host must have waited for what it is to contain.
std::vector<LedgerEntry> close_ledger();

/// Enters a call of an emulated library, which reports its operands.
void enter_library_call(LedgerEntry entry);

}  // namespace emulator
