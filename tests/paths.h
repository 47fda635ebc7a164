#pragma once

#include <string>

namespace ferrite::test {

// The source and binary folders of this build; absolute paths. Functions rather than macros, so
// that test code compiles to the same object in every clone and a compiler cache can share it.
std::string source_dir();
std::string bin_dir();
/// The toolkit's stub of the CUDA driver, to which programs link; empty if there is none.
std::string cuda_driver_stub();

}  // namespace ferrite::test
