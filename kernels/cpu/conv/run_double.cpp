#include "ferrite/kernels/cpu/conv/run.h"

namespace ferrite::kernels::cpu {

template void correlate_forward<double>(const View&, const View&, const View&, const View&,
                                        const ConvParams&);
template void correlate_backward<double>(const View&, const View&, const View&, const View&,
                                         const ConvParams&);
template void weight_gradient<double>(const View&, const View&, const View&, const View&,
                                      const ConvParams&);

}  // namespace ferrite::kernels::cpu
