// The connections of a group's ranks by Gloo, over TCP, with waits that end: Gloo's own timeouts
// are of one wait each, and a wait that another thread has reason to end goes on until then.
#pragma once

#include <gloo/context.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "parallel/comm/backend.h"
#include "parallel/comm/link.h"

namespace ferrite::parallel {

/// What Gloo's functions take as their context. Once an operation has failed the connections are
/// gone, and all later ones fail.
class GlooMesh final : public gloo::Context {
 public:
  /// What a rank tells the others as it connects, and what they all said, rank by rank.
  using Note = std::string;

  /// By all ranks of the group together: DistributedError, naming a rank, where they do not come
  /// within the group's timeout, or are lost meanwhile. Binds to the interface GLOO_SOCKET_IFNAME
  /// (the first of them where it is a list), else to that by which the store is reached.
  static std::shared_ptr<GlooMesh> connect(const GroupContext& context, const Note& note,
                                           std::vector<Note>& notes);
  ~GlooMesh() override;

  /// As long as it lives, Gloo's waits end when `interrupt` says so, in the thread that runs.
  class Operation {
   public:
    Operation(GlooMesh& mesh, const Interrupt& interrupt);
    ~Operation();
    Operation(const Operation&) = delete;
    Operation& operator=(const Operation&) = delete;

   private:
    GlooMesh& mesh_;
  };

  /// Ends waits, and closes the connections: the other ranks notice. Any thread, any number of
  /// times.
  void cancel() noexcept;

  struct Guard;

 private:
  GlooMesh(int rank, int size);
  void exchange(const GroupContext& context, const Note& note, std::vector<Note>& notes,
                const Interrupt& interrupt);

  const std::shared_ptr<Guard> guard_;
  std::shared_ptr<gloo::transport::Context> tcp_;
};

}  // namespace ferrite::parallel
