// Signals that would end the process where an error can be reported.
#pragma once

namespace ferrite {

/// Ignores the signal (sigaction(2)) where nothing else has been said of it: a program that handles
/// it, or ignores it already, keeps its ways. Then write(2) and its like fail instead: with EFBIG
/// for SIGXFSZ, of a file that may not grow any further (ulimit -f), with EPIPE for SIGPIPE.
/// Whatever opens a file for writing asks for SIGXFSZ.
void ignore_unless_handled(int signal);

}  // namespace ferrite
