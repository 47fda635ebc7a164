// Actions to run in an ordinary thread once streams have passed a point.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "ferrite/core/stream.h"

namespace ferrite::detail {

/// Runs `action` after all `marks` have passed: at once if they have, else in a later call of
/// run_passed(). Never runs as work of a stream, where deleters could not use CUDA.
void after(std::vector<std::shared_ptr<Mark>> marks, std::function<void()> action);

/// Runs the actions whose marks have passed. Called by every wait for a stream; costs one read if
/// there are none.
void run_passed();

}  // namespace ferrite::detail
