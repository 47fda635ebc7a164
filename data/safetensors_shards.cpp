#include "ferrite/data/safetensors_shards.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <system_error>

#include "ferrite/data/host_transfer.h"
#include "ferrite/data/json_events.h"
#include "ferrite/data/safetensors_writer.h"

namespace ferrite::data {

namespace {

namespace fs = std::filesystem;

constexpr const char* kLoadShards = "load_safetensors";
constexpr const char* kSaveShards = "save_safetensors";
constexpr std::string_view kIndexEnd = ".index.json";
constexpr std::string_view kSingleFile = "model.safetensors";
constexpr std::size_t kMaxShards = 99'999;  // five digits

fs::path index_of(const fs::path& path) { return fs::path(path) += kIndexEnd; }

/// Without an exception for names that no file can have.
bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

class IndexEvents final : public JsonEvents {
 public:
  explicit IndexEvents(const Where& where) : JsonEvents(where, 0, "index") {}

  std::map<std::string, std::string> files;
  bool has_map = false;

 private:
  using Kind = JsonValue::Kind;

  void value(const JsonValue& value) override {
    if (depth() == 0)
      check(value.kind == Kind::object, "expected the index to be an object");
    else if (depth() == 1 && name(1) == "weight_map")
      check(has_map = value.kind == Kind::object, "expected weight_map to be an object");
    else if (depth() >= 2 && name(1) == "weight_map")
      add(value);
  }
  void end() override {}
  void add(const JsonValue& value) {
    check(depth() == 2 && value.kind == Kind::text,
          "expected weight_map to have a file's name for '{}'", name(2));
    check(!name(2).empty(), "expected a name for each tensor, got ''");
    files.emplace(name(2), std::move(*value.text));
  }
};

/// Whether the path, which comes from an untrusted file, stays in its folder.
bool stays_inside(const std::string& file) {
  const fs::path path(file);
  return !file.empty() && file.find('\0') == std::string::npos && path.is_relative() &&
         path.has_filename() &&
         std::ranges::none_of(path, [](const fs::path& part) { return part == ".."; });
}

/// The files of a folder whose names end so.
std::vector<fs::path> ending_in(const fs::path& folder, std::string_view end, std::string_view op) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), last; !error && entry != last;
       entry.increment(error))
    if (entry->path().filename().string().ends_with(end)) found.push_back(entry->path());
  FERRITE_CHECK(!error, IoError, op, "cannot read the folder '{}': {}", folder.string(),
                error.message());
  std::ranges::sort(found);
  return found;
}

}  // namespace

// ---- Reading

bool is_shard_index(const fs::path& path) { return path.extension() == ".json"; }

fs::path find_safetensors(const fs::path& path, std::string_view op) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored))
    return !is_there(path) && is_there(index_of(path)) ? index_of(path) : path;
  const fs::path single = path / kSingleFile;
  if (is_there(single)) return single;
  if (is_there(index_of(single))) return index_of(single);
  for (const std::string_view end : {".safetensors.index.json", ".safetensors"}) {
    const std::vector<fs::path> found = ending_in(path, end, op);
    if (found.size() == 1) return found[0];
    FERRITE_CHECK(found.empty(), IoError, op,
                  "'{}' is a folder of several files: '{}', '{}' ...; say which is to be read",
                  path.string(), found[0].filename().string(), found[1].filename().string());
  }
  fail<IoError>(
      op,
      "'{}' is a folder without a .safetensors file or a .safetensors.index.json; expected "
      "one of them, or the path of a file",
      path.string());
}

std::map<std::string, std::string> parse_shard_index(Bytes bytes, std::string_view name) {
  const Where where{kLoadShards, name};
  IndexEvents events(where);
  events.read({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  where.check(events.has_map, 0, "expected an index of safetensors files to have a weight_map");
  for (const auto& [tensor, file] : events.files)
    where.check(
        stays_inside(file), 0,
        "tensor '{}' is said to be in '{}'; expected the name of a file in the index's folder",
        tensor, file);
  return std::move(events.files);
}

SafetensorsShards::SafetensorsShards(const fs::path& path, SafetensorsOptions options)
    : path_(find_safetensors(path, kLoadShards)) {
  if (!is_shard_index(path_) && is_there(index_of(path_))) path_ = index_of(path_);
  std::map<std::string, std::string> map;
  {
    const MappedFile file(path_, kLoadShards);
    map = parse_shard_index(file.bytes(), path_.native());
  }
  // "m" and "./m" are one file, which is read once.
  std::map<std::string, std::size_t> positions;
  for (auto& [tensor, file] : map) {
    file = fs::path(file).lexically_normal().string();
    positions.emplace(file, 0);
  }
  std::vector<std::string> names;
  for (auto& [file, position] : positions) {
    position = names.size();
    names.push_back(file);
    const fs::path shard = path_.parent_path() / file;
    FERRITE_CHECK(is_there(shard), IoError, kLoadShards,
                  "'{}' lists '{}', which does not exist; bring all files of the model",
                  path_.native(), file);
    files_.emplace_back(shard, options);
  }
  for (const auto& [tensor, file] : map) weight_map_.emplace(tensor, positions.at(file));
  compare_with_index(names);
}

void SafetensorsShards::compare_with_index(const std::vector<std::string>& names_of_files) const {
  for (const auto& [tensor, position] : weight_map_)
    FERRITE_CHECK(files_[position].contains(tensor), IoError, kLoadShards,
                  "'{}' lists tensor '{}' in '{}', which does not have it", path_.native(), tensor,
                  names_of_files[position]);
  for (std::size_t i = 0; i < files_.size(); ++i)
    for (const SafetensorsEntry& entry : files_[i].header_.entries) {
      const auto listed = weight_map_.find(entry.name);
      FERRITE_CHECK(listed != weight_map_.end(), IoError, kLoadShards,
                    "'{}' has tensor '{}', which '{}' does not list", names_of_files[i], entry.name,
                    path_.native());
      FERRITE_CHECK(listed->second == i, IoError, kLoadShards,
                    "tensor '{}' is in two files of '{}': '{}' and '{}'", entry.name,
                    path_.native(), names_of_files[listed->second], names_of_files[i]);
    }
}

const SafetensorsFile& SafetensorsShards::shard_of(std::string_view name) const {
  const auto found = weight_map_.find(name);
  FERRITE_CHECK(found != weight_map_.end(), IndexError, kLoadShards, "'{}' has no tensor '{}'",
                path_.native(), name);
  return files_[found->second];
}

std::vector<std::string> SafetensorsShards::names() const {
  std::vector<std::string> all;
  for (const SafetensorsFile& file : files_)
    std::ranges::move(file.names(), std::back_inserter(all));
  return all;
}

StateDict SafetensorsShards::load() const {
  for (const SafetensorsFile& file : files_) file.verify_wanted();
  StateDict tensors;
  tensors.reserve(weight_map_.size());
  HostTransfer transfer;
  for (const SafetensorsFile& file : files_) file.read_wanted(tensors, transfer);
  transfer.finish();
  return tensors;
}

void SafetensorsShards::verify() const {
  for (const SafetensorsFile& file : files_) file.verify();
}

Metadata SafetensorsShards::metadata() const {
  Metadata all;
  for (const SafetensorsFile& file : files_)
    all.insert(file.metadata().begin(), file.metadata().end());
  return all;
}

// ---- Writing

namespace {

/// Positions in the dict, by shard.
std::vector<std::vector<std::size_t>> divide(const StateDict& tensors, std::uint64_t most) {
  std::vector<std::vector<std::size_t>> shards;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::uint64_t more = (tensors.begin() + static_cast<std::ptrdiff_t>(i))->second.nbytes();
    if (shards.empty() || bytes > most || more > most - bytes) {
      shards.emplace_back();
      bytes = 0;
    }
    shards.back().push_back(i);
    bytes += more;
  }
  return shards;
}

/// The generation is at the end: "model.2-00001-of-00004" is a shard of "model.2", too.
std::string shard_name(const fs::path& path, int generation, std::size_t number,
                       std::size_t count) {
  return fmt::format("{}-{:05}-of-{:05}{}{}", path.stem().string(), number, count,
                     generation == 1 ? "" : fmt::format(".{}", generation),
                     path.extension().string());
}

/// Whether `name` is that of a shard of `path`, of any generation and count.
bool is_shard_of(const fs::path& path, std::string_view name) {
  const auto drop = [&name](std::string_view text) {
    const bool begins = name.starts_with(text);
    if (begins) name.remove_prefix(text.size());
    return begins;
  };
  const auto drop_digits = [&name] {
    const std::size_t end = std::min(name.find_first_not_of("0123456789"), name.size());
    name.remove_prefix(end);
    return end;
  };
  if (!drop(path.stem().string())) return false;
  if (!drop("-") || drop_digits() != 5 || !drop("-of-") || drop_digits() != 5) return false;
  return name == path.extension().string() ||
         (drop(".") && drop_digits() > 0 && name == path.extension().string());
}

/// Names under which there is no file.
std::vector<std::string> free_names(const fs::path& path, std::size_t count) {
  for (int generation = 1;; ++generation) {
    std::vector<std::string> names;
    for (std::size_t i = 1; i <= count; ++i)
      names.push_back(shard_name(path, generation, i, count));
    if (std::ranges::none_of(names, [&](const std::string& name) {
          std::error_code ignored;
          return fs::exists(fs::symlink_status(path.parent_path() / name, ignored));
        }))
      return names;
  }
}

std::string index_text(const StateDict& tensors,
                       const std::map<std::string, std::string>& weight_map) {
  std::uint64_t total = 0;
  for (const auto& [name, tensor] : tensors) total += tensor.nbytes();
  std::string text = fmt::format(
      "{{\n  \"metadata\": {{\n    \"total_size\": {}\n  }},\n  \"weight_map\": {{", total);
  const char* separator = "\n    ";
  try {
    for (const auto& [name, file] : weight_map) {
      text += fmt::format("{}{}: {}", separator, json_text(name), json_text(file));
      separator = ",\n    ";
    }
  } catch (const nlohmann::json::exception& error) {
    fail<ValueError>(kSaveShards, "expected names in UTF-8: {}", error.what());
  }
  return text + "\n  }\n}\n";
}

void remove_stale(const fs::path& path) {
  std::error_code error;
  fs::remove(path, error);
  FERRITE_CHECK(!error, IoError, kSaveShards, "cannot remove '{}': {}", path.string(),
                error.message());
}

/// Removes shards that nothing lists any more.
void remove_shards(const fs::path& path, const std::set<std::string>& kept) {
  const fs::path folder = path.parent_path().empty() ? "." : path.parent_path();
  for (const fs::path& file : ending_in(folder, path.extension().string(), kSaveShards)) {
    const std::string name = file.filename().string();
    if (is_shard_of(path, name) && !kept.contains(name)) remove_stale(file);
  }
}

}  // namespace

void write_safetensors_shards(const StateDict& tensors, const std::vector<std::string>& devices,
                              const fs::path& path, const Metadata& metadata, SaveOptions options) {
  const auto shards = divide(tensors, std::exchange(options.max_shard_size, 0));
  if (shards.size() <= 1) {
    write_safetensors(tensors, devices, path, metadata, options);
    remove_stale(index_of(path));
    return remove_shards(path, {});
  }
  FERRITE_CHECK(shards.size() <= kMaxShards, ValueError, kSaveShards,
                "'{}' would be divided into {} files; expected at most {}: choose a larger "
                ".max_shard_size",
                path.string(), shards.size(), kMaxShards);
  const std::vector<std::string> names = free_names(path, shards.size());
  std::map<std::string, std::string> weight_map;
  std::vector<StateDict> parts(shards.size());
  std::vector<std::vector<std::string>> devices_of(shards.size());
  for (std::size_t s = 0; s < shards.size(); ++s)
    for (const std::size_t i : shards[s]) {
      const auto& [name, tensor] = *(tensors.begin() + static_cast<std::ptrdiff_t>(i));
      parts[s].insert(name, tensor);
      devices_of[s].push_back(devices[i]);
      weight_map.emplace(name, names[s]);
    }
  std::optional<AtomicFile> index;
  try {
    for (std::size_t s = 0; s < shards.size(); ++s)
      write_safetensors(parts[s], devices_of[s], path.parent_path() / names[s], metadata, options);
    index.emplace(index_of(path), kSaveShards);
    index->write(index_text(tensors, weight_map));
    index->commit();
  } catch (...) {
    std::error_code ignored;
    if (!index || !index->is_in_place())
      for (const std::string& name : names) fs::remove(path.parent_path() / name, ignored);
    throw;
  }
  remove_stale(path);  // only now do readers of the folder find the index
  remove_shards(path, {names.begin(), names.end()});
}

}  // namespace ferrite::data
