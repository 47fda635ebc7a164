// The program examples/resnet18, run like users do.
#include "ferrite/tests/examples/resnet18.h"

#include <cmath>

#include "ferrite/data/safetensors.h"

using namespace ferrite;
using namespace ferrite::test;

TEST_CASE("resnet18 trains, evaluates and reports") {
  const ResNetPlace place;
  const Outcome trained = place.train({"--epochs", "6", "--lr", "0.05", "--report", "report.json",
                                       "--print-freq", "2", "--warmup-epochs", "0.5"});
  check_fine(trained);
  CHECK(contains(trained.out, "(layer4): Sequential("));
  CHECK(contains(trained.out, "image-folder on cpu: 48 train and 15 test images of 3 classes"));
  CHECK(contains(trained.out, " step 2/6 loss "));
  CHECK(contains(trained.out, "lr "));
  const json report = place.report();
  const json configuration = report.at("configuration");
  for (const auto& [key, value] : std::map<std::string, json>{{"dataset", "image-folder"},
                                                              {"model", "resnet18"},
                                                              {"width", 4},
                                                              {"stem", "small"},
                                                              {"batch_size", 8},
                                                              {"optimizer", "sgd"},
                                                              {"schedule", "cosine"},
                                                              {"warmup_epochs", 0.5},
                                                              {"device", "cpu"}}) {
    CAPTURE(key);
    CHECK(configuration.at(key) == value);
  }
  CHECK(configuration.at("trainable_parameters") == configuration.at("parameters"));
  REQUIRE(report.at("epochs").size() == 6);
  const json first = report["epochs"][0], last = report["epochs"][5];
  CHECK(last.at("step") == 36);
  CHECK(last.at("skipped") == 0);
  CHECK(last.at("train_loss") < first.at("train_loss"));
  CHECK(last["train_loss"] < 0.8);
  CHECK(last.at("train_accuracy") > 0.6);
  CHECK(report.at("test_accuracy") == last.at("test_accuracy"));
}

TEST_CASE("resnet18 trains every network, with every optimizer and schedule") {
  const ResNetPlace place;
  for (const Arguments& arguments :
       {Arguments{"--model", "resnet34", "--optimizer", "adamw"},
        {"--model", "resnet50", "--optimizer", "adam", "--channels-last"},
        {"--stem", "standard", "--optimizer", "rmsprop", "--schedule", "constant"},
        {"--schedule", "step", "--no-augment", "--label-smoothing", "0.1"},
        {"--model", "mobilenet_v2", "--trivial-augment", "--random-erase", "0.5", "--mixup", "0.2"},
        {"--model", "vit_b_16", "--optimizer", "adamw", "--cutmix", "1", "--accumulate", "2"},
        {"--model", "efficientnet_b0", "--mixup", "0.2", "--cutmix", "1", "--ema", "0.9"}}) {
    CAPTURE(arguments[1]);
    Arguments all = arguments;
    all.insert(all.end(), {"--max-steps", "3", "--report", "report.json"});
    check_fine(place.train(all));
    const json report = place.report();
    REQUIRE(report.at("epochs").size() == 1);
    CHECK(report["epochs"][0].at("step") == 3);
    CHECK(report["epochs"][0].at("skipped") == 0);
    CHECK(std::isfinite(report["epochs"][0].at("train_loss").get<double>()));
    CHECK(report["configuration"].at("channels_last") == (arguments.back() == "--channels-last"));
  }
}

TEST_CASE("resnet18 reads a split of EMNIST") {
  const ResNetPlace place;
  for (const char* kind : {"images-idx3-ubyte", "labels-idx1-ubyte"})
    for (const auto& [mnist, emnist] : {std::pair{"train", "train"}, {"t10k", "test"}})
      std::filesystem::copy_file(place / fmt::format("{}-{}", mnist, kind),
                                 place / fmt::format("emnist-digits-{}-{}", emnist, kind));
  const Outcome trained = place.train({"--dataset", "emnist-digits", "--max-steps", "2"});
  check_fine(trained);
  CHECK(contains(trained.out, "emnist-digits on cpu: 96 train and 32 test images of 10 classes"));
  check_refused(place.train({"--dataset", "emnist-letters"}), "emnist-letters-train-images");
}

TEST_CASE("resnet18 with the same seed gives the same losses to the last bit") {
  const ResNetPlace place;
  const auto report_of = [&](const Arguments& more) {
    Arguments arguments = {"--epochs", "2", "--max-steps", "9", "--report", "report.json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    check_fine(place.train(arguments));
    return timeless(place.report());
  };
  const json first = report_of({"--seed", "5"});
  REQUIRE(first.at("epochs").size() == 2);
  CHECK(report_of({"--seed", "5", "--threads", "2", "--workers", "3", "--print-freq", "1"}) ==
        first);
  CHECK(report_of({"--seed", "5", "--workers", "0"}) == first);
  CHECK(report_of({"--seed", "6"}) != first);
  const auto recipe = [&](const char* workers) {
    return report_of({"--trivial-augment", "--random-erase", "0.5", "--mixup", "0.2", "--cutmix",
                      "1", "--workers", workers});
  };
  CHECK(recipe("0") == recipe("3"));
}

TEST_CASE("resnet18 --accumulate gives the losses of batches so much larger") {
  const ResNetPlace place;
  const auto losses = [&](const Arguments& more) {
    // Norms with fixed statistics: those of a batch would depend on its size. 48 images make a last
    // batch of half the size, in parts of 5, 5 and 2.
    Arguments arguments = {"--max-steps",        "6",        "--lr",       "0.003", "--freeze",
                           "*bn?,*downsample.1", "--report", "report.json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    check_fine(place.train(arguments));
    const json report = place.report();
    CHECK(report["configuration"].at("trainable_parameters") <
          report["configuration"].at("parameters"));
    std::vector<double> values;
    for (const json& epoch : report.at("epochs"))
      for (const char* key : {"train_loss", "test_loss"}) values.push_back(epoch.at(key));
    return values;
  };
  const auto expected = losses({"--batch-size", "15"});
  const auto got = losses({"--batch-size", "5", "--accumulate", "3"});
  REQUIRE(expected.size() == 4);
  REQUIRE(got.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) CHECK(got[i] == doctest::Approx(expected[i]).epsilon(1e-4));
  // Small steps give other losses.
  CHECK(losses({"--batch-size", "5"})[0] != doctest::Approx(expected[0]).epsilon(1e-3));
}

TEST_CASE("resnet18 at every opt level, resumed in the middle to the same bits") {
  const ResNetPlace place;
  double reference = 0;
  for (const Arguments& level :
       {Arguments{"--opt-level", "O0"},
        {"--opt-level", "O1"},
        {"--opt-level", "O2"},
        {"--opt-level", "O2", "--half", "bfloat16"},
        {"--opt-level", "O2", "--loss-scale", "128"},
        {"--opt-level", "O3", "--keep-batchnorm-fp32", "true", "--loss-scale", "dynamic"}}) {
    CAPTURE(level[1]);
    const auto with = [&](Arguments more) {
      more.insert(more.end(), level.begin(), level.end());
      more.insert(more.end(), {"--ema", "0.9", "--max-steps", "14", "--lr", "0.01", "--report",
                               "report.json", "--max-grad-norm", "5"});
      return more;
    };
    check_fine(place.train(with({})));
    const json whole = place.report();
    // Only the first steps; later ones differ more, because such a small network is chaotic.
    const double loss = whole["epochs"][0].at("train_loss");
    if (reference == 0) reference = loss;
    CHECK(std::abs(loss - reference) < 0.25);
    check_fine(place.train(with({"--checkpoint-dir", "ck", "--save-every", "1", "--keep", "0"})));
    for (const int step : {9, 10, 11, 12, 13, 14})
      std::filesystem::remove(place / fmt::format("ck/step_{:08}.safetensors", step));
    const std::string weights = read_file(place / "ck/final.safetensors");
    const std::string averages = read_file(place / "ck/final_ema.safetensors");
    check_fine(place.train(with({"--checkpoint-dir", "ck", "--resume", "--keep", "0"})));
    CHECK(timeless(place.report()) == timeless(whole));
    CHECK(read_file(place / "ck/final.safetensors") == weights);
    CHECK(read_file(place / "ck/final_ema.safetensors") == averages);
    CHECK(averages != weights);
    CHECK(whole["epochs"].back().at("ema_loss").get<double>() > 0);
    std::filesystem::remove_all(place / "ck");
  }
}

TEST_CASE("resnet18 skips steps with an exploded loss, and reports it") {
  const ResNetPlace place;
  const Outcome trained = place.train({"--lr", "1e30", "--max-steps", "12", "--print-freq", "4",
                                       "--schedule", "constant", "--report", "report.json"});
  check_fine(trained);
  CHECK(contains(trained.out, " skipped up to step 4: their last loss was "));
  const json report = place.report();
  CHECK(report["epochs"].back().at("skipped") > 8);
  // Clipping and a short warm-up keep it stable.
  check_fine(
      place.train({"--max-grad-norm", "0.5", "--max-steps", "6", "--report", "report.json"}));
  CHECK(place.report()["epochs"].back().at("skipped") == 0);
  check_refused(place.train({"--lr", "1e30", "--epochs", "50"}), "steps were skipped");
}

TEST_CASE("resnet18 refuses wrong options and data") {
  const ResNetPlace place;
  const auto refuses = [&](const Arguments& arguments, const std::string& text, int code = -1) {
    CAPTURE(arguments.back());
    check_refused(place.run(arguments), text, code);
  };
  refuses({"--nosuch"}, "--nosuch");
  refuses({"--model", "vgg"}, "resnet18,resnet34,resnet50");
  refuses({"--width", "0"}, "--width: expected a whole number from 1 to 1024, got '0'");
  refuses({"--warmup-epochs", "-1"}, "--warmup-epochs: expected a number of 0 or more, got '-1'");
  refuses({"--label-smoothing", "1"},
          "--label-smoothing: expected a number of 0 or more and below 1");
  refuses({"--max-grad-norm", "x"}, "--max-grad-norm");
  refuses({"--accumulate", "0"}, "--accumulate: expected a whole number of 1 or more, got '0'");
  refuses({"--print-freq", "0"}, "--print-freq");
  refuses({"--schedule", "none"}, "cosine");
  refuses({"--opt-level", "O4"}, "O3");
  refuses({"--ema", "1"}, "--ema: expected a number of 0 or more and below 1, got '1'");
  refuses({"--loss-scale", "much"}, "much", 1);
  refuses({"--keep-batchnorm-fp32", "maybe"}, "--keep-batchnorm-fp32");
  refuses({"--device", "cpu", "--graph"}, "[--graph] CUDA graphs need a CUDA device", 1);
  refuses({"--dataset", "image-folder"}, "needs --data", 1);
  refuses({"--dataset", "image-folder", "--data", "nosuch"}, "there is no folder 'nosuch/train'",
          1);
  refuses({"--dataset", "cifar10", "--data", "nosuch"}, "cifar-10-batches-bin", 1);
  check_refused(place.train({"--freeze", "nosuch*"}), "nosuch", 1);
  std::filesystem::create_directories(place / "val" / "class3");
  check_refused(place.train({}), "no images for the class class3", 1);
  data::write_png(empty({4, 4}, {.dtype = kUInt8}), place / "val" / "class3" / "a.png");
  check_refused(place.train({}), "different classes", 1);
  std::filesystem::remove_all(place / "val" / "class3");
  write_file(place / "val" / "class0" / "broken.png", "no picture");
  check_refused(place.train({"--max-steps", "1"}), "broken.png", 1);
}

TEST_CASE("resnet18 killed at random steps, twenty times over, ends with the same weights") {
  const ResNetPlace place;
  const auto arguments = [](const std::string& folder) {
    return Arguments{"--epochs",
                     "14",
                     "--save-every",
                     "2",
                     "--print-freq",
                     "1",
                     "--workers",
                     "3",
                     "--warmup-epochs",
                     "1",
                     "--max-grad-norm",
                     "5",
                     "--seed",
                     "3",
                     "--opt-level",
                     "O2",
                     "--resume",
                     "--keep",
                     "2",
                     "--report",
                     folder + ".json",
                     "--checkpoint-dir",
                     folder};
  };
  check_fine(place.train(arguments("whole")));
  Generator random(11);
  int kills = 0, resumed = 0;
  for (; kills < 20; ++kills) {
    const pid_t child = place.start(arguments("killed"));
    // This many steps after its start, plus a random moment.
    const auto steps = static_cast<std::ptrdiff_t>(1 + random.next_below(5));
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    std::string printed;
    const auto done = [&] {
      std::ptrdiff_t lines = 0;
      for (std::size_t at = printed.find(" step "); at != printed.npos;
           at = printed.find(" step ", at + 1))
        ++lines;
      return lines;
    };
    while (done() < steps && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      printed = read_file(place / ".stdout");
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random.next_below(3000)));
    kill(child, SIGKILL);
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(WIFSIGNALED(status));  // it had not finished
    resumed += contains(printed, "resumed");
  }
  const Outcome last = place.train(arguments("killed"));
  check_fine(last);
  CHECK(resumed >= 15);
  CHECK(read_file(place / "killed" / "final.safetensors") ==
        read_file(place / "whole" / "final.safetensors"));
  CHECK(timeless(place.report("killed.json")) == timeless(place.report("whole.json")));
}

TEST_CASE("resnet18 --resume: with and without checkpoints") {
  const ResNetPlace place;
  const Arguments folder = {"--checkpoint-dir", "ck", "--max-steps", "8"};
  const auto with = [&](const Arguments& more) {
    Arguments all = folder;
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  // Without checkpoints it starts from the beginning; a finished run is not run again.
  check_fine(place.train(with({"--resume", "--keep", "1", "--save-every", "1"})));
  std::size_t checkpoints = 0;
  for (const auto& entry : std::filesystem::directory_iterator(place / "ck"))
    checkpoints += entry.path().filename().string().starts_with("step_");
  CHECK(checkpoints <= 2);  // the newest and the best
  const Outcome again = place.train(with({"--resume"}));
  check_fine(again);
  CHECK_FALSE(contains(again.out, "epoch  1/"));
  CHECK(contains(again.out, "after 8 steps"));

  check_refused(place.train(folder), "--resume continues from them", 1);
  check_refused(place.train(with({"--resume", "--lr", "0.2"})), "lr 0.1 there, 0.2 here", 1);
  check_refused(place.train(with({"--resume", "--width", "6"})), "width 4 there, 6 here", 1);
  // A damaged checkpoint, nested as deep as no stack.
  const auto path = place / "ck/step_00000008.safetensors";
  data::Metadata metadata = data::load_safetensors_metadata(path);
  std::string& configuration = metadata.at("configuration");
  const std::string lr = "\"lr\":";
  configuration.replace(configuration.find(lr), lr.size() + 3,
                        lr + std::string(500'000, '[') + std::string(500'000, ']'));
  data::save_safetensors(data::load_safetensors(path), path, metadata);
  check_refused(place.train(with({"--resume"})), "nested 16 times at most in the checkpoint", 1);
  check_refused(place.run({"--resume"}), "--checkpoint-dir", 1);
  check_refused(place.run({"--save-every", "5"}), "--checkpoint-dir", 1);
  check_refused(place.run({"--checkpoint-dir", "ck", "--save-every", "0"}), "--save-every", -1);
}
