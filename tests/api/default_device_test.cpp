// A training under another default device than the host, which data sets and files do not notice.
#include <doctest/doctest.h>
#include <ferrite/ferrite.h>

#include <filesystem>

using namespace ferrite;

TEST_CASE("a network trains where the default device says; its data are on the host") {
  const auto path = std::filesystem::temp_directory_path() / "ferrite_default_device.safetensors";
  const auto images = data::TensorDataset(randint(0, 256, {8, 1, 4, 4}, kUInt8).to(kFloat32) / 255,
                                          randint(0, 3, {8}));
  const DefaultDeviceScope scope("cpu:1");
  nn::Sequential net(nn::Flatten(), nn::Linear(16, 4), nn::BatchNorm1d(4), nn::ReLU(),
                     nn::Dropout(0.1), nn::Linear(4, 3));
  CHECK(net.parameters()[0].device() == Device("cpu:1"));
  optim::Adam adam(net.parameters(), 0.05);
  optim::GradScaler scaler;
  for (const int workers : {0, 2}) {
    data::DataLoader loader(images, {.batch_size = 4, .shuffle = true, .num_workers = workers});
    for (auto& [x, y] : loader) {
      CHECK(x.device().is_host());
      const Tensor loss = cross_entropy(net(x.to("cpu:1")), y.to("cpu:1"));
      adam.zero_grad();
      scaler.scale(loss).backward();
      scaler.unscale_(adam);
      nn::utils::clip_grad_norm_(net.parameters(), 1.0);
      scaler.step(adam);
      scaler.update();
      CHECK(std::isfinite(loss.item<float>()));
    }
  }
  save(net, path);
  for (const auto& [name, tensor] : load(path)) CHECK(tensor.device().is_host());
  load(net, path);
  CHECK(net.parameters()[0].device() == Device("cpu:1"));
  std::filesystem::remove(path);

  const Tensor image = full({3, 8, 8}, 100, {.dtype = kUInt8, .device = kCPU});
  Generator random;
  const data::Transform augment = data::Compose{data::RandomResizedCrop(6),
                                                data::RandomRotation(10),
                                                data::RandomHorizontalFlip(),
                                                data::ColorJitter(0.1),
                                                data::ToTensor(),
                                                data::Normalize({0.5, 0.5, 0.5}, {1, 1, 1})};
  CHECK(augment(image, random).device().is_host());
}
