#include "ferrite/data/hdf5/hdf5_dataset.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <hdf5.h>

#include <array>
#include <mutex>
#include <optional>
#include <string_view>

namespace ferrite::data {

namespace {

constexpr std::string_view kOp = "hdf5";

/// The library may be built without locks of its own.
std::mutex& library_mutex() {
  static std::mutex mutex;
  return mutex;
}

/// Holds the lock, and keeps the library from printing errors.
class Session {
 public:
  Session() : lock_(library_mutex()) {
    H5Eget_auto2(H5E_DEFAULT, &print_, &data_);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }
  ~Session() { H5Eset_auto2(H5E_DEFAULT, print_, data_); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

 private:
  const std::lock_guard<std::mutex> lock_;
  H5E_auto2_t print_ = nullptr;
  void* data_ = nullptr;
};

/// The innermost message of the call that failed last.
std::string reason() {
  std::string text = "unknown reason";
  const auto keep = [](unsigned, const H5E_error2_t* error, void* to) -> herr_t {
    if (error->desc) *static_cast<std::string*>(to) = error->desc;
    return 1;  // the first suffices
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep, &text);
  return text;
}

/// An object of the library, closed with it. Created and destroyed within a Session.
class Handle {
 public:
  Handle(hid_t id, herr_t (*close)(hid_t)) : id_(id), close_(close) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), close_(other.close_) {}
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  explicit operator bool() const { return id_ >= 0; }
  hid_t get() const { return id_; }

 private:
  hid_t id_;
  herr_t (*close_)(hid_t);
};

/// The type in memory: what a tensor of `dtype` holds.
struct Element {
  DType dtype;
  Handle type;
};

Handle half_type() {
  Handle type(H5Tcopy(H5T_NATIVE_FLOAT), H5Tclose);
  H5Tset_fields(type.get(), 15, 10, 5, 0, 10);
  H5Tset_size(type.get(), 2);
  H5Tset_ebias(type.get(), 15);
  return type;
}

/// How h5py stores numpy's bool: an enumeration of FALSE and TRUE in one byte.
bool is_bool(hid_t type) {
  if (H5Tget_class(type) != H5T_ENUM || H5Tget_size(type) != 1 || H5Tget_nmembers(type) != 2)
    return false;
  std::array<signed char, 2> values{-1, -1};
  return H5Tenum_valueof(type, "FALSE", &values[0]) >= 0 && values[0] == 0 &&
         H5Tenum_valueof(type, "TRUE", &values[1]) >= 0 && values[1] == 1;
}

std::optional<Element> element_of(hid_t type) {
  const auto copy = [](hid_t of) { return Handle(H5Tcopy(of), H5Tclose); };
  const std::size_t size = H5Tget_size(type);
  if (is_bool(type)) return Element{kBool, copy(type)};
  if (H5Tget_class(type) == H5T_INTEGER) {
    const bool is_signed = H5Tget_sign(type) == H5T_SGN_2;
    if (size == 1 && !is_signed) return Element{kUInt8, copy(H5T_NATIVE_UINT8)};
    if (size == 1) return Element{kInt8, copy(H5T_NATIVE_INT8)};
    if (size == 2 && is_signed) return Element{kInt16, copy(H5T_NATIVE_INT16)};
    if (size == 2 || (size == 4 && is_signed)) return Element{kInt32, copy(H5T_NATIVE_INT32)};
    if (size == 4 || (size == 8 && is_signed)) return Element{kInt64, copy(H5T_NATIVE_INT64)};
  }
  if (H5Tget_class(type) == H5T_FLOAT) {
    if (size == 2) return Element{kFloat16, half_type()};
    if (size == 4) return Element{kFloat32, copy(H5T_NATIVE_FLOAT)};
    if (size == 8) return Element{kFloat64, copy(H5T_NATIVE_DOUBLE)};
  }
  return {};
}

/// The links of a file's root, for errors.
std::vector<std::string> names_in(hid_t file) {
  std::vector<std::string> names;
  const auto add = [](hid_t, const char* name, const H5L_info_t*, void* to) -> herr_t {
    auto& all = *static_cast<std::vector<std::string>*>(to);
    all.emplace_back(name);
    return all.size() < 20 ? 0 : 1;
  };
  H5Literate(file, H5_INDEX_NAME, H5_ITER_INC, nullptr, add, &names);
  return names;
}

}  // namespace

struct HDF5Rows::File {
  struct Dataset {
    std::string name;
    Handle dataset;
    Element element;
    Shape row;
  };

  File(const std::filesystem::path& path, const std::vector<std::string>& names);
  ~File() {
    const Session session;
    datasets.clear();
    file.reset();
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  void open(const std::vector<std::string>& names);
  void add(const std::string& name);
  void read(const Dataset& from, std::int64_t first, std::int64_t rows, void* to) const;

  const std::string path;
  std::optional<Handle> file;
  std::vector<Dataset> datasets;
  std::int64_t size = 0;
};

HDF5Rows::File::File(const std::filesystem::path& path, const std::vector<std::string>& names)
    : path(path.string()) {
  FERRITE_CHECK(!names.empty(), ValueError, kOp, "expected the name of a dataset, got none");
  const Session session;
  try {
    open(names);
  } catch (...) {
    datasets.clear();  // within the session
    file.reset();
    throw;
  }
}

void HDF5Rows::File::open(const std::vector<std::string>& names) {
  file.emplace(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), H5Fclose);
  FERRITE_CHECK(*file, IoError, kOp, "cannot open '{}': {}", path, reason());
  for (const std::string& name : names) add(name);
}

void HDF5Rows::File::add(const std::string& name) {
  Handle dataset(H5Dopen2(file->get(), name.c_str(), H5P_DEFAULT), H5Dclose);
  if (!dataset) {
    const std::string why = reason();
    fail<IoError>(kOp, "cannot open the dataset '{}' in '{}', which has {}: {}", name, path,
                  fmt::join(names_in(file->get()), ", "), why);
  }
  const Handle type(H5Dget_type(dataset.get()), H5Tclose);
  const Handle space(H5Dget_space(dataset.get()), H5Sclose);
  FERRITE_CHECK(type && space, IoError, kOp, "cannot read the dataset '{}' in '{}': {}", name, path,
                reason());
  std::optional<Element> element = element_of(type.get());
  FERRITE_CHECK(element, DTypeError, kOp,
                "expected integers of up to 32 bits or int64, float16, float32, float64 or bool in "
                "the dataset '{}' in '{}', got another type",
                name, path);
  const int dims = H5Sget_simple_extent_ndims(space.get());
  FERRITE_CHECK(dims >= 1 && dims <= kMaxDims, ShapeError, kOp,
                "expected 1 to {} dimensions in the dataset '{}' in '{}', the first for the rows, "
                "got {}",
                kMaxDims, name, path, std::max(dims, 0));
  std::array<hsize_t, kMaxDims> sizes{};
  H5Sget_simple_extent_dims(space.get(), sizes.data(), nullptr);
  Shape row;
  std::int64_t bytes = static_cast<std::int64_t>(itemsize(element->dtype)), rows = 0;
  for (int d = 0; d < dims; ++d) {
    std::int64_t size = 0;
    const bool fits = !__builtin_add_overflow(sizes[static_cast<std::size_t>(d)], 0, &size);
    FERRITE_CHECK(
        fits && (d == 0 || !__builtin_mul_overflow(bytes, std::max<std::int64_t>(size, 1), &bytes)),
        IoError, kOp, "the dataset '{}' in '{}' has an impossible size", name, path);
    if (d == 0)
      rows = size;
    else
      row.insert(d - 1, size);
  }
  if (datasets.empty()) size = rows;
  FERRITE_CHECK(rows == size, ShapeError, kOp,
                "expected datasets of one length in '{}', got {} rows in '{}' and {} in '{}'", path,
                size, datasets[0].name, rows, name);
  datasets.push_back({name, std::move(dataset), *std::move(element), row});
}

/// Consecutive rows, to dense memory.
void HDF5Rows::File::read(const Dataset& from, std::int64_t first, std::int64_t rows,
                          void* to) const {
  std::array<hsize_t, kMaxDims> start{}, count{};
  start[0] = static_cast<hsize_t>(first);
  count[0] = static_cast<hsize_t>(rows);
  for (int d = 0; d < from.row.size(); ++d)
    count[static_cast<std::size_t>(d) + 1] = static_cast<hsize_t>(from.row[d]);
  const Handle space(H5Dget_space(from.dataset.get()), H5Sclose);
  const Handle memory(H5Screate_simple(from.row.size() + 1, count.data(), nullptr), H5Sclose);
  const bool done = space && memory &&
                    H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, start.data(), nullptr,
                                        count.data(), nullptr) >= 0 &&
                    H5Dread(from.dataset.get(), from.element.type.get(), memory.get(), space.get(),
                            H5P_DEFAULT, to) >= 0;
  FERRITE_CHECK(done, IoError, kOp, "cannot read rows {} to {} of the dataset '{}' in '{}': {}",
                first, first + rows - 1, from.name, path, reason());
}

HDF5Rows::HDF5Rows(const std::filesystem::path& path, const std::vector<std::string>& names)
    : file_(std::make_shared<const File>(path, names)) {}

std::int64_t HDF5Rows::size() const { return file_->size; }

std::int64_t HDF5Rows::count() const { return std::ssize(file_->datasets); }

Tensor HDF5Rows::read(std::int64_t which, std::span<const std::int64_t> indices) const {
  check_index(which, count(), kOp);
  for (const std::int64_t i : indices) check_index(i, size(), kOp);
  const File::Dataset& from = file_->datasets[static_cast<std::size_t>(which)];
  Shape shape = from.row;
  shape.insert(0, std::ssize(indices));
  Tensor out = empty(shape, {.dtype = from.element.dtype, .device = kCPU});
  if (out.nbytes() == 0) return out;
  const std::size_t row = out.nbytes() / indices.size();
  auto* to = static_cast<char*>(out.data_ptr());
  const Session session;
  for (std::size_t begin = 0, end = 0; begin < indices.size(); begin = end) {
    for (end = begin + 1; end < indices.size() && indices[end] == indices[end - 1] + 1;) ++end;
    file_->read(from, indices[begin], static_cast<std::int64_t>(end - begin), to + begin * row);
  }
  return out;
}

}  // namespace ferrite::data
