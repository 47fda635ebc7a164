#include <doctest/doctest.h>
#include <hdf5.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "ferrite/data/dataloader.h"
#include "ferrite/data/hdf5/hdf5_dataset.h"
#include "ferrite/tests/support/message.h"

using namespace ferrite;
using namespace ferrite::data;
using ferrite::test::contains;
using ferrite::test::message_of;

namespace {

using Values = std::vector<std::int64_t>;

/// A file that is written with HDF5's own functions, and removed at the end.
class File {
 public:
  File() : path_(std::filesystem::temp_directory_path() / "ferrite_hdf5_test.h5") {
    id_ = H5Fcreate(path_.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    REQUIRE(id_ >= 0);
  }
  ~File() {
    close();
    std::filesystem::remove(path_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  /// A dataset of `stored` type; chunked and compressed if `chunk` rows are given.
  template <class T>
  void add(const std::string& name, const std::vector<hsize_t>& sizes, hid_t stored, hid_t given,
           const std::vector<T>& values, hsize_t chunk = 0) {
    const hid_t space = H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr);
    const hid_t how = H5Pcreate(H5P_DATASET_CREATE), links = H5Pcreate(H5P_LINK_CREATE);
    H5Pset_create_intermediate_group(links, 1);
    if (chunk > 0) {
      std::vector<hsize_t> chunks = sizes;
      chunks[0] = chunk;
      H5Pset_chunk(how, static_cast<int>(chunks.size()), chunks.data());
      H5Pset_fletcher32(how);
    }
    const hid_t set = H5Dcreate2(id_, name.c_str(), stored, space, links, how, H5P_DEFAULT);
    REQUIRE(set >= 0);
    REQUIRE(H5Dwrite(set, given, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) >= 0);
    H5Dclose(set), H5Pclose(links), H5Pclose(how), H5Sclose(space);
  }
  /// Float images [rows, 2, 3] with values 0, 1, ... and labels 0, 10, ....
  void add_samples(hsize_t rows, hsize_t chunk = 0) {
    std::vector<float> images(rows * 6);
    for (std::size_t i = 0; i < images.size(); ++i) images[i] = static_cast<float>(i);
    std::vector<int> labels;
    for (std::size_t i = 0; i < rows; ++i) labels.push_back(static_cast<int>(10 * i));
    add("images", {rows, 2, 3}, H5T_IEEE_F32BE, H5T_NATIVE_FLOAT, images, chunk);
    add("group/labels", {rows}, H5T_STD_I64LE, H5T_NATIVE_INT, labels, chunk);
  }
  void close() {
    if (id_ >= 0) H5Fclose(id_);
    id_ = -1;
  }
  const std::filesystem::path& path() const { return path_; }
  std::string bytes() {
    close();
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void replace(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
  }

 private:
  std::filesystem::path path_;
  hid_t id_ = -1;
};

const std::vector<std::string> kNames = {"images", "group/labels"};

}  // namespace

TEST_CASE("hdf5: rows are read as they are asked for") {
  for (const hsize_t chunk : {hsize_t{0}, hsize_t{4}}) {
    File file;
    file.add_samples(10, chunk);
    file.close();
    const HDF5Dataset set(file.path(), kNames);
    CHECK(set.size() == 10);
    const Sample sample = set.get(3);
    CHECK(sample.input.shape() == Shape{2, 3});
    CHECK(sample.input.to_vector<int>() == std::vector<int>{18, 19, 20, 21, 22, 23});
    CHECK(sample.label.dtype() == kInt64);
    CHECK(sample.label.item<std::int64_t>() == 30);
    const Batch batch = set.get_batch(Values{8, 9, 0, 1, 2, 5});
    CHECK(batch.inputs.shape() == Shape{6, 2, 3});
    CHECK(batch.inputs.dtype() == kFloat32);
    CHECK(batch.inputs.to_vector<int>()[6] == 54);
    CHECK(batch.inputs.to_vector<int>()[35] == 35);
    CHECK(batch.labels.to_vector<std::int64_t>() == Values{80, 90, 0, 10, 20, 50});
    CHECK(set.get_batch(Values()).labels.shape() == Shape{0});
    CHECK_THROWS_AS(set.get(10), IndexError);
    CHECK_THROWS_AS(set.get_batch(Values{0, -1}), IndexError);
  }
}

TEST_CASE("hdf5: by a loader, from several threads and several objects") {
  File file;
  file.add_samples(50, 8);
  file.close();
  const auto run = [&](int workers) {
    const HDF5Dataset set(file.path(), kNames);
    DataLoader loader(set, {.batch_size = 7, .shuffle = true, .num_workers = workers, .seed = 4});
    Values labels;
    for (auto& [images, batch] : loader) {
      const auto v = batch.to_vector<std::int64_t>();
      for (std::int64_t i = 0; i < std::ssize(v); ++i)
        CHECK(10 * images.data<float>()[6 * i] ==
              static_cast<float>(6 * v[static_cast<std::size_t>(i)]));
      labels.insert(labels.end(), v.begin(), v.end());
    }
    return labels;
  };
  const Values expected = run(0);
  CHECK(expected.size() == 50);
  Values other;
  std::thread thread([&] { other = run(2); });
  CHECK(run(3) == expected);
  thread.join();
  CHECK(other == expected);
}

TEST_CASE("hdf5: types, and samples of other types") {
  File file;
  const hid_t half = H5Tcopy(H5T_IEEE_F32LE);
  H5Tset_fields(half, 15, 10, 5, 0, 10), H5Tset_size(half, 2), H5Tset_ebias(half, 15);
  const hid_t flag = H5Tenum_create(H5T_NATIVE_INT8);
  signed char no = 0, yes = 1;
  H5Tenum_insert(flag, "FALSE", &no), H5Tenum_insert(flag, "TRUE", &yes);
  const struct {
    std::string name;
    hid_t stored;
    DType dtype;
  } types[] = {{"i8", H5T_STD_I8LE, kInt8},       {"i16", H5T_STD_I16BE, kInt16},
               {"u16", H5T_STD_U16LE, kInt32},    {"i32", H5T_STD_I32LE, kInt32},
               {"u32", H5T_STD_U32BE, kInt64},    {"i64", H5T_STD_I64BE, kInt64},
               {"f16", half, kFloat16},           {"f32", H5T_IEEE_F32LE, kFloat32},
               {"f64", H5T_IEEE_F64BE, kFloat64}, {"u8", H5T_STD_U8LE, kUInt8}};
  std::vector<std::string> names;
  for (const auto& type : types) {
    const int first = type.name[0] == 'u' ? 200 : -1;
    file.add<int>(type.name, {4}, type.stored, H5T_NATIVE_INT, {first, 0, 1, 2});
    names.push_back(type.name);
  }
  file.add<signed char>("bool", {4}, flag, flag, {1, 0, 0, 1});
  file.add<unsigned>("large", {1}, H5T_STD_U32BE, H5T_NATIVE_UINT, {4000000000u});
  file.add<unsigned long>("u64", {4}, H5T_STD_U64LE, H5T_NATIVE_ULONG, {1, 2, 3, 4});
  const hid_t text = H5Tcopy(H5T_C_S1);
  H5Tset_size(text, 4);
  file.add<char>("text", {4}, text, text, std::vector<char>(16, 'x'));
  file.close();

  const HDF5Rows rows(file.path(), names);
  for (std::int64_t i = 0; i < rows.count(); ++i) {
    const Tensor t = rows.read(i, Values{0, 3});
    CAPTURE(names[static_cast<std::size_t>(i)]);
    CHECK(t.dtype() == types[i].dtype);
    CHECK(t.to_vector<std::int64_t>() == Values{types[i].name[0] == 'u' ? 200 : -1, 2});
  }
  struct Three {
    Tensor a, b;
    std::array<Tensor, 1> c;
  };
  const HDF5DatasetOf<Three> set(file.path(), {"bool", "f64", "i64"});
  CHECK(set.get_batch(Values{0, 1}).a.dtype() == kBool);
  CHECK(set.get_batch(Values{0, 1, 2, 3}).a.to_vector<int>() == std::vector<int>{1, 0, 0, 1});
  CHECK(set.get(3).c[0].item<std::int64_t>() == 2);
  CHECK(HDF5DatasetOf<Tensor>(file.path(), {"large"}).get(0).item<std::int64_t>() == 4000000000);
  const HDF5DatasetOf<Tensor> alone(file.path(), {"f16"});
  CHECK(alone.get(0).item<float>() == -1);
  CHECK_THROWS_AS(HDF5DatasetOf<Tensor>(file.path(), {"u64"}), DTypeError);
  CHECK_THROWS_AS(HDF5DatasetOf<Tensor>(file.path(), {"text"}), DTypeError);
  H5Tclose(half), H5Tclose(flag), H5Tclose(text);
}

TEST_CASE("hdf5: datasets that are missing or do not agree") {
  File file;
  file.add_samples(6);
  file.add<int>("short", {5}, H5T_STD_I32LE, H5T_NATIVE_INT, {1, 2, 3, 4, 5});
  file.add<int>("scalar", {}, H5T_STD_I32LE, H5T_NATIVE_INT, {1});
  file.close();
  const auto error = [&](const std::vector<std::string>& names) {
    return message_of<Error>([&] { HDF5Dataset(file.path(), names); });
  };
  const std::string path = file.path().string();
  CHECK(contains(error({"images", "labels"}), "[hdf5] cannot open the dataset 'labels' in '" +
                                                  path +
                                                  "', which has group, images, scalar, short: "));
  CHECK(contains(error({"images", "group"}), "cannot open the dataset 'group'"));
  CHECK(error({"images", "short"}) == "[hdf5] expected datasets of one length in '" + path +
                                          "', got 6 rows in 'images' and 5 in 'short'");
  CHECK(contains(error({"scalar"}), "got 0"));
  CHECK(error({"images"}) == "[hdf5] expected 2 names, one for each tensor of a sample, got 1");
  CHECK(error({}) == "[hdf5] expected the name of a dataset, got none");
  CHECK(contains(message_of<IoError>([] { HDF5Dataset("no/such.h5", kNames); }),
                 "[hdf5] cannot open 'no/such.h5': "));
}

TEST_CASE("hdf5: damaged files") {
  File file;
  file.add_samples(40, 5);
  const std::string good = file.bytes();
  file.replace("not HDF5 at all");
  CHECK_THROWS_AS(HDF5Dataset(file.path(), kNames), IoError);
  file.replace(good.substr(0, good.size() / 2));
  CHECK_THROWS_AS(HDF5Dataset(file.path(), kNames), IoError);
  // 100, big-endian, in a chunk with a checksum.
  std::string damaged = good;
  const std::size_t at = damaged.find(std::string("\x42\xc8\x00\x00", 4));
  REQUIRE(at != std::string::npos);
  damaged[at + 2] = 1;
  file.replace(damaged);
  const HDF5Dataset set(file.path(), kNames);
  CHECK(set.get(0).input.numel() == 6);
  CHECK(contains(message_of<IoError>([&] { set.get(16); }),
                 "[hdf5] cannot read rows 16 to 16 of the dataset 'images' in '"));
}
