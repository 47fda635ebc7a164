// A store of files in a folder, for processes of one host: tests of code that uses a store need no
// server.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "ferrite/core/error.h"
#include "ferrite/parallel/comm/bootstrap/store.h"

namespace ferrite::test {

class FolderStore final : public parallel::Store {
 public:
  explicit FolderStore(std::filesystem::path folder) : folder_(std::move(folder)) {}

  void set(const std::string& key, std::string_view value) override {
    const std::filesystem::path end = path(key),
                                begin = end.string() + "." + std::to_string(getpid());
    std::ofstream(begin) << value;
    std::filesystem::rename(begin, end);
  }
  std::string get(const std::string& key, std::chrono::milliseconds timeout) override {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    while (!std::filesystem::exists(path(key))) {
      FERRITE_CHECK(std::chrono::steady_clock::now() < deadline, DistributedError, "store",
                    "{} did not come in time", key);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    std::ifstream file(path(key));
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::int64_t add(const std::string&, std::int64_t) override { throw Error("not here"); }
  bool check(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys)
      if (!std::filesystem::exists(path(key))) return false;
    return true;
  }
  bool erase(const std::string& key) override { return std::filesystem::remove(path(key)); }

 private:
  std::filesystem::path path(std::string key) const {
    for (char& c : key)
      if (c == '/') c = '_';
    return folder_ / ("store." + key);
  }
  std::filesystem::path folder_;
};

/// Its folder, removed with the object.
class StoreFolder {
 public:
  StoreFolder() {
    std::string path = (std::filesystem::temp_directory_path() / "ferrite_store_XXXXXX").string();
    FERRITE_CHECK(mkdtemp(path.data()), IoError, "test", "cannot make a folder like {}", path);
    path_ = path;
  }
  ~StoreFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  StoreFolder(const StoreFolder&) = delete;
  StoreFolder& operator=(const StoreFolder&) = delete;

  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

}  // namespace ferrite::test
