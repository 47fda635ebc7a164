// cuFFT as far as Ferrite uses it: transforms by the sums that define them, one dimension after the
// other, as work of a stream that may be captured. Like cuFFT it needs memory aligned to complex
// numbers and a work area, and overwrites the input of transforms to real numbers, which are wrong
// if frequency 0 or n / 2 has an imaginary part.
#include <cufft.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "ferrite/tests/emulator/src/memory.h"
#include "ferrite/tests/emulator/src/race.h"
#include "ferrite/tests/emulator/src/runtime.h"
#include "ferrite/tests/emulator/src/stream.h"

using namespace emulator;

namespace {

using Z = std::complex<double>;

struct Plan {
  std::vector<long long> sizes;
  long long batch = 0, size = 0;  // transforms, and numbers of the signal of each
  cufftType type = CUFFT_C2C;
  bool made = false;
  cudaStream_t stream = nullptr;
  void* work = nullptr;

  bool wide() const { return (type & 0x40) != 0; }
  bool from_real() const { return type == CUFFT_R2C || type == CUFFT_D2Z; }
  bool to_real() const { return type == CUFFT_C2R || type == CUFFT_Z2D; }
  std::size_t part_bytes() const { return wide() ? sizeof(double) : sizeof(float); }
  /// Numbers of a transform's frequencies.
  long long half() const { return size / sizes.back() * (sizes.back() / 2 + 1); }
  std::size_t in_bytes() const { return bytes(from_real(), to_real()); }
  std::size_t out_bytes() const { return bytes(to_real(), from_real()); }
  std::size_t work_bytes() const { return bytes(false, false); }

 private:
  std::size_t bytes(bool real, bool halved) const {
    const long long numbers = batch * (halved ? half() : size);
    return static_cast<std::size_t>(numbers) * part_bytes() * (real ? 1 : 2);
  }
};

struct Plans {
  std::mutex mutex;
  std::map<cufftHandle, Plan> all;
  cufftHandle next = 1;
};
Plans& plans() {
  static Plans& the = *new Plans;
  return the;
}

/// f(plan) of a handle, or that there is no such plan.
template <class F>
cufftResult with_plan(cufftHandle handle, F f) {
  const std::lock_guard lock(plans().mutex);
  const auto it = plans().all.find(handle);
  return it == plans().all.end() ? CUFFT_INVALID_PLAN : f(it->second);
}

/// The transform of `line`, whose elements are `stride` apart.
void transform_line(Z* line, long long n, long long stride, int direction) {
  std::vector<Z> out(static_cast<std::size_t>(n));
  for (long long k = 0; k < n; ++k) {
    Z sum = 0;
    for (long long j = 0; j < n; ++j) {
      const double turns = static_cast<double>(j * k % n) / static_cast<double>(n);
      sum += line[j * stride] * std::polar(1.0, direction * 2 * M_PI * turns);
    }
    out[static_cast<std::size_t>(k)] = sum;
  }
  for (long long k = 0; k < n; ++k) line[k * stride] = out[static_cast<std::size_t>(k)];
}

double load(const Plan& plan, const void* p, long long i) {
  return plan.wide() ? static_cast<const double*>(p)[i] : static_cast<const float*>(p)[i];
}
void store(const Plan& plan, void* p, long long i, double v) {
  if (plan.wide())
    static_cast<double*>(p)[i] = v;
  else
    static_cast<float*>(p)[i] = static_cast<float>(v);
}

/// One transform: from its input to all numbers of the signal, and from these to its output.
void transform(const Plan& plan, const void* in, void* out, long long batch, int direction) {
  const long long last = plan.sizes.back(), half = last / 2 + 1, rows = plan.size / last;
  std::vector<Z> all(static_cast<std::size_t>(plan.size));
  const long long from = batch * (plan.to_real() ? plan.half() : plan.size);
  const long long width = plan.to_real() ? half : last;
  for (long long r = 0; r < rows; ++r)
    for (long long c = 0; c < width; ++c) {
      const long long i = from + r * width + c;
      all[static_cast<std::size_t>(r * last + c)] =
          plan.from_real() ? Z(load(plan, in, i))
                           : Z(load(plan, in, 2 * i), load(plan, in, 2 * i + 1));
    }
  long long stride = 1;
  for (std::size_t d = plan.sizes.size(); d-- > 0;) {
    // Only the other dimensions of halved frequencies can be transformed before the rest is known.
    const long long n = plan.sizes[d];
    if (!(plan.to_real() && d + 1 == plan.sizes.size()))
      for (long long i = 0; i < plan.size; ++i)
        if (i / stride % n == 0)
          transform_line(&all[static_cast<std::size_t>(i)], n, stride, direction);
    stride *= n;
  }
  if (plan.to_real())
    for (long long r = 0; r < rows; ++r) {
      Z* const row = &all[static_cast<std::size_t>(r * last)];
      row[0] = row[0].real() + row[0].imag();
      if (last % 2 == 0) row[last / 2] = row[last / 2].real() + row[last / 2].imag();
      for (long long c = half; c < last; ++c) row[c] = std::conj(row[last - c]);
      transform_line(row, last, 1, direction);
    }
  const long long to = batch * (plan.from_real() ? plan.half() : plan.size);
  const long long kept = plan.from_real() ? half : last;
  for (long long r = 0; r < rows; ++r)
    for (long long c = 0; c < kept; ++c) {
      const Z z = all[static_cast<std::size_t>(r * last + c)];
      const long long i = to + r * kept + c;
      if (plan.to_real()) {
        store(plan, out, i, z.real());
      } else {
        store(plan, out, 2 * i, z.real());
        store(plan, out, 2 * i + 1, z.imag());
      }
    }
}

void run(const Plan& plan, void* in, void* out, int direction) {
  race_range(in, plan.in_bytes(), plan.to_real());
  race_range(plan.work, plan.work_bytes(), true);
  race_range(out, plan.out_bytes(), true);
  const DeviceAccess access;
  for (long long b = 0; b < plan.batch; ++b) transform(plan, in, out, b, direction);
  if (plan.to_real()) std::memset(in, 0xff, plan.in_bytes());  // NaN
}

bool is_device_memory(const void* data, std::size_t bytes, int device) {
  const Allocation* const a = find_device(data);
  return a && a->live && a->device == device &&
         a->contains(reinterpret_cast<std::uintptr_t>(data), bytes);
}

cufftResult execute(cufftHandle handle, void* in, void* out, int direction, cufftType type) {
  return with_plan(handle, [&](const Plan& plan) {
    if (!plan.made || plan.type != type) return CUFFT_INVALID_PLAN;
    if (begin_call("cufftExec") != cudaSuccess) return CUFFT_EXEC_FAILED;
    const Lock lock;
    const StreamPtr stream = resolve(plan.stream);
    if (!stream) return CUFFT_INVALID_VALUE;
    const std::size_t alignment = 2 * plan.part_bytes();
    for (const auto& [data, bytes] : {std::pair<const void*, std::size_t>{in, plan.in_bytes()},
                                      {out, plan.out_bytes()},
                                      {plan.work, plan.work_bytes()}})
      if (reinterpret_cast<std::uintptr_t>(data) % alignment != 0 ||
          !is_device_memory(data, bytes, stream->device))
        return CUFFT_INVALID_VALUE;
    auto operation = std::make_shared<Operation>();
    operation->kind = Operation::Kind::kernel;
    operation->name = "cuFFT";
    operation->run = [plan, in, out, direction] { run(plan, in, out, direction); };
    return issue(stream, std::move(operation)) == cudaSuccess ? CUFFT_SUCCESS : CUFFT_EXEC_FAILED;
  });
}

}  // namespace

extern "C" {

cufftResult cufftGetVersion(int* version) {
  *version = 12000;
  return CUFFT_SUCCESS;
}

cufftResult cufftCreate(cufftHandle* plan) {
  const std::lock_guard lock(plans().mutex);
  *plan = plans().next++;
  plans().all[*plan];
  return CUFFT_SUCCESS;
}

cufftResult cufftDestroy(cufftHandle plan) {
  const std::lock_guard lock(plans().mutex);
  return plans().all.erase(plan) == 1 ? CUFFT_SUCCESS : CUFFT_INVALID_PLAN;
}

cufftResult cufftSetAutoAllocation(cufftHandle handle, int on) {
  return with_plan(handle, [&](Plan&) { return on ? CUFFT_INVALID_VALUE : CUFFT_SUCCESS; });
}

cufftResult cufftMakePlanMany64(cufftHandle handle, int rank, long long* n, long long* inembed,
                                long long, long long, long long* onembed, long long, long long,
                                cufftType type, long long batch, size_t* work_size) {
  return with_plan(handle, [&](Plan& plan) {
    if (rank < 1 || rank > 3 || inembed || onembed || batch < 1) return CUFFT_INVALID_VALUE;
    plan.sizes.assign(n, n + rank);
    plan.size = 1;
    for (const long long size : plan.sizes) {
      if (size < 1) return CUFFT_INVALID_SIZE;
      plan.size *= size;
    }
    plan.batch = batch;
    plan.type = type;
    plan.made = true;
    *work_size = plan.work_bytes();
    return CUFFT_SUCCESS;
  });
}

cufftResult cufftSetStream(cufftHandle handle, cudaStream_t stream) {
  return with_plan(handle, [&](Plan& plan) {
    plan.stream = stream;
    return CUFFT_SUCCESS;
  });
}

cufftResult cufftSetWorkArea(cufftHandle handle, void* work) {
  return with_plan(handle, [&](Plan& plan) {
    plan.work = work;
    return CUFFT_SUCCESS;
  });
}

cufftResult cufftExecC2C(cufftHandle plan, cufftComplex* in, cufftComplex* out, int direction) {
  return execute(plan, in, out, direction, CUFFT_C2C);
}
cufftResult cufftExecZ2Z(cufftHandle plan, cufftDoubleComplex* in, cufftDoubleComplex* out,
                         int direction) {
  return execute(plan, in, out, direction, CUFFT_Z2Z);
}
cufftResult cufftExecR2C(cufftHandle plan, cufftReal* in, cufftComplex* out) {
  return execute(plan, in, out, CUFFT_FORWARD, CUFFT_R2C);
}
cufftResult cufftExecD2Z(cufftHandle plan, cufftDoubleReal* in, cufftDoubleComplex* out) {
  return execute(plan, in, out, CUFFT_FORWARD, CUFFT_D2Z);
}
cufftResult cufftExecC2R(cufftHandle plan, cufftComplex* in, cufftReal* out) {
  return execute(plan, in, out, CUFFT_INVERSE, CUFFT_C2R);
}
cufftResult cufftExecZ2D(cufftHandle plan, cufftDoubleComplex* in, cufftDoubleReal* out) {
  return execute(plan, in, out, CUFFT_INVERSE, CUFFT_Z2D);
}

}  // extern "C"
