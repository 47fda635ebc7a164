// Repeats random numbers for a function that is run again.
#pragma once

#include "ferrite/core/generator.h"

namespace ferrite {

/// While it lives, this thread draws from `generator` the numbers that begin at `state`. The
/// generator itself, and other threads that draw from it, are not affected. Seeding the generator
/// or setting its state in this thread changes only the scope's state. Scopes nest, and end in
/// reverse order. Captures of CUDA graphs ignore scopes.
class GeneratorScope {
 public:
  GeneratorScope(const Generator& generator, const PhiloxState& state);
  ~GeneratorScope();
  GeneratorScope(const GeneratorScope&) = delete;
  GeneratorScope& operator=(const GeneratorScope&) = delete;

  /// This thread's state for `generator`; null outside any scope for it.
  static PhiloxState* find(const Generator& generator);

 private:
  const Generator* const generator_;
  PhiloxState state_;
  GeneratorScope* const outer_;
};

}  // namespace ferrite
