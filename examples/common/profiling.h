// --profile FILE: runs a few steps under the profiler.
#pragma once

#include <memory>
#include <string>

#include "ferrite/core/profiler/profile.h"
#include "ferrite/nn/module.h"

namespace examples {

/// A profile of steps 10 to 14, which then prints its table and writes its trace to `file`; null if
/// `file` is empty. IoError if the file cannot be created. With several ranks, each writes its own
/// file, such as "trace.rank1.json".
std::unique_ptr<ferrite::profiler::Profile> make_profile(const std::string& file,
                                                         const ferrite::nn::Module& model);

}  // namespace examples
