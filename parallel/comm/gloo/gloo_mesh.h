// Gloo's algorithms over Ferrite's links: a transport of Gloo's that opens no connections of its
// own, so that a group's collectives are as well protected, and as fast within one host, as links.
#pragma once

#include <gloo/context.h>

#include <memory>

#include "ferrite/parallel/comm/links/link.h"

namespace ferrite::parallel {

/// What Gloo's functions take as their context. One thread at a time, within an Operation, which
/// also does the sending and receiving while it waits. Once an operation has failed, all later ones
/// do. Only algorithms that use unbound buffers, which all the newer ones are.
class GlooMesh final : public gloo::Context {
 public:
  /// `links` outlives it; between operations others may use them.
  GlooMesh(links::LinkMesh& links, int rank, int size);
  ~GlooMesh() override;

  /// As long as it lives, Gloo's waits end when `interrupt` says so, in the thread that runs.
  class Operation {
   public:
    Operation(GlooMesh& mesh, const links::Interrupt& interrupt);
    ~Operation();
    Operation(const Operation&) = delete;
    Operation& operator=(const Operation&) = delete;

   private:
    GlooMesh& mesh_;
  };

 private:
  class Transport;
  class Buffer;
  std::shared_ptr<Transport> transport_;
};

}  // namespace ferrite::parallel
