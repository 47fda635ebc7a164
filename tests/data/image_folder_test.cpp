#include "ferrite/data/image_folder.h"

#include <map>

#include "ferrite/core/views.h"
#include "ferrite/data/dataloader.h"
#include "ferrite/data/image_io.h"
#include "ferrite/data/synthetic_digits.h"
#include "ferrite/tests/data/files.h"

using namespace ferrite;
using namespace ferrite::data;

namespace {

using test::contains;
using test::message_of;
using test::TempDir;
namespace fs = std::filesystem;

/// A gray or RGB image with one value per channel.
Tensor plain(int channels, std::int64_t height, std::int64_t width, std::uint8_t value) {
  Tensor t = empty({channels, height, width}, {.dtype = kUInt8});
  for (std::int64_t i = 0; i < t.numel(); ++i)
    t.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(value + i / (height * width));
  return t;
}

/// A folder of classes. Writing creates the folders.
class Root : public TempDir {
 public:
  void png(const std::string& name, const Tensor& image) const {
    fs::create_directories((*this / name).parent_path());
    write_png(image, *this / name);
  }
  void text(const std::string& name, const std::string& content) const {
    fs::create_directories((*this / name).parent_path());
    test::write_file(*this / name, content);
  }
};

std::string error_of(const fs::path& root, const ImageFolderOptions& options = {}) {
  return message_of<IoError>([&] { ImageFolder(root, options); });
}

}  // namespace

TEST_CASE("image folder: classes, files and their order, as torchvision has them") {
  const Root root;
  // Out of order, as the file system may list them.
  for (const char* name : {"dog/b.png", "dog/a.png", "dog/B.PnG", "dog/below/0.png",
                           "dog/below/a/x.png", "cat/2.jpeg", "cat/10.JPG", "Zebra/z.png"})
    root.png(name, plain(1, 2, 2, 9));
  write_jpeg(plain(3, 8, 8, 50), root / "cat/2.jpeg");
  root.text("dog/notes.txt", "no image");
  root.text("dog/png", "no image");
  root.text("readme.png", "not in a class");
  fs::create_symlink(root / "cat", root / "dog/below/link");
  fs::create_symlink("nowhere", root / "dog/broken.png");
  fs::create_directory(root / "dog/folder.png");

  const ImageFolder images(root.path());
  CHECK(images.classes() == std::vector<std::string>{"Zebra", "cat", "dog"});
  CHECK(images.class_to_idx() ==
        std::map<std::string, std::int64_t>{{"Zebra", 0}, {"cat", 1}, {"dog", 2}});
  std::vector<std::string> found;
  for (const ImageFolder::File& file : images.samples()) {
    found.push_back(file.path.lexically_relative(root.path()));
    CHECK(file.label == (found.back()[0] == 'Z' ? 0 : found.back()[0] == 'c' ? 1 : 2));
  }
  CHECK(found.size() == 10);
  found.erase(found.begin() + 8, found.begin() + 9 + 1);  // the ones reached through the link
  CHECK(found == std::vector<std::string>{"Zebra/z.png", "cat/10.JPG", "cat/2.jpeg", "dog/B.PnG",
                                          "dog/a.png", "dog/b.png", "dog/below/0.png",
                                          "dog/below/a/x.png"});
  CHECK(images.size() == 10);
  CHECK(images.samples()[9].path == root / "dog/below/link/2.jpeg");
  CHECK(images.get(9).input.shape() == Shape{3, 8, 8});
  CHECK(images.get(9).label.item<std::int64_t>() == 2);
  CHECK_THROWS_AS(images.get(10), IndexError);
  CHECK_THROWS_AS(images.get(-1), IndexError);
}

TEST_CASE("image folder: gray and RGB, and the transform's bits") {
  const Root root;
  root.png("a/gray.png", plain(1, 2, 3, 7));
  root.png("b/rgb.png", plain(3, 2, 3, 100));
  const ImageFolder rgb(root.path());
  CHECK(rgb.image(0).shape() == Shape{3, 2, 3});
  CHECK(rgb.image(1).to_vector<std::int64_t>()[6] == 101);
  CHECK(rgb.get(0).input.to_vector<float>()[17] == 7 / 255.0f);
  ImageFolder gray(root.path(), {.mode = ImageMode::gray});
  CHECK(gray.image(0).shape() == Shape{1, 2, 3});
  CHECK(gray.image(1).to_vector<std::int64_t>() ==
        read_image(root / "b/rgb.png", ImageMode::gray).to_vector<std::int64_t>());
  const Compose transform{Resize(1, 1), ToTensor(), Normalize(0.5, 0.25)};
  CHECK(ImageFolder(root.path(), transform).get(1).input.shape() == Shape{3, 1, 1});
  gray.set_transform(transform);
  const Batch batch = gray.get_batch(std::vector<std::int64_t>{1, 0, 1});
  CHECK(batch.inputs.shape() == Shape{3, 1, 1, 1});
  CHECK(batch.labels.to_vector<std::int64_t>() == std::vector<std::int64_t>{1, 0, 1});
  for (const std::size_t i : {0, 1, 2})
    CHECK(batch.inputs.to_vector<float>()[i] ==
          transform(gray.image(i == 1 ? 0 : 1)).item<float>());
  CHECK(message_of<ValueError>([&] { ImageFolder(root.path(), {.mode = ImageMode::unchanged}); }) !=
        "");
}

TEST_CASE("image folder: errors name missing and damaged files") {
  const Root root;
  CHECK(contains(error_of(root / "nosuch"), "there is no folder '" + (root / "nosuch").string()));
  CHECK(contains(error_of(root.path()), "found no classes in '" + root.path().string()));
  root.png("cat/1.png", plain(1, 4, 4, 1));
  root.text("dog/1.txt", "");
  CHECK(contains(error_of(root.path()), "no images for the class dog in"));
  fs::create_directories(root / "ant/deep");
  CHECK(contains(error_of(root.path()), "no images for the classes ant, dog in"));
  const ImageFolder allowed(root.path(), {.allow_empty = true});
  CHECK(allowed.classes().size() == 3);
  CHECK(allowed.size() == 1);
  CHECK(allowed.samples()[0].label == 1);
  fs::remove_all(root / "ant"), fs::remove_all(root / "dog");

  root.png("cat/2.png", plain(1, 4, 5, 1));
  const ImageFolder sizes(root.path());
  const std::vector<std::int64_t> both = {0, 1};
  const std::string differ = message_of<ShapeError>([&] { sizes.get_batch(both); });
  for (const char* part : {"cat/1.png", "cat/2.png", "Resize"}) CHECK(contains(differ, part));
  CHECK_THROWS_AS(sizes.get_batch(std::vector<std::int64_t>{2}), IndexError);

  // Damaged, empty, not an image, missing: the error of the loader's loop names the file.
  const std::string png = test::read_file(root / "cat/1.png");
  for (const std::string& content :
       {png.substr(0, png.size() / 2), std::string(), std::string("text")}) {
    root.text("cat/2.png", content);
    const ImageFolder images(root.path());
    CHECK_NOTHROW(images.get(0));
    CHECK(contains(message_of<IoError>([&] { images.get(1); }), "cat/2.png"));
    DataLoader loader(images, {.batch_size = 2, .num_workers = 2});
    CHECK(contains(message_of<IoError>([&] { loader.begin(); }), "cat/2.png"));
  }
  root.png("cat/2.png", plain(1, 4, 5, 1));
  const ImageFolder limited(root.path(), {.max_pixels = 16});
  CHECK_NOTHROW(limited.get(0));
  const std::string large = message_of<IoError>([&] { limited.get(1); });
  for (const char* part : {"cat/2.png", "5 x 4 pixels", "the limit of 16", "max_pixels"})
    CHECK(contains(large, part));
  CHECK_THROWS_AS(ImageFolder(root.path(), {.max_pixels = 0}), ValueError);
  const ImageFolder images(root.path());
  fs::remove(root / "cat/2.png");
  CHECK(contains(message_of<IoError>([&] { images.get(1); }), "cat/2.png"));
  // A cyclic link.
  fs::create_directory_symlink(root / "cat", root / "cat/self");
  CHECK(contains(error_of(root.path()), "link"));
}

TEST_CASE("image folder: batches are the same with any number of workers, cached or not") {
  const Root root;
  const SyntheticDigits digits(24, 3);
  for (std::int64_t i = 0; i < digits.size(); ++i)
    root.png(
        std::to_string(digits.labels().data<std::int64_t>()[i]) + "/" + std::to_string(i) + ".png",
        geometry::apply(digits.images(), geometry::select(digits.images(), 0, i)));
  const auto all = [&](std::size_t cache_bytes, int workers, int epochs) {
    const ImageFolder images(root.path(), {.mode = ImageMode::gray,
                                           .transform = Compose{RandomResizedCrop(9),
                                                                RandomHorizontalFlip(), ToTensor()},
                                           .allow_empty = true,
                                           .cache_bytes = cache_bytes});
    DataLoader loader(images,
                      {.batch_size = 5, .shuffle = true, .num_workers = workers, .seed = 4});
    std::vector<float> values;
    for (int epoch = 0; epoch < epochs; ++epoch)
      for (const auto& [inputs, labels] : loader) {
        const auto x = inputs.to_vector<float>(), y = labels.to_vector<float>();
        values.insert(values.end(), x.begin(), x.end());
        values.insert(values.end(), y.begin(), y.end());
      }
    return values;
  };
  const std::vector<float> expected = all(0, 0, 3);
  CHECK(expected.size() == 3 * 24 * (81 + 1));
  CHECK(all(0, 3, 3) == expected);
  CHECK(all(1 << 20, 3, 3) == expected);
  CHECK(all(5 * 784 + 3, 2, 3) == expected);

  // Kept while there is room, in the order of arrival.
  const ImageFolder cached(
      root.path(), {.mode = ImageMode::gray, .allow_empty = true, .cache_bytes = 2 * 784 + 783});
  for (const std::int64_t i : {7, 3, 5}) cached.image(i);
  const ImageFolder copy = cached;
  CHECK(copy.image(7).is_same(cached.image(7)));
  CHECK(copy.image(3).is_same(cached.image(3)));
  CHECK_FALSE(copy.image(5).is_same(cached.image(5)));
  for (const auto& file : cached.samples()) fs::remove(file.path);
  CHECK_NOTHROW(cached.image(3));
  CHECK_THROWS_AS(cached.image(5), IoError);
}
