// --profile FILE: a few steps of a run under the profiler.
#pragma once

#include <memory>
#include <string>

#include "ferrite/core/profiler/profile.h"
#include "ferrite/nn/module.h"

namespace examples {

/// A profile of steps 10 to 14, which then prints its table and writes its trace to `file`; null
/// where that is empty. IoError where there can be no such file. Of several ranks each writes its
/// own, "trace.rank1.json".
std::unique_ptr<ferrite::profiler::Profile> make_profile(const std::string& file,
                                                         const ferrite::nn::Module& model);

}  // namespace examples
