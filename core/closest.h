// Which names may have been meant by one that does not exist; for messages.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ferrite {

/// The `count` of `names` that are closest to `name` by Levenshtein distance (all where there are
/// fewer), closest first, in their own order where they are as close.
std::vector<std::string> closest_names(std::string_view name, std::vector<std::string> names,
                                       std::size_t count = 1);

}  // namespace ferrite
