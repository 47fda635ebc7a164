#pragma once

#include "ferrite/kernels/pool.h"

namespace ferrite::kernels::cpu {

void max_pool2d(const Pool2d& pool, const View& out, const View& code, const View& in);
void max_pool2d_backward(const Pool2d& pool, const View& grad_in, const View& grad_out,
                         const View& code);
void max_pool2d_gather(const Pool2d& pool, const View& out, const View& in, const View& code);
void max_pool2d_indices(const Pool2d& pool, const View& indices, const View& code);
void avg_pool2d(const Pool2d& pool, const View& out, const View& in);
void avg_pool2d_backward(const Pool2d& pool, const View& grad_in, const View& grad_out);

}  // namespace ferrite::kernels::cpu
