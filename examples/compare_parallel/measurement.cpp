#include "ferrite/examples/compare_parallel/measurement.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "ferrite/core/checked_json.h"
#include "ferrite/core/error.h"
#include "ferrite/data/file.h"

namespace examples::compare {

using nlohmann::json;
using namespace ferrite;

constexpr const char* kReport = "compare_parallel";

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

bool is_int(const json& number) {
  return number.is_number_unsigned()
             ? std::in_range<int>(number.get<std::uint64_t>())
             : number.is_number_integer() && std::in_range<int>(number.get<std::int64_t>());
}

/// Whether a conversion into 64 bits keeps the number's size.
bool is_figure(const json& number) {
  if (number.is_number_unsigned()) return std::in_range<std::int64_t>(number.get<std::uint64_t>());
  return number.is_number_integer() || std::abs(number.get<double>()) < 0x1p63;
}

/// What others divide by, or count to.
void check_devices(const Measurement& m) {
  constexpr int kMost = 1 << 20;
  for (const Row& row : m.rows)
    FERRITE_CHECK(row.what.devices >= 1 && row.what.devices <= kMost && row.what.batch >= 0 &&
                      row.what.batch <= std::numeric_limits<int>::max(),
                  ValueError, kReport, "a row has {} devices and a batch of {}", row.what.devices,
                  row.what.batch);
  for (const Link& link : m.links)
    FERRITE_CHECK(link.devices >= 1 && link.devices <= kMost, ValueError, kReport,
                  "a link has {} devices", link.devices);
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

json report_from(std::string_view text) {
  static constexpr int kNesting = 16;
  static constexpr std::array<std::string_view, 7> kInts{
      "version", "devices", "threads", "cores", "steps", "warmup", "repetitions"};
  const auto nest = [](int depth) {
    FERRITE_CHECK(depth <= kNesting, IoError, kReport, "expected JSON nested {} times at most",
                  kNesting);
  };
  const auto number = [](const std::string& key, const json& value) {
    FERRITE_CHECK(std::ranges::find(kInts, key) != kInts.end() ? is_int(value) : is_figure(value),
                  IoError, kReport, "expected a sound number for '{:.80}', got {}", key,
                  value.dump());
  };
  try {
    return ferrite::detail::checked_json(text, nest, number);
  } catch (const json::exception& error) {
    fail<IoError>(kReport, "not valid JSON: {}", error.what());
  }
}

bool is_measurement(const json& in) {
  const auto schema = in.is_object() ? in.find("schema") : in.end();
  return in.is_object() && schema != in.end() && *schema == kSchema;
}

Measurement measurement_from(const json& in) {
  FERRITE_CHECK(is_measurement(in), ValueError, kReport, "expected JSON of the schema {}", kSchema);
  try {
    const int version = in.at("version").get<int>();
    FERRITE_CHECK(version == kSchemaVersion, ValueError, kReport,
                  "expected version {} of the schema, got {}", kSchemaVersion, version);
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
    check_devices(m);
    return m;
  } catch (const json::exception& error) {
    fail<ValueError>(kReport, "the measurement is incomplete: {}", error.what());
  }
}

json load_report(const std::filesystem::path& path) {
  const data::MappedFile file(path, kReport);
  const data::Bytes bytes = file.bytes();
  return report_from({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

}  // namespace examples::compare
