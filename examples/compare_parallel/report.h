// A measurement for people and programs.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "ferrite/examples/compare_parallel/measurement.h"

namespace examples::compare {

/// Tables in Markdown: single devices and strong scaling, then weak scaling.
std::string table(const Measurement& measurement);
/// A line a row of the table, errors included; one head.
std::string csv(const Measurement& measurement);
/// SVG: images a second of each row with the lowest and the highest repetition, the step
/// divided into compute and what communication adds, and peaks of memory.
std::string chart(const Measurement& measurement);

/// For a file; bytes that are not UTF-8 (of paths, of errors) are replaced.
std::string to_text(const nlohmann::json& json);
/// Replaces the file; IoError.
void write_file(const std::filesystem::path& path, const std::string& text);

}  // namespace examples::compare
