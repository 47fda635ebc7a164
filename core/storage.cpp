#include "core/storage.h"

#include <algorithm>
#include <mutex>

namespace ferrite {

struct Storage::Extra {
  std::function<void()> deleter;
  std::mutex mutex;
  std::vector<Stream> also_used_by;
};

IntrusivePtr<Storage> Storage::allocate(std::size_t bytes, const Device& device) {
  IntrusivePtr<Storage> storage(new Storage(device, bytes));
  if (bytes > 0) {
    storage->allocator_ = &allocator(device);
    storage->block_ = storage->allocator_->allocate(bytes, current_stream(device));
  }
  return storage;
}

IntrusivePtr<Storage> Storage::wrap(void* data, std::size_t bytes, const Device& device,
                                    std::function<void()> deleter) {
  IntrusivePtr<Storage> storage(new Storage(device, bytes));
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
  } else if (extra_ && extra_->deleter) {
    extra_->deleter();
  }
  delete extra_;
}

void Storage::record_stream(const Stream& stream) {
  if (!allocator_ || stream.id() == block_.stream) return;
  static std::mutex creation;
  {
    std::lock_guard lock(creation);
    if (!extra_) extra_ = new Extra;
  }
  std::lock_guard lock(extra_->mutex);
  if (std::ranges::find(extra_->also_used_by, stream) == extra_->also_used_by.end())
    extra_->also_used_by.push_back(stream);
}

}  // namespace ferrite
