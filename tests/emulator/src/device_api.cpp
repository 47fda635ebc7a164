// Devices, their properties and peers; errors.
#include <cstdio>
#include <cstring>

#include "ferrite/emulator/emulator.h"
#include "ferrite/tests/emulator/src/memory.h"
#include "ferrite/tests/emulator/src/runtime.h"
#include "ferrite/tests/emulator/src/shared_memory.h"
#include "ferrite/tests/emulator/src/stream.h"

namespace emulator {

namespace {

constexpr int kProcessors = 4;
bool peers_possible = true;
bool peers[kMaxDevices][kMaxDevices] = {};

bool is_device(int device) { return device >= 0 && device < current_settings.devices; }

/// The driver's cuDevicePrimaryCtxGetState.
int primary_context_state(int device, unsigned* flags, int* active) {
  constexpr int kInvalidDevice = 101;
  if (!is_device(device)) return kInvalidDevice;
  *flags = 0;
  *active = has_context(device);
  return 0;
}

int attribute_of(int device, cudaDeviceAttr attribute) {
  cudaDeviceProp p;
  cudaGetDeviceProperties(&p, device);
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      return p.maxThreadsPerBlock;
    case cudaDevAttrMaxBlockDimX:
      return p.maxThreadsDim[0];
    case cudaDevAttrMaxBlockDimY:
      return p.maxThreadsDim[1];
    case cudaDevAttrMaxBlockDimZ:
      return p.maxThreadsDim[2];
    case cudaDevAttrMaxGridDimX:
      return p.maxGridSize[0];
    case cudaDevAttrMaxGridDimY:
      return p.maxGridSize[1];
    case cudaDevAttrMaxGridDimZ:
      return p.maxGridSize[2];
    case cudaDevAttrMaxSharedMemoryPerBlock:
      return static_cast<int>(p.sharedMemPerBlock);
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return static_cast<int>(p.sharedMemPerBlockOptin);
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      return static_cast<int>(p.sharedMemPerMultiprocessor);
    case cudaDevAttrReservedSharedMemoryPerBlock:
      return static_cast<int>(p.reservedSharedMemPerBlock);
    case cudaDevAttrTotalConstantMemory:
      return static_cast<int>(p.totalConstMem);
    case cudaDevAttrWarpSize:
      return p.warpSize;
    case cudaDevAttrMaxRegistersPerBlock:
      return p.regsPerBlock;
    case cudaDevAttrMaxRegistersPerMultiprocessor:
      return p.regsPerMultiprocessor;
    case cudaDevAttrMultiProcessorCount:
      return p.multiProcessorCount;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      return p.maxThreadsPerMultiProcessor;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
      return p.maxBlocksPerMultiProcessor;
    case cudaDevAttrComputeCapabilityMajor:
      return p.major;
    case cudaDevAttrComputeCapabilityMinor:
      return p.minor;
    case cudaDevAttrL2CacheSize:
      return p.l2CacheSize;
    case cudaDevAttrGlobalMemoryBusWidth:
      return p.memoryBusWidth;
    case cudaDevAttrClockRate:
    case cudaDevAttrMemoryClockRate:
      return 1'000'000;  // kHz
    case cudaDevAttrAsyncEngineCount:
      return p.asyncEngineCount;
    case cudaDevAttrPciBusId:
      return p.pciBusID;
    case cudaDevAttrPciDeviceId:
      return p.pciDeviceID;
    case cudaDevAttrPciDomainId:
      return p.pciDomainID;
    case cudaDevAttrTextureAlignment:
      return 512;
    case cudaDevAttrComputeMode:
      return cudaComputeModeDefault;
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrCanMapHostMemory:
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrStreamPrioritiesSupported:
    case cudaDevAttrGlobalL1CacheSupported:
    case cudaDevAttrLocalL1CacheSupported:
    case cudaDevAttrManagedMemory:
    case cudaDevAttrHostRegisterSupported:
    case cudaDevAttrMemoryPoolsSupported:
    case cudaDevAttrCanUseHostPointerForRegisteredMem:
      return 1;
    default:
      return 0;
  }
}

}  // namespace

bool peer_enabled(int from, int to) { return from == to || peers[from][to]; }

void set_peer_access(bool possible) {
  const Lock lock;
  peers_possible = possible;
}

}  // namespace emulator

using namespace emulator;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  if (!count) return remember(cudaErrorInvalidValue);
  *count = settings().devices;
  return *count == 0 ? remember(cudaErrorNoDevice) : cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= settings().devices) return remember(cudaErrorInvalidDevice);
  set_current_device(device);
  return remember(begin_call("cudaSetDevice"));
}

cudaError_t cudaGetDevice(int* device) {
  if (!device) return remember(cudaErrorInvalidValue);
  *device = current_device();
  return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* status) {
  if (!symbol || !function) return remember(cudaErrorInvalidValue);
  const bool known = std::strcmp(symbol, "cuDevicePrimaryCtxGetState") == 0;
  *function = known ? reinterpret_cast<void*>(&primary_context_state) : nullptr;
  if (status) *status = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

cudaError_t cudaInitDevice(int device, unsigned, unsigned) {
  return remember(device < 0 || device >= settings().devices ? cudaErrorInvalidDevice
                                                             : cudaSuccess);
}
cudaError_t cudaSetDeviceFlags(unsigned) { return cudaSuccess; }
cudaError_t cudaGetDeviceFlags(unsigned* flags) {
  *flags = cudaDeviceScheduleAuto;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
  if (!p) return remember(cudaErrorInvalidValue);
  if (!is_device(device)) return remember(cudaErrorInvalidDevice);
  *p = {};
  std::snprintf(p->name, sizeof p->name, "Ferrite emulated GPU");
  for (int i = 0; i < 16; ++i) p->uuid.bytes[i] = static_cast<char>(i == 15 ? device : 0xfe);
  p->totalGlobalMem = memory_total(device);
  p->sharedMemPerBlock = kStaticSharedLimit;
  p->sharedMemPerBlockOptin = kSharedLimit;
  p->sharedMemPerMultiprocessor = kSharedLimit + 1024;
  p->reservedSharedMemPerBlock = 1024;
  p->regsPerBlock = p->regsPerMultiprocessor = 65536;
  p->warpSize = 32;
  p->memPitch = 0x7fffffff;
  p->maxThreadsPerBlock = 1024;
  p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
  p->maxThreadsDim[2] = 64;
  p->maxGridSize[0] = 0x7fffffff;
  p->maxGridSize[1] = p->maxGridSize[2] = 65535;
  p->totalConstMem = 64 << 10;
  p->major = 9;
  p->textureAlignment = 512;
  p->texturePitchAlignment = 32;
  p->multiProcessorCount = kProcessors;
  p->maxThreadsPerMultiProcessor = 2048;
  p->maxBlocksPerMultiProcessor = 32;
  p->canMapHostMemory = p->concurrentKernels = p->unifiedAddressing = 1;
  p->asyncEngineCount = 2;
  p->memoryBusWidth = 64;
  p->l2CacheSize = 4 << 20;
  p->streamPrioritiesSupported = p->managedMemory = 1;
  p->globalL1CacheSupported = p->localL1CacheSupported = 1;
  p->hostRegisterSupported = p->canUseHostPointerForRegisteredMem = 1;
  p->memoryPoolsSupported = 1;
  p->pciDomainID = 0;
  p->pciBusID = device + 1;
  p->pciDeviceID = 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (!value) return remember(cudaErrorInvalidValue);
  if (!is_device(device)) return remember(cudaErrorInvalidDevice);
  *value = attribute_of(device, attribute);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  if (!text || length <= 0) return remember(cudaErrorInvalidValue);
  if (!is_device(device)) return remember(cudaErrorInvalidDevice);
  std::snprintf(text, static_cast<std::size_t>(length), "0000:%02x:00.0", device + 1);
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  if (!can) return remember(cudaErrorInvalidValue);
  if (!is_device(device) || !is_device(peer)) return remember(cudaErrorInvalidDevice);
  *can = device != peer && peers_possible;
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  return api("cudaDeviceEnablePeerAccess", [&](HeldLock&) {
    const int device = current_device();
    if (!is_device(peer) || device == peer) return cudaErrorInvalidDevice;
    if (flags) return cudaErrorInvalidValue;
    if (!peers_possible) return cudaErrorPeerAccessUnsupported;
    if (peers[device][peer]) return cudaErrorPeerAccessAlreadyEnabled;
    peers[device][peer] = true;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  return api("cudaDeviceDisablePeerAccess", [&](HeldLock&) {
    if (!is_device(peer)) return cudaErrorInvalidDevice;
    if (!peers[current_device()][peer]) return cudaErrorPeerAccessNotEnabled;
    peers[current_device()][peer] = false;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaDeviceSetLimit(cudaLimit, size_t) { return cudaSuccess; }
cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit) {
  *value = 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceReset() {
  const Lock lock;
  const int device = current_device();
  discard_work(device);
  free_all_of(device);
  for (int d = 0; d < kMaxDevices; ++d) peers[device][d] = peers[d][device] = false;
  set_sticky_error(device, cudaSuccess);
  drop_context(device);
  clear_error();
  return cudaSuccess;
}

cudaError_t cudaGetLastError() {
  const cudaError_t error = cudaPeekAtLastError();
  clear_error();
  return error;
}
cudaError_t cudaPeekAtLastError() {
  const Lock lock;
  const cudaError_t sticky = sticky_error(current_device());
  return sticky != cudaSuccess ? sticky : last_error_of_thread();
}

cudaError_t cudaProfilerStart() { return cudaSuccess; }
cudaError_t cudaProfilerStop() { return cudaSuccess; }

}  // extern "C"
