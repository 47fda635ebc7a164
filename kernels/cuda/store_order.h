#pragma once

#include <cstdint>

namespace ferrite::kernels::cuda {

/// The direction in which results lie most densely, along which threads store them.
enum class Along : std::uint8_t { columns, rows };

/// How a thread stores.
struct StoreOrder {
  Along along = Along::columns;
  bool packed = false;  // 16 bytes of results lie side by side, and are aligned
};

}  // namespace ferrite::kernels::cuda
