#include "ferrite/emulator/mma.h"

#include <cstring>

namespace emulator {

namespace {

struct Operands {
  const unsigned* a;
  const unsigned* b;
};

float from_half(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  float value;
  if (exponent == 31)
    value = fraction ? __builtin_nanf("") : __builtin_inff();
  else if (exponent == 0)
    value = static_cast<float>(fraction) * 0x1p-24f;
  else
    value = static_cast<float>(1024 + fraction) * __builtin_ldexpf(1.0f, exponent - 25);
  return bits >> 15 ? -value : value;
}
float from_bits(unsigned bits) { return std::bit_cast<float>(bits); }

template <MmaType type>
void unpack(unsigned pair, float* first, float* second) {
  if (type == MmaType::f16) {
    *first = from_half(static_cast<std::uint16_t>(pair));
    *second = from_half(static_cast<std::uint16_t>(pair >> 16));
  } else {
    *first = from_bits(pair << 16);
    *second = from_bits(pair & 0xffff0000u);
  }
}

/// d += A B of whole matrices; lane 4 g + q holds rows g and g + 8, columns 2 q and 2 q + 1.
template <int kDepth>
void multiply(WarpRequest* const* lanes, const float (&a)[16][kDepth],
              const float (&b)[kDepth][8]) {
  for (int lane = 0; lane < 32; ++lane) {
    float* const d = static_cast<float*>(lanes[lane]->out);
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + 8 * (i / 2), column = lane % 4 * 2 + i % 2;
      float sum = d[i];
      for (int k = 0; k < kDepth; ++k) sum += a[row][k] * b[k][column];
      d[i] = sum;
    }
  }
}

template <MmaType type>
void execute_m16n8k16(WarpRequest* const* lanes, unsigned) {
  float a[16][16], b[16][8];
  for (int lane = 0; lane < 32; ++lane) {
    const auto& in = *static_cast<const Operands*>(lanes[lane]->in);
    const int g = lane / 4, q = lane % 4;
    for (int i = 0; i < 4; ++i) {
      float* const pair = &a[g + 8 * (i % 2)][2 * q + 8 * (i / 2)];
      unpack<type>(in.a[i], pair, pair + 1);
    }
    for (int i = 0; i < 2; ++i)
      unpack<type>(in.b[i], &b[2 * q + 8 * i][g], &b[2 * q + 8 * i + 1][g]);
  }
  multiply(lanes, a, b);
}

void execute_m16n8k8(WarpRequest* const* lanes, unsigned) {
  constexpr unsigned kTf32 = 0xffffe000u;
  float a[16][8], b[8][8];
  for (int lane = 0; lane < 32; ++lane) {
    const auto& in = *static_cast<const Operands*>(lanes[lane]->in);
    const int g = lane / 4, q = lane % 4;
    for (int i = 0; i < 4; ++i) a[g + 8 * (i % 2)][q + 4 * (i / 2)] = from_bits(in.a[i] & kTf32);
    for (int i = 0; i < 2; ++i) b[q + 4 * i][g] = from_bits(in.b[i] & kTf32);
  }
  multiply(lanes, a, b);
}

using Row = std::uint16_t[8];

/// a: number of matrices, b: whether they are transposed.
void execute_exchange(WarpRequest* const* lanes, unsigned) {
  for (int lane = 0; lane < 32; ++lane) {
    const WarpRequest& mine = *lanes[lane];
    auto* const registers = static_cast<unsigned*>(mine.out);
    for (int m = 0; m < mine.a; ++m) {
      const auto element = [&](int row, int column) -> unsigned {
        return (*static_cast<const Row*>(lanes[8 * m + row]->in))[column];
      };
      const int g = lane / 4, q = 2 * (lane % 4);
      registers[m] = mine.b ? element(q, g) | element(q + 1, g) << 16
                            : element(g, q) | element(g, q + 1) << 16;
    }
  }
}

constexpr unsigned kAll = 0xffffffffu;

}  // namespace

void mma_m16n8k16(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2], MmaType type,
                  const char* file, int line) {
  const Operands in{a, b};
  WarpRequest request{
      type == MmaType::f16 ? execute_m16n8k16<MmaType::f16> : execute_m16n8k16<MmaType::bf16>,
      kAll,
      &in,
      d,
      0,
      0,
      "mma.m16n8k16",
      file,
      line};
  warp_collective(request);
}

void mma_m16n8k8_tf32(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2],
                      const char* file, int line) {
  const Operands in{a, b};
  WarpRequest request{execute_m16n8k8, kAll, &in, d, 0, 0, "mma.m16n8k8.tf32", file, line};
  warp_collective(request);
}

void exchange_matrices(unsigned* registers, const std::uint16_t (&row)[8], int count,
                       bool transpose, const char* file, int line) {
  WarpRequest request{execute_exchange, kAll,       &row, registers, count,
                      transpose,        "ldmatrix", file, line};
  warp_collective(request);
}

}  // namespace emulator
