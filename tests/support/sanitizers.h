// Which sanitizers this build's libraries are compiled with. Functions rather than macros: test
// code itself may be compiled without them (FERRITE_SANITIZE_TESTS), to the same objects as in
// other builds.
#pragma once

namespace ferrite::test {

bool has_address_sanitizer();
bool has_thread_sanitizer();
/// Whether there is either of them: both slow down a program by several times.
inline bool sanitized() { return has_address_sanitizer() || has_thread_sanitizer(); }

}  // namespace ferrite::test
