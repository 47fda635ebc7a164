// Warp-wide operations.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstring>

#include "ferrite/tests/emulator/planted/planted.h"

using namespace planted;

namespace {

constexpr unsigned kAll = 0xffffffffu;

template <bool bug>
__global__ void reverse(const float* x, float* y) {
  EMULATOR_SHARED(tile, float[32]);
  tile[threadIdx.x] = x[threadIdx.x];
  if (!bug) __syncwarp();
  y[threadIdx.x] = tile[31 - threadIdx.x];
}

__global__ void shuffle_after_return(float* x, unsigned n) {
  if (threadIdx.x >= n) return;
  x[threadIdx.x] = __shfl_down_sync(kAll, 1.0f, 1);
}
__global__ void return_after_shuffle(float* x) {
  if (threadIdx.x == 7) return;
  x[threadIdx.x] = __shfl_xor_sync(kAll, 1.0f, 1);
}
__global__ void shuffle_without_itself(float* x) {
  x[threadIdx.x] = __shfl_sync(0x0000fffeu, 1.0f, 1);
}
__global__ void shuffle_from_outside(float* x) {
  if (threadIdx.x < 16) x[threadIdx.x] = __shfl_xor_sync(0x0000ffffu, 1.0f, 16);
}
__global__ void shuffle(float* x) { x[threadIdx.x] = __shfl_xor_sync(kAll, 1.0f, 1); }
__global__ void two_operations(float* x) {
  const float v = threadIdx.x < 16 ? __shfl_xor_sync(kAll, 1.0f, 1) : 0.0f;
  x[threadIdx.x] = v + static_cast<float>(__any_sync(kAll, 1));
}

/// Each operation once, with a value that identifies a failure.
__global__ void every_operation(unsigned* wrong) {
  const unsigned lane = threadIdx.x % 32, t = threadIdx.x;
  const auto expect = [&](unsigned number, bool right) {
    if (!right) atomicOr(wrong, 1u << number);
  };
  const auto value = static_cast<float>(t);
  const float base = value - static_cast<float>(lane);
  expect(0, __shfl_sync(kAll, value, 3) == base + 3);
  expect(1, __shfl_sync(kAll, t, static_cast<int>(lane) + 1, 8) == t - lane % 8 + (lane + 1) % 8);
  expect(2, __shfl_up_sync(kAll, value, 2) == (lane < 2 ? value : value - 2));
  expect(3, __shfl_down_sync(kAll, value, 2, 16) == (lane % 16 > 13 ? value : value + 2));
  expect(4, __shfl_xor_sync(kAll, static_cast<double>(t), 5) == static_cast<double>(t ^ 5));
  expect(5, __ballot_sync(kAll, lane % 2) == 0xaaaaaaaau);
  expect(6, __any_sync(kAll, lane == 9) && !__any_sync(kAll, 0));
  expect(7, __all_sync(kAll, 1) && !__all_sync(kAll, lane != 9));
  expect(8, __reduce_add_sync(kAll, lane) == 496 && __reduce_max_sync(kAll, lane) == 31);
  expect(9, __reduce_min_sync(kAll, static_cast<int>(lane) - 9) == -9);
  expect(10, __match_any_sync(kAll, lane / 4) == 0xfu << lane / 4 * 4);
  int all = 1;
  expect(11, __match_all_sync(kAll, lane, &all) == 0 && all == 0);
  expect(12, __half2float(__shfl_xor_sync(kAll, __float2half(static_cast<float>(lane)), 1)) ==
                 static_cast<float>(lane ^ 1));
  // The halves of a warp diverge.
  if (lane < 16)
    expect(13, __shfl_xor_sync(0x0000ffffu, lane, 1, 16) == (lane ^ 1));
  else
    expect(13, __reduce_add_sync(0xffff0000u, 1u) == 16);
  __syncwarp();
  expect(14, __activemask() >> lane & 1);
}

__global__ void half_arithmetic(__half* h, __nv_bfloat16* b, float* wrong) {
  const __half two = __float2half(2.0f), three = __float2half(3.0f);
  const __nv_bfloat16 four = __float2bfloat16(4.0f);
  if (__half2float(__hfma(two, three, two)) != 8.0f) *wrong = 1;
  if (__half2float(hexp(__float2half(0.0f))) != 1.0f) *wrong = 2;
  if (__bfloat162float(hsqrt(four)) != 2.0f) *wrong = 3;
  const __half2 sum = __hfma2(__half2(two, three), __half2(two, two), __half2(two, two));
  if (__low2float(sum) != 6.0f || __high2float(sum) != 8.0f) *wrong = 4;
  atomicAdd(h, two);
  atomicAdd(b, four);
}

template <bool bug>
__global__ void copy_asynchronously(const float* x, float* y) {
  EMULATOR_SHARED_ALIGNED(16, tile, float[2][128]);
  const unsigned t = threadIdx.x;
  for (unsigned stage = 0; stage < 2; ++stage) {
    ::emulator::async_copy(&tile[stage][4 * t], x + 128 * stage + 4 * t, 16, 16);
    ::emulator::async_commit();
  }
  for (unsigned stage = 0; stage < 2; ++stage) {
    if (!bug) ::emulator::async_wait(stage == 0 ? 1 : 0);
    __syncthreads();
    for (unsigned i = t; i < 128; i += 32) y[128 * stage + i] = tile[stage][127 - i];
  }
}

/// 16x8 = 16x16 times 16x8, operands read by ldmatrix.
__global__ void tensor_core(const __half* a, const __half* b, float* c, float* c_tf32) {
  EMULATOR_SHARED_ALIGNED(16, as, __half[16][16]);
  EMULATOR_SHARED_ALIGNED(16, bs, __half[16][8]);
  const unsigned lane = threadIdx.x;
  for (unsigned i = lane; i < 256; i += 32) as[i / 16][i % 16] = a[i];
  for (unsigned i = lane; i < 128; i += 32) bs[i / 8][i % 8] = b[i];
  __syncwarp();
  unsigned fa[4], fb[2];
  ::emulator::load_matrices(fa, &as[lane % 16][lane / 16 * 8], false);
  ::emulator::load_matrices(fb, &bs[lane % 16][0], true);
  float d[4] = {};
  ::emulator::mma_m16n8k16(d, fa, fb, ::emulator::MmaType::f16);
  const unsigned row = lane / 4, column = lane % 4 * 2;
  for (unsigned i = 0; i < 4; ++i) c[(row + i / 2 * 8) * 8 + column + i % 2] = d[i];
  // The same in two steps of depth 8.
  float e[4] = {};
  for (unsigned k = 0; k < 16; k += 8) {
    unsigned ta[4], tb[2];
    for (unsigned i = 0; i < 4; ++i)
      ta[i] = __float_as_uint(__half2float(as[row + i % 2 * 8][k + lane % 4 + i / 2 * 4]));
    for (unsigned i = 0; i < 2; ++i)
      tb[i] = __float_as_uint(__half2float(bs[k + lane % 4 + i * 4][row]));
    ::emulator::mma_m16n8k8_tf32(e, ta, tb);
  }
  for (unsigned i = 0; i < 4; ++i) c_tf32[(row + i / 2 * 8) * 8 + column + i % 2] = e[i];
}

template <class Kernel>
bool run_on_floats(const char* name, Kernel kernel, unsigned threads) {
  const Array<float> x(64);
  launch({1, threads}, name, kernel, x.get());
  return true;
}
template <bool bug>
bool run_reverse() {
  const Array<float> x(counting(32)), y(32);
  launch({1, 32}, "reverse", reverse<bug>, x.get(), y.get());
  return y.value() == 31 && y.values()[31] == 0;
}
template <bool bug>
bool run_copy() {
  const Array<float> x(counting(256)), y(256);
  launch({1, 32}, "copy_asynchronously", copy_asynchronously<bug>, x.get(), y.get());
  const auto values = y.values();
  return values[0] == 127 && values[127] == 0 && values[128] == 255 && values[255] == 128;
}

}  // namespace

PLANTED(warp_reverse) { return run_reverse<false>(); }
PLANTED(warp_reverse_without_syncwarp) { return run_reverse<true>(); }
PLANTED(shuffle_names_returned_lanes) {
  const Array<float> x(32);
  launch({1, 32}, "shuffle_after_return", shuffle_after_return, x.get(), 20u);
  return true;
}
PLANTED(lane_returns_while_others_wait) {
  return run_on_floats("return_after_shuffle", return_after_shuffle, 32);
}
PLANTED(shuffle_mask_without_itself) {
  return run_on_floats("shuffle_without_itself", shuffle_without_itself, 32);
}
PLANTED(shuffle_reads_lane_outside_of_mask) {
  return run_on_floats("shuffle_from_outside", shuffle_from_outside, 32);
}
PLANTED(shuffle_in_partial_warp) { return run_on_floats("shuffle", shuffle, 20); }
PLANTED(lanes_in_different_operations) {
  return run_on_floats("two_operations", two_operations, 32);
}
PLANTED(warp_operations) {
  const Array<unsigned> wrong(std::vector<unsigned>{0});
  launch({2, 96}, "every_operation", every_operation, wrong.get());
  if (wrong.value()) std::printf("wrong operations: %x\n", wrong.value());
  return wrong.value() == 0;
}
PLANTED(halves) {
  const Array<__half> h(std::vector<__half>{__half(0.0f)});
  const Array<__nv_bfloat16> b(std::vector<__nv_bfloat16>{__nv_bfloat16(0.0f)});
  const Array<float> wrong(std::vector<float>{0});
  launch({2, 8}, "half_arithmetic", half_arithmetic, h.get(), b.get(), wrong.get());
  return wrong.value() == 0 && __half2float(h.value()) == 32 && __bfloat162float(b.value()) == 64;
}
PLANTED(async_copies) { return run_copy<false>(); }
PLANTED(async_copies_not_waited_for) { return run_copy<true>(); }
PLANTED(tensor_cores) {
  std::vector<__half> a(256), b(128);
  std::vector<float> expected(128);
  for (std::size_t i = 0; i < 256; ++i) a[i] = __half(static_cast<float>(i % 13) - 6);
  for (std::size_t i = 0; i < 128; ++i) b[i] = __half(static_cast<float>(i % 7) - 3);
  for (std::size_t i = 0; i < 16; ++i)
    for (std::size_t j = 0; j < 8; ++j)
      for (std::size_t k = 0; k < 16; ++k)
        expected[i * 8 + j] += __half2float(a[i * 16 + k]) * __half2float(b[k * 8 + j]);
  const Array<__half> x(a), y(b);
  const Array<float> c(128), c_tf32(128);
  launch({1, 32}, "tensor_core", tensor_core, x.get(), y.get(), c.get(), c_tf32.get());
  return c.values() == expected && c_tf32.values() == expected;
}
