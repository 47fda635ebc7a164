// Availability and settings of the vendor libraries for matrix products, convolutions, attention,
// factors of matrices and Fourier transforms on CUDA devices. Settings apply to the whole process
// and to later calls. Without a library, our own kernels are used, or, for factors, the host; there
// are none for Fourier transforms.
#pragma once

#include <cstdint>
#include <string>

namespace ferrite::cublas {

/// Whether this build supports cuBLASLt and the library can be loaded.
bool is_available();
/// For example "13.0.2"; "" if the library is not available.
std::string version();
/// If off, our own kernels compute all products. Initially on, unless FERRITE_CUBLAS=0.
void set_enabled(bool on);
/// Whether the library is used.
bool is_enabled();
/// Whether float32 products may round their inputs to TF32 (a 10-bit mantissa) for the tensor
/// cores. Initially off, as in PyTorch.
void set_allow_tf32(bool on);
/// Whether float32 inputs may be rounded to TF32; see set_allow_tf32().
bool allow_tf32();
/// If on, the first product of each kind times several plans and keeps the fastest; the host waits
/// for this. There is no timing during graph capture or under use_deterministic_algorithms().
/// Initially off: the library's heuristic chooses.
void set_benchmark(bool on);
/// Whether several plans are timed; see set_benchmark().
bool benchmark();

}  // namespace ferrite::cublas

namespace ferrite::cudnn {

/// Whether this build supports cuDNN and the library can be loaded.
bool is_available();
/// For example "9.8.0"; "" if the library is not available.
std::string version();
/// If off, our own kernels compute all convolutions and attention. Initially on, unless
/// FERRITE_CUDNN=0.
void set_enabled(bool on);
bool is_enabled();
/// If on, the first convolution or attention of each kind times several plans and keeps the
/// fastest; the host waits for this. There is no timing during graph capture. Initially off: the
/// library's heuristic chooses.
void set_benchmark(bool on);
bool benchmark();
/// If on, only plans that give the same bits on every run are used; use_deterministic_algorithms()
/// implies it.
void set_deterministic(bool on);
/// Whether only plans that give the same bits on every run are used; see set_deterministic().
bool deterministic();
/// Whether a convolution before a batch norm in training also sums its result's channels as it
/// writes them, if cuDNN supports that: version 9.19 does for float16, channels-last, with a
/// multiple of 8 channels. The variance is the mean of squares minus the square of the mean, which
/// loses digits if the mean is far from zero. Initially on.
void set_fused_statistics(bool on);
/// Whether convolutions also sum their channels for a batch norm; see set_fused_statistics().
bool fused_statistics();
/// Whether float32 convolutions may round their inputs to TF32. Initially on, as in PyTorch, unless
/// FERRITE_TF32=0.
void set_allow_tf32(bool on);
bool allow_tf32();
/// The limit of a plan's scratch memory, in bytes; initially 1 GiB.
void set_workspace_limit(std::int64_t bytes);
/// The limit of a plan's scratch memory, in bytes; see set_workspace_limit().
std::int64_t workspace_limit();

}  // namespace ferrite::cudnn

namespace ferrite::cusolver {

/// Whether this build supports cuSOLVER and the library can be loaded.
bool is_available();
/// For example "12.0.4"; "" if the library is not available.
std::string version();
/// If off, factors of matrices (ops/linalg.h) are computed on the host, by Eigen, and copied.
/// Initially on, unless FERRITE_CUSOLVER=0.
void set_enabled(bool on);
bool is_enabled();

}  // namespace ferrite::cusolver

namespace ferrite::cufft {

/// Whether this build supports cuFFT and the library can be loaded.
bool is_available();
/// For example "12.0.0"; "" if the library is not available.
std::string version();

}  // namespace ferrite::cufft

namespace ferrite::backends {
namespace cudnn = ferrite::cudnn;
namespace cublas = ferrite::cublas;
namespace cusolver = ferrite::cusolver;
}  // namespace ferrite::backends
