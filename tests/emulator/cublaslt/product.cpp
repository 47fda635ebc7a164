#include "ferrite/tests/emulator/cublaslt/product.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "ferrite/core/half.h"

namespace emulator::cublaslt {

namespace {

std::size_t size_of(cudaDataType type) {
  return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2;
}

double get(const void* data, std::int64_t i, cudaDataType type) {
  switch (type) {
    case CUDA_R_64F:
      return static_cast<const double*>(data)[i];
    case CUDA_R_32F:
      return static_cast<double>(static_cast<const float*>(data)[i]);
    case CUDA_R_16F:
      return static_cast<double>(static_cast<float>(static_cast<const ferrite::Half*>(data)[i]));
    default:
      return static_cast<double>(
          static_cast<float>(static_cast<const ferrite::BFloat16*>(data)[i]));
  }
}

void set(void* data, std::int64_t i, cudaDataType type, double value) {
  const auto narrow = static_cast<float>(value);
  switch (type) {
    case CUDA_R_64F:
      static_cast<double*>(data)[i] = value;
      return;
    case CUDA_R_32F:
      static_cast<float*>(data)[i] = narrow;
      return;
    case CUDA_R_16F:
      static_cast<ferrite::Half*>(data)[i] = narrow;
      return;
    default:
      static_cast<ferrite::BFloat16*>(data)[i] = narrow;
  }
}

double gelu_tanh(double x) {
  return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}

bool has(std::uint32_t epilogue, std::uint32_t flag) { return (epilogue & flag) == flag; }

constexpr std::uint32_t kReluGradient = CUBLASLT_EPILOGUE_DRELU & ~128u, kKeeps = 128;

bool keeps_bits(const Description& d) {
  return has(d.epilogue, CUBLASLT_EPILOGUE_RELU_AUX) || has(d.epilogue, CUBLASLT_EPILOGUE_DRELU);
}

bool is_aligned(const void* data, std::uintptr_t bytes) {
  return reinterpret_cast<std::uintptr_t>(data) % bytes == 0;
}

bool is_valid(const Layout& l) {
  return l.rows > 0 && l.columns > 0 && l.leading >= static_cast<std::int64_t>(l.rows) &&
         l.batch >= 1;
}

/// The number of elements of all matrices; of one matrix if they share memory.
std::uint64_t span(const Layout& l) {
  return l.rows * l.columns * static_cast<std::uint64_t>(l.batch_stride == 0 ? 1 : l.batch);
}

/// The operand as its operation leaves it: [rows, depth] of values in a row.
struct Operand {
  const void* data;
  Layout layout;
  bool transposed;

  std::int64_t rows() const {
    return static_cast<std::int64_t>(transposed ? layout.columns : layout.rows);
  }
  std::int64_t columns() const {
    return static_cast<std::int64_t>(transposed ? layout.rows : layout.columns);
  }
  double at(std::int64_t batch, std::int64_t row, std::int64_t column) const {
    if (transposed) std::swap(row, column);
    return get(data, batch * layout.batch_stride + row + column * layout.leading, layout.type);
  }
};

/// The bit of a ReLU's result in memory.
struct Bit {
  std::uint8_t* byte;
  std::uint8_t mask;

  Bit(const Description& d, std::int64_t batch, std::int64_t row, std::int64_t column) {
    const std::int64_t at = batch * d.auxiliary_batch_stride + column * d.auxiliary_leading + row;
    byte = static_cast<std::uint8_t*>(d.auxiliary) + at / 8;
    mask = static_cast<std::uint8_t>(1u << (at % 8));
  }
  bool get() const { return (*byte & mask) != 0; }
  void set(bool on) const { *byte = static_cast<std::uint8_t>(on ? *byte | mask : *byte & ~mask); }
};

/// The result at a place, and what the epilogue stores beside it.
double finished(const Product& p, std::int64_t batch, std::int64_t row, std::int64_t column,
                double value) {
  const Description& d = p.description;
  const std::uint32_t e = d.epilogue;
  if (has(e, CUBLASLT_EPILOGUE_BIAS)) value += get(d.vector, row, p.out.type);
  if (has(e, kReluGradient)) return Bit(d, batch, row, column).get() ? value : 0;
  if (has(e, CUBLASLT_EPILOGUE_RELU)) {
    if (has(e, kKeeps)) Bit(d, batch, row, column).set(value > 0);
    return value > 0 ? value : 0;  // NaN is lost, as in the library
  }
  if (has(e, CUBLASLT_EPILOGUE_GELU)) {
    if (has(e, kKeeps)) {
      const std::int64_t at = batch * d.auxiliary_batch_stride + column * d.auxiliary_leading + row;
      set(d.auxiliary, at, p.out.type, value);
      value = get(d.auxiliary, at, p.out.type);
    }
    return gelu_tanh(value);
  }
  return value;
}

void sum_rows(const Product& p, const Operand& of, bool by_row) {
  const std::int64_t n = by_row ? of.rows() : of.columns();
  const std::int64_t depth = by_row ? of.columns() : of.rows();
  for (std::int64_t i = 0; i < n; ++i) {
    double sum = 0;
    for (std::int64_t k = 0; k < depth; ++k) sum += by_row ? of.at(0, i, k) : of.at(0, k, i);
    set(p.description.vector, i, p.out.type, sum);
  }
}

Operand left_of(const Product& p) {
  return {p.left_data, p.left, p.description.left == CUBLAS_OP_T};
}
Operand right_of(const Product& p) {
  return {p.right_data, p.right, p.description.right == CUBLAS_OP_T};
}

}  // namespace

bool Product::is_supported() const {
  const Operand a = left_of(*this), b = right_of(*this);
  const std::uint32_t e = description.epilogue;
  const bool sums = e == CUBLASLT_EPILOGUE_BGRADA || e == CUBLASLT_EPILOGUE_BGRADB;
  if (!is_valid(left) || !is_valid(right) || !is_valid(out)) return false;
  if (left.type != out.type || right.type != out.type) return false;
  if (a.columns() != b.rows() || static_cast<std::int64_t>(out.rows) != a.rows() ||
      static_cast<std::int64_t>(out.columns) != b.columns())
    return false;
  if (out.type == CUDA_R_64F && e != CUBLASLT_EPILOGUE_DEFAULT) return false;
  if ((sums || has(e, CUBLASLT_EPILOGUE_BIAS)) && !description.vector) return false;
  if (sums && out.batch > 1) return false;
  if (!has(e, kKeeps)) return true;
  const auto rows = static_cast<std::int64_t>(out.rows);
  const std::int64_t multiple = keeps_bits(description) ? 128 : 8;
  return description.auxiliary && is_aligned(description.auxiliary, 16) &&
         description.auxiliary_leading >= rows && description.auxiliary_leading % multiple == 0 &&
         description.auxiliary_batch_stride % multiple == 0;
}

void Product::compute() const {
  const Operand a = left_of(*this), b = right_of(*this);
  const std::int64_t rows = a.rows(), columns = b.columns(), depth = a.columns();
  if (description.epilogue == CUBLASLT_EPILOGUE_BGRADA) sum_rows(*this, a, true);
  if (description.epilogue == CUBLASLT_EPILOGUE_BGRADB) sum_rows(*this, b, false);
  std::vector<double> sums(static_cast<std::size_t>(rows));
  for (std::int64_t batch = 0; batch < out.batch; ++batch)
    for (std::int64_t column = 0; column < columns; ++column) {
      std::ranges::fill(sums, 0.0);
      for (std::int64_t k = 0; k < depth; ++k) {
        const double right = b.at(batch, k, column);
        for (std::int64_t row = 0; row < rows; ++row)
          sums[static_cast<std::size_t>(row)] += a.at(batch, row, k) * right;
      }
      for (std::int64_t row = 0; row < rows; ++row) {
        const std::int64_t at = batch * out.batch_stride + row + column * out.leading;
        double value = alpha * sums[static_cast<std::size_t>(row)];
        if (beta != 0) value += beta * get(out_data, at, out.type);
        set(out_data, at, out.type, finished(*this, batch, row, column, value));
      }
    }
}

void Product::clear() const {
  for (std::int64_t batch = 0; batch < out.batch; ++batch)
    for (std::uint64_t column = 0; column < out.columns; ++column)
      std::memset(static_cast<std::byte*>(out_data) +
                      (batch * out.batch_stride + static_cast<std::int64_t>(column) * out.leading) *
                          static_cast<std::int64_t>(size_of(out.type)),
                  0, out.rows * size_of(out.type));
  const std::uint32_t e = description.epilogue;
  if (e == CUBLASLT_EPILOGUE_BGRADA)
    std::memset(description.vector, 0, out.rows * size_of(out.type));
  if (e == CUBLASLT_EPILOGUE_BGRADB)
    std::memset(description.vector, 0, out.columns * size_of(out.type));
}

std::uint64_t Product::bytes_read() const {
  std::uint64_t bytes =
      (span(left) + span(right) + (beta != 0 ? span(out) : 0)) * size_of(out.type);
  if (has(description.epilogue, CUBLASLT_EPILOGUE_BIAS)) bytes += out.rows * size_of(out.type);
  if (has(description.epilogue, CUBLASLT_EPILOGUE_DRELU)) bytes += span(out) / 8;
  return bytes;
}

std::uint64_t Product::bytes_written() const {
  const std::uint32_t e = description.epilogue;
  std::uint64_t bytes = span(out) * size_of(out.type);
  if (e == CUBLASLT_EPILOGUE_BGRADA) bytes += out.rows * size_of(out.type);
  if (e == CUBLASLT_EPILOGUE_BGRADB) bytes += out.columns * size_of(out.type);
  if (has(e, CUBLASLT_EPILOGUE_RELU_AUX)) bytes += span(out) / 8;
  if (has(e, CUBLASLT_EPILOGUE_GELU_AUX)) bytes += span(out) * size_of(out.type);
  return bytes;
}

std::uint64_t Product::operations() const {
  return 2 * out.rows * out.columns * static_cast<std::uint64_t>(left_of(*this).columns()) *
         static_cast<std::uint64_t>(out.batch);
}

}  // namespace emulator::cublaslt
