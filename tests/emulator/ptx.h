// Inline PTX: the statements of the sources, and an interpreter of what the PTX ISA documents of
// their instructions. It shares nothing with the emulator's replacements, which are held against
// it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace emulator_test::ptx {

struct Operand {
  std::string constraint;  // "=r", "+f", "n", ...
  std::string expression;  // without blanks
};

struct Statement {
  std::string place;      // file:line
  std::string condition;  // of the `if constexpr` that it is in, with ! in front in its else branch
  std::string text;
  std::vector<Operand> operands;

  std::string opcode() const { return text.substr(0, text.find_first_of(" ;")); }
};

/// The asm statements in a source without comments.
std::vector<Statement> statements_of(const std::string& file, const std::string& source);

/// Values by the expressions of operands, as bits.
using Values = std::map<std::string, std::uint64_t>;

/// A warp, and its block's shared memory. Addresses of global memory are the host's.
class Machine {
 public:
  explicit Machine(std::size_t shared_bytes = 0) : shared(shared_bytes) {}

  /// Throws std::runtime_error if the statement breaks a rule of the instruction, or if nothing is
  /// known of it.
  void execute(const Statement& statement);

  std::array<Values, 32> lanes;
  std::vector<unsigned char> shared;

 private:
  struct Copy {
    std::uint64_t to;
    std::vector<unsigned char> bytes;
  };
  struct Copies {
    std::vector<Copy> open;
    std::vector<std::vector<Copy>> groups;
  };

  class Arguments;
  void multiply(const Arguments& arguments, bool half);
  void load_matrices(const Arguments& arguments, bool transpose);
  void begin_copies(const Arguments& arguments, bool level_two_only);
  void finish_copies(std::uint64_t groups_in_flight);
  void convert(const Arguments& arguments, const std::string& to);

  std::array<Copies, 32> copies_;
};

}  // namespace emulator_test::ptx
