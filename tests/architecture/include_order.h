#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ferrite::test {

// One #include that the dependency order forbids.
struct IncludeViolation {
  std::string file;      // path of the including file below the repository root
  int line = 0;          // line of the #include, from 1
  std::string included;  // the path included
  std::string reason;

  std::string message() const;
};

// Checks that the includes of one source file begin with ferrite/, and follow the order core <-
// kernels <- autograd <- ops <- nn <- {optim, parallel} <- examples, data on core alone, metrics on
// ops and data, parallel's process groups on core and kernels. Eigen may be included only in
// kernels. tests/ and examples/ may not be included elsewhere, except for tests/kit/, which
// examples use too. `file` is its path below the repository root, with forward slashes; `text` is
// its content. Comments are ignored.
std::vector<IncludeViolation> check_includes(std::string_view file, std::string_view text);

// True for the part of parallel/ that depends only on core and kernels: process groups, their
// collectives and their rendezvous, parallel/comm/.
bool is_process_group_file(std::string_view file);

}  // namespace ferrite::test
