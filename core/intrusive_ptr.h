// Reference counting with the count inside the object: one allocation per object, one word per
// handle.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace ferrite {

/// Base of objects held by IntrusivePtr. A derived class may hide `release_last(T*)` to customize
/// destruction after the last handle is gone (the tape unlinks long chains iteratively).
class RefCounted {
 public:
  RefCounted() = default;
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;

  /// The number of owners.
  std::size_t use_count() const { return refs_.load(std::memory_order_acquire); }

  /// Adds an owner.
  void retain() const { refs_.fetch_add(1, std::memory_order_relaxed); }
  /// Whether this was the last reference.
  bool release() const {
    // A sole owner needs no atomic read-modify-write: no other thread can reach the object.
    if (refs_.load(std::memory_order_acquire) == 1) return true;
    return refs_.fetch_sub(1, std::memory_order_acq_rel) == 1;
  }

  /// Called when the last owner goes: destroys the object.
  template <class T>
  static void release_last(T* object) {
    delete object;
  }

 protected:
  ~RefCounted() = default;

 private:
  mutable std::atomic<std::uint32_t> refs_{0};
};

template <class T>
class IntrusivePtr {
 public:
  IntrusivePtr() = default;
  IntrusivePtr(std::nullptr_t) {}
  explicit IntrusivePtr(T* p) : p_(p) {
    if (p_) p_->retain();
  }
  IntrusivePtr(const IntrusivePtr& o) : p_(o.p_) {
    if (p_) p_->retain();
  }
  IntrusivePtr(IntrusivePtr&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  template <class U>
  requires std::is_convertible_v<U*, T*> IntrusivePtr(IntrusivePtr<U> o)
  noexcept : p_(o.detach()) {}
  IntrusivePtr& operator=(IntrusivePtr o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~IntrusivePtr() { reset(); }

  void reset() {
    if (T* p = std::exchange(p_, nullptr); p && p->release()) T::release_last(p);
  }
  /// The pointer.
  T* get() const { return p_; }
  T* operator->() const { return p_; }
  T& operator*() const { return *p_; }
  explicit operator bool() const { return p_ != nullptr; }
  /// Gives up ownership without releasing.
  T* detach() { return std::exchange(p_, nullptr); }
  friend bool operator==(const IntrusivePtr&, const IntrusivePtr&) = default;

 private:
  T* p_ = nullptr;
};

/// Makes an object and a pointer that owns it.
template <class T, class... Args>
IntrusivePtr<T> make_intrusive(Args&&... args) {
  return IntrusivePtr<T>(new T(std::forward<Args>(args)...));
}

}  // namespace ferrite
