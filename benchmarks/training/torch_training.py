#!/usr/bin/env python3
"""Trains on batches held in memory, or evaluates them, and reports the speed: PyTorch's side of
compare.py.

Every line on stdin starts one measurement, of the mode that it names or else the first, and is
answered by a line of JSON.
"""

import argparse
import contextlib
import importlib.util
import json
import pathlib
import re
import sys
import tempfile
import time

MODELS = {  # channels, size, classes of the images
    "lenet5": (1, 28, 10),
    "d2l": (1, 28, 10),
    "resnet18-28": (1, 28, 10),
    "resnet18-32": (3, 32, 10),
    "resnet18-224": (3, 224, 1000),
}
TEXTS = {  # tokens, length, width, layers, heads (none: an LSTM), as in inputs.h
    "transformer-64": (256, 128, 64, 2, 4),
    "transformer-256": (256, 128, 256, 2, 4),
    "transformer-512": (256, 128, 512, 2, 8),
    "lstm-64": (256, 64, 64, 2, 0),
    "lstm-256": (256, 64, 256, 2, 0),
    "gpt2-64": (50257, 64, 768, 12, 12),
    "gpt2-256": (50257, 256, 768, 12, 12),
}
EXECUTIONS = ("eager", "graph", "compile-default", "compile-reduce-overhead",
              "compile-max-autotune", "onnxruntime")


def parse(argv=None):
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--model", choices=[*MODELS, *TEXTS], default="lenet5")
    p.add_argument("--device", default="cpu", help="cpu, cuda or cuda:1 ...")
    p.add_argument("--layout", choices=("contiguous", "channels_last"), default="contiguous",
                   help="NCHW or NHWC")
    p.add_argument("--precision", choices=("float32", "tf32", "amp"), default="float32",
                   help="tf32: products and convolutions of float32 may use it; amp: autocast")
    p.add_argument("--amp-dtype", choices=("float16", "bfloat16"),
                   help="float16 on cuda, with a loss scale; bfloat16 on the CPU")
    p.add_argument("--mode", choices=("train", "forward", "both"), default="train",
                   help="whole training steps, the forward pass of evaluation (nothing recorded), "
                        "or the mode that each line on stdin names")
    p.add_argument("--execution", choices=EXECUTIONS, default="eager",
                   help="op by op, the whole step as one CUDA graph, torch.compile of network "
                        "and loss in a mode of its own, or forward passes of the network as "
                        "onnxruntime runs what torch.onnx writes of it")
    p.add_argument("--no-cudnn-benchmark", dest="cudnn_benchmark", action="store_false",
                   help="do not try out convolutions' plans")
    p.add_argument("--batch", type=int, default=64, help="images or texts per step")
    p.add_argument("--steps", type=int, default=0,
                   help="steps per measurement; 0: as many as take --seconds")
    p.add_argument("--seconds", type=float, default=0.5, help="approximate duration of a measurement")
    p.add_argument("--warmup", type=int, default=10, help="steps before the first measurement")
    p.add_argument("--batches", type=int, default=4, help="batches held in memory, used in turn")
    p.add_argument("--threads", type=int, default=1, help="CPU threads")
    p.add_argument("--lr", type=float, default=0.05,
                   help="of SGD; AdamW, which trains networks of texts, has a hundredth")
    p.add_argument("--momentum", type=float, default=0.9)
    p.add_argument("--probe", action="store_true",
                   help="only describe this program and the features that it lacks")
    args = p.parse_args(argv)
    if args.mode != "train" and args.execution == "graph":
        p.error("only training steps run as graphs: use --mode train")
    if args.mode != "forward" and args.execution == "onnxruntime":
        p.error("onnxruntime runs forward passes: use --mode forward")
    return args


args = parse()  # before torch, so that --help needs none

import torch  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import torch_models  # noqa: E402

DEVICE = torch.device(args.device)
CUDA = DEVICE.type == "cuda"


def hash32(seed, first, count):
    """32 random bits for each of first..first+count-1 (the finalizer lowbias32 of C. Wellons)."""
    x = (torch.arange(first, first + count) + seed * 0x9E3779B9) & 0xFFFFFFFF
    x = ((x ^ (x >> 16)) * 0x7FEB352D) & 0xFFFFFFFF
    x = ((x ^ (x >> 15)) * 0x846CA68B) & 0xFFFFFFFF
    return x ^ (x >> 16)


def make_batch(number):
    """A pattern for each class, and noise, by the same formula as in inputs.h."""
    channels, size, classes = MODELS[args.model]
    pixels = channels * size * size
    labels = hash32(1000 + number, 0, args.batch) % classes
    images = torch.empty(args.batch, pixels)
    for n, label in enumerate(labels.tolist()):
        pattern = hash32(100_000 + label, 0, pixels) >> 8
        noise = hash32(2000 + number, n * pixels, pixels) >> 8
        images[n] = ((pattern + noise).double() * 2.0**-23 - 2).float()
    return images.reshape(args.batch, channels, size, size), labels


def make_texts(number):
    """Texts in which a token limits the next one, by the same formula as in inputs.h."""
    tokens, length = TEXTS[args.model][:2]
    bits = hash32(3000 + number, 0, args.batch * (length + 1)).reshape(args.batch, length + 1)
    text = torch.empty(args.batch, length + 1, dtype=torch.long)
    text[:, 0] = bits[:, 0] % tokens
    for i in range(length):
        text[:, i + 1] = (2 * text[:, i] + 1 + bits[:, i + 1] % 4) % tokens
    return text[:, :-1].contiguous(), text[:, 1:].flatten()


def onnx_session(model, images):
    """onnxruntime's session of the network, as a function of images in NCHW."""
    import onnxruntime

    path = pathlib.Path(tempfile.mkdtemp()) / "network.onnx"
    with contextlib.redirect_stdout(sys.stderr):
        torch.onnx.export(model, (images,), path, dynamo=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = args.threads
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return lambda x: torch.from_numpy(session.run(None, {name: x.numpy()})[0])


class Trainer:
    def __init__(self):
        torch.manual_seed(0)
        layout = (torch.channels_last if args.layout == "channels_last" else
                  torch.contiguous_format)
        if args.model in TEXTS:
            self.batches = [(ids.to(DEVICE), labels.to(DEVICE))
                            for ids, labels in map(make_texts, range(args.batches))]
            self.model = torch_models.make_text(*TEXTS[args.model]).to(DEVICE)
            self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=args.lr / 100,
                                               fused=True)
        else:
            self.batches = [(images.contiguous(memory_format=layout).to(DEVICE), labels.to(DEVICE))
                            for images, labels in map(make_batch, range(args.batches))]
            self.model = torch_models.make(args.model, *MODELS[args.model])
            self.model = self.model.to(DEVICE).to(memory_format=layout)
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=args.lr,
                                             momentum=args.momentum)
        name = args.amp_dtype or ("float16" if CUDA else "bfloat16")
        self.amp_dtype = getattr(torch, name) if args.precision == "amp" else None
        self.scaler = None
        if self.amp_dtype is torch.float16 and CUDA:
            self.scaler = (torch.amp.GradScaler("cuda") if hasattr(torch.amp, "GradScaler") else
                           torch.cuda.amp.GradScaler())
        self.network, self.criterion = self.model, self.network_and_loss
        if args.execution.startswith("compile-"):
            mode = args.execution.removeprefix("compile-")
            self.network = torch.compile(self.model, mode=mode)
            self.criterion = torch.compile(self.network_and_loss, mode=mode)
        if args.execution == "onnxruntime":
            self.network = onnx_session(self.model.eval(), self.batches[0][0])
        self.graph = None
        self.next = 0

    def autocast(self):
        return (torch.autocast(DEVICE.type, dtype=self.amp_dtype) if self.amp_dtype else
                contextlib.nullcontext())

    def network_and_loss(self, images, labels):
        return F.cross_entropy(self.model(images), labels)

    def forward_backward(self, images, labels):
        with self.autocast():
            loss = self.criterion(images, labels)
        (self.scaler.scale(loss) if self.scaler else loss).backward()
        return loss

    def update(self):
        if self.scaler:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            self.optimizer.step()

    def step(self, images, labels):
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.forward_backward(images, labels)
        self.update()
        return loss

    def capture(self):
        """The step as one graph; with a loss scale forward and backward only, as PyTorch's scaler
        reads from the device whether a step is to be skipped."""
        self.inputs = [torch.empty_like(t).copy_(t) for t in self.batches[0]]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.step(*self.inputs)
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(self.graph):
            self.loss = self.forward_backward(*self.inputs)
            if not self.scaler:
                self.update()

    def replay(self, images, labels):
        self.inputs[0].copy_(images)
        self.inputs[1].copy_(labels)
        self.graph.replay()
        if self.scaler:
            self.update()
        return self.loss

    def next_batch(self):
        batch = self.batches[self.next % len(self.batches)]
        self.next += 1
        return batch

    def train(self, steps):
        step = self.replay if self.graph else self.step
        begin = getattr(getattr(torch, "compiler", None), "cudagraph_mark_step_begin",
                        lambda: None) if args.execution.startswith("compile-") else lambda: None
        for _ in range(steps):
            begin()
            loss = step(*self.next_batch())
        return loss

    @torch.inference_mode()
    def forward(self, steps):
        """Returns a function that computes the last output's loss after the clock has stopped."""
        self.model.eval()
        for _ in range(steps):
            images, labels = self.next_batch()
            with self.autocast():
                output = self.network(images)
        self.model.train()
        return lambda: F.cross_entropy(output.float(), labels)

    def run(self, mode, steps):
        return self.train(steps) if mode == "train" else self.forward(steps)


def synchronize():
    if CUDA:
        torch.cuda.synchronize(DEVICE)


def timed(trainer, mode, steps):
    """Seconds, and the loss of the last step."""
    synchronize()
    start = time.perf_counter()
    loss = trainer.run(mode, steps)
    synchronize()
    seconds = time.perf_counter() - start
    return seconds, (loss() if callable(loss) else loss).item()


def warm_up(trainer, mode):
    """Runs --warmup steps, fewer where they take longer than a measurement should, and chooses as
    many as take --seconds, where they are not given; gives these and a step's seconds, about."""
    if args.execution == "graph":
        trainer.capture()
    last = total = done = 0
    while done < 1 or done < args.warmup and total < args.seconds:
        last, _ = timed(trainer, mode, 1)
        total += last
        done += 1
    if args.steps:
        return args.steps, last
    steps = 1
    if last < args.seconds:
        last, _ = timed(trainer, mode, 1)
    while last <= args.seconds / 4:
        steps *= 2
        last, _ = timed(trainer, mode, steps)
    return max(1, round(args.seconds * steps / last)), last / steps


def reset_peak_memory():
    if CUDA:
        torch.cuda.reset_peak_memory_stats(DEVICE)
    else:
        with contextlib.suppress(OSError):  # resets the peak resident size
            pathlib.Path("/proc/self/clear_refs").write_text("5")


def peak_memory():
    """Like peak_memory() in trainer.h."""
    if CUDA:
        return {"peak_bytes": torch.cuda.max_memory_allocated(DEVICE),
                "reserved_bytes": torch.cuda.max_memory_reserved(DEVICE)}
    status = dict(line.split(":", 1) for line in
                  pathlib.Path("/proc/self/status").read_text().splitlines() if ":" in line)
    return {"peak_bytes": int(status.get("VmHWM", "0 kB").split()[0]) * 1024}


def emit(**values):
    print(json.dumps(values), flush=True)


def describe():
    info = {"framework": "PyTorch", "version": torch.__version__,
            "python": sys.version.split()[0]}
    if found := re.search(r"CPU capability usage: (\S+)", torch.__config__.show()):
        info["capability"] = found[1]  # the instruction sets of its own kernels
    if CUDA and torch.cuda.is_available():
        info.update(device=torch.cuda.get_device_name(DEVICE), cuda=torch.version.cuda,
                    cudnn=torch.backends.cudnn.version())
    return info


def lacks():
    reasons = {}
    if not torch.cuda.is_available():
        reasons["cuda"] = (f"PyTorch {torch.__version__} sees no CUDA device" if
                           torch.version.cuda else
                           f"PyTorch {torch.__version__} was built without CUDA")
    if not all(map(importlib.util.find_spec, ("onnxruntime", "onnxscript"))):
        reasons["onnxruntime"] = "no onnxruntime or onnxscript, which exports networks"
    if not hasattr(torch, "compile"):
        reasons["compile"] = f"PyTorch {torch.__version__} has no torch.compile"
    return reasons


def main():
    if args.probe:
        emit(**describe(), lacks=lacks())
        return
    torch.set_num_threads(args.threads)
    torch.backends.cuda.matmul.allow_tf32 = args.precision == "tf32"
    torch.backends.cudnn.allow_tf32 = args.precision == "tf32"
    torch.backends.cudnn.benchmark = args.cudnn_benchmark
    if CUDA:
        torch.cuda.set_device(DEVICE)
    trainer = Trainer()
    modes = {}  # {mode: (steps, seconds per step)}
    first = {}  # {mode: seconds of the first step, which compiles}
    for mode in ("train", "forward") if args.mode == "both" else (args.mode,):
        first[mode], _ = timed(trainer, mode, 1)  # memory used to try out plans is not counted
        reset_peak_memory()
        modes[mode] = warm_up(trainer, mode)
    emit(**describe(), ready=True, model=args.model, layout=args.layout, precision=args.precision,
         amp_dtype=str(trainer.amp_dtype).removeprefix("torch.") if trainer.amp_dtype else None,
         execution=args.execution, cudnn_benchmark=args.cudnn_benchmark, batch=args.batch,
         threads=torch.get_num_threads(), first_step_seconds=first,
         steps={m: steps for m, (steps, _) in modes.items()})
    for line in sys.stdin:
        mode = line.strip() if line.strip() in modes else next(iter(modes))
        steps, step_seconds = modes[mode]
        if wake := 2 if step_seconds < 0.01 else 1 if step_seconds < 0.1 else 0:
            trainer.run(mode, wake)  # wakes the threads, fills the caches
        cpu = time.process_time()  # of all threads
        seconds, loss = timed(trainer, mode, steps)
        emit(mode=mode, images_per_second=steps * args.batch / seconds, seconds=seconds,
             cpu_seconds=time.process_time() - cpu, steps=steps, loss=loss, memory=peak_memory())


if __name__ == "__main__":
    main()
