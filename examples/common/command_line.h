// Command-line options of programs, parsed by CLI11. Only command_line.cpp includes its headers,
// which take long to compile.
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

/// An option that was added. All setters return it.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option check(const Check& check) const;
  Option required() const;
  /// --help shows the current value of the variable as the default.
  Option capture_default_str() const;
  /// The heading in --help under which the option is listed; "" hides it.
  Option group(const std::string& name) const;
  /// The separator of the values of a list in one argument.
  Option delimiter(char separator) const;
  Option description(const std::string& text) const;
  /// The number of times that the option was given.
  std::size_t count() const;

 private:
  CLI::Option* option_;
};

class CommandLine {
 public:
  /// `examples` are shown at the end of --help: a command, or "command    # what it does".
  explicit CommandLine(const std::string& description,
                       const std::vector<std::string>& examples = {});
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  /// The name of the program, without its folder.
  const std::string& program() const;
  /// The heading in --help of the options that are added from here on.
  void topic(const std::string& name);

  /// `names` are such as "-n,--nodes"; parse() sets `value` if the option is given. T: int, int64,
  /// uint64, double, string, and optional and vector of them.
  template <class T>
  Option add_option(const std::string& names, T& value, const std::string& help = "");
  /// A name of the form "!--name" sets `value` to false.
  Option add_flag(const std::string& names, bool& value, const std::string& help);

  Option get_option(const std::string& name) const;
  void remove_option(const std::string& name);
  std::size_t count(const std::string& name) const;

  /// The exit status if the program must end: after --help or an error, which has been printed.
  [[nodiscard]] std::optional<int> parse(int argc, const char* const* argv);
  /// The same for arguments without the program's name.
  [[nodiscard]] std::optional<int> parse(std::vector<std::string> arguments);

 private:
  std::unique_ptr<CLI::App> app_;
  std::string topic_ = "Options";
};

}  // namespace examples
