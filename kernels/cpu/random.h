#pragma once

#include "ferrite/kernels/random.h"

namespace ferrite::kernels::cpu {

void uniform(const View& out, PhiloxState state, double low, double high);
void normal(const View& out, PhiloxState state, double mean, double std);
void random_integers(const View& out, PhiloxState state, std::int64_t low, std::int64_t high);
void bernoulli(const View& out, PhiloxState state, double p);
void bernoulli(const View& out, PhiloxState state, const View& p);
void permutation(const View& out, PhiloxState state);

}  // namespace ferrite::kernels::cpu
