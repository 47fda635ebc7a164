"""Goes on with a run of tests/optim/pth_test.cpp: resume_pth.py RUN EXPECTED."""
import sys

import torch

run, file = (torch.load(path, weights_only=True) for path in sys.argv[1:])
net = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
net.load_state_dict(run["model"])
optimizer = torch.optim.AdamW(net.parameters(), 0.3)
optimizer.load_state_dict(run["optimizer"])
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.1)
scheduler.load_state_dict(run["scheduler"])
scaler = torch.amp.GradScaler("cpu")
scaler.load_state_dict(run["scaler"])
for expected in file["losses"]:
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(net(file["inputs"]), file["targets"])
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    scheduler.step()
    assert abs(loss.item() - expected) <= 1e-5 * expected, (loss.item(), expected)
