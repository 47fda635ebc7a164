// In place of kernels/cpu/conv/onednn where oneDNN is not built in.
#include "ferrite/kernels/cpu/conv/engines.h"

namespace ferrite::kernels::cpu::onednn {

bool available() { return false; }
bool conv2d(const View&, const View&, const View&, const View&, const ConvParams&) { return false; }
bool conv2d_data(const View&, const View&, const View&, const View&, const ConvParams&) {
  return false;
}
bool conv2d_weight(const View&, const View&, const View&, const View&, const ConvParams&) {
  return false;
}

}  // namespace ferrite::kernels::cpu::onednn
