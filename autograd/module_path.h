// The module whose forward() runs in this thread, for errors of the tape.
#pragma once

namespace ferrite::autograd::detail {

/// Its path, which lives as long as the process; null outside of modules. New nodes keep it.
inline thread_local constinit const char* module_path = nullptr;

}  // namespace ferrite::autograd::detail
