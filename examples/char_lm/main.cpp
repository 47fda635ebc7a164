// A small GPT learns to write like a text, character by character.
//
//   char_lm --data shakespeare.txt --steps 2000 --sample 500
//   char_lm --data shakespeare.txt --steps 4000 --checkpoint runs/text   # run again: it resumes
//   ferrite-run --nproc-per-node 4 char_lm --ddp --data shakespeare.txt
#include <ferrite/ferrite.h>
#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <string>

#include "ferrite/examples/char_lm/model.h"
#include "ferrite/examples/common/command_line.h"
#include "ferrite/examples/common/ranks.h"
#include "ferrite/examples/common/training_options.h"

using namespace ferrite;

namespace {

struct Settings {
  std::string data, checkpoint, device = cuda::is_available() ? "cuda" : "cpu";
  CharLMOptions model;
  std::int64_t batch = 16, steps = 500, sample = 200;
  double lr = 1e-3, temperature = 0.8;
  std::int64_t top_k = 0, seed = 1;
  double top_p = 1;
  bool ddp = false;
};

/// The characters of a text, each as its number among those that occur.
struct Text {
  explicit Text(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream content;
    content << file.rdbuf();
    FERRITE_CHECK(file.good(), IoError, "char_lm", "cannot read '{}'", path);
    const std::string text = content.str();
    const std::set<char> occurring(text.begin(), text.end());
    letters.assign(occurring.begin(), occurring.end());
    std::vector<std::int64_t> numbers;
    for (const char c : text) numbers.push_back(static_cast<std::int64_t>(letters.find(c)));
    ids = tensor(numbers);
  }
  std::string letters;
  Tensor ids;
};

/// Pieces [batch, context] of the text and the characters after each, drawn by the step's number
/// alone, so that a resumed run sees the same ones.
std::pair<Tensor, Tensor> batch_of(const Text& text, const Settings& s, std::int64_t step,
                                   int rank) {
  Generator generator(static_cast<std::uint64_t>(s.seed * 1000003 + step * 1009 + rank));
  const std::int64_t last = text.ids.size(0) - s.model.context - 1;
  const Tensor starts = randint(0, last + 1, {s.batch, 1}, {.dtype = kInt64}, &generator);
  const Tensor at = starts + arange(s.model.context + 1);
  const Tensor ids = text.ids.index({at});
  return {ids.narrow(1, 0, s.model.context), ids.narrow(1, 1, s.model.context)};
}

/// The text that the model writes after a line break, or after the first character it knows.
std::string write_text(CharLM& model, const Text& text, const Settings& s, const Device& device) {
  const NoGradGuard no_grad;
  model.eval();
  Generator generator(static_cast<std::uint64_t>(s.seed));
  const auto begin = text.letters.find('\n');
  Tensor ids = full({1, 1}, static_cast<std::int64_t>(begin == std::string::npos ? 0 : begin),
                    {.dtype = kInt64, .device = device});
  std::string written;
  for (std::int64_t i = 0; i < s.sample; ++i) {
    const Tensor seen = ids.narrow(1, std::max<std::int64_t>(0, ids.size(1) - s.model.context),
                                   std::min(ids.size(1), s.model.context));
    const Tensor logits = model(seen).select(1, -1).to(kCPU);
    const Tensor next = sample_logits(
        logits, {.temperature = s.temperature, .top_k = s.top_k, .top_p = s.top_p}, &generator);
    written += text.letters[static_cast<std::size_t>(next.item<std::int64_t>())];
    ids = cat({ids, next.reshape({1, 1}).to(device)}, 1);
  }
  model.train();
  return written;
}

void train(const Settings& s, const Device& device, int rank) {
  const Text text(s.data);
  FERRITE_CHECK(text.ids.size(0) > s.model.context, ValueError, "char_lm",
                "'{}' has {} characters, but a context of {} needs more: use a longer text or a "
                "smaller --context",
                s.data, text.ids.size(0), s.model.context);
  CharLMOptions options = s.model;
  options.vocabulary = static_cast<std::int64_t>(text.letters.size());
  manual_seed(static_cast<std::uint64_t>(s.seed));
  CharLM model(options);
  model.to(device);
  std::optional<parallel::DistributedDataParallel<CharLM>> ddp;
  if (s.ddp) ddp.emplace(model);
  optim::AdamW adam(model.parameters(), {.lr = s.lr, .weight_decay = 0.1});

  std::int64_t step = 0;
  data::TrainingState state;
  state.add("model", model).add("optimizer", adam).add_generators().add_value("done", step);
  std::optional<data::CheckpointManager> checkpoints;
  if (!s.checkpoint.empty()) {
    checkpoints.emplace(s.checkpoint);
    if (const auto report = checkpoints->resume(state)) fmt::print("{}\n", report->str());
  }
  const std::int64_t report_every = std::max<std::int64_t>(1, s.steps / 10), resumed_at = step;
  metrics::ProgressBar bar("training", s.steps - resumed_at);
  while (step < s.steps) {
    const auto [x, y] = batch_of(text, s, step, rank);
    const Tensor ids = x.to(device);
    const Tensor logits = ddp ? (*ddp)(ids) : model(ids);
    const Tensor loss = cross_entropy(logits.flatten(0, 1), y.to(device).flatten());
    adam.zero_grad();
    loss.backward();
    optim::clip_grad_norm_(model.parameters(), 1);
    adam.step();
    if (++step % report_every == 0 || step == s.steps) {
      const double value = loss.item<double>();
      bar.finish(metrics::train_line(metrics::progress_label("step", step, s.steps), value, {},
                                     fmt::format("perplexity {:.2f}", std::exp(value))));
      if (checkpoints && rank == 0) checkpoints->save(step, state);
    } else if (bar.redraws() && bar.due(step - resumed_at)) {
      bar.update(step - resumed_at, fmt::format("loss {:.4f}", loss.item<double>()));
    }
  }
  if (checkpoints) checkpoints->wait();
  if (s.sample > 0 && rank == 0) fmt::print("{}\n", write_text(model, text, s, device));
}

int char_lm(int argc, char** argv) {
  Settings s;
  examples::CommandLine app(
      "Trains a small GPT on the characters of a text file, and samples text from it.",
      {"char_lm --data shakespeare.txt --steps 2000 --sample 500 --checkpoint runs/text",
       "ferrite-run --standalone --nproc-per-node=2 char_lm --ddp --data shakespeare.txt"});
  const auto number = [&](const char* name, auto& value, const char* help, examples::Check check) {
    app.add_option(name, value, help).check(check).capture_default_str();
  };
  const examples::Check positive = examples::whole<std::int64_t>(1);
  const examples::Check any = examples::whole<std::int64_t>(0);
  app.topic("Files");
  app.add_option("--data", s.data, "text file to train on").required();
  app.add_option("--checkpoint", s.checkpoint, "folder to save checkpoints to and resume from");
  app.topic("Model");
  number("--layers", s.model.layers, "number of transformer blocks", positive);
  number("--heads", s.model.heads, "attention heads per block", positive);
  number("--width", s.model.width, "embedding dimension", positive);
  number("--context", s.model.context, "context length, in characters", positive);
  number("--dropout", s.model.dropout, "dropout probability", examples::between(0, 1));
  app.topic("Training");
  number("--batch", s.batch, "sequences per step and process", positive);
  number("--steps", s.steps, "number of training steps", positive);
  number("--lr", s.lr, "learning rate of AdamW", examples::above_zero());
  number("--seed", s.seed, "seed of weights, batches and samples", any);
  app.add_option("--device", s.device, "cpu, cuda or cuda:N").capture_default_str();
  app.add_flag("--ddp", s.ddp, "train on several processes, started by a launcher");
  app.topic("Sampling");
  number("--sample", s.sample, "number of characters to sample at the end", any);
  number("--temperature", s.temperature,
         "sampling temperature (below 1: more likely characters; 0: always the most likely one)",
         examples::at_least(0));
  number("--top-k", s.top_k, "sample from the k most likely characters (0: all)", any);
  app.add_option("--top-p", s.top_p,
                 "sample from the most likely characters with this total probability");
  if (const auto status = app.parse(argc, argv)) return *status;

  const Device device = s.ddp ? examples::device_of_rank(s.device) : Device(s.device);
  std::optional<examples::ProcessGroupScope> group;
  if (s.ddp) group.emplace("", device, false);
  train(s, device, s.ddp ? parallel::get_rank() : 0);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return examples::run(char_lm, argc, argv); }
