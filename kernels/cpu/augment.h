#pragma once

#include "ferrite/kernels/augment.h"

namespace ferrite::kernels::cpu {

void augment(const View& out, const View& images, const AugmentArgs& args, PhiloxState state);

}  // namespace ferrite::kernels::cpu
