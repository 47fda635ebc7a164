#include "ferrite/metrics/logger.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>

#include "ferrite/core/error.h"
#include "ferrite/data/file.h"
#include "ferrite/metrics/append_file.h"
#include "ferrite/metrics/text.h"

namespace ferrite::metrics {

namespace {

using nlohmann::json;
using Record = std::vector<std::string>;

std::string read_all(const std::filesystem::path& path, std::string_view op) {
  const data::MappedFile file(path, op);
  const data::Bytes bytes = file.bytes();
  return {bytes.begin(), bytes.end()};
}

/// Whatever cannot be looked at fails when it is read.
bool is_there(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::exists(path, error) || error;
}

std::string number_text(double value) {
  if (std::isnan(value)) return "nan";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".en") == text.npos) text += ".0";  // keeps the column floating-point
  return text;
}

std::string csv_text(const LogValue& value) {
  return std::visit(
      [](const auto& v) -> std::string {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::string>)
          return csv_field(v);
        else if constexpr (std::is_same_v<T, double>)
          return number_text(v);
        else
          return fmt::format("{}", v);
      },
      value.get());
}

std::string json_text(const LogValue& value) {
  return std::visit(
      [](const auto& v) -> std::string {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, double>) {
          if (std::isnan(v)) return "\"NaN\"";
          if (std::isinf(v)) return v > 0 ? "\"Infinity\"" : "\"-Infinity\"";
          return number_text(v);
        } else {
          return json(v).dump(-1, ' ', false, json::error_handler_t::replace);
        }
      },
      value.get());
}

template <class T>
std::optional<T> parse_number(std::string_view text) {
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Removes the next record from the front of `text`; nothing if its line is incomplete.
std::optional<Record> next_record(std::string_view& text) {
  Record record(1);
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c != '"')
        record.back() += c;
      else if (i + 1 < text.size() && text[i + 1] == '"')
        record.back() += text[++i];
      else
        quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == ',') {
      record.emplace_back();
    } else if (c == '\n') {
      text.remove_prefix(i + 1);
      return record;
    } else if (c != '\r') {
      record.back() += c;
    }
  }
  return std::nullopt;
}

std::string to_line(const Record& record) {
  std::string text;
  for (std::size_t i = 0; i < record.size(); ++i) text += (i ? "," : "") + csv_field(record[i]);
  return text + '\n';
}

struct Table {
  Record columns;
  std::vector<Record> rows;
  std::vector<std::int64_t> steps;
};

Table parse_table(std::string_view text, const std::filesystem::path& path, std::string_view op) {
  Table table;
  std::optional<Record> record = next_record(text);
  if (!record) return table;  // cut off within the header, or empty
  FERRITE_CHECK(record->front() == "step", IoError, op,
                "'{}' is not a log: expected its first column to be 'step', got '{:.80}'",
                path.string(), record->front());
  table.columns = *record;
  for (std::size_t number = 2; (record = next_record(text)); ++number) {
    const auto step = parse_number<std::int64_t>(record->front());
    FERRITE_CHECK(step && record->size() == table.columns.size(), IoError, op,
                  "'{}' row {}: expected {} fields that begin with a step, got '{:.80}'",
                  path.string(), number, table.columns.size(), to_line(*record));
    table.steps.push_back(*step);
    table.rows.push_back(std::move(*record));
  }
  return table;
}

/// Calls `use(step, object, line)` for every whole line.
template <class Use>
void for_each_json(std::string_view text, const std::filesystem::path& path, std::string_view op,
                   Use&& use) {
  for (std::size_t number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    if (end == text.npos) return;  // cut off
    const std::string_view line = text.substr(0, end + 1);
    text.remove_prefix(end + 1);
    const json object = json::parse(line, nullptr, /*allow_exceptions=*/false);
    const auto step = object.is_object() ? object.find("step") : object.end();
    // nlohmann::json keeps as unsigned what is not negative; above the greatest step it would wrap.
    const bool sound = object.is_object() && step != object.end() && step->is_number_integer() &&
                       !(step->is_number_unsigned() && step->get<std::int64_t>() < 0);
    FERRITE_CHECK(sound, IoError, op,
                  "'{}' line {}: expected a JSON object with a step, got '{:.80}'", path.string(),
                  number, line.substr(0, end));
    use(step->get<std::int64_t>(), object, line);
  }
}

std::optional<double> number_of(const json& value) {
  if (value.is_number()) return value.get<double>();
  if (value == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (value == "Infinity" || value == "-Infinity")
    return value == "Infinity" ? std::numeric_limits<double>::infinity()
                               : -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

void replace_file(const std::filesystem::path& path, std::string_view text, std::string_view op) {
  data::AtomicFile file(path, op);
  file.write(text);
  file.commit();
}

}  // namespace

// ---- Logger

Logger::Logger(std::filesystem::path path, const LoggerOptions& options, std::string op)
    : path_(std::move(path)), options_(options), op_(std::move(op)) {
  FERRITE_CHECK(options.flush_rows > 0 && options.flush_seconds >= 0, ValueError, op_,
                "expected flush_rows above 0 and flush_seconds of 0 or more, got {} and {}",
                options.flush_rows, options.flush_seconds);
}

Logger::~Logger() = default;

void Logger::open(const std::optional<std::string>& kept, Existing existing) {
  if (kept) replace_file(path_, *kept, op_);
  file_ = std::make_unique<AppendFile>(path_, op_, existing);
}

void Logger::log(std::int64_t step, const LogRow& row) {
  std::set<std::string_view> names{"step"};
  for (const auto& [name, value] : row)
    FERRITE_CHECK(!name.empty() && names.insert(name).second, ValueError, op_,
                  "expected names that are not empty, 'step' or there twice, got '{}'", name);
  std::lock_guard lock(mutex_);
  waiting_ += line(step, row);
  ++waiting_rows_;
  if (waiting_rows_ >= options_.flush_rows || since_write_.seconds() >= options_.flush_seconds)
    write_out();
}

void Logger::flush() {
  std::lock_guard lock(mutex_);
  write_out();
}

void Logger::write_out() {
  if (!waiting_.empty()) {
    file_->append(waiting_);
    waiting_.clear();
    waiting_rows_ = 0;
    if (options_.sync) file_->sync();
  }
  since_write_.reset();
}

void Logger::close_quietly() {
  try {
    flush();
  } catch (const std::exception&) {
  }
}

// ---- CsvLogger

CsvLogger::CsvLogger(const std::filesystem::path& path, const LoggerOptions& options)
    : Logger(path, options, "CsvLogger") {
  if (!options.resume_step || !is_there(path)) {
    open({}, Existing::replace);
    return;
  }
  const std::string before = read_all(path, op_);
  const Table table = parse_table(before, path, op_);
  if (!table.columns.empty()) columns_ = table.columns;
  std::string kept = table.columns.empty() ? "" : to_line(columns_);
  for (std::size_t i = 0; i < table.rows.size(); ++i)
    if (table.steps[i] <= *options.resume_step) kept += to_line(table.rows[i]);
  open(kept == before ? std::nullopt : std::optional(kept), Existing::append);
}

std::string CsvLogger::line(std::int64_t step, const LogRow& row) {
  const std::size_t known = columns_.size();
  std::vector<std::string> columns = columns_;
  Record fields(columns.size());
  fields[0] = fmt::format("{}", step);
  for (const auto& [name, value] : row) {
    const auto at = static_cast<std::size_t>(std::ranges::find(columns, name) - columns.begin());
    if (at == columns.size()) {
      columns.push_back(name);
      fields.emplace_back();
    }
    fields[at] = csv_text(value);
  }
  // The first row of a file, or a new column.
  if (columns.size() > known || columns.size() == 1) {
    write_out();
    Table table = parse_table(read_all(path_, op_), path_, op_);
    std::string text = to_line(columns);
    for (Record& old : table.rows) {
      old.resize(columns.size());
      text += to_line(old);
    }
    open(text, Existing::append);
    columns_ = std::move(columns);
  }
  return fmt::format("{}\n", fmt::join(fields, ","));
}

// ---- JsonLinesLogger

JsonLinesLogger::JsonLinesLogger(const std::filesystem::path& path, const LoggerOptions& options)
    : Logger(path, options, "JsonLinesLogger") {
  if (!options.resume_step || !is_there(path)) {
    open({}, Existing::replace);
    return;
  }
  const std::string before = read_all(path, op_);
  std::string kept;
  for_each_json(before, path, op_, [&](std::int64_t step, const json&, std::string_view line) {
    if (step <= *options.resume_step) kept += line;
  });
  open(kept == before ? std::nullopt : std::optional(kept), Existing::append);
}

std::string JsonLinesLogger::line(std::int64_t step, const LogRow& row) {
  std::string text = fmt::format("{{\"step\":{}", step);
  for (const auto& [name, value] : row)
    text += ',' + json_text(LogValue(name)) + ':' + json_text(value);
  return text + "}\n";
}

// ---- read_log

std::map<std::string, LoggedSeries> read_log(const std::filesystem::path& path) {
  const std::string text = read_all(path, "read_log");
  std::map<std::string, LoggedSeries> series;
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first != text.npos && text[first] == '{') {
    for_each_json(text, path, "read_log",
                  [&](std::int64_t step, const json& object, std::string_view) {
                    for (const auto& [name, value] : object.items())
                      if (const auto number = number_of(value); number && name != "step")
                        series[name].add(step, *number);
                  });
    return series;
  }
  const Table table = parse_table(text, path, "read_log");
  for (std::size_t c = 1; c < table.columns.size(); ++c) {
    LoggedSeries column;
    for (std::size_t i = 0; i < table.rows.size(); ++i)
      if (const auto value = parse_number<double>(table.rows[i][c]))
        column.add(table.steps[i], *value);
    if (!column.steps.empty()) series.try_emplace(table.columns[c], std::move(column));
  }
  return series;
}

}  // namespace ferrite::metrics
