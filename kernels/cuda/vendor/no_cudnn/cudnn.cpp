#include "ferrite/kernels/cuda/vendor/cudnn.h"

#include "ferrite/kernels/vendor.h"

namespace ferrite {

bool cudnn::is_available() { return false; }
std::string cudnn::version() { return ""; }

namespace kernels::cuda::vendor {

bool conv2d(const Stream&, const View&, const View&, const View&, const View&, const ConvParams&,
            ConvEpilogue) {
  return false;
}
bool conv2d_sums(const Stream&, const View&, const View&, const View&, const View&, const View&,
                 const ConvParams&) {
  return false;
}
bool conv2d_data(const Stream&, const View&, const View&, const View&, const ConvParams&, bool) {
  return false;
}
bool conv2d_weight(const Stream&, const View&, const View&, const View&, const ConvParams&) {
  return false;
}
bool attention(const Stream&, const AttentionOperands&, const View&, const View&) { return false; }
bool attention_backward(const Stream&, const AttentionOperands&, const AttentionGradients&,
                        const View&, const View&, const View&) {
  return false;
}
PlanReport report_plans(const ConvProblem&, const std::string&, std::size_t) {
  return {.why_not = "built without cuDNN"};
}
PlanReport report_plans(const AttentionProblem&, const std::string&, std::size_t) {
  return {.why_not = "built without cuDNN"};
}

}  // namespace kernels::cuda::vendor

}  // namespace ferrite
