// The gloo backend of a build without Gloo.
#include "ferrite/core/error.h"
#include "ferrite/parallel/comm/backend.h"

namespace ferrite::parallel {

bool has_gloo() { return false; }

std::shared_ptr<ProcessGroup> make_gloo_group(const GroupContext&) {
  fail<Error>("gloo",
              "this build of Ferrite has no Gloo: install it (on Debian or Ubuntu: apt-get install "
              "libgloo-dev), configure again with -DFERRITE_GLOO=ON, and build");
}

}  // namespace ferrite::parallel
