// A small GPT learns to write like a text, character by character.
//
//   char_lm --data shakespeare.txt --steps 4000 --checkpoint runs/text   # run again: it resumes
//   ferrite-run --nproc-per-node 4 char_lm --ddp --data shakespeare.txt
#include <ferrite/ferrite.h>
#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <string>

#include "ferrite/examples/common/command_line.h"
#include "ferrite/examples/common/ranks.h"
#include "ferrite/examples/common/training_options.h"

using namespace ferrite;

namespace {

struct Settings {
  std::string data, checkpoint, device = cuda::is_available() ? "cuda" : "cpu";
  nn::GPTOptions model = {.context_length = 64, .num_layers = 2, .num_heads = 4, .hidden_dim = 64};
  std::int64_t batch = 16, steps = 500, sample = 200, seed = 1;
  double lr = 1e-3;
  SamplingOptions sampling = {.temperature = 0.8};
  bool ddp = false;
};

/// The different characters of a text in their order, and each one of the text as its index there.
Unique read_text(const std::string& path) {
  const data::MappedFile file(path, "char_lm");
  FERRITE_CHECK(!file.bytes().empty(), IoError, "char_lm", "'{}' is empty", path);
  const std::vector<std::uint8_t> text(file.bytes().begin(), file.bytes().end());
  return unique(tensor(text), {.return_inverse = true});
}

/// Pieces [batch, context + 1] of the text, drawn by the step's number alone, so that a resumed
/// run sees the same ones.
Tensor pieces(const Tensor& text, const Settings& s, std::int64_t step, int rank) {
  Generator generator(static_cast<std::uint64_t>(s.seed * 1000003 + step * 1009 + rank));
  const std::int64_t context = s.model.context_length, starts = text.size(0) - context;
  const Tensor first = randint(0, starts, {s.batch, 1}, {.dtype = kInt64}, &generator);
  return text.index({first + arange(context + 1)});
}

/// The text that the model writes after the first of the characters, which often is a line break.
std::string write_text(nn::GPT& model, const Tensor& letters, const Settings& s) {
  Generator generator(static_cast<std::uint64_t>(s.seed));
  model.eval();
  const Tensor first = zeros({1, 1}, {.dtype = kInt64, .device = model.output.weight.device()});
  const Tensor ids = model.generate(first, s.sample, s.sampling, &generator);
  const auto text = letters.index({ids[0].slice(0, 1).to(kCPU)}).to_vector<std::uint8_t>();
  return std::string(text.begin(), text.end());
}

void train(Settings s, const Device& device, int rank) {
  const auto [letters, text, counts] = read_text(s.data);
  const std::int64_t context = s.model.context_length;
  FERRITE_CHECK(text.size(0) > context, ValueError, "char_lm",
                "'{}' has {} characters, but a context of {} needs more: use a longer text or a "
                "smaller --context",
                s.data, text.size(0), context);
  s.model.vocab_size = letters.size(0);
  manual_seed(static_cast<std::uint64_t>(s.seed));
  nn::GPT model(s.model);
  model.to(device);
  std::optional<parallel::DistributedDataParallel<nn::GPT>> ddp;
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
    const Tensor ids = pieces(text, s, step, rank).to(device);
    const Tensor known = ids.narrow(1, 0, context), next = ids.narrow(1, 1, context);
    const Tensor logits = (ddp ? (*ddp)(known) : model(known)).flatten(0, 1);
    const Tensor loss = cross_entropy(logits, next.flatten());
    adam.zero_grad();
    loss.backward();
    optim::clip_grad_norm_(model.parameters(), 1);
    adam.step();
    if (++step % report_every != 0 && step != s.steps) {
      if (bar.redraws()) bar.update(step - resumed_at, "");
      continue;
    }
    const double value = loss.item<double>();
    bar.finish(metrics::train_line(metrics::progress_label("step", step, s.steps), value, {},
                                   fmt::format("perplexity {:.2f}", std::exp(value))));
    if (checkpoints && rank == 0) checkpoints->save(step, state);
  }
  if (checkpoints) checkpoints->wait();
  if (s.sample > 0 && rank == 0) fmt::print("{}\n", write_text(model, letters, s));
}

int char_lm(int argc, char** argv) {
  Settings s;
  examples::CommandLine app(
      "Trains a small GPT on the characters of a text file, and samples text from it.",
      {"char_lm --data shakespeare.txt --steps 2000 --sample 500 --checkpoint runs/text",
       "ferrite-run --standalone --nproc-per-node=2 char_lm --ddp --data shakespeare.txt"});
  const auto number = [&](const char* name, auto& value, const char* help,
                          const examples::Check& check = examples::whole<std::int64_t>(1)) {
    app.add_option(name, value, help).check(check).capture_default_str();
  };
  const examples::Check any = examples::whole<std::int64_t>(0);
  app.topic("Files");
  app.add_option("--data", s.data, "text file to train on").required();
  app.add_option("--checkpoint", s.checkpoint, "folder to save checkpoints to and resume from");
  app.topic("Model");
  number("--layers", s.model.num_layers, "number of transformer blocks");
  number("--heads", s.model.num_heads, "attention heads per block");
  number("--width", s.model.hidden_dim, "embedding dimension");
  number("--context", s.model.context_length, "context length, in characters");
  number("--dropout", s.model.dropout, "dropout probability", examples::between(0, 1));
  app.topic("Training");
  number("--batch", s.batch, "sequences per step and process");
  number("--steps", s.steps, "number of training steps");
  number("--lr", s.lr, "learning rate of AdamW", examples::above_zero());
  number("--seed", s.seed, "seed of weights, batches and samples", any);
  app.add_option("--device", s.device, "cpu, cuda or cuda:N").capture_default_str();
  app.add_flag("--ddp", s.ddp, "train on several processes, started by a launcher");
  app.topic("Sampling");
  number("--sample", s.sample, "number of characters to sample at the end", any);
  number("--temperature", s.sampling.temperature,
         "temperature (0: always the most likely character)", examples::at_least(0));
  number("--top-k", s.sampling.top_k, "sample from the k most likely characters (0: all)", any);
  number("--top-p", s.sampling.top_p, "sample from the most likely with this total probability",
         examples::above_zero(1));
  if (const auto status = app.parse(argc, argv)) return *status;

  const Device device = s.ddp ? examples::device_of_rank(s.device) : Device(s.device);
  std::optional<examples::ProcessGroupScope> group;
  if (s.ddp) group.emplace("", device, false);
  train(s, device, s.ddp ? parallel::get_rank() : 0);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return examples::run(char_lm, argc, argv); }
