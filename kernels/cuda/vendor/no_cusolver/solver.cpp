#include "ferrite/core/error.h"
#include "ferrite/kernels/cuda/vendor/cusolver.h"
#include "ferrite/kernels/vendor.h"

namespace ferrite {

bool cusolver::is_available() { return false; }
std::string cusolver::version() { return ""; }

namespace kernels::cuda::solver {

namespace {

[[noreturn]] void fail_absent() { fail<CudaError>("linalg", "this build has no cuSOLVER"); }

}  // namespace

bool is_usable() { return false; }

void potrf(const Stream&, const View&, const View&) { fail_absent(); }
DType pivots_of(const View&) { fail_absent(); }
void getrf(const Stream&, const View&, const View&, const View&) { fail_absent(); }
void getrs(const Stream&, const View&, const View&, const View&, const View&) { fail_absent(); }
void geqrf(const Stream&, const View&, const View&, const View&) { fail_absent(); }
void orgqr(const Stream&, const View&, const View&, const View&, const View&) { fail_absent(); }
void syevd(const Stream&, const View&, const View&, const View&) { fail_absent(); }
bool has_gesvdj(const View&) { fail_absent(); }
void gesvdj(const Stream&, const View&, const View&, const View&, const View&, const View&) {
  fail_absent();
}
void gesvd(const Stream&, const View&, const View&, const View&, const View&, const View&) {
  fail_absent();
}

}  // namespace kernels::cuda::solver

}  // namespace ferrite
