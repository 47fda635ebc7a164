// The plans that cuDNN offers for a problem on a described device, for tests.
#pragma once

#include <algorithm>
#include <string>

#include "ferrite/kernels/cuda/vendor/cudnn.h"
#include "ferrite/kernels/cuda/vendor/cudnn/graph.h"

namespace ferrite::kernels::cuda::vendor {

template <class Problem>
PlanReport report_of(const Problem& problem, const std::string& device, std::size_t most) {
  PlanReport report;
#if CUDNN_VERSION >= 90800
  const Cudnn* const cudnn = cudnn_library();
  if (!cudnn || cudnn->get_version() < 90800) {
    report.why_not = cudnn ? "cuDNN before 9.8" : why_not_loaded();
    return report;
  }
  try {
    Descriptor properties(*cudnn, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    properties
        .set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
             std::span<const char>(device))
        .finalize();
    report.asked = true;
    const Plans plans = plans_of(PlanTarget{*cudnn, nullptr, &properties}, problem);
    report.offered = plans.size();
    for (std::size_t i = 0; i < std::min(plans.size(), most); ++i)
      if (plans.make(i)) ++report.usable;
    report.why_not = plans.why_not();
  } catch (const NotSupported& refusal) {
    report.why_not = refusal.why;
  }
#else
  report.why_not = "built with a cuDNN before 9.8";
#endif
  return report;
}

}  // namespace ferrite::kernels::cuda::vendor
