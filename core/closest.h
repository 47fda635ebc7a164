// Suggestions for misspelt names, for error messages.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ferrite {

/// The `count` of `names` that are closest to `name` by Levenshtein distance (all of them if there
/// are fewer), closest first; ties keep their original order.
std::vector<std::string> closest_names(std::string_view name, std::vector<std::string> names,
                                       std::size_t count = 1);

}  // namespace ferrite
