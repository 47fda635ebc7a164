// The vendor's libraries that may make products and convolutions on CUDA devices: whether they are
// there, and how they are to be used. Settings hold for the whole process and for calls made after
// them. Without a library our own kernels serve.
#pragma once

#include <cstdint>
#include <string>

namespace ferrite::cublas {

/// Whether this build has cuBLASLt, and the library can be loaded.
bool is_available();
/// "13.0.2"; "" where it is not there.
std::string version();
/// Off: our own kernels make all products. On at first, unless FERRITE_CUBLAS=0.
void set_enabled(bool on);
bool is_enabled();
/// Whether float32 products may round their inputs to TF32 (10 bits) for the tensor cores. Off at
/// first, as in PyTorch.
void set_allow_tf32(bool on);
bool allow_tf32();
/// On: the first product of each kind times several plans and keeps the fastest, for which the host
/// waits; not while a graph is captured, nor under use_deterministic_algorithms(). Off at first:
/// the library's heuristic chooses.
void set_benchmark(bool on);
bool benchmark();

}  // namespace ferrite::cublas

namespace ferrite::cudnn {

/// Whether this build has cuDNN, and the library can be loaded.
bool is_available();
/// "9.8.0"; "" where it is not there.
std::string version();
/// Off: our own kernels convolve. On at first, unless FERRITE_CUDNN=0.
void set_enabled(bool on);
bool is_enabled();
/// On: the first convolution of each kind times several plans and keeps the fastest, for which the
/// host waits; not while a graph is captured. Off at first: the library's heuristic chooses.
void set_benchmark(bool on);
bool benchmark();
/// On: only plans that give the same bits on every run; use_deterministic_algorithms() implies it.
void set_deterministic(bool on);
bool deterministic();
/// Whether a convolution before a batch norm in training adds up its result's channels as it writes
/// them, where cuDNN has that for a 16-bit type: 9.19 has for float16, channels-last, in packs of 8
/// channels. The variance is the mean of squares minus the square of the mean, which loses digits
/// where the mean is far from zero. On at first.
void set_fused_statistics(bool on);
bool fused_statistics();
/// Whether float32 convolutions may round their inputs to TF32. On at first, as in PyTorch, unless
/// FERRITE_TF32=0.
void set_allow_tf32(bool on);
bool allow_tf32();
/// The most scratch memory that a convolution may ask for, in bytes; at first 1 GiB.
void set_workspace_limit(std::int64_t bytes);
std::int64_t workspace_limit();

}  // namespace ferrite::cudnn
