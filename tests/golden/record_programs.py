"""The programs of tests/programs, in PyTorch: their losses, and the errors that float32 makes.

Each function is one program and has to be kept in step with the file named in its comment. It gets
the dtype, and a seed by which the last bits of the initial weights differ (0: not at all).
"""

import pathlib
import re
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from torch import nn

from recorder import Recorder, hash32, uniform

PROGRAMS = pathlib.Path(__file__).parent.parent / "programs"
RUNS = 16


def set_weights(net, dtype, seed, first=0):
    """As set_weights() of recorded.h; then, unless `seed` is 0, moves each by an ulp or not."""
    generator = torch.Generator().manual_seed(seed)
    for i, (name, p) in enumerate(net.named_parameters()):
        fan_in = p.numel() // p.shape[0] if p.dim() > 1 else 300
        w = uniform(first + i, p.shape, fan_in, torch.float32)
        if p.dim() == 1 and name.endswith("weight"):
            w += 1
        if seed:
            w = w * (1 + torch.randint(-1, 2, w.shape, generator=generator) * 2.0**-23)
        p.data = w.to(dtype)
    return net.to(dtype)


# ---- language_model_test.cpp and gpt_test.cpp


def pieces_of_text(ids, step):
    """Four pieces of 24 tokens, and the tokens after each."""
    starts = [(step * 4 + i) * 53 % (len(ids) - 24) for i in range(4)]
    return (torch.stack([ids[s + after:s + after + 24] for s in starts]) for after in (0, 1))


def ids_of_text(file):
    """The characters of the text in a test, as indices among the different ones, of which there
    are so many."""
    text = re.search(r'R"\((.*?)\)"', (PROGRAMS / file).read_text(), re.DOTALL).group(1)
    letters = sorted(set(text))
    return torch.tensor([letters.index(c) for c in text]), len(letters)


class LanguageModel(nn.Module):
    def __init__(self, vocabulary, width, heads):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.gru = nn.GRU(width, width, batch_first=True)
        self.norm1 = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(),
                                 nn.Linear(2 * width, width))
        self.norm3 = nn.LayerNorm(width)
        self.output = nn.Linear(width, vocabulary, bias=False)
        self.output.weight = self.tokens.weight

    def forward(self, ids):
        x = self.tokens(ids)
        x = x + self.gru(x)[0]
        h = self.norm1(x)
        future = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).triu(1)
        x = x + self.attention(h, h, h, need_weights=False, attn_mask=future)[0]
        x = x + self.mlp(self.norm2(x))
        return self.output(self.norm3(x))


def language_model(dtype, seed):
    ids, vocabulary = ids_of_text("language_model_test.cpp")
    model = set_weights(LanguageModel(vocabulary, 32, 4), dtype, seed)
    decay = [p for p in model.parameters() if p.dim() > 1]
    no_decay = [p for p in model.parameters() if p.dim() == 1]
    optimizer = torch.optim.AdamW([dict(params=decay, weight_decay=0.1),
                                   dict(params=no_decay, weight_decay=0)], lr=3e-3)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=5)
    losses = []
    for step in range(20):
        x, y = pieces_of_text(ids, step)
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        assert norm > 0.5, "the clipping has to count"
        optimizer.step()
        warmup.step()
        losses.append(loss.item())
    return losses


# ---- gpt_test.cpp


class Gpt(nn.Module):
    """As nn::GPT of nn/models/gpt.h."""

    def __init__(self, vocabulary, context, layers, heads, width):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout=0, activation=lambda x: F.gelu(x, approximate="tanh"),
            batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, layers, nn.LayerNorm(width),
                                            enable_nested_tensor=False)
        self.output = nn.Linear(width, vocabulary, bias=False)
        self.output.weight = self.tokens.weight

    def forward(self, ids):
        length = ids.shape[1]
        x = self.tokens(ids) + self.positions(torch.arange(length))
        mask = nn.Transformer.generate_square_subsequent_mask(length, dtype=x.dtype)
        return self.output(self.blocks(x, mask, is_causal=True))


def gpt(dtype, seed):
    ids, vocabulary = ids_of_text("gpt_test.cpp")
    model = set_weights(Gpt(vocabulary, 24, 2, 2, 16), dtype, seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1)
    losses = []
    for step in range(50):
        x, y = pieces_of_text(ids, step)
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1)
        optimizer.step()
        losses.append(loss.item())
    return losses


# ---- unet_test.cpp


def cell(index):
    row, column = (5 + int(v) for v in hash32(index, 2) % 6)
    radius = 2 + int(hash32(index, 3)[2]) % 6 // 2
    y, x = torch.meshgrid(torch.arange(16), torch.arange(16), indexing="ij")
    mask = ((y - row) ** 2 + (x - column) ** 2 <= radius**2).float()
    noise = (hash32(100 + index, 256) >> 24).float().view(16, 16) / 256
    return (mask + noise - 0.5)[None], mask[None]


def double_conv(c, k):
    return nn.Sequential(nn.Conv2d(c, k, 3, padding=1, bias=False), nn.BatchNorm2d(k), nn.ReLU(),
                         nn.Conv2d(k, k, 3, padding=1, bias=False), nn.BatchNorm2d(k), nn.ReLU())


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1, self.down2 = double_conv(1, 8), double_conv(8, 16)
        self.bottom = double_conv(16, 32)
        self.rise2 = nn.ConvTranspose2d(32, 16, 2, stride=2)
        self.up2, self.up1 = double_conv(32, 16), double_conv(24, 8)
        self.head = nn.Conv2d(8, 1, 1)

    def forward(self, x):
        fine = self.down1(x)
        coarse = self.down2(F.max_pool2d(fine, 2))
        deep = self.bottom(F.max_pool2d(coarse, 2))
        y = self.up2(torch.cat([self.rise2(deep), coarse], 1))
        wide = F.interpolate(y, scale_factor=2, mode="bilinear", align_corners=False)
        return self.head(self.up1(torch.cat([wide, fine], 1)))


def dice_and_bce(logits, mask):
    p, m = logits.sigmoid().flatten(1), mask.flatten(1)
    dice = 1 - ((2 * (p * m).sum(1) + 1) / (p.sum(1) + m.sum(1) + 1)).mean()
    return F.binary_cross_entropy_with_logits(logits, mask) + dice


def unet(dtype, seed):
    images, masks = (torch.stack(t).to(dtype).split(4) for t in zip(*map(cell, range(24))))
    net = set_weights(UNet(), dtype, seed)
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3, eps=1e-4)
    losses = []
    for _ in range(3):
        for x, y in zip(images, masks):
            loss = dice_and_bce(net(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    net.eval()
    with torch.no_grad():
        evaluated = [dice_and_bce(net(x), y).item() for x, y in zip(images, masks)]
    return losses + [sum(evaluated) / len(evaluated)]


# ---- gan_test.cpp


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(12, 64)
        self.layers = nn.Sequential(
            nn.BatchNorm2d(16), nn.ReLU(), nn.ConvTranspose2d(16, 8, 4, 2, 1, bias=False),
            nn.BatchNorm2d(8), nn.ReLU(), nn.ConvTranspose2d(8, 1, 4, 2, 1), nn.Tanh())

    def forward(self, z):
        return self.layers(self.fc(z).view(-1, 16, 2, 2))


def real_images(step):
    column, shift = torch.arange(8).view(1, 1, 1, 8), (torch.arange(8) + step).view(-1, 1, 1, 1)
    stripes = (((column + shift) // 2 % 2) * 2 - 1).float().expand(8, 1, 8, 8)
    return stripes * 0.5 + uniform(1000 + step, (8, 1, 8, 8), 48, torch.float32)


def gan(dtype, seed):
    generator = set_weights(Generator(), dtype, seed)
    discriminator = set_weights(nn.Sequential(
        nn.Conv2d(1, 8, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(8, 16, 4, 2, 1), nn.LeakyReLU(0.2),
        nn.Flatten(), nn.Linear(64, 1)), dtype, seed, first=100)
    optimizer_g = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.999))
    optimizer_d = torch.optim.Adam(discriminator.parameters(), lr=2e-3, betas=(0.5, 0.999))
    criterion = nn.BCEWithLogitsLoss()
    smooth, fake = torch.full((8, 1), 0.9, dtype=dtype), torch.zeros(8, 1, dtype=dtype)
    losses = []
    for step in range(20):
        made = generator(uniform(2000 + step, (8, 12), 1, dtype))
        optimizer_d.zero_grad()
        loss_d = (criterion(discriminator(real_images(step).to(dtype)), smooth)
                  + criterion(discriminator(made.detach()), fake))
        loss_d.backward()
        optimizer_d.step()
        optimizer_g.zero_grad()
        loss_g = criterion(discriminator(made), torch.ones_like(fake))
        loss_g.backward()
        optimizer_g.step()
        losses += [loss_d.item(), loss_g.item()]
    return losses


# ---- triplet_test.cpp


def triplet_sample(index):
    label = index % 4
    other = (label + 1 + index // 4 % 3) % 4

    def row(kind, which):
        return (uniform(500 + kind, (10,), 2, torch.float32)
                + uniform(600 + 3 * index + which, (10,), 1, torch.float32))

    return torch.stack([row(label, 0), row(label, 1), row(other, 2)])


class Embedder(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(10, 24), nn.Linear(24, 6)

    def forward(self, x):
        y = self.fc2(F.relu(self.fc1(x)))
        return y / y.norm(2, -1, keepdim=True)


def triplet(dtype, seed):
    batches = torch.stack([triplet_sample(i) for i in range(48)]).to(dtype).split(8)
    net = set_weights(Embedder(), dtype, seed)
    optimizer = torch.optim.Adagrad(net.parameters(), lr=0.02, lr_decay=0.05, weight_decay=1e-3)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.5)
    losses = []
    for _ in range(4):
        for batch in batches:
            a, p, n = (net(x) for x in batch.unbind(1))
            near, far = ((a - other).pow(2).sum(-1).sqrt() for other in (p, n))
            loss = (near - far + 0.5).clamp_min(0).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        scheduler.step()
    return losses


# ---- ddp_test.cpp


class TwoInputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.mix = nn.Linear(4 * 4 * 4 + 5, 16, bias=False)
        self.mix_norm = nn.BatchNorm1d(16)
        self.fc = nn.Linear(16, 3)

    def forward(self, images, features):
        x = F.max_pool2d(self.norm(self.conv(images)).relu(), 2).flatten(1)
        return self.fc(self.mix_norm(self.mix(torch.cat([x, features], 1))).relu())


def train_rank(dtype, seed):
    """With a process group if there is one; one process has the whole batch."""
    ranks = dist.get_world_size() if dist.is_initialized() else 1
    labels = torch.arange(32) % 3
    images = (uniform(700, (3, 1, 8, 8), 4, torch.float32)[labels]
              + uniform(702, (32, 1, 8, 8), 1, torch.float32)).to(dtype)
    features = (uniform(701, (3, 5), 4, torch.float32)[labels]
                + uniform(703, (32, 5), 1, torch.float32)).to(dtype)
    data = torch.utils.data.TensorDataset(images, features, labels)
    sampler = torch.utils.data.SequentialSampler(data)
    net = wrapped = set_weights(TwoInputs(), dtype, seed)
    if ranks > 1:
        sampler = torch.utils.data.DistributedSampler(data, shuffle=False)
        wrapped = nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for _ in range(4):
        for x, f, y in torch.utils.data.DataLoader(data, batch_size=8 // ranks, sampler=sampler):
            loss = F.cross_entropy(wrapped(x, f), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            mean = loss.detach().clone()
            if ranks > 1:
                dist.all_reduce(mean)
            losses.append(mean.item() / ranks)
    net.eval()
    with torch.no_grad():
        return losses + [F.cross_entropy(net(images, features), labels).item()]


def ddp_rank(rank, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{folder}/store", rank=rank, world_size=2)
    runs = {(dtype, seed): train_rank(dtype, seed) for dtype, seed in all_runs()}
    if rank == 0:
        torch.save(runs, f"{folder}/runs")
    dist.destroy_process_group()


def ddp():
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(ddp_rank, (folder,), nprocs=2)
        runs = torch.load(f"{folder}/runs")
    return lambda dtype, seed: runs[dtype, seed]


def all_runs():
    return [(torch.float64, 0)] + [(torch.float32, seed) for seed in range(RUNS)]


if __name__ == "__main__":
    with Recorder("programs") as r:
        torch.set_num_threads(1)
        programs = dict(language_model=language_model, gpt=gpt, unet=unet, gan=gan, triplet=triplet,
                        whole_batch=train_rank, ddp=ddp())
        for name, program in programs.items():
            losses, *single = (torch.tensor(program(*run), dtype=torch.float64)
                               for run in all_runs())
            # At least the rounding of the loss itself.
            rounding = [losses.abs() * 2.0**-23]
            error = torch.stack([(s - losses).abs() for s in single] + rounding).amax(0)
            error = error.cummax(0).values
            r.add(name, losses=losses, error=error)
            print(name, [round(v, 4) for v in losses.tolist()],
                  [f"{e:.1e}" for e in error.tolist()])
