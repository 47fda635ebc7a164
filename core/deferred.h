// Things to do once streams have passed a point, in an ordinary thread.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "ferrite/core/stream.h"

namespace ferrite::detail {

/// Runs `action` after all `marks` have passed: at once if they have, else in a later call of
/// run_passed(). Never as work of a stream, where deleters could not use CUDA.
void after(std::vector<std::shared_ptr<Mark>> marks, std::function<void()> action);

/// Runs the actions whose marks have passed. Whoever waits for a stream calls it; it costs one read
/// where there are none.
void run_passed();

}  // namespace ferrite::detail
