#pragma once

#include "ferrite/kernels/index.h"

namespace ferrite::kernels::cpu {

void gather(const char* op, const View& out, const View& x, const View& index, int dim);
void scatter(const char* op, const View& out, const View& index, const View& source, int dim);
void scatter_add(const char* op, const View& out, const View& index, const View& source, int dim);
void index_select(const char* op, const View& out, const View& x, const View& index, int dim);
void index_add(const char* op, const View& out, const View& index, const View& source, int dim,
               Scalar alpha);
void masked_fill(const View& out, const View& x, const View& mask, Scalar value);
void count_nonzero(const View& out, const View& x);
void nonzero(const View& out, const View& x);
void triangle(const View& out, const View& x, Triangle part, std::int64_t diagonal);

}  // namespace ferrite::kernels::cpu
