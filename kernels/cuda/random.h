#pragma once

#include "ferrite/core/fwd.h"
#include "ferrite/kernels/random.h"

namespace ferrite::kernels::cuda {

void uniform(const Stream& stream, const View& out, PhiloxState state, double low, double high);
void normal(const Stream& stream, const View& out, PhiloxState state, double mean, double std);
void random_integers(const Stream& stream, const View& out, PhiloxState state, std::int64_t low,
                     std::int64_t high);
void bernoulli(const Stream& stream, const View& out, PhiloxState state, double p);
void bernoulli(const Stream& stream, const View& out, PhiloxState state, const View& p);
void permutation(const Stream& stream, const View& out, PhiloxState state);

}  // namespace ferrite::kernels::cuda
