#include "ferrite/examples/common/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>  // program_invocation_short_name
#include <cstdint>
#include <utility>

#include "ferrite/core/terminal.h"

namespace examples {

Option Option::check(const Check& check) const {
  if (!check.names.empty())
    option_->check(CLI::IsMember(check.names));
  else
    option_->check(
        CLI::Validator([problem = check.problem](const std::string& text) { return problem(text); },
                       "", "number"));
  return *this;
}
Option Option::required() const {
  option_->required();
  return *this;
}
Option Option::capture_default_str() const {
  option_->capture_default_str();
  return *this;
}
Option Option::group(const std::string& name) const {
  option_->group(name);
  return *this;
}
Option Option::delimiter(char separator) const {
  option_->delimiter(separator);
  return *this;
}
Option Option::description(const std::string& text) const {
  option_->description(text);
  return *this;
}
std::size_t Option::count() const { return option_->count(); }

CommandLine::CommandLine(const std::string& description, const std::vector<std::string>& examples)
    : app_(std::make_unique<CLI::App>(description, program_invocation_short_name)) {
  ferrite::terminal::set_up_cli(*app_, examples);
}
CommandLine::~CommandLine() = default;

const std::string& CommandLine::program() const { return app_->get_name(); }
void CommandLine::topic(const std::string& name) { topic_ = name; }

template <class T>
Option CommandLine::add_option(const std::string& names, T& value, const std::string& help) {
  return Option(app_->add_option(names, value, help)->group(topic_));
}
Option CommandLine::add_flag(const std::string& names, bool& value, const std::string& help) {
  return Option(app_->add_flag(names, value, help)->group(topic_));
}

template Option CommandLine::add_option(const std::string&, int&, const std::string&);
template Option CommandLine::add_option(const std::string&, std::int64_t&, const std::string&);
template Option CommandLine::add_option(const std::string&, std::uint64_t&, const std::string&);
template Option CommandLine::add_option(const std::string&, double&, const std::string&);
template Option CommandLine::add_option(const std::string&, std::string&, const std::string&);
template Option CommandLine::add_option(const std::string&, std::optional<int>&,
                                        const std::string&);
template Option CommandLine::add_option(const std::string&, std::optional<std::int64_t>&,
                                        const std::string&);
template Option CommandLine::add_option(const std::string&, std::optional<bool>&,
                                        const std::string&);
template Option CommandLine::add_option(const std::string&, std::optional<double>&,
                                        const std::string&);
template Option CommandLine::add_option(const std::string&, std::optional<std::string>&,
                                        const std::string&);
template Option CommandLine::add_option(const std::string&, std::vector<int>&, const std::string&);
template Option CommandLine::add_option(const std::string&, std::vector<double>&,
                                        const std::string&);
template Option CommandLine::add_option(const std::string&, std::vector<std::string>&,
                                        const std::string&);

Option CommandLine::get_option(const std::string& name) const {
  return Option(app_->get_option(name));
}
void CommandLine::remove_option(const std::string& name) {
  app_->remove_option(app_->get_option(name));
}
std::size_t CommandLine::count(const std::string& name) const { return app_->count(name); }

namespace {
template <class... Arguments>
std::optional<int> parsed(CLI::App& app, Arguments&&... arguments) {
  try {
    app.parse(std::forward<Arguments>(arguments)...);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  }
  return std::nullopt;
}
}  // namespace

std::optional<int> CommandLine::parse(int argc, const char* const* argv) {
  return parsed(*app_, argc, argv);
}
std::optional<int> CommandLine::parse(std::vector<std::string> arguments) {
  std::reverse(arguments.begin(), arguments.end());  // the order that CLI11 expects
  return parsed(*app_, std::move(arguments));
}

}  // namespace examples
