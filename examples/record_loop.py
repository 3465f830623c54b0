"""The recorder in a plain training loop: 40 steps of a tiny model, on the GPU when there is one.

python examples/record_loop.py                 by hand, into $TRIAGE_RECORD_DIR or triage-record-<time>
triage record -- python examples/record_loop.py --untouched        the same without the recorder's calls
"""

from __future__ import annotations

import sys

import torch
from torch.utils.data import DataLoader, TensorDataset

from triage.recorder import StepRecorder

STEPS, BATCH, WIDTH = 40, 8, 16
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def train(model, loader, optimizer):
    # [shown in docs/record.md
    recorder = StepRecorder()
    for inputs, targets in recorder.data(loader):
        with recorder.phase("fwd"):
            loss = torch.nn.functional.mse_loss(model(inputs.to(DEVICE)), targets.to(DEVICE))
        with recorder.phase("bwd"):
            loss.backward()
        with recorder.phase("opt"):
            optimizer.step()
        optimizer.zero_grad()
        recorder.step()
    # ]


def train_untouched(model, loader, optimizer):
    for inputs, targets in loader:
        torch.nn.functional.mse_loss(model(inputs.to(DEVICE)), targets.to(DEVICE)).backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    model = torch.nn.Linear(WIDTH, 1).to(DEVICE)
    loader = DataLoader(TensorDataset(torch.randn(STEPS * BATCH, WIDTH), torch.randn(STEPS * BATCH, 1)), BATCH)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    (train_untouched if "--untouched" in sys.argv else train)(model, loader, optimizer)
