#include "ferrite/kernels/cpu/conv/run.h"

namespace ferrite::kernels::cpu {

template void correlate_forward<BFloat16>(const View&, const View&, const View&, const View&,
                                          const ConvParams&);
template void correlate_backward<BFloat16>(const View&, const View&, const View&, const View&,
                                           const ConvParams&);
template void weight_gradient<BFloat16>(const View&, const View&, const View&, const View&,
                                        const ConvParams&);

}  // namespace ferrite::kernels::cpu
