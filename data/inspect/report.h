// The output of ferrite-inspect, as text and as JSON.
#pragma once

#include <string>

#include "ferrite/data/inspect/contents.h"

namespace ferrite::inspect {

/// A table of the tensors, then the other values and the metadata. Names of more than 100 columns
/// have lines of their own. Control characters are escaped here and in diff_text().
std::string text_of(const Contents& contents, const std::string& path);
/// {"format": "pth", "tensors": [{"name", "dtype", "shape", "numel", "sum", "norm"}, ...],
/// "values": {name: value}, "metadata": {name: text}}. What JSON has no number for is text: "nan",
/// "inf", "-inf". The sum of a complex tensor is [real, imaginary]. Sum and norm are null for views
/// with far more elements than memory (ElementBudget), and in the table "-". Of values with
/// one name, as for the keys 1 and "1", the second is named "1#2".
std::string json_of(const Contents& contents);

/// What differs: names on one side alone, shapes, dtypes, and of each tensor on both sides that is
/// unequal the greatest difference; views with far more elements than memory are not compared.
std::string diff_text(const Contents& a, const Contents& b, const std::string& path_a,
                      const std::string& path_b);
/// {"equal": false, "only_in_first": [name], "only_in_second": [name], "shapes": [{"name", "first",
/// "second"}], "dtypes": [...], "different": [{"name", "greatest", "position": [i, j], "unequal",
/// "numel"}], "not_compared": [name], "greatest": 0.5}.
std::string diff_json(const Contents& a, const Contents& b);

}  // namespace ferrite::inspect
