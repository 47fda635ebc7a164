// Queries to the machine that the launcher runs on.
#pragma once

#include <string>
#include <vector>

#include "ferrite/core/error.h"
#include "ferrite/parallel/comm/links/socket.h"
#include "ferrite/parallel/launcher/options.h"

namespace ferrite::launcher {

/// Processors that this process may run on, at least 1.
int usable_processors();
using parallel::links::host_name;
/// The token that a process must present to join the job: FERRITE_TOKEN if it is set. Otherwise it
/// is random for one node. For several nodes it is derived from the name of the job, which prevents
/// mistakes, but not attacks.
std::string job_token(const Options& options);
/// A TCP port that is currently free.
int free_port();
/// Whether connections to `host` reach this machine.
bool is_this_machine(const std::string& host);

/// A program that does not exist or is not executable, with the exit status that shells use for it.
struct CannotStart : Error {
  CannotStart(const std::string& message, int status) : Error(message), code(status) {}
  int code;
};

/// The file of a program: the name itself if it contains a slash, else the first match on the PATH.
/// CannotStart if there is none (127), or it is not executable (126).
std::string find_program(const std::string& name);

/// "SIGKILL", or "signal 77".
std::string signal_name(int signal);

}  // namespace ferrite::launcher
