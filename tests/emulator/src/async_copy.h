// cp.async of the threads of the running block.
#pragma once

namespace emulator {

/// The block has ended: copies that were never waited for are lost.
void drop_async_copies();

}  // namespace emulator
