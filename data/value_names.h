// The names of what lies below a value: keys and positions, joined by dots.
#pragma once

#include <functional>
#include <string>

#include "ferrite/data/value.h"

namespace ferrite::data {

/// Whether the walk ends at this value, so that nothing below it gets a name.
using TakeNamed = std::function<bool(const std::string& name, const Value& value)>;

/// Calls `take` for `root`, whose name is empty, and in order for all values below those that it
/// does not take. Values may occur many times in lists of lists, and each time the name repeats the
/// keys above, so that the names of a small tree can take more memory than there is. ValueError if
/// those of the values taken exceed 1 MB and 16 times the memory of the values.
void for_each_named(const Value& root, const TakeNamed& take);

}  // namespace ferrite::data
