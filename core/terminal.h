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
#include <vector>

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
