#include "ferrite/parallel/data_parallel/replicate.h"

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "ferrite/autograd/checkpoint.h"
#include "ferrite/core/allocator.h"
#include "ferrite/tests/parallel/replicate_cases.h"

using namespace ferrite;
using namespace ferrite::parallel;
using namespace ferrite::test;

namespace {

const std::vector<Device>& virtual_devices() {
  static const std::vector<Device> devices = {"cpu:0", "cpu:1", "cpu:2", "cpu:3"};
  return devices;
}

std::vector<Device> first_devices(std::size_t n) {
  return {virtual_devices().begin(), virtual_devices().begin() + static_cast<std::ptrdiff_t>(n)};
}

std::unique_ptr<AllKinds> make_module(const Device& device = "cpu:0") {
  manual_seed(1);
  auto module = std::make_unique<AllKinds>();
  module->to(kFloat64);
  module->to(device);
  return module;
}

/// Two layers; backward runs the second first.
struct Chain : nn::Cloneable<Chain> {
  Chain() {
    register_module("first", first);
    register_module("second", second);
  }
  Tensor forward(const Tensor& x) override { return second(first(x)); }
  nn::Linear first{3, 3, {.bias = false}}, second{3, 3, {.bias = false}};
};

}  // namespace

TEST_CASE("replicas: values, devices, modes, hooks, sharing") {
  const auto module = make_module();
  module->norm.eval();
  int calls = 0;
  module->register_forward_hook([&](nn::Module&, const Tensor&, const Tensor&) { ++calls; });
  std::vector<std::string> told;
  const auto comm = std::make_shared<TellingComm>(dp::make_device_comm(first_devices(3)),
                                                  [&](const std::string& what, std::size_t n) {
                                                    told.push_back(fmt::format("{} {}", what, n));
                                                  });
  const Replicas replicas = replicate(*module, *comm);
  REQUIRE(replicas.size() == 3);
  CHECK(&replicas[0] == module.get());
  CHECK_THROWS_AS(replicas[3], IndexError);
  // Each tensor once, including shared ones.
  const std::size_t tensors = module->parameters().size() + module->buffers().size();
  CHECK(told == std::vector{fmt::format("broadcast {}", tensors)});
  const auto parameters = module->named_parameters(), buffers = module->named_buffers();
  CHECK(comm->devices().size() == 3);
  for (std::size_t r = 1; r < 3; ++r) {
    auto& replica = replicas.get<AllKinds>(r);
    const nn::Module& module_of_rank = replicas[r];
    CHECK(typeid(module_of_rank) == typeid(AllKinds));
    CHECK(replica.is_training());
    CHECK_FALSE(replica.norm.is_training());
    CHECK(replica.tied.weight.is_same(replica.mid.weight));
    const auto own = replica.named_parameters(), own_buffers = replica.named_buffers();
    REQUIRE(own.size() == parameters.size());
    for (std::size_t i = 0; i < own.size(); ++i) {
      CAPTURE(own[i].first);
      CHECK(own[i].first == parameters[i].first);
      CHECK(own[i].second.device() == comm->devices()[r]);
      CHECK_FALSE(own[i].second.shares_storage(parameters[i].second));
      CHECK(own[i].second.requires_grad() == parameters[i].second.requires_grad());
      CHECK(own[i].second.is_leaf() == !parameters[i].second.requires_grad());
      check_equal(own[i].second, parameters[i].second);
    }
    REQUIRE(own_buffers.size() == buffers.size());
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      CAPTURE(buffers[i].first);
      CHECK(own_buffers[i].second.device() == comm->devices()[r]);
      CHECK_FALSE(own_buffers[i].second.requires_grad());
      check_equal(own_buffers[i].second, buffers[i].second);
    }
    // They share memory, but not their versions.
    const std::uint32_t version = replica.in.weight.version();
    replica.count.add_(Scalar(1));
    CHECK(replica.in.weight.version() == version);
    CHECK(module->count.to_vector<int>() == std::vector{3, 4, 5});
    replicas[r](inputs_on(first_devices(3), kFloat64)[r]);
  }
  CHECK(calls == 2);
}

TEST_CASE("replicas: one device is the module itself") {
  const auto module = make_module();
  const std::vector<Device> one = {"cpu:0"};
  const Replicas replicas = replicate(*module, one);
  CHECK(replicas.size() == 1);
  CHECK(&replicas[0] == module.get());
  CHECK(module->in.weight.is_leaf());
}

TEST_CASE("replicas: gradients are those of one device") {
  const auto module = make_module();
  for (const std::size_t n : {2, 3, 4})
    for (const double cap : {25.0, 1e-4, 1e-9}) {
      CAPTURE(n);
      CAPTURE(cap);
      const auto devices = first_devices(n);
      check_replica_gradients(devices, *module, inputs_on(devices, kFloat64), cap, 1e-12, 1e-13);
    }
  SUBCASE("float32") {
    module->to(kFloat32);
    const auto devices = first_devices(4);
    check_replica_gradients(devices, *module, inputs_on(devices, kFloat32), 1e-4, 1e-4, 1e-5);
  }
  SUBCASE("replicas without work") {
    for (const std::size_t idle : {0, 1, 2}) {
      const auto devices = first_devices(3);
      std::vector<Tensor> inputs = inputs_on(devices, kFloat64);
      inputs[idle] = Tensor();
      check_replica_gradients(devices, *module, inputs, 1e-4, 1e-12, 1e-13);
    }
    const auto devices = first_devices(3);
    std::vector<Tensor> inputs = inputs_on(devices, kFloat64);
    inputs[0] = inputs[1] = Tensor();
    check_replica_gradients(devices, *module, inputs, 1e-4, 1e-12, 1e-13);
  }
  SUBCASE("all frozen but one; all frozen") {
    module->requires_grad_(false);
    module->mid.weight.set_requires_grad();
    const auto devices = first_devices(2);
    check_replica_gradients(devices, *module, inputs_on(devices, kFloat64), 1e-4, 1e-12, 1e-13);
    module->requires_grad_(false);
    const Replicas replicas = replicate(*module, devices);
    CHECK_FALSE(loss_of(replicas, inputs_on(devices, kFloat64)).requires_grad());
  }
}

TEST_CASE("replicas: several forwards before one backward; the same bits every time") {
  const auto module = make_module();
  const auto devices = first_devices(3);
  const auto inputs = inputs_on(devices, kFloat32);
  module->to(kFloat32);
  module->norm.eval();  // its statistics would differ
  std::vector<std::vector<float>> first;
  for (int time = 0; time < 10; ++time) {
    module->zero_grad(true);
    Tensor loss;
    for (const double cap : {1e-4, 1e-9}) {
      const Tensor part = loss_of(replicate(*module, devices, {.bucket_cap_mb = cap}), inputs);
      loss = loss.defined() ? loss + part : part;
    }
    loss.backward();
    wait_for(devices);
    std::vector<std::vector<float>> now;
    for (const Tensor& p : module->parameters())
      if (p.grad().defined()) now.push_back(p.grad().to_vector<float>());
    if (time == 0) first = now;
    CHECK(now == first);
  }
  const auto eval = make_module();
  eval->norm.eval();
  std::vector<Tensor> expected = expected_gradients(*eval, inputs);
  for (Tensor& t : expected)
    if (t.defined()) t = t.detach() * 2.0;
  check_gradients(*module, expected, 1e-4, 1e-5);
}

TEST_CASE("replicas: the plain host as the root; a module without tensors") {
  const auto module = make_module("cpu");
  const std::vector<Device> devices = {"cpu", "cpu:1", "cpu:2"};
  check_replica_gradients(devices, *module, inputs_on(devices, kFloat64), 1e-4, 1e-12, 1e-13);
  nn::ReLU relu;
  const Replicas replicas = replicate(relu, devices);
  CHECK(replicas[2](full({2}, -1.0, {.device = devices[2]})).to_vector<int>() == std::vector{0, 0});
}

TEST_CASE("replicas: a parameter that only some of them use") {
  struct Choosing : nn::Cloneable<Choosing> {
    Choosing() {
      register_module("a", a);
      register_module("b", b);
      register_module("c", c);
    }
    // Depends on the device's number.
    Tensor forward(const Tensor& x) override {
      return a.weight.device().index() == 0   ? a(x)
             : a.weight.device().index() == 1 ? b(x)
                                              : b(a(x));
    }
    nn::Linear a{2, 2}, b{2, 2}, c{2, 2};
  } module;
  module.to(kFloat64);
  module.to("cpu:0");
  const auto devices = first_devices(3);
  const Replicas replicas = replicate(module, devices, {.bucket_cap_mb = 1});
  Tensor loss;
  std::vector<Tensor> x;
  for (std::size_t r = 0; r < 3; ++r) {
    x.push_back(
        full({1, 2}, 1.0 + static_cast<double>(r), {.dtype = kFloat64, .device = devices[r]}));
    const Tensor part = sum(replicas[r](x[r])).to(devices[0]);
    loss = r == 0 ? part : loss + part;
  }
  loss.backward();
  wait_for(devices);
  // b's bias: from replicas 1 and 2; a's: from replica 0, and through b.
  check_close(module.b.bias.grad(), {2, 2}, 1e-12);
  const auto w = module.b.weight.to_vector<double>();
  check_close(module.a.bias.grad(), {1 + w[0] + w[2], 1 + w[1] + w[3]}, 1e-12);
  CHECK_FALSE(module.c.weight.grad().defined());
}

TEST_CASE("replicas: retained graphs, grad(), no_grad") {
  const auto module = make_module();
  const auto devices = first_devices(3);
  const auto inputs = inputs_on(devices, kFloat64);
  const std::vector<Tensor> expected = expected_gradients(*module, inputs);
  Replicas replicas = replicate(*module, devices, {.bucket_cap_mb = 1e-4});
  Tensor loss = loss_of(replicas, inputs);
  const std::vector<Tensor> of_module = {module->in.weight, module->mid.weight, module->wide};
  const auto& second = replicas.get<AllKinds>(1);
  const std::vector<Tensor> of_replica = {second.in.weight, second.tied.weight, second.out.bias};
  const Tensor out = replicas[1](inputs[1]);
  const auto direct = autograd::grad(std::vector{sum(out * out * 2.0)}, of_replica);
  const auto some = autograd::grad(std::vector{loss}, of_replica, {}, true);
  const auto whole = autograd::grad(std::vector{loss}, of_module, {}, true);
  wait_for(devices);
  for (std::size_t i = 0; i < some.size(); ++i) {
    CHECK(some[i].device() == devices[1]);
    check_close(some[i], direct[i], 1e-12, 1e-13);
  }
  const auto all = module->parameters();
  for (std::size_t k = 0; k < whole.size(); ++k)
    for (std::size_t i = 0; i < all.size(); ++i)
      if (all[i].is_same(of_module[k])) check_close(whole[k], expected[i], 1e-12, 1e-13);
  for (const Tensor& p : all) CHECK_FALSE(p.grad().defined());

  loss.backward({}, true);
  loss.backward();
  wait_for(devices);
  {
    NoGradGuard no_grad;
    std::vector<Tensor> twice;
    for (const Tensor& t : expected) twice.push_back(t.defined() ? t * 2.0 : t);
    check_gradients(*module, twice, 1e-12, 1e-13);
    const Replicas quiet = replicate(*module, devices);
    for (const Tensor& p : quiet[1].parameters()) CHECK_FALSE(p.requires_grad());
    CHECK_FALSE(quiet[2](inputs[2]).requires_grad());
  }
  CHECK_THROWS_AS(loss.backward(), AutogradError);
}

TEST_CASE("replicas: gradients of gradients") {
  struct Smooth : nn::Cloneable<Smooth> {
    Smooth() {
      register_module("in", in);
      register_module("mid", mid);
      register_module("out", out);
    }
    Tensor forward(const Tensor& x) override { return out(tanh(mid(tanh(mid(tanh(in(x))))))); }
    nn::Linear in{4, 6}, mid{6, 6}, out{6, 3};
  } module;
  module.to(kFloat64);
  module.to("cpu:0");
  const auto devices = first_devices(3);
  const auto inputs = inputs_on(devices, kFloat64);
  // The gradient of the square of the gradient's norm, and of that once more.
  const auto penalty = [](Tensor loss, const nn::Module& m, int times) {
    for (int i = 0; i < times; ++i) {
      Tensor total;
      for (const Tensor& g :
           autograd::grad(std::vector{loss}, m.parameters(), {}, true, true, true)) {
        if (!g.defined()) continue;
        const Tensor part = sum(g * g);
        total = total.defined() ? total + part : part;
      }
      loss = total * 1e-2;
    }
    return loss;
  };
  for (const int times : {1, 2}) {
    const auto alone = module.clone();
    alone->to(Device());
    Tensor loss;
    for (std::size_t r = 0; r < 3; ++r) {
      const Tensor y = (*alone)(inputs[r].cpu());
      const Tensor part = sum(y * y * static_cast<double>(r + 1));
      loss = r == 0 ? part : loss + part;
    }
    penalty(loss, *alone, times).backward();
    std::vector<Tensor> expected;
    for (const Tensor& p : alone->parameters()) expected.push_back(p.grad());
    for (const double cap : {25.0, 1e-4}) {
      CAPTURE(times);
      CAPTURE(cap);
      module.zero_grad(true);
      const Replicas replicas = replicate(module, devices, {.bucket_cap_mb = cap});
      penalty(loss_of(replicas, inputs), module, times).backward();
      wait_for(devices);
      check_gradients(module, expected, 1e-9, 1e-11);
    }
  }
}

TEST_CASE("replicas: objects live as long as backward may run them again, and no longer") {
  const auto module = make_module();
  const auto devices = first_devices(3);
  auto inputs = inputs_on(devices, kFloat64);
  const int alone = AllKinds::alive;
  {
    const Replicas unused = replicate(*module, devices);
    CHECK(AllKinds::alive == alone + 2);
  }
  CHECK(AllKinds::alive == alone);
  const std::vector<Tensor> expected = expected_gradients(*module, inputs);
  {
    const Tensor loss = loss_of(replicate(*module, devices), inputs);
    CHECK(AllKinds::alive == alone);
    module->zero_grad();
    loss.backward();
    wait_for(devices);
    check_gradients(*module, expected, 1e-12, 1e-13);
  }

  const auto checkpointed_loss = [&] {
    const Replicas replicas = replicate(*module, devices, {.bucket_cap_mb = 1e-4});
    const autograd::CheckpointOwner owner(replicas.owner());
    Tensor loss;
    for (std::size_t r = 0; r < 3; ++r) {
      const Tensor y = autograd::checkpoint(
          [&replica = replicas[r]](const Tensor& x) { return replica(x); }, inputs[r]);
      const Tensor part = sum(y * y * static_cast<double>(r + 1)).to(devices[0]);
      loss = r == 0 ? part : loss + part;
    }
    return loss;
  };
  checkpointed_loss();  // never run backward
  CHECK(AllKinds::alive == alone);
  module->zero_grad();
  const Tensor loss = checkpointed_loss();
  loss.backward({}, true);
  CHECK(AllKinds::alive == alone + 2);
  wait_for(devices);
  check_gradients(*module, expected, 1e-12, 1e-13);
  module->zero_grad();
  loss.backward();
  CHECK(AllKinds::alive == alone);  // although the loss still exists
  wait_for(devices);
  check_gradients(*module, expected, 1e-12, 1e-13);

  // Nothing of the module is on the tape, and yet it is rerun.
  module->requires_grad_(false);
  for (Tensor& x : inputs) x = x.detach().clone().set_requires_grad();
  const Tensor frozen = checkpointed_loss();
  CHECK(AllKinds::alive == alone + 2);
  frozen.backward();
  wait_for(devices);
  for (const Tensor& x : inputs) CHECK(x.grad().defined());
  CHECK(AllKinds::alive == alone);
}

TEST_CASE("replicas: steps take no more memory than the first ones") {
  const auto module = make_module();
  const auto devices = first_devices(3);
  const auto inputs = inputs_on(devices, kFloat64);
  const auto comm = dp::make_device_comm(devices);
  std::vector<std::size_t> first;
  Tensor loss;
  for (int step = 0; step < 20; ++step) {
    loss = loss_of(replicate(*module, *comm, {.bucket_cap_mb = 1e-4}), inputs);
    loss.backward();
    wait_for(devices);
    std::vector<std::size_t> now;
    for (const Device& device : devices) now.push_back(memory_allocated(device));
    if (step == 1) first = now;
    if (step > 1) CHECK(now == first);
    module->zero_grad();
  }
}

TEST_CASE("replicas: reductions begin while backward goes on") {
  Chain module;
  module.to("cpu:0");
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::string> events;
  const auto tell = [&](const std::string& event) {
    std::lock_guard lock(mutex);
    events.push_back(event);
    changed.notify_all();
  };
  const auto comm =
      std::make_shared<TellingComm>(dp::make_device_comm(first_devices(2)),
                                    [&](const std::string& what, std::size_t) { tell(what); });
  const Replicas replicas = replicate(module, *comm, {.bucket_cap_mb = 1e-9});
  const Tensor outputs_of_first = module.first(ones({1, 3}, {.device = "cpu:0"}));
  std::vector<Tensor> outputs;
  for (std::size_t r = 0; r < 2; ++r) {
    const Tensor x = ones({2, 3}, {.device = virtual_devices()[r]});
    const Tensor hidden = replicas.get<Chain>(r).first(x),
                 y = replicas.get<Chain>(r).second(hidden);
    // Replica 0 begins when replica 1 has reached its first layer.
    y.register_hook([&, r](const Tensor&) {
      if (r == 0) {
        std::unique_lock lock(mutex);
        changed.wait_for(lock, std::chrono::seconds(60),
                         [&] { return std::ranges::count(events, "layer 1 of replica 1") == 1; });
      }
      return Tensor();
    });
    hidden.register_hook([&, r](const Tensor&) {
      tell(fmt::format("layer 1 of replica {}", r));
      return Tensor();
    });
    outputs.push_back(sum(y).to(virtual_devices()[0]));
  }
  (outputs[0] + outputs[1]).backward();
  wait_for(first_devices(2));
  // The reduction of the second layer comes before the rest of replica 0's backward.
  REQUIRE(events.size() == 5);
  CHECK(events[0] == "broadcast");
  CHECK(events[1] == "layer 1 of replica 1");
  CHECK(events[2] == "reduce_add");
  const std::vector<double> hidden = (outputs_of_first * 4.0).to_vector<double>();
  for (std::int64_t row = 0; row < 3; ++row)
    check_close(module.second.weight.grad()[row], hidden, 1e-6);
}

TEST_CASE("replicas: work after a failed backward is ordered after everything it did") {
  Chain module;
  module.to("cpu:0");
  const auto devices = first_devices(2);
  std::mutex gate, mutex;
  std::condition_variable changed;
  bool second_is_there = false;
  const Replicas replicas = replicate(module, devices, {.bucket_cap_mb = 1e-9});
  std::vector<Tensor> losses;
  for (std::size_t r = 0; r < 2; ++r) {
    const Tensor hidden = replicas.get<Chain>(r).first(ones({2, 3}, {.device = devices[r]}));
    const Tensor y = replicas.get<Chain>(r).second(hidden);
    y.register_hook([&, r](const Tensor&) {
      std::unique_lock lock(mutex);
      if (r == 0) changed.wait_for(lock, std::chrono::seconds(60), [&] { return second_is_there; });
      return Tensor();
    });
    hidden.register_hook([&, r](const Tensor&) {
      std::lock_guard lock(mutex);
      FERRITE_CHECK(r != 0, ValueError, "test", "planted");
      second_is_there = true;
      changed.notify_all();
      return Tensor();
    });
    losses.push_back(sum(y));
  }
  wait_for(devices);
  gate.lock();
  default_stream(devices[1]).enqueue([&] { std::lock_guard lock(gate); });
  CHECK_THROWS_WITH_AS(autograd::backward(losses), "[test] planted", ValueError);
  REQUIRE(module.second.weight.grad().defined());
  module.zero_grad(false);
  gate.unlock();
  wait_for(devices);
  CHECK(module.second.weight.grad().to_vector<float>() == std::vector<float>(9));
}

TEST_CASE("replicas: modules that cannot be replicated") {
  const auto module = make_module();
  module->out.to("cpu:1");
  const auto devices = first_devices(2);
  CHECK_THROWS_WITH_AS(
      replicate(*module, devices),
      "[replicate] module must have its parameters and buffers on device cpu:0 (devices[0]), but "
      "'out.weight' is on device cpu:1; move it with to(\"cpu:0\") first",
      DeviceError);
  module->to("cpu:0");
  module->count = module->count.to(Device());
  CHECK_THROWS_WITH_AS(replicate(*module, devices), doctest::Contains("'count' is on device cpu"),
                       DeviceError);
  module->to("cpu:0");
  CHECK_THROWS_AS(replicate(*module, devices, {.bucket_cap_mb = 0}), ValueError);

  struct Plain : nn::Module {
    Plain() { register_module("fc", fc); }
    nn::Linear fc{2, 2};
  } plain;
  plain.to("cpu:0");
  CHECK_THROWS_WITH_AS(replicate(plain, devices), doctest::Contains("from nn::Cloneable"), Error);
}
