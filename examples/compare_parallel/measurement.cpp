#include "ferrite/examples/compare_parallel/measurement.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <fstream>
#include <sstream>

#include "ferrite/core/error.h"

namespace examples::compare {

using nlohmann::json;
using namespace ferrite;

double Samples::quantile(double q) const {
  if (values.empty()) return 0;
  std::vector<double> sorted = values;
  std::ranges::sort(sorted);
  const double at = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

std::string Case::label() const {
  std::string text = strategy;
  if (strategy == "single" && all_threads) text += fmt::format(", {} threads", threads);
  if (bucket_mb > 0) text += fmt::format(" {:g} MB", bucket_mb);
  if (!overlap) text += ", no overlap";
  return text;
}

// ---- JSON

namespace {

template <class T>
json json_of(const T& value) {
  return value;
}
json json_of(const Samples& samples) {
  if (samples.empty()) return nullptr;
  return {{"median", samples.median()},
          {"spread", samples.spread()},
          {"low", samples.low()},
          {"high", samples.high()},
          {"samples", samples.values}};
}
json json_of(const std::optional<double>& value) { return value ? json(*value) : json(nullptr); }

template <class T>
void read(const json& in, T& value) {
  in.get_to(value);
}
void read(const json& in, Samples& samples) {
  if (!in.is_null()) in.at("samples").get_to(samples.values);
}
void read(const json& in, std::optional<double>& value) {
  if (!in.is_null()) value = in.get<double>();
}

/// The members of a row that have their names in JSON; also of a const one.
template <class R, class F>
void for_each_member(R& row, const F& f) {
  f("step_ms", row.step_ms);
  f("compute_ms", row.compute_ms);
  f("exposed_ms", row.exposed_ms);
  f("communication_ms", row.communication_ms);
  f("hidden_ms", row.hidden_ms);
  f("images_per_second", row.images_per_second);
  f("speedup", row.speedup);
  f("efficiency", row.efficiency);
  f("bytes_total", row.bytes_total);
  f("bytes_busiest", row.bytes_busiest);
  f("peak_memory", row.peak_memory);
  f("buckets", row.buckets);
  f("parts", row.parts);
}

json row_json(const Row& row) {
  json out = {{"case", row.what},
              {"label", row.what.label()},
              {"error", row.error.empty() ? json(nullptr) : json(row.error)}};
  for_each_member(row, [&](const char* name, const auto& value) { out[name] = json_of(value); });
  return out;
}

Row row_from(const json& in) {
  Row row;
  row.what = in.at("case").get<Case>();
  if (const json& error = in.at("error"); !error.is_null()) row.error = error;
  for_each_member(row, [&](const char* name, auto& value) { read(in.at(name), value); });
  return row;
}

}  // namespace

json to_json(const Measurement& m) {
  json rows = json::array();
  for (const Row& row : m.rows) rows.push_back(row_json(row));
  json profiles = json::array();
  for (const auto& profile : m.profiles)
    profiles.push_back(json::parse(planning::to_json(profile)));
  return {{"schema", kSchema},       {"version", kSchemaVersion},
          {"machine", m.machine},    {"model", m.model},
          {"data", m.data},          {"steps", m.steps},
          {"warmup", m.warmup},      {"repetitions", m.repetitions},
          {"rows", std::move(rows)}, {"profiles", std::move(profiles)},
          {"links", m.links}};
}

Measurement measurement_from(const json& in) {
  FERRITE_CHECK(in.is_object() && in.value("schema", "") == kSchema, ValueError, "compare_parallel",
                "expected JSON of the schema {}", kSchema);
  FERRITE_CHECK(in.value("version", 0) == kSchemaVersion, ValueError, "compare_parallel",
                "expected version {} of the schema, got {}", kSchemaVersion,
                in.value("version", 0));
  try {
    Measurement m;
    in.at("machine").get_to(m.machine);
    in.at("model").get_to(m.model);
    in.at("data").get_to(m.data);
    in.at("steps").get_to(m.steps);
    in.at("warmup").get_to(m.warmup);
    in.at("repetitions").get_to(m.repetitions);
    for (const json& row : in.at("rows")) m.rows.push_back(row_from(row));
    for (const json& profile : in.at("profiles"))
      m.profiles.push_back(planning::profile_from_json(profile.dump()));
    in.at("links").get_to(m.links);
    return m;
  } catch (const json::exception& error) {
    fail<ValueError>("compare_parallel", "the measurement is incomplete: {}", error.what());
  }
}

Measurement load_measurement(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  FERRITE_CHECK(in, IoError, "compare_parallel", "cannot read '{}'", path.string());
  const json parsed = json::parse(text.str(), nullptr, false);
  FERRITE_CHECK(!parsed.is_discarded(), IoError, "compare_parallel", "'{}' is not JSON",
                path.string());
  return measurement_from(parsed);
}

}  // namespace examples::compare
