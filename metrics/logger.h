// Metrics of a run in files for spreadsheets and scripts: one row per epoch, or every few steps.
//
//   metrics::CsvLogger log("runs/a/log.csv", {.resume_step = step});   // without: from the start
//   log.log(step, {{"epoch", epoch}, {"train/loss", loss}, {"lr", lr}});
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "ferrite/metrics/timer.h"

namespace ferrite::metrics {

class AppendFile;
enum class Existing : std::uint8_t;

/// An integer, a number, a boolean, or text. NaN and infinities are "nan", "inf" and "-inf" in CSV
/// files, which NumPy and pandas read; in JSON, which has no such numbers, they are the strings
/// "NaN", "Infinity" and "-Infinity", as protobuf writes them and Python's float() reads them.
class LogValue {
 public:
  template <class T>
  requires std::is_arithmetic_v<T> LogValue(T value) {
    if constexpr (std::is_same_v<T, bool> || std::is_floating_point_v<T>)
      value_ = static_cast<std::conditional_t<std::is_same_v<T, bool>, bool, double>>(value);
    else
      value_ = static_cast<std::int64_t>(value);
  }
  LogValue(std::string value) : value_(std::move(value)) {}
  LogValue(const char* value) : value_(std::string(value)) {}

  /// The value.
  const std::variant<bool, std::int64_t, double, std::string>& get() const { return value_; }

 private:
  std::variant<bool, std::int64_t, double, std::string> value_;
};

using LogRow = std::vector<std::pair<std::string, LogValue>>;  ///< names and values of one step

struct LoggerOptions {
  /// Resumes the run after this step: the file keeps the rows up to it; those of later steps, which
  /// will be computed again, are dropped. Without it an existing file is replaced.
  std::optional<std::int64_t> resume_step = {};
  /// How many rows may be buffered, and for how long; both are checked by log(). With 1 row, a
  /// killed process loses none.
  std::int64_t flush_rows = 1;
  double flush_seconds = 10;  ///< how long lines may wait in memory
  bool sync = false;  ///< each write waits for the disk, so that a power failure loses no row
                      ///< either
};

/// The common base of the loggers. Thread-safe.
class Logger {
 public:
  virtual ~Logger();

  /// ValueError if a name is empty, occurs twice or is "step"; IoError.
  void log(std::int64_t step, const LogRow& row);
  /// Writes the buffered rows. The destructor does so too, but cannot report errors.
  void flush();
  const std::filesystem::path& path() const { return path_; }

 protected:
  Logger(std::filesystem::path path, const LoggerOptions& options, std::string op);
  Logger(const Logger&) = delete;
  Logger& operator=(const Logger&) = delete;

  /// The row as text, including the end of the line. May first rewrite the file, for which it calls
  /// write_out().
  virtual std::string line(std::int64_t step, const LogRow& row) = 0;
  /// Writes what is buffered.
  void write_out();
  /// Opens the file, of which only `kept` remains; all of it if that is nothing.
  void open(const std::optional<std::string>& kept, Existing existing);
  /// Closes the file, and keeps errors for close().
  void close_quietly();

  const std::filesystem::path path_;
  const LoggerOptions options_;
  const std::string op_;

 private:
  std::mutex mutex_;
  std::unique_ptr<AppendFile> file_;
  std::string waiting_;
  std::int64_t waiting_rows_ = 0;
  Timer since_write_;
};

/// A table (RFC 4180, lines end with \n): the header names the columns, "step" first. A new column
/// is added at the right, for which the file is rewritten (atomically); rows without it leave it
/// empty.
class CsvLogger : public Logger {
 public:
  /// ValueError for options out of range; IoError if the folder cannot be created, or an existing
  /// file to resume is not such a table.
  explicit CsvLogger(const std::filesystem::path& path, const LoggerOptions& options = {});
  ~CsvLogger() override { close_quietly(); }

  /// The names in the first line.
  const std::vector<std::string>& columns() const { return columns_; }

 private:
  std::string line(std::int64_t step, const LogRow& row) override;

  std::vector<std::string> columns_{"step"};
};

/// One JSON object per line (https://jsonlines.org): {"step":7,"epoch":1,"train/loss":0.25}.
class JsonLinesLogger : public Logger {
 public:
  explicit JsonLinesLogger(const std::filesystem::path& path, const LoggerOptions& options = {});
  ~JsonLinesLogger() override { close_quietly(); }

 private:
  std::string line(std::int64_t step, const LogRow& row) override;
};

/// A column of a log: the rows that have a number in it.
struct LoggedSeries {
  std::vector<double> steps;   ///< the steps of the logged values
  std::vector<double> values;  ///< the logged values

  /// Appends a value.
  void add(std::int64_t step, double value) {
    steps.push_back(static_cast<double>(step));
    values.push_back(value);
  }
};

/// The numeric columns of a file written by either logger, detected by content. Used to draw curves
/// after a run was resumed. An incomplete last line is ignored. IoError.
std::map<std::string, LoggedSeries> read_log(const std::filesystem::path& path);

}  // namespace ferrite::metrics
