// What programs print, in one look: tables, a line of progress that is redrawn, and styles where a
// terminal shows them; plain lines in files and pipes. For the programs of this tree and those that
// begin as a copy of one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ferrite/core/version.h"

namespace ferrite::terminal {

/// Makes each line of standard output appear at once, in files and pipes too, so that a log can be
/// followed. Call it before anything is printed.
void flush_lines();

/// Whether the stream is a terminal that can redraw a line.
bool redraws(std::FILE* stream = stdout);
/// Whether it shows styles: it redraws, and NO_COLOR (no-color.org) is unset or empty.
bool has_styles(std::FILE* stream = stdout);
/// Its width; 80 if that is unknown.
int width(std::FILE* stream = stdout);

enum class Style : std::uint8_t { bold, dim, red, green, yellow };
/// The text in this style if the stream shows styles, else as it is.
std::string styled(std::string_view text, Style style, std::FILE* stream = stdout);

/// The text with one of its lines, counted from 0, in bold where the stream shows styles: the
/// heading of a table that is given as text. Without a stream it is kept as it is.
std::string with_heading(std::string text, std::size_t line = 0, std::FILE* stream = stdout);

/// What a program prints on standard error before it fails: "error: ", the text and a line's end.
std::string error_line(std::string_view text);
/// The same for wrong arguments, and how to get help: a failure_message() of CLI11.
std::string usage_error(const void* app, const std::exception& error);

/// Columns that UTF-8 text takes, assuming that every character is one column wide.
std::size_t text_columns(std::string_view text);
/// Its first `columns` characters, without trailing spaces.
std::string text_cut(std::string_view text, std::size_t columns);
enum class Align : std::uint8_t { left, right };
/// Padded with spaces.
std::string text_padded(std::string_view text, std::size_t columns, Align align = Align::left);

/// The parts of a text between separators: one if there is no separator, empty ones included.
std::vector<std::string_view> text_split(std::string_view text, char separator);

/// "1 step", "2 steps"; `plural` is for words that do not just get an "s".
std::string counted(std::int64_t n, std::string_view word, std::string_view plural = "");

/// What --help prints: usage, description, options by topic, and more, such as examples. Text is
/// wrapped to the terminal's width, to 80 columns elsewhere and to 100 at most. Headings are bold
/// where the stream shows styles.
class Help {
 public:
  /// `usage` is such as "lenet [OPTIONS]".
  Help(std::string usage, std::string description)
      : usage_(std::move(usage)), description_(std::move(description)) {}

  /// The heading of the options that are added from here on.
  void topic(std::string title) { rows_.push_back({std::move(title), "", true}); }
  /// `names` are such as "-h, --help" or "--epochs N".
  void option(std::string names, std::string text) {
    rows_.push_back({std::move(names), std::move(text), false});
  }
  /// Lines after the options. Those that begin with a space are kept as they are; others that end
  /// in ":" are headings.
  void add(std::string lines) { rest_.push_back(std::move(lines)); }

  /// Without a stream: for 80 columns, without styles.
  std::string str(std::FILE* stream = stdout) const;

 private:
  struct Row {
    std::string left, text;
    bool heading;
  };

  std::string usage_, description_;
  std::vector<Row> rows_;
  std::vector<std::string> rest_;
};

/// The same for a program that reads its options with CLI11: app.formatter_fn(CliHelp()).
class CliHelp {
 public:
  template <class App, class Mode>
  std::string operator()(const App* app, const std::string& name, Mode /*mode*/) const {
    std::string usage = name + " [OPTIONS]";
    for (const auto* option : app->get_options([](const auto* o) { return o->get_positional(); }))
      usage += " " + describe(*option).first;
    Help help(usage, app->get_description());
    const auto is_last = [](const auto* o) {
      return o->check_name("--help") || o->check_name("--version");
    };
    for (const std::string& topic : app->get_groups()) {
      const auto options =
          app->get_options([&](const auto* o) { return o->get_group() == topic && !is_last(o); });
      if (topic.empty() || options.empty()) continue;
      help.topic(topic);
      for (const auto* option : options) add(help, *option);
    }
    help.topic("Other options");
    for (const auto* option : app->get_options(is_last)) add(help, *option);
    help.add(app->get_footer());
    return help.str();
  }

 private:
  struct Option {
    std::string names, type, text, initial;
    bool many, required;
  };
  static std::pair<std::string, std::string> described(const Option& option);

  template <class O>
  static std::pair<std::string, std::string> describe(const O& o) {
    return described({o.get_positional() ? o.get_single_name() : o.get_name(false, true),
                      o.get_type_size() != 0 ? o.get_type_name() : "", o.get_description(),
                      o.get_default_str(), o.get_items_expected_max() > 1, o.get_required()});
  }
  template <class O>
  static void add(Help& help, const O& o) {
    auto [names, text] = describe(o);
    help.option(std::move(names), std::move(text));
  }
};

/// Gives a CLI::App the look of all programs: of help, of errors, and --version. `examples` are
/// shown at the end of its help: a command, or "command    # what it does".
template <class App>
void set_up_cli(App& app, const std::vector<std::string>& examples) {
  app.formatter_fn(CliHelp());
  app.failure_message(usage_error);
  app.set_version_flag("--version", app.get_name() + " " + version(),
                       "print the version of Ferrite");
  std::string text;
  for (const std::string& example : examples)
    text += (text.empty() ? "Examples:\n  " : "\n  ") + example;
  app.footer(text);
}

/// A line that is overwritten by what is shown next. Elsewhere than on a terminal it shows nothing.
class Line {
 public:
  explicit Line(std::FILE* stream = stdout) : stream_(stream), shown_(redraws(stream)) {}
  ~Line() { clear(); }
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;

  /// Whether the line is shown.
  bool shown() const { return shown_; }
  /// The text is cut to the terminal's width.
  void show(std::string_view text);
  void clear();

 private:
  std::FILE* stream_;
  bool shown_, dirty_ = false;
};

/// Rows of cells below a heading; columns are as wide as their widest cell, two spaces apart.
class Table {
 public:
  struct Column {
    std::string title;
    Align align = Align::right;
    std::size_t width = 0;  ///< at least
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// A row may have fewer cells than there are columns; its last cell may be as long as it is
  /// without widening its column.
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  /// An empty line between rows.
  void add_gap() { rows_.emplace_back(); }

  /// Lines, each with its end and without spaces before it.
  std::string str() const { return text(nullptr); }
  /// The same, with a heading in bold where the stream shows styles.
  void print(std::FILE* stream = stdout) const;

 private:
  std::string text(std::FILE* stream) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace ferrite::terminal
