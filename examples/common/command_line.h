// Options of programs. CLI11 reads them; its headers, which take long to compile, are included by
// command_line.cpp alone.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ferrite/examples/common/validators.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace examples {

/// An option that was added: all of these give it back.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option check(const Check& check) const;
  /// --help shows the value that the variable has now.
  Option capture_default_str() const;
  /// The heading of --help that it is listed under; "": not at all.
  Option group(const std::string& name) const;
  /// Between the values of a list that are one argument.
  Option delimiter(char separator) const;
  Option description(const std::string& text) const;
  /// How often it was given.
  std::size_t count() const;

 private:
  CLI::Option* option_;
};

class CommandLine {
 public:
  explicit CommandLine(const std::string& description);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  /// `names` as "-n,--nodes"; `value` is set by parse(), where the option is given. T: int, int64,
  /// uint64, double, string, and optional and vector of them.
  template <class T>
  Option add_option(const std::string& names, T& value, const std::string& help = "");
  /// "!--name" is one that makes `value` false.
  Option add_flag(const std::string& names, bool& value, const std::string& help);

  Option get_option(const std::string& name) const;
  void remove_option(const std::string& name);
  std::size_t count(const std::string& name) const;

  /// The exit status where the program ends here: --help was shown, or what is wrong.
  [[nodiscard]] std::optional<int> parse(int argc, const char* const* argv);
  /// The same of arguments without the program's name before them.
  [[nodiscard]] std::optional<int> parse(std::vector<std::string> arguments);

 private:
  std::unique_ptr<CLI::App> app_;
};

}  // namespace examples
