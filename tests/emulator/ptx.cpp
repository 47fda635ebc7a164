#include "ferrite/tests/emulator/ptx.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <utility>

namespace emulator_test::ptx {

namespace {

[[noreturn]] void refuse(const Statement& s, const std::string& why) {
  throw std::runtime_error(s.place + ": " + s.text + ": " + why);
}

std::string without_blanks(std::string text) {
  std::erase_if(text, [](unsigned char c) { return std::isspace(c); });
  return text;
}

/// Splits at `separator` outside of brackets and strings.
std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"' && (i == 0 || text[i - 1] != '\\')) quoted = !quoted;
    if (!quoted && std::strchr("([{", c)) ++depth;
    if (!quoted && std::strchr(")]}", c)) --depth;
    if (c == separator && depth == 0 && !quoted)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

/// What the string literals in a text say together.
std::string literals(const std::string& text) {
  std::string result;
  bool quoted = false;
  for (const char c : text) {
    if (c == '"')
      quoted = !quoted;
    else if (quoted)
      result += c;
  }
  return result;
}

/// The condition of the nearest `if constexpr` before a statement; its negation behind an else.
std::string condition_before(const std::string& source, std::size_t at) {
  const std::size_t begin = source.rfind("if constexpr (", at);
  const std::size_t function = source.rfind("\n}\n", at);
  if (begin == std::string::npos || (function != std::string::npos && function > begin)) return "";
  std::size_t end = begin + std::strlen("if constexpr (");
  const std::size_t from = end;
  for (int depth = 1; depth; ++end) depth += (source[end] == '(') - (source[end] == ')');
  const std::string condition = without_blanks(source.substr(from, end - 1 - from));
  const std::size_t other = source.find("else", end);
  return other < at ? "!(" + condition + ")" : condition;
}

Statement parse(const std::string& source, std::size_t at, const std::string& inside) {
  Statement s;
  s.condition = condition_before(source, at);
  const std::vector<std::string> parts = split(inside, ':');
  s.text = literals(parts.at(0));
  for (std::size_t list = 1; list < parts.size() && list < 3; ++list)
    for (const std::string& operand : split(parts[list], ',')) {
      const std::size_t open = operand.find('('), close = operand.rfind(')');
      if (open == std::string::npos) continue;
      s.operands.push_back({literals(operand.substr(0, open)),
                            without_blanks(operand.substr(open + 1, close - open - 1))});
    }
  return s;
}

double from_half(unsigned bits) {
  const int exponent = static_cast<int>(bits >> 10 & 31), fraction = static_cast<int>(bits & 1023);
  const double sign = bits >> 15 & 1 ? -1 : 1;
  if (exponent == 31)
    return fraction ? std::numeric_limits<double>::quiet_NaN()
                    : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}
double from_bfloat16(unsigned bits) {
  return static_cast<double>(std::bit_cast<float>((bits & 0xffffu) << 16));
}

/// Rounded to the nearest number of a binary format with this many bits behind the leading one and
/// this least exponent, the one with an even last bit of two.
double rounded(double x, int fraction_bits, int least_exponent) {
  if (x == 0 || !std::isfinite(x)) return x;
  const int exponent = std::max(std::ilogb(x), least_exponent);
  const double unit = std::ldexp(1.0, exponent - fraction_bits);
  return std::nearbyint(x / unit) * unit;
}

/// The bits of a number that the format has: sign, exponent with this bias, fraction.
unsigned encode(double x, int fraction_bits, int bias) {
  const unsigned sign = std::signbit(x) ? 0x8000u : 0u;
  const unsigned infinity = (2u * static_cast<unsigned>(bias) + 1u) << fraction_bits;
  if (std::isnan(x)) return 0x7fffu;
  x = std::fabs(rounded(x, fraction_bits, 1 - bias));
  if (x >= std::ldexp(1.0, bias + 1)) return sign | infinity;
  const int exponent = x == 0 ? 1 - bias : std::max(std::ilogb(x), 1 - bias);
  const auto fraction = static_cast<unsigned>(std::ldexp(x, fraction_bits - exponent));
  // A leading one in the fraction adds one to the exponent of a subnormal number, which is 0.
  return sign | ((static_cast<unsigned>(exponent + bias - 1) << fraction_bits) + fraction);
}

}  // namespace

std::vector<Statement> statements_of(const std::string& file, const std::string& source) {
  std::vector<Statement> found;
  for (std::size_t at = source.find("asm"); at != std::string::npos;
       at = source.find("asm", at + 3)) {
    const auto is_word = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
    };
    if ((at && is_word(source[at - 1])) || is_word(source[at + 3])) continue;
    std::size_t open = at + 3;
    for (const char* word : {" ", "volatile", " "})
      while (source.compare(open, std::strlen(word), word) == 0) open += std::strlen(word);
    if (source[open] != '(') continue;
    std::size_t end = open + 1;
    bool quoted = false;
    for (int depth = 1; depth; ++end) {
      if (source[end] == '"') quoted = !quoted;
      if (!quoted) depth += (source[end] == '(') - (source[end] == ')');
    }
    found.push_back(parse(source, at, source.substr(open + 1, end - open - 2)));
    found.back().place =
        file + ":" +
        std::to_string(1 +
                       std::count(source.begin(), source.begin() + static_cast<long>(at), '\n'));
  }
  return found;
}

/// The operands of an instruction in the order of its text. Each is a list of registers or numbers;
/// lists in braces have several, others one.
class Machine::Arguments {
 public:
  Arguments(Machine& machine, const Statement& statement)
      : machine_(machine), statement_(statement) {
    std::string text = statement.text;
    if (text.empty() || text.back() != ';' || text.find(';') + 1 != text.size())
      refuse(statement, "not one instruction");
    text.pop_back();
    const std::size_t begin = text.find(' ');
    if (begin == std::string::npos) return;
    for (std::string part : split(text.substr(begin), ',')) {
      part = without_blanks(part);
      const char first = part.empty() ? ' ' : part.front();
      const bool address = first == '[', several = first == '{';
      if (address || several) part = part.substr(1, part.size() - 2);
      lists_.push_back({address, split(part, ',')});
    }
  }

  std::size_t count() const { return lists_.size(); }
  void expect(std::size_t least, std::size_t most) const {
    if (count() < least || count() > most) refuse(statement_, "another number of operands");
  }

  /// Element i of operand k. `kind` is the type of register that the instruction wants there.
  std::uint64_t read(int lane, std::size_t k, std::size_t i, char kind) const {
    const std::string& name = element(k, i);
    if (name.front() != '%') return std::stoull(name, nullptr, 0);
    const Operand& o = operand(name);
    if (o.constraint.front() == '=') refuse(statement_, name + " is read, but an output");
    const char type = o.constraint.back();
    if (type != kind && type != 'n') refuse(statement_, name + " has the wrong type of register");
    const Values& values = machine_.lanes[static_cast<std::size_t>(lane)];
    const auto value = values.find(o.expression);
    if (value == values.end()) refuse(statement_, "no value for " + o.expression);
    return value->second;
  }
  float read_float(int lane, std::size_t k, std::size_t i) const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(read(lane, k, i, 'f')));
  }
  std::uint64_t read_address(int lane, std::size_t k, char kind) const {
    if (!lists_.at(k).address) refuse(statement_, "no address where one belongs");
    return read(lane, k, 0, kind);
  }
  void write(int lane, std::size_t k, std::size_t i, char kind, std::uint64_t value) const {
    const Operand& o = operand(element(k, i));
    if (o.constraint.front() != '=' && o.constraint.front() != '+')
      refuse(statement_, o.expression + " is written, but no output");
    if (o.constraint.back() != kind) refuse(statement_, o.expression + " has the wrong type");
    machine_.lanes[static_cast<std::size_t>(lane)][o.expression] = value;
  }
  void expect_elements(std::size_t k, std::size_t elements) const {
    if (lists_.at(k).elements.size() != elements)
      refuse(statement_, "operand " + std::to_string(k) + " has another number of registers");
  }
  const Statement& statement() const { return statement_; }

 private:
  struct List {
    bool address;
    std::vector<std::string> elements;
  };
  const std::string& element(std::size_t k, std::size_t i) const {
    return lists_.at(k).elements.at(i);
  }
  const Operand& operand(const std::string& name) const {
    return statement_.operands.at(std::stoul(name.substr(1)));
  }

  Machine& machine_;
  const Statement& statement_;
  std::vector<List> lists_;
};

/// "Matrix Fragments for mma.m16n8k16 with floating point type", 16-bit types: elements of a row of
/// A, and of a column of B, are in pairs in a register, the lower index in the lower half.
void Machine::multiply(const Arguments& arguments, bool half) {
  arguments.expect(4, 4);
  for (const auto& [operand, registers] :
       {std::pair<std::size_t, std::size_t>{0, 4}, {1, 4}, {2, 2}, {3, 4}})
    arguments.expect_elements(operand, registers);
  double a[16][16] = {}, b[16][8] = {}, c[16][8] = {};
  const auto element = [&](int lane, std::size_t operand, std::size_t i) {
    const auto pair = static_cast<unsigned>(arguments.read(lane, operand, i / 2, 'r'));
    const unsigned bits = i % 2 ? pair >> 16 : pair & 0xffffu;
    return half ? from_half(bits) : from_bfloat16(bits);
  };
  for (int lane = 0; lane < 32; ++lane) {
    const int group = lane >> 2, in_group = lane % 4;
    for (int i = 0; i < 8; ++i) {
      const int row = i < 2 || (i >= 4 && i < 6) ? group : group + 8;
      const int column = in_group * 2 + (i & 1) + (i >= 4 ? 8 : 0);
      a[row][column] = element(lane, 1, static_cast<std::size_t>(i));
    }
    for (int i = 0; i < 4; ++i)
      b[in_group * 2 + (i & 1) + (i >= 2 ? 8 : 0)][group] =
          element(lane, 2, static_cast<std::size_t>(i));
    for (int i = 0; i < 4; ++i)
      c[i < 2 ? group : group + 8][in_group * 2 + (i & 1)] =
          static_cast<double>(arguments.read_float(lane, 3, static_cast<std::size_t>(i)));
  }
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 4; ++i) {
      const int row = i < 2 ? lane >> 2 : (lane >> 2) + 8, column = lane % 4 * 2 + (i & 1);
      double sum = c[row][column];
      for (int k = 0; k < 16; ++k) sum += a[row][k] * b[k][column];
      arguments.write(lane, 0, static_cast<std::size_t>(i), 'f',
                      std::bit_cast<std::uint32_t>(static_cast<float>(sum)));
    }
}

/// .x4: lanes 8 m to 8 m + 7 give the addresses of the rows of matrix m. Lane l receives elements
/// 2 (l % 4) and the next one of row l / 4; with .trans, of column l / 4.
void Machine::load_matrices(const Arguments& arguments, bool transpose) {
  arguments.expect(2, 2);
  arguments.expect_elements(0, 4);
  const auto element = [&](int matrix, int row, int column) -> std::uint64_t {
    const std::uint64_t address = arguments.read_address(8 * matrix + row, 1, 'r');
    if (address % 16) refuse(arguments.statement(), "a row is not aligned to 16 bytes");
    const std::size_t at = address + static_cast<std::size_t>(2 * column);
    return static_cast<std::uint64_t>(shared.at(at)) | std::uint64_t{shared.at(at + 1)} << 8;
  };
  std::uint64_t results[32][4];
  for (int lane = 0; lane < 32; ++lane)
    for (int m = 0; m < 4; ++m) {
      const int line = lane / 4, first = 2 * (lane % 4);
      results[lane][m] = transpose ? element(m, first, line) | element(m, first + 1, line) << 16
                                   : element(m, line, first) | element(m, line, first + 1) << 16;
    }
  for (int lane = 0; lane < 32; ++lane)
    for (std::size_t m = 0; m < 4; ++m) arguments.write(lane, 0, m, 'r', results[lane][m]);
}

/// cp-size is 4, 8 or 16 bytes, and 16 with .cg; behind src-size bytes of them come zeros.
void Machine::begin_copies(const Arguments& arguments, bool level_two_only) {
  arguments.expect(3, 4);
  for (int lane = 0; lane < 32; ++lane) {
    const std::uint64_t to = arguments.read_address(lane, 0, 'r');
    const std::uint64_t from = arguments.read_address(lane, 1, 'l');
    const std::uint64_t bytes = arguments.read(lane, 2, 0, 'n');
    const std::uint64_t source = arguments.count() == 4 ? arguments.read(lane, 3, 0, 'r') : bytes;
    if (bytes != 16 && (level_two_only || (bytes != 4 && bytes != 8)))
      refuse(arguments.statement(), "no such cp-size");
    if (source > bytes) refuse(arguments.statement(), "src-size is above cp-size");
    if (to % bytes || (source && from % bytes)) refuse(arguments.statement(), "not aligned");
    Copy copy{to, std::vector<unsigned char>(bytes)};
    if (source) std::memcpy(copy.bytes.data(), reinterpret_cast<const void*>(from), source);
    copies_[static_cast<std::size_t>(lane)].open.push_back(copy);
  }
}

void Machine::finish_copies(std::uint64_t groups_in_flight) {
  for (Copies& copies : copies_)
    while (copies.groups.size() > groups_in_flight) {
      for (const Copy& copy : copies.groups.front())
        for (std::size_t i = 0; i < copy.bytes.size(); ++i) shared.at(copy.to + i) = copy.bytes[i];
      copies.groups.erase(copies.groups.begin());
    }
}

void Machine::convert(const Arguments& arguments, const std::string& to) {
  arguments.expect(2, 2);
  for (int lane = 0; lane < 32; ++lane) {
    if (to == "f32") {
      const auto value =
          static_cast<float>(from_half(static_cast<unsigned>(arguments.read(lane, 1, 0, 'h'))));
      arguments.write(lane, 0, 0, 'f', std::bit_cast<std::uint32_t>(value));
    } else {
      const auto value = static_cast<double>(arguments.read_float(lane, 1, 0));
      arguments.write(lane, 0, 0, 'h', to == "f16" ? encode(value, 10, 15) : encode(value, 7, 127));
    }
  }
}

void Machine::execute(const Statement& statement) {
  const Arguments arguments(*this, statement);
  const std::string opcode = statement.opcode();
  if (opcode == "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32") {
    multiply(arguments, true);
  } else if (opcode == "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32") {
    multiply(arguments, false);
  } else if (opcode == "ldmatrix.sync.aligned.m8n8.x4.shared.b16") {
    load_matrices(arguments, false);
  } else if (opcode == "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16") {
    load_matrices(arguments, true);
  } else if (opcode == "cp.async.cg.shared.global") {
    begin_copies(arguments, true);
  } else if (opcode == "cp.async.ca.shared.global") {
    begin_copies(arguments, false);
  } else if (opcode == "cp.async.commit_group") {
    arguments.expect(0, 0);
    for (Copies& copies : copies_) copies.groups.push_back(std::exchange(copies.open, {}));
  } else if (opcode == "cp.async.wait_group") {
    arguments.expect(1, 1);
    finish_copies(arguments.read(0, 0, 0, 'n'));
  } else if (opcode == "cvt.f32.f16") {
    convert(arguments, "f32");
  } else if (opcode == "cvt.rn.f16.f32") {
    convert(arguments, "f16");
  } else if (opcode == "cvt.rn.bf16.f32") {
    convert(arguments, "bf16");
  } else {
    refuse(statement, "the interpreter does not know this instruction");
  }
}

}  // namespace emulator_test::ptx
