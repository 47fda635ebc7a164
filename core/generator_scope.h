// Random numbers once more, for a function that is run again.
#pragma once

#include "ferrite/core/generator.h"

namespace ferrite {

/// While it lives, what this thread draws from `generator` are the numbers that begin at `state`:
/// neither the generator nor the other threads that draw from it notice. Seeding it or setting its
/// state in this thread moves those numbers alone. Scopes nest, and end in the reverse order.
/// Captures of CUDA graphs know of no scopes.
class GeneratorScope {
 public:
  GeneratorScope(const Generator& generator, const PhiloxState& state);
  ~GeneratorScope();
  GeneratorScope(const GeneratorScope&) = delete;
  GeneratorScope& operator=(const GeneratorScope&) = delete;

  /// The state that this thread has for `generator`; null outside of any scope of it.
  static PhiloxState* find(const Generator& generator);

 private:
  const Generator* const generator_;
  PhiloxState state_;
  GeneratorScope* const outer_;
};

}  // namespace ferrite
