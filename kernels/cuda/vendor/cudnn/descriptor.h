// cuDNN's descriptors as values.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ferrite/kernels/cuda/vendor/cudnn/library.h"

namespace ferrite::kernels::cuda::vendor {

/// Thrown if cuDNN does not support a description; the caller concludes that there is no plan.
struct NotSupported {
  std::string why;
};

/// A descriptor of cuDNN's backend. Every call throws NotSupported if cuDNN refuses it.
class Descriptor {
 public:
  Descriptor(const Cudnn& cudnn, cudnnBackendDescriptorType_t type) : cudnn_(&cudnn) {
    check(cudnn.create_descriptor(type, &raw_));
  }
  ~Descriptor() {
    if (raw_) cudnn_->destroy_descriptor(raw_);
  }
  Descriptor(Descriptor&& other) noexcept
      : cudnn_(other.cudnn_), raw_(std::exchange(other.raw_, nullptr)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(cudnn_, other.cudnn_);
    std::swap(raw_, other.raw_);
    return *this;
  }

  cudnnBackendDescriptor_t raw() const { return raw_; }
  const Cudnn& cudnn() const { return *cudnn_; }

  template <class T>
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                  std::span<const T> values) {
    check(cudnn_->set_attribute(raw_, name, type, static_cast<std::int64_t>(values.size()),
                                values.data()));
    return *this;
  }
  template <class T>
  Descriptor& set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                  const T& value) {
    return set(name, type, std::span<const T>(&value, 1));
  }
  Descriptor& set(cudnnBackendAttributeName_t name, const Descriptor& value) {
    return set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, value.raw_);
  }
  Descriptor& set_list(cudnnBackendAttributeName_t name, std::span<const std::int64_t> values) {
    return set(name, CUDNN_TYPE_INT64, values);
  }
  Descriptor& finalize() {
    check(cudnn_->finalize(raw_));
    return *this;
  }

  template <class T>
  T get(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type) const {
    T value{};
    std::int64_t count = 0;
    check(cudnn_->get_attribute(raw_, name, type, 1, &count, &value));
    return value;
  }
  /// All values of an attribute, which has at most `most`.
  template <class T>
  std::vector<T> all(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                     std::size_t most) const {
    std::vector<T> values(most);
    std::int64_t count = 0;
    check(cudnn_->get_attribute(raw_, name, type, static_cast<std::int64_t>(most), &count,
                                values.data()));
    values.resize(std::min<std::size_t>(most, static_cast<std::size_t>(count)));
    return values;
  }
  /// The number of descriptors of an attribute, and the descriptors, which are written to existing
  /// ones.
  std::int64_t count(cudnnBackendAttributeName_t name) const {
    std::int64_t count = 0;
    check(cudnn_->get_attribute(raw_, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr));
    return count;
  }
  std::int64_t fill(cudnnBackendAttributeName_t name,
                    std::span<cudnnBackendDescriptor_t> made) const {
    std::int64_t count = 0;
    check(cudnn_->get_attribute(raw_, name, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                static_cast<std::int64_t>(made.size()), &count, made.data()));
    return std::min(count, static_cast<std::int64_t>(made.size()));
  }

 private:
  void check(cudnnStatus_t status) const {
    if (status == CUDNN_STATUS_SUCCESS) return;
    throw NotSupported{std::string(cudnn_->error_string(status)) + ": " + cudnn_->last_error()};
  }

  const Cudnn* cudnn_;
  cudnnBackendDescriptor_t raw_ = nullptr;
};

}  // namespace ferrite::kernels::cuda::vendor
