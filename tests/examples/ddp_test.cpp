// The program examples/ddp, run like users do.

#include <cmath>
#include <cstdlib>

#include "ferrite/data/safetensors.h"
#include "ferrite/parallel/comm/backend.h"
#include "ferrite/tests/examples/workplace.h"
#include "ferrite/tests/support/close.h"

using namespace ferrite;
using namespace ferrite::test;

#define REQUIRE_GLOO()                              \
  if (!parallel::has_gloo()) {                      \
    MESSAGE("skipped: this build is without Gloo"); \
    return;                                         \
  }

namespace {

StateDict weights(const Workplace& place, const std::string& folder) {
  return data::load_safetensors(place / folder / "final.safetensors");
}

/// 6 steps of 16 images in total, whatever the number of ranks.
Arguments whole(Arguments more, const std::string& batch_size) {
  more.insert(more.end(),
              {"--epochs", "1", "--sync-bn", "--lr", "0.05", "--batch-size", batch_size});
  return more;
}

}  // namespace

TEST_CASE("ddp: processes on parts of a batch end with the weights of one on the whole") {
  REQUIRE_GLOO();
  const Workplace place("ddp");
  const auto train = [&](const std::string& name, Arguments more, const std::string& batch_size) {
    more = whole(std::move(more), batch_size);
    more.insert(more.end(), {"--dataset", "mnist", "--data", place.path().string(), "--report",
                             name + ".json", "--checkpoint-dir", name});
    const Outcome outcome = place.run(more);
    check_fine(outcome);
    CHECK(contains(outcome.out, "epoch  1/1  train loss "));
    CHECK(contains(outcome.out, " after 6 steps in 0:0"));
    return outcome;
  };
  CHECK(contains(train("one", {}, "16").out, "1 process, backend gloo, 16 images"));
  CHECK(contains(train("two", {"-g", "2"}, "8").out, "2 processes, backend gloo, 8 images"));
  const StateDict one = weights(place, "one"), two = weights(place, "two");
  REQUIRE(one.size() == two.size());
  for (const auto& [name, t] : one) {
    CAPTURE(name);
    check_close(two.at(name), t, 1e-4, 1e-5);
  }
  const json alone = place.report("one.json"), shared = place.report("two.json");
  CHECK(shared["configuration"].at("world_size") == 2);
  const json a = alone["epochs"][0], b = shared["epochs"][0];
  CHECK(b.at("step") == a.at("step"));
  for (const char* figure : {"train_loss", "test_loss"}) {
    CAPTURE(figure);
    CHECK(b.at(figure).get<double>() == doctest::Approx(a.at(figure).get<double>()).epsilon(1e-4));
  }
  CHECK(b.at("test_accuracy") == a.at("test_accuracy"));
}

TEST_CASE("ddp: three ranks with a rest of the test images, without --sync-bn") {
  REQUIRE_GLOO();
  const Workplace place("ddp");
  const Outcome outcome = place.train({"-g", "3", "--epochs", "1", "--max-steps", "1", "--report",
                                       "report.json", "--scale-lr", "sqrt", "--lr", "0.01"});
  check_fine(outcome);
  CHECK(place.report()["configuration"].at("lr").get<double>() ==
        doctest::Approx(0.01 * std::sqrt(3.0)));
  // 32 images, none counted twice.
  const double right = place.report()["epochs"][0].at("test_accuracy").get<double>() * 32;
  CHECK(right == doctest::Approx(std::round(right)));
}

TEST_CASE("ddp: two nodes, each of which starts its own process") {
  REQUIRE_GLOO();
  const Workplace place("ddp");
  // Simulates two hosts.
  setenv("FERRITE_BIND_ADDR", "127.0.0.1", 1);
  const std::string port = std::to_string(free_port());
  const auto node = [&](const char* rank) {
    return Arguments{"--device",
                     "cpu",
                     "--dataset",
                     "mnist",
                     "--data",
                     place.path().string(),
                     "--max-steps",
                     "2",
                     "-n",
                     "2",
                     "-nr",
                     rank,
                     "--master-addr",
                     "127.0.0.1",
                     "--master-port",
                     port};
  };
  std::filesystem::create_directories(place / "other");
  const pid_t other = start_program("ddp", node("1"), place / "other");
  const Outcome outcome = run_program("ddp", node("0"), place.path());
  int status = -1;
  waitpid(other, &status, 0);
  unsetenv("FERRITE_BIND_ADDR");
  check_fine(outcome);
  CHECK(status == 0);
  CHECK(contains(outcome.out, "2 processes, backend gloo"));
  CHECK(read_file(place / "other" / ".stdout").empty());
}

TEST_CASE("ddp rejects contradictory options, and ends when a rank fails") {
  const Workplace place("ddp");
  check_refused(place.run({"-nr", "1"}), "[-nr] expected a number from 0 to 0");
  check_refused(place.run({"-n", "2"}), "set --master-addr");
  check_refused(place.run({"-g", "0"}), "--gpus", -1);
  setenv("RANK", "0", 1);
  check_refused(place.run({"-g", "2"}), "a launcher has started this process and set RANK=0");
  unsetenv("RANK");
  REQUIRE_GLOO();
  const Outcome outcome = place.run({"-g", "2", "--dataset", "mnist", "--data", "nowhere"});
  CHECK(outcome.code == 1);
  CHECK(contains(outcome.err, "nowhere"));
}
