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
  if (strategy == "single" && threads_are_all) text += fmt::format(", {} threads", threads);
  if (bucket_mb > 0) text += fmt::format(" {:g} MB", bucket_mb);
  if (!overlap) text += ", no overlap";
  return text;
}

// ---- JSON

namespace {

json samples_json(const Samples& samples) {
  if (samples.empty()) return nullptr;
  return {{"median", samples.median()},
          {"spread", samples.spread()},
          {"low", samples.low()},
          {"high", samples.high()},
          {"samples", samples.values}};
}

void read(const json& in, Samples& samples) {
  if (!in.is_null()) in.at("samples").get_to(samples.values);
}

json optional_json(const std::optional<double>& value) {
  return value ? json(*value) : json(nullptr);
}

std::optional<double> read_optional(const json& in) {
  if (in.is_null()) return std::nullopt;
  return in.get<double>();
}

json row_json(const Row& row) {
  return {{"case", row.what},
          {"label", row.what.label()},
          {"error", row.error.empty() ? json(nullptr) : json(row.error)},
          {"step_ms", samples_json(row.step_ms)},
          {"compute_ms", samples_json(row.compute_ms)},
          {"exposed_ms", samples_json(row.exposed_ms)},
          {"communication_ms", samples_json(row.communication_ms)},
          {"hidden_ms", samples_json(row.hidden_ms)},
          {"images_per_second", samples_json(row.images_per_second)},
          {"speedup", optional_json(row.speedup)},
          {"efficiency", optional_json(row.efficiency)},
          {"bytes_total", row.bytes_total},
          {"bytes_busiest", row.bytes_busiest},
          {"peak_memory", row.peak_memory},
          {"buckets", row.buckets},
          {"parts", row.parts}};
}

Row row_from(const json& in) {
  Row row;
  row.what = in.at("case").get<Case>();
  if (const json& error = in.at("error"); !error.is_null()) row.error = error;
  read(in.at("step_ms"), row.step_ms);
  read(in.at("compute_ms"), row.compute_ms);
  read(in.at("exposed_ms"), row.exposed_ms);
  read(in.at("communication_ms"), row.communication_ms);
  read(in.at("hidden_ms"), row.hidden_ms);
  read(in.at("images_per_second"), row.images_per_second);
  row.speedup = read_optional(in.at("speedup"));
  row.efficiency = read_optional(in.at("efficiency"));
  in.at("bytes_total").get_to(row.bytes_total);
  in.at("bytes_busiest").get_to(row.bytes_busiest);
  in.at("peak_memory").get_to(row.peak_memory);
  in.at("buckets").get_to(row.buckets);
  in.at("parts").get_to(row.parts);
  return row;
}

json machine_json(const Machine& m) {
  return {{"kind", m.kind},          {"meaning", m.meaning},
          {"devices", m.devices},    {"cores", m.cores},
          {"threads", m.threads},    {"ranks", m.ranks},
          {"backend", m.backend},    {"link_delay_us", m.link_delay_us},
          {"link_gbps", m.link_gbps}};
}

Machine machine_from(const json& in) {
  return {
      in.at("kind"),    in.at("meaning"),       in.at("devices").get<std::vector<std::string>>(),
      in.at("cores"),   in.at("threads"),       in.at("ranks"),
      in.at("backend"), in.at("link_delay_us"), in.at("link_gbps")};
}

}  // namespace

void to_json(json& out, const Case& c) {
  out = {{"strategy", c.strategy}, {"devices", c.devices}, {"scaling", c.scaling},
         {"amp", c.amp},           {"batch", c.batch},     {"bucket_mb", c.bucket_mb},
         {"overlap", c.overlap},   {"threads", c.threads}, {"all_threads", c.threads_are_all}};
}

void from_json(const json& in, Case& c) {
  in.at("strategy").get_to(c.strategy);
  in.at("devices").get_to(c.devices);
  in.at("scaling").get_to(c.scaling);
  in.at("amp").get_to(c.amp);
  in.at("batch").get_to(c.batch);
  in.at("bucket_mb").get_to(c.bucket_mb);
  in.at("overlap").get_to(c.overlap);
  in.at("threads").get_to(c.threads);
  in.at("all_threads").get_to(c.threads_are_all);
}

void to_json(json& out, const Bucket& b) {
  out = {{"bytes", b.bytes},
         {"parameters", b.parameters},
         {"ready_ms", b.ready_ms},
         {"begun_ms", b.begun_ms},
         {"ended_ms", b.ended_ms}};
}

void from_json(const json& in, Bucket& b) {
  in.at("bytes").get_to(b.bytes);
  in.at("parameters").get_to(b.parameters);
  in.at("ready_ms").get_to(b.ready_ms);
  in.at("begun_ms").get_to(b.begun_ms);
  in.at("ended_ms").get_to(b.ended_ms);
}

void to_json(json& out, const Model& m) {
  out = {{"name", m.name},
         {"parameters", m.parameters},
         {"parameter_bytes", m.parameter_bytes},
         {"buffer_bytes", m.buffer_bytes},
         {"input_shape", m.input_shape},
         {"multiply_adds", m.multiply_adds}};
}

void from_json(const json& in, Model& m) {
  in.at("name").get_to(m.name);
  in.at("parameters").get_to(m.parameters);
  in.at("parameter_bytes").get_to(m.parameter_bytes);
  in.at("buffer_bytes").get_to(m.buffer_bytes);
  in.at("input_shape").get_to(m.input_shape);
  in.at("multiply_adds").get_to(m.multiply_adds);
}

void to_json(json& out, const Link& l) {
  json times = json::array();
  for (const LinkTime& t : l.times) times.push_back({{"bytes", t.bytes}, {"ms", t.ms}});
  out = {{"operation", l.operation},   {"backend", l.backend},     {"devices", l.devices},
         {"latency_us", l.latency_us}, {"bandwidth", l.bandwidth}, {"times", std::move(times)}};
}

void from_json(const json& in, Link& l) {
  in.at("operation").get_to(l.operation);
  in.at("backend").get_to(l.backend);
  in.at("devices").get_to(l.devices);
  in.at("latency_us").get_to(l.latency_us);
  in.at("bandwidth").get_to(l.bandwidth);
  for (const json& t : in.at("times")) l.times.push_back({t.at("bytes"), t.at("ms")});
}

json to_json(const Measurement& m) {
  json rows = json::array();
  for (const Row& row : m.rows) rows.push_back(row_json(row));
  json profiles = json::array();
  for (const auto& profile : m.profiles)
    profiles.push_back(json::parse(planning::to_json(profile)));
  return {{"schema", kSchema},
          {"version", kSchemaVersion},
          {"machine", machine_json(m.machine)},
          {"model", m.model},
          {"data", m.data},
          {"steps", m.steps},
          {"warmup", m.warmup},
          {"repetitions", m.repetitions},
          {"rows", std::move(rows)},
          {"profiles", std::move(profiles)},
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
    m.machine = machine_from(in.at("machine"));
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
  FERRITE_CHECK(!parsed.is_discarded(), IoError, "compare_parallel", "'{}' is no JSON",
                path.string());
  return measurement_from(parsed);
}

}  // namespace examples::compare
