// Signals that would end the process although the error can be reported.
#pragma once

namespace ferrite {

/// Ignores the signal (sigaction(2)) unless the program already handles or ignores it. Then
/// write(2) and similar calls fail instead: with EFBIG for SIGXFSZ, for a file that may not grow
/// any further (ulimit -f), and with EPIPE for SIGPIPE. Called for SIGXFSZ by everything that opens
/// a file for writing.
void ignore_unless_handled(int signal);

}  // namespace ferrite
