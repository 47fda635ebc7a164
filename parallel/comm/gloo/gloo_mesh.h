// Gloo's algorithms over Ferrite's links: a Gloo transport that opens no connections, so that a
// group's collectives get the protection of links, and their speed within one host.
#pragma once

#include <gloo/context.h>

#include <memory>

#include "ferrite/parallel/comm/links/link.h"

namespace ferrite::parallel::gloo {

/// The context passed to Gloo's functions. Used by one thread at a time, within an Operation; the
/// thread also does the sending and receiving while it waits. After an operation has failed, all
/// later ones fail. Supports only algorithms with unbound buffers, which includes all newer ones.
class GlooMesh final : public ::gloo::Context {
 public:
  /// `links` must outlive it; other code may use them between operations.
  GlooMesh(links::LinkMesh& links, int rank, int size);
  ~GlooMesh() override;

  /// While it lives, Gloo's waits in the running thread end when `interrupt` is triggered.
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

}  // namespace ferrite::parallel::gloo
