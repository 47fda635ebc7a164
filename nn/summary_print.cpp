// Printing of summaries.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ostream>
#include <ranges>

#include "ferrite/nn/summary.h"

namespace ferrite::nn {

namespace {

/// 11,689,512
std::string grouped(std::int64_t n) {
  std::string digits = std::to_string(n);
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<std::size_t>(at), 1, ',');
  return digits;
}

std::string or_dashes(std::int64_t n) { return n == 0 ? "--" : grouped(n); }

/// 1.81 G
std::string scaled(std::int64_t n) {
  constexpr std::pair<double, const char*> kUnits[] = {
      {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}};
  for (const auto& [factor, unit] : kUnits)
    if (static_cast<double>(n) >= factor)
      return fmt::format("{:.2f} {}", static_cast<double>(n) / factor, unit);
  return std::to_string(n);
}

std::string megabytes(std::int64_t n) {
  return fmt::format("{:.2f} MB", static_cast<double>(n) / 1e6);
}

/// The number of characters of UTF-8 text: all bytes except continuation bytes.
std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

using Cells = std::array<std::string, 5>;

/// The branches that lead to row `i`: "│  └─".
std::string branches(const std::vector<SummaryRow>& rows, std::size_t i) {
  std::string out;
  for (int level = 1; level <= rows[i].depth; ++level) {
    // Whether the row above at this level, or this one, has siblings below.
    const auto next = std::find_if(rows.begin() + static_cast<std::ptrdiff_t>(i) + 1, rows.end(),
                                   [&](const SummaryRow& r) { return r.depth <= level; });
    const bool more = next != rows.end() && next->depth == level;
    if (level == rows[i].depth)
      out += more ? "├─" : "└─";
    else
      out += more ? "│  " : "   ";
  }
  return out;
}

std::string shapes(const SummaryRow& row) {
  std::string out;
  for (const Shape& s : row.output_shapes) out += (out.empty() ? "" : ", ") + s.str();
  return out.empty() ? "--" : out;
}

Cells cells(const Summary& summary, std::size_t i) {
  const SummaryRow& row = summary.rows[i];
  const bool folded = row.depth == summary.depth && !row.is_leaf;
  const std::int64_t parameters = folded ? row.parameters : row.own_parameters;
  const std::string name =
      row.path.empty() ? row.type
                       : fmt::format("{} ({})", row.path.substr(row.path.rfind('.') + 1), row.type);
  return {branches(summary.rows, i) + name + (row.calls > 1 ? fmt::format(" x{}", row.calls) : ""),
          shapes(row), or_dashes(parameters),
          row.parameters == 0               ? "--"
          : row.trainable == row.parameters ? "yes"
          : row.trainable == 0              ? "no"
                                            : "partly",
          folded || row.own_multiply_adds
              ? or_dashes(folded ? row.multiply_adds : *row.own_multiply_adds)
              : "?"};
}

}  // namespace

std::string Summary::str() const {
  std::vector<Cells> table = {
      {"Layer (type)", "Output shape", "Parameters", "Trainable", "Multiply-adds"}};
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i].depth <= depth) table.push_back(cells(*this, i));
  std::array<std::size_t, 5> widths = {};
  for (const Cells& line : table)
    for (std::size_t c = 0; c < line.size(); ++c) widths[c] = std::max(widths[c], width(line[c]));
  std::size_t all = 2 * (widths.size() - 1);
  for (const std::size_t w : widths) all += w;
  const std::string rule = std::string(all, '-') + "\n";

  std::string out;
  for (std::size_t l = 0; l < table.size(); ++l) {
    for (std::size_t c = 0; c < widths.size(); ++c) {
      const std::string pad(widths[c] - width(table[l][c]), ' ');
      const bool number = c == 2 || c == 4;
      out += number ? pad + table[l][c] : table[l][c] + pad;
      if (c + 1 < widths.size()) out += "  ";
    }
    out += l == 0 ? "\n" + rule : "\n";
  }
  out +=
      rule + fmt::format("Parameters: {}, {} of them trainable, {} frozen\n", grouped(parameters),
                         grouped(trainable), grouped(parameters - trainable));
  out += fmt::format("Multiply-adds: {}{}\n", scaled(multiply_adds),
                     multiply_adds_known ? "" : ", without the layers marked ?");
  out +=
      fmt::format("Memory: input {}, activations forward and backward {}, parameters {}, in all {}",
                  megabytes(input_bytes), megabytes(activation_bytes), megabytes(parameter_bytes),
                  megabytes(input_bytes + activation_bytes + parameter_bytes));
  return out;
}

std::ostream& operator<<(std::ostream& out, const Summary& summary) { return out << summary.str(); }

}  // namespace ferrite::nn
