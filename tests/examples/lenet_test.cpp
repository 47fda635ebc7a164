// The program examples/lenet, run like users do.
#include "ferrite/data/png.h"
#include "ferrite/data/safetensors.h"
#include "ferrite/metrics/logger.h"
#include "ferrite/tests/examples/workplace.h"

using namespace ferrite;
using namespace ferrite::test;

namespace {

/// Names and bytes of a file's tensors, whatever device they were saved from.
std::string tensors_of(const std::filesystem::path& path) {
  std::string all;
  for (const auto& [name, tensor] : load(path)) {
    const Tensor host = tensor.cpu();
    all += name + std::string(static_cast<const char*>(host.data_ptr()), host.nbytes());
  }
  return all;
}

}  // namespace

TEST_CASE("lenet trains on synthetic digits, reports, saves, and predicts") {
  const Workplace place;
  const Outcome trained = place.run(
      {"--max-steps", "30", "--batch-size", "64", "--report", "runs/a/report.json",
       "--checkpoint-dir", "runs/a", "--lr", "0.1", "--seed", "3", "--log", "runs/b/log.csv",
       "--tensorboard", "runs/a/events", "--profile", "runs/c/trace.json"});
  check_fine(trained);
  CHECK(contains(trained.out, "conv2d_relu_max_pool backward"));
  CHECK(contains(trained.out, "5 steps of"));
  CHECK(contains(trained.out, "trace written to runs/c/trace.json"));
  CHECK(json::parse(read_file(place / "runs/c/trace.json")).at("traceEvents").size() > 500);
  CHECK(contains(trained.out, "(conv1): Conv2d(1, 6, kernel_size=(5, 5)"));
  CHECK(contains(trained.out, "weights saved in runs/a/final.safetensors"));

  const json report = place.report("runs/a/report.json");
  const json configuration = report.at("configuration");
  CHECK(configuration.at("dataset") == "synthetic-digits");
  CHECK(configuration.at("model") == "lenet5");
  CHECK(configuration.at("batch_size") == 64);
  CHECK(configuration.at("max_steps") == 30);
  CHECK(configuration.at("lr") == 0.1);
  CHECK(configuration.at("optimizer") == "sgd");
  CHECK(configuration.at("schedule") == "cosine");
  CHECK(configuration.at("seed") == 3);
  CHECK(configuration.at("parameters") == 61706);
  CHECK(configuration.at("device").is_string());
  CHECK(configuration.at("threads") >= 1);
  CHECK(configuration.at("workers") == 1);
  REQUIRE(report.at("epochs").size() == 1);
  const json epoch = report["epochs"][0];
  CHECK(epoch.at("epoch") == 1);
  CHECK(epoch.at("step") == 30);
  for (const char* key : {"train_loss", "test_loss"}) {
    REQUIRE(epoch.at(key).is_number());
    CHECK(epoch[key] > 0);
    CHECK(epoch[key] < 2.4);
  }
  for (const char* key : {"train_accuracy", "test_accuracy"}) {
    CHECK(epoch.at(key) >= 0);
    CHECK(epoch[key] <= 1);
  }
  CHECK(epoch.at("images_per_second") > 0);
  CHECK(report.at("test_accuracy") == epoch["test_accuracy"]);
  CHECK(report.at("seconds") > 0);

  CHECK(contains(trained.out, "curves in runs/a/report.svg"));
  const std::string curves = read_file(place / "runs/a/report.svg");
  CHECK(contains(curves, "lenet5 on synthetic-digits"));
  CHECK(contains(curves, ">accuracy</text>"));
  const auto log = metrics::read_log(place / "runs/b/log.csv");
  CHECK(log.at("test_loss").steps == std::vector<double>{30});
  CHECK(log.at("test_loss").values[0] == epoch["test_loss"].get<double>());
  CHECK(std::distance(std::filesystem::directory_iterator(place / "runs/a/events"), {}) == 1);

  const auto weights = place / "runs/a/final.safetensors";
  const StateDict state = load(weights);
  CHECK(state.size() == 10);
  CHECK(state.at("conv1.weight").shape() == Shape{6, 1, 5, 5});
  CHECK(data::load_safetensors_metadata(weights).at("model") == "lenet5");

  // A picture like those in training, and a large one in colour, dark on light.
  const data::SyntheticDigits digits(10, 99);
  const Tensor digit = as_strided(digits.images(), {28, 28}, {28, 1}, 7 * 784);
  data::write_png(digit, place / "digit.png");
  const Tensor large = empty({3, 100, 80}, {.dtype = kUInt8});
  for (std::int64_t c = 0; c < 3; ++c)
    for (std::int64_t y = 0; y < 100; ++y)
      for (std::int64_t x = 0; x < 80; ++x)
        large.data<std::uint8_t>()[(c * 100 + y) * 80 + x] = static_cast<std::uint8_t>(
            255 - digit.data<std::uint8_t>()[y * 28 / 100 * 28 + x * 28 / 80]);
  data::write_png(large, place / "large.png");
  for (const std::string picture : {"digit.png", "large.png"}) {
    const Outcome predicted = place.run({"--predict", picture, "--checkpoint-dir", "runs/a"});
    check_fine(predicted);
    CHECK(contains(predicted.out, picture + ": "));
    CHECK(contains(predicted.out, " is dark on light: inverting it") == (picture == "large.png"));
    CHECK(std::ranges::count(predicted.out, '%') == 5);
    CHECK_FALSE(contains(predicted.out, "nan"));
  }
}

TEST_CASE("lenet with the same seed gives the same losses to the last bit") {
  const Workplace place;
  for (const std::string model : {"lenet5", "d2l"}) {
    const auto report_of = [&](const Arguments& more) {
      Arguments arguments = {"--model",  model,         "--epochs",         "2",
                             "--report", "report.json", "--checkpoint-dir", "."};
      arguments.insert(arguments.end(), more.begin(), more.end());
      check_fine(place.train(arguments));
      return place.report();
    };
    const json first = report_of({"--seed", "5"});
    const std::string weights = tensors_of(place / "final.safetensors");
    REQUIRE(first.at("epochs").size() == 2);
    CHECK(first["epochs"][1].at("step") == 12);
    for (const Arguments& more : {Arguments{},
                                  {"--threads", "1"},
                                  {"--threads", "2", "--workers", "0"},
                                  {"--workers", "3", "--threads", "3"},
                                  {"--device", "cpu:1"}}) {
      Arguments arguments = {"--seed", "5"};
      arguments.insert(arguments.end(), more.begin(), more.end());
      CAPTURE(arguments.back());
      CHECK(timeless(report_of(arguments)) == timeless(first));
      CHECK(tensors_of(place / "final.safetensors") == weights);
    }
    CHECK(timeless(report_of({"--seed", "6"})) != timeless(first));
  }
}

TEST_CASE("lenet with every optimizer, and steps that end within an epoch") {
  const Workplace place;
  for (const std::string optimizer : {"sgd", "adam", "adamw", "rmsprop"}) {
    check_fine(place.train({"--optimizer", optimizer, "--max-steps", "8", "--epochs", "3",
                            "--report", "report.json"}));
    const json report = place.report();
    CHECK(report["configuration"].at("optimizer") == optimizer);
    REQUIRE(report.at("epochs").size() == 2);
    CHECK(report["epochs"][0].at("step") == 6);
    CHECK(report["epochs"][1].at("step") == 8);
    CHECK(report["epochs"][1].at("test_loss").is_number());
  }
}

TEST_CASE("lenet refuses wrong options") {
  const Workplace place;
  const auto refuses = [&](const Arguments& arguments, const std::string& text, int code = -1) {
    CAPTURE(arguments.back());
    check_refused(place.run(arguments), text, code);
  };
  refuses({"--nosuch"}, "--nosuch");
  refuses({"extra"}, "extra");
  refuses({"--epochs", "0"}, "--epochs");
  refuses({"--epochs"}, "--epochs");
  refuses({"--batch-size", "many"}, "--batch-size");
  refuses({"--lr", "-1"}, "--lr: expected a number above 0, got '-1'");
  refuses({"--lr", "fast"}, "--lr: expected a number above 0, got 'fast'");
  refuses({"--lr", "nan"}, "--lr: expected a number above 0, got 'nan'");
  refuses({"--model", "resnet"}, "lenet5,d2l");
  refuses({"--optimizer", "lion"}, "adamw");
  refuses({"--dataset", "imagenet"}, "synthetic-digits");
  refuses({"--threads", "-1"}, "--threads");
  refuses({"--workers", "100000"}, "--workers");
  refuses({"--workers", "257"}, "--workers: expected a whole number from 0 to 256, got '257'");
  refuses({"--seed", "x"}, "--seed");
  refuses({"--seed", "-1"}, "--seed: expected a whole number of 0 or more, got '-1'");
  refuses({"--seed", "18446744073709551616"}, "--seed");
  refuses({"--max-steps", "-1"}, "--max-steps: expected a whole number of 0 or more, got '-1'");
  refuses({"--max-steps", "1e3"}, "--max-steps");
  refuses({"--device", "gpu"}, "cannot read 'gpu'", 1);
  refuses({"--device", "cpu:99"}, "cpu:99", 1);
  const std::string missing = "cuda:" + std::to_string(cuda::device_count());
  refuses({"--device", missing},
          cuda::is_available() ? missing + " was asked for" : "no CUDA device is available", 1);
  refuses({"--device", "cpu", "--graph"},
          "[--graph] CUDA graphs need a CUDA device: expected --device cuda or cuda:N, got cpu", 1);
  if (!cuda::is_available())
    refuses({"--device", "auto", "--graph"}, "got cpu, because there is no CUDA device", 1);
  const Outcome help = place.run({"--help"});
  check_fine(help);
  for (const char* option : {"--dataset", "--predict", "--report", "--checkpoint-dir", "--graph",
                             "--curves", "--log", "--tensorboard", "--profile"})
    CHECK(contains(help.out, option));
}

TEST_CASE("lenet refuses folders and files it cannot use, before it trains") {
  const Workplace place;
  check_refused(place.run({"--dataset", "mnist", "--data", "nosuch"}), "nosuch");
  check_refused(place.run({"--dataset", "fashion-mnist", "--data", place.path().string(),
                           "--max-steps", "1", "--report", "/dev/null/report.json"}),
                "--report");
  write_file(place / "file", "");
  for (const std::string folder : {"/proc/nosuch", "file", "file/below"}) {
    CAPTURE(folder);
    const Outcome checkpoint = place.train({"--checkpoint-dir", folder});
    check_refused(checkpoint, "[--checkpoint-dir]");
    CHECK(checkpoint.out.empty());
    const Outcome report = place.train({"--report", folder + "/report.json"});
    check_refused(report, "[--report]");
    for (const std::string option : {"--curves", "--log", "--tensorboard", "--profile"})
      check_refused(place.train({option, folder + "/x"}), "[" + option + "]");
    CHECK(report.out.empty());
  }
  std::filesystem::create_directory(place / "folder.json");
  check_refused(place.train({"--report", "folder.json"}), "[--report]");
}

TEST_CASE("lenet refuses damaged data sets") {
  const std::string images = "train-images-idx3-ubyte", labels = "train-labels-idx1-ubyte";
  const auto refuses = [&](const std::string& file, auto damage, const std::string& text) {
    const Workplace place;
    std::string content = read_file(place / file);
    damage(content);
    write_file(place / file, content);
    CAPTURE(file);
    check_refused(place.train({"--max-steps", "1"}), text);
  };
  refuses(
      images, [](std::string& s) { s.resize(s.size() / 2); }, images);
  refuses(
      images, [](std::string& s) { s.resize(3); }, images);
  refuses(
      images, [](std::string& s) { s[3] = 1; }, images);
  refuses(
      images, [](std::string& s) { s = "garbage"; }, images);
  refuses(
      images, [](std::string& s) { s[4] = '\x7f'; }, images);
  refuses(
      labels, [](std::string& s) { s[20] = 77; }, labels);
  refuses(
      labels, [](std::string& s) { s.pop_back(); }, labels);
  refuses(
      "t10k-images-idx3-ubyte", [](std::string& s) { s.clear(); }, "t10k-images");
}

TEST_CASE("lenet --predict rejects invalid pictures and weights") {
  const Workplace place;
  check_fine(place.train({"--max-steps", "1", "--checkpoint-dir", "ck"}));
  const auto weights = place / "ck/final.safetensors";
  const std::string valid = read_file(weights);
  const StateDict state = load(weights);
  const data::Metadata metadata = data::load_safetensors_metadata(weights);
  data::write_png(as_strided(data::SyntheticDigits(1).images(), {28, 28}, {28, 1}, 0),
                  place / "digit.png");
  const auto refuses = [&](const std::string& picture, const std::string& text) {
    check_refused(place.run({"--predict", picture, "--checkpoint-dir", "ck"}), text);
  };
  check_fine(place.run({"--predict", "digit.png", "--checkpoint-dir", "ck"}));

  check_refused(place.run({"--predict", "digit.png"}), "--checkpoint-dir");
  check_refused(place.run({"--predict", "digit.png", "--checkpoint-dir", "nosuch"}), "nosuch");
  refuses("nosuch.png", "nosuch.png");
  refuses("ck", "ck");
  write_file(place / "garbage.png", "this is not a picture");
  refuses("garbage.png", "garbage.png");
  const std::string png = read_file(place / "digit.png");
  write_file(place / "cut.png", png.substr(0, png.size() / 2));
  refuses("cut.png", "cut.png");

  for (const std::string& content : {std::string("garbage"), std::string(), valid.substr(0, 100),
                                     valid.substr(0, valid.size() - 5), std::string(64, '\xff')}) {
    write_file(weights, content);
    refuses("digit.png", "final.safetensors");
  }
  save(state, weights, {});
  refuses("digit.png", "no 'model' in its metadata");
  for (const auto& [key, value, text] :
       {std::tuple{"mean", "grey", "not a number: 'grey'"},
        {"std", "", "not a number: ''"},
        {"classes", "one\ntwo", "names 2 classes, but its network has 10"},
        {"model", "d2l", "W1"},
        {"model", "resnet", "resnet"}}) {
    CAPTURE(key);
    data::Metadata changed = metadata;
    changed[key] = value;
    save(state, weights, changed);
    refuses("digit.png", text);
  }
}
