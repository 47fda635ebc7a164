#include "ferrite/core/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace ferrite::terminal {

namespace {

constexpr std::string_view kReset = "\033[0m", kStartOver = "\r\033[K", kGap = "  ";

std::string_view variable(const char* name) {
  const char* text = std::getenv(name);
  return text ? text : "";
}

std::string_view code(Style style) {
  switch (style) {
    case Style::bold:
      return "\033[1m";
    case Style::dim:
      return "\033[2m";
    case Style::red:
      return "\033[31m";
    case Style::green:
      return "\033[32m";
    case Style::yellow:
      return "\033[33m";
  }
  return "";
}

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

void write(std::FILE* stream, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stream);
}

}  // namespace

void flush_lines() {
  if (!isatty(fileno(stdout))) std::setvbuf(stdout, nullptr, _IOLBF, 0);
}

bool redraws(std::FILE* stream) {
  const std::string_view kind = variable("TERM");
  return isatty(fileno(stream)) != 0 && !kind.empty() && kind != "dumb";
}

bool has_styles(std::FILE* stream) { return redraws(stream) && variable("NO_COLOR").empty(); }

int width(std::FILE* stream) {
  winsize size{};
  return ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string styled(std::string_view text, Style style, std::FILE* stream) {
  if (!has_styles(stream)) return std::string(text);
  return std::string(code(style)).append(text).append(kReset);
}

std::string with_heading(std::string text, std::size_t line, std::FILE* stream) {
  if (!stream || !has_styles(stream)) return text;
  std::size_t begin = 0;
  for (; line > 0 && begin < text.size(); --line)
    begin = std::min(text.find('\n', begin), text.size() - 1) + 1;
  const std::size_t end = std::min(text.find('\n', begin), text.size());
  return text.replace(
      begin, end - begin,
      styled(std::string_view(text).substr(begin, end - begin), Style::bold, stream));
}

std::string error_line(std::string_view text) {
  return styled("error:", Style::red, stderr).append(" ").append(text).append("\n");
}

std::string usage_error(const void* /*app*/, const std::exception& error) {
  return error_line(error.what()) + "Run with --help for more information.\n";
}

// ---- Text in columns

std::size_t text_columns(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, begins_character));
}

std::string text_cut(std::string_view text, std::size_t columns) {
  std::size_t end = 0;
  for (; end < text.size(); ++end)
    if (begins_character(text[end]) && columns-- == 0) break;
  while (end > 0 && text[end - 1] == ' ') --end;
  return std::string(text.substr(0, end));
}

std::string text_padded(std::string_view text, std::size_t columns, Align align) {
  const std::size_t taken = text_columns(text);
  const std::string spaces(columns > taken ? columns - taken : 0, ' ');
  return align == Align::left ? std::string(text) + spaces : spaces + std::string(text);
}

std::vector<std::string_view> text_split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == text.npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string counted(std::int64_t n, std::string_view word, std::string_view plural) {
  std::string text = std::to_string(n).append(" ");
  if (n == 1) return text.append(word);
  return plural.empty() ? text.append(word).append("s") : text.append(plural);
}

// ---- Help

namespace {

constexpr std::size_t kLeastWidth = 40, kMostWidth = 100, kMostColumn = 32;

/// The words of `text` on lines that begin in column `column`; `line` is the first one so far.
std::string wrapped(std::string line, std::size_t column, std::string_view text,
                    std::size_t columns) {
  std::string lines;
  line.resize(line.size() + column - std::min(column, text_columns(line)), ' ');
  std::size_t used = column;
  for (const std::string_view word : text_split(text, ' ')) {
    const std::size_t size = text_columns(word);
    if (used > column && used + 1 + size > columns) {
      lines += line + "\n";
      line.assign(column, ' ');
      used = column;
    }
    if (used > column) line += ' ';
    used += size + (used > column);
    line += word;
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return lines + line + "\n";
}

}  // namespace

std::string Help::str(std::FILE* stream) const {
  const auto most = static_cast<std::size_t>(stream ? width(stream) : 80);
  const std::size_t columns = std::clamp(most, kLeastWidth, kMostWidth);
  const auto heading = [&](std::string_view text) {
    return stream ? styled(text, Style::bold, stream) : std::string(text);
  };
  std::string out = heading("Usage:") + " " + usage_ + "\n";
  if (!description_.empty()) out.append("\n").append(wrapped("", 0, description_, columns));
  std::size_t column = 0;
  for (const Row& row : rows_)
    if (const std::size_t used = text_columns(row.left) + 4; !row.heading && used <= kMostColumn)
      column = std::max(column, used);
  for (const Row& row : rows_) {
    if (row.heading) {
      out.append("\n").append(heading(row.left + ":")).append("\n");
      continue;
    }
    std::string line = std::string("  ").append(row.left);
    if (text_columns(line) + 2 > column && !row.text.empty()) {
      out += line + "\n";
      line.clear();
    }
    out += wrapped(line, column, row.text, columns);
  }
  for (const std::string& lines : rest_) {
    if (lines.empty()) continue;
    out += "\n";
    for (const std::string_view line : text_split(lines, '\n'))
      out += line.starts_with(' ') ? std::string(line) + "\n"
             : line.ends_with(':') ? heading(line) + "\n"
                                   : wrapped("", 0, line, columns);
  }
  return out;
}

/// From CLI11's "TEXT:{a,b}" to "TEXT" and "(one of a, b)".
std::pair<std::string, std::string> CliHelp::described(const Option& option) {
  std::string names;
  for (const std::string_view name : text_split(option.names, ','))  // "--no-x{false}"
    names.append(names.empty() ? "" : ", ").append(name.substr(0, name.find('{')));
  const std::size_t colon = option.type.find(':');
  std::string_view type = std::string_view(option.type).substr(0, colon);
  if (type == "INT" || type == "UINT") type = "N";
  if (type == "FLOAT") type = "NUMBER";
  if (type == "BOOLEAN") type = "BOOL";
  const bool positional = !names.starts_with('-');
  if (!type.empty() && !positional) names.append(" ").append(type);
  if (option.many) names += "...";

  std::string text = names.ends_with("--help") ? "print this help" : option.text;
  const auto list = [](std::string_view values) {
    std::string words;
    for (const std::string_view value : text_split(values, ','))
      words.append(words.empty() ? "" : ", ").append(value);
    return words;
  };
  std::vector<std::string> notes;
  const std::size_t open = option.type.find('{'), close = option.type.rfind('}');
  if (open != std::string::npos && close != std::string::npos && close > open)
    notes.push_back("one of " + list(option.type.substr(open + 1, close - open - 1)));
  std::string_view initial = option.initial;
  if (initial.starts_with('[') && initial.ends_with(']'))
    initial = initial.substr(1, initial.size() - 2);
  if (!initial.empty()) notes.push_back("default " + list(initial));
  if (option.required) notes.emplace_back("required");
  for (std::size_t i = 0; i < notes.size(); ++i) {
    // A remark in parentheses at the end of the text is continued.
    const bool more = i > 0 || text.ends_with(')');
    if (more) text.pop_back();
    text += (more ? "; " : text.empty() ? "(" : " (") + notes[i] + ")";
  }
  return {names, text};
}

// ---- Line

void Line::show(std::string_view text) {
  if (!shown_) return;
  // One column less than available: some terminals wrap when the last is written.
  const auto most = static_cast<std::size_t>(std::max(width(stream_) - 1, 0));
  write(stream_, std::string(kStartOver) + text_cut(text, most));
  std::fflush(stream_);
  dirty_ = true;
}

void Line::clear() {
  if (!dirty_) return;
  write(stream_, kStartOver);
  std::fflush(stream_);
  dirty_ = false;
}

// ---- Table

std::string Table::text(std::FILE* stream) const {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    std::size_t most = std::max(columns_[c].width, text_columns(columns_[c].title));
    for (const auto& row : rows_)
      if (c + 1 < row.size() ||
          (c < row.size() && row.size() == columns_.size() && columns_[c].align == Align::right))
        most = std::max(most, text_columns(row[c]));
    widths.push_back(most);
  }
  const auto line = [&](const auto& cell, std::size_t cells) {
    std::string text;
    for (std::size_t c = 0; c < cells; ++c) {
      const bool last_of_few = c + 1 == cells && cells < columns_.size();
      if (c > 0) text += kGap;
      text += text_padded(cell(c), widths[c], last_of_few ? Align::left : columns_[c].align);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
  };
  const std::string heading =
      line([&](std::size_t c) -> const std::string& { return columns_[c].title; }, columns_.size());
  std::string out = (stream ? styled(heading, Style::bold, stream) : heading) + "\n";
  for (const auto& row : rows_)
    out += line([&](std::size_t c) -> const std::string& { return row[c]; }, row.size()) + "\n";
  return out;
}

void Table::print(std::FILE* stream) const { write(stream, text(stream)); }

}  // namespace ferrite::terminal
