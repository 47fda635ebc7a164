// The command ferrite-inspect.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace ferrite::inspect {

/// Runs it with these arguments. Returns the exit status: 0; 1 for a file that cannot be read or
/// converted, with the reason in `err`; 2 for arguments that are not understood.
int run(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err);

}  // namespace ferrite::inspect
