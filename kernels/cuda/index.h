#pragma once

#include "ferrite/kernels/index.h"

namespace ferrite::kernels::cuda {

void gather(const Stream& stream, const char* op, const View& out, const View& x, const View& index,
            int dim);
void index_select(const Stream& stream, const char* op, const View& out, const View& x,
                  const View& index, int dim);

void scatter(const Stream& stream, const char* op, const View& out, const View& index,
             const View& source, int dim);
void scatter_add(const Stream& stream, const char* op, const View& out, const View& index,
                 const View& source, int dim);
void index_add(const Stream& stream, const char* op, const View& out, const View& index,
               const View& source, int dim, Scalar alpha);

}  // namespace ferrite::kernels::cuda
