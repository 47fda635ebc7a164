#pragma once

#include <cstdint>

namespace ferrite::kernels::cuda {

/// The direction in which results have the smallest stride; threads store along it.
enum class Along : std::uint8_t { columns, rows };

/// How a thread stores.
struct StoreOrder {
  Along along = Along::columns;
  bool packed = false;  // each 16 bytes of results are contiguous and aligned
};

}  // namespace ferrite::kernels::cuda
