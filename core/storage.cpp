#include "ferrite/core/storage.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <mutex>

#include "ferrite/core/deferred.h"
#include "ferrite/core/error.h"
#include "ferrite/core/storage_part.h"
#include "ferrite/core/tracing.h"

namespace ferrite {

namespace {

std::mutex creation;  // protects the creation of extra_ in all storages

void report(const Storage& storage) {
  if (tracing::on()) tracing::detail::recorder->allocated(storage);
}

/// The deleter of a storage part.
struct KeepWhole {
  IntrusivePtr<Storage> whole;
  void operator()() const {}
};

/// Called where an exception could not be caught: in a destructor, or in a thread that waits for a
/// stream.
void run_deleter(const std::function<void()>& deleter) noexcept {
  try {
    deleter();
  } catch (const std::exception& error) {
    fmt::print(stderr, "[from_blob] a deleter threw, which it must not: {}\n", error.what());
  } catch (...) {
    fmt::print(stderr, "[from_blob] a deleter threw, which it must not\n");
  }
}

}  // namespace

struct Storage::Extra {
  std::function<void()> deleter;
  std::mutex mutex;
  std::vector<Stream> also_used_by;
};

IntrusivePtr<Storage> Storage::allocate(std::size_t bytes, const Device& device) {
  IntrusivePtr<Storage> storage(new Storage(device, bytes));
  report(*storage);
  if (bytes > 0) {
    storage->allocator_ = &allocator(device);
    storage->block_ = storage->allocator_->allocate(bytes, current_stream(device));
  }
  return storage;
}

IntrusivePtr<Storage> Storage::allocate_pinned(std::size_t bytes) {
  IntrusivePtr<Storage> storage(new Storage(Device(), bytes));
  report(*storage);
  storage->allocator_ = &pinned_allocator();
  if (bytes > 0) storage->block_ = storage->allocator_->allocate(bytes, Stream());
  return storage;
}

bool Storage::is_pinned() const {
  return allocator_ && device_.is_host() && allocator_ != &allocator(device_);
}

IntrusivePtr<Storage> Storage::wrap(void* data, std::size_t bytes, const Device& device,
                                    std::function<void()> deleter) {
  IntrusivePtr<Storage> storage(new Storage(device, bytes));
  report(*storage);
  storage->block_.data = data;
  storage->extra_ = new Extra{.deleter = std::move(deleter), .mutex = {}, .also_used_by = {}};
  return storage;
}

Storage::~Storage() {
  if (allocator_ && block_.data) {
    if (extra_)
      allocator_->free(block_, extra_->also_used_by);
    else
      allocator_->free(block_);
  } else if (const KeepWhole* part = extra_ ? extra_->deleter.target<KeepWhole>() : nullptr) {
    for (const Stream& stream : extra_->also_used_by) part->whole->record_stream(stream);
  } else if (extra_ && extra_->deleter) {
    std::vector<std::shared_ptr<detail::Mark>> marks;
    try {
      if (device_.is_cuda()) record_stream(current_stream(device_));
      for (const Stream& stream : extra_->also_used_by)
        if (!stream.query()) marks.push_back(stream.impl()->record(detail::Timing::none));
    } catch (const CudaError&) {  // the device is lost: no work runs there any more
    }
    detail::after(std::move(marks),
                  [deleter = std::move(extra_->deleter)] { run_deleter(deleter); });
  }
  delete extra_;
}

void Storage::record_stream(const Stream& stream) {
  // The host's own stream runs work in the caller, so it never has any queued.
  if (stream.id() == 0 || (allocator_ && stream.id() == block_.stream)) return;
  {
    std::lock_guard lock(creation);
    if (!extra_) extra_ = new Extra;
  }
  std::lock_guard lock(extra_->mutex);
  if (std::ranges::find(extra_->also_used_by, stream) == extra_->also_used_by.end())
    extra_->also_used_by.push_back(stream);
}

bool Storage::has_other_streams() const {
  std::lock_guard lock(creation);
  if (!extra_) return false;
  std::lock_guard inner(extra_->mutex);
  return !extra_->also_used_by.empty();
}

}  // namespace ferrite

ferrite::IntrusivePtr<ferrite::Storage> ferrite::detail::part_of(
    const IntrusivePtr<Storage>& whole) {
  IntrusivePtr<Storage> part =
      Storage::wrap(whole->data(), whole->nbytes(), whole->device(), KeepWhole{whole});
  part->is_inference_ = whole->is_inference();
  return part;
}
