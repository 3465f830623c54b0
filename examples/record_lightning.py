"""The recorder in Lightning, as a callback: 40 steps of a tiny model, on one GPU when there is one.

python examples/record_lightning.py            by hand, into $TRIAGE_RECORD_DIR or triage-record-<time>
triage record -- python examples/record_lightning.py --untouched   the same without the callback
"""

from __future__ import annotations

import sys

import lightning
import torch
from torch.utils.data import DataLoader, TensorDataset

from triage.recorder import StepRecorder

STEPS, BATCH, WIDTH = 40, 8, 16


# [shown in docs/record.md
class Recording(lightning.Callback):
    def on_train_start(self, trainer, module):
        self.recorder, self.done = StepRecorder(rank=trainer.global_rank), trainer.global_step
        self.recorder.begin("data")

    def on_train_batch_start(self, trainer, module, batch, index):
        self.recorder.end("data")
        self.recorder.begin("fwd")

    def on_before_backward(self, trainer, module, loss):
        self.recorder.end("fwd")
        self.recorder.begin("bwd")

    def on_after_backward(self, trainer, module):
        self.recorder.end("bwd")

    def on_before_optimizer_step(self, trainer, module, optimizer):
        self.recorder.begin("opt")

    def on_train_batch_end(self, trainer, module, outputs, batch, index):
        self.recorder.end("opt")
        if trainer.global_step > self.done:  # not while gradients accumulate
            self.recorder.step(self.done)
            self.done = trainer.global_step
        self.recorder.begin("data")

    def on_validation_end(self, trainer, module):
        if not trainer.sanity_checking:
            self.recorder.begin("data")  # anew: the time until here was no waiting


# ]


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(WIDTH, 1)

    def training_step(self, batch, index):
        inputs, targets = batch
        return torch.nn.functional.mse_loss(self.layer(inputs), targets)

    validation_step = training_step

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)


if __name__ == "__main__":
    loader = DataLoader(TensorDataset(torch.randn(STEPS * BATCH, WIDTH), torch.randn(STEPS * BATCH, 1)), BATCH)
    trainer = lightning.Trainer(
        max_steps=STEPS,
        devices=1,
        val_check_interval=STEPS // 2,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[] if "--untouched" in sys.argv else [Recording()],
    )
    trainer.fit(Model(), loader, loader)
