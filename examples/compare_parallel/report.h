// Writes a measurement as tables, CSV, a chart and JSON.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "ferrite/examples/compare_parallel/measurement.h"

namespace examples::compare {

/// Tables in Markdown: single devices and strong scaling, then weak scaling.
std::string table(const Measurement& measurement);
/// One line for each row of the table, errors included, after one line of column names.
std::string csv(const Measurement& measurement);
/// SVG: images a second of each row with the lowest and the highest repetition, the step
/// divided into compute and what communication adds, and peaks of memory.
std::string chart(const Measurement& measurement);

/// The text of a JSON file. Bytes that are not UTF-8 (in paths, in errors) are replaced.
std::string to_text(const nlohmann::json& json);
/// Replaces the file; IoError.
void write_file(const std::filesystem::path& path, const std::string& text);

}  // namespace examples::compare
