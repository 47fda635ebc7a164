// Reductions over memory of all ranks at once.
#pragma once

#include <cstdint>
#include <span>

#include "core/dtype.h"
#include "parallel/comm/reduce_op.h"

namespace ferrite::parallel::local {

/// out[i] = the reduction over all s of sources[s][i], in the order of the sources; 16-bit types
/// in float32, rounded once. `out` may be one of the sources.
void reduce(void* out, std::span<const void* const> sources, std::int64_t numel, DType dtype,
            ReduceOp op);

}  // namespace ferrite::parallel::local
