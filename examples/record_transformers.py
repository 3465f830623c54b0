"""The recorder in the Trainer of Hugging Face, as a callback: 40 steps of a tiny model, on one GPU when there is one.

python examples/record_transformers.py         by hand, into $TRIAGE_RECORD_DIR or triage-record-<time>
triage record -- python examples/record_transformers.py --untouched    the same without the callback
"""

from __future__ import annotations

import sys
import tempfile

import torch
import transformers

from triage.recorder import StepRecorder

STEPS, BATCH, WIDTH = 40, 8, 16


# [shown in docs/record.md
class Recording(transformers.TrainerCallback):
    def on_train_begin(self, args, state, control, **kwargs):
        self.recorder = StepRecorder(rank=args.process_index)
        self.recorder.begin("data")

    def on_step_begin(self, args, state, control, **kwargs):
        self.recorder.end("data")

    def on_pre_optimizer_step(self, args, state, control, **kwargs):
        self.recorder.begin("opt")

    def on_optimizer_step(self, args, state, control, **kwargs):
        self.recorder.end("opt")

    def on_step_end(self, args, state, control, **kwargs):
        self.recorder.step(state.global_step - 1)
        self.recorder.begin("data")

    def on_save(self, args, state, control, **kwargs):
        self.recorder.begin("data")  # anew: the time until here was no waiting

    on_evaluate = on_save


# ]


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(WIDTH, 1)

    def forward(self, x, labels):
        return {"loss": torch.nn.functional.mse_loss(self.layer(x), labels)}


if __name__ == "__main__":
    rows = [{"x": torch.randn(WIDTH), "labels": torch.randn(1)} for _ in range(2 * STEPS * BATCH)]
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            output_dir=folder,
            max_steps=STEPS,
            per_device_train_batch_size=BATCH,
            eval_strategy="steps",
            eval_steps=STEPS // 2,
            save_strategy="no",
            logging_strategy="no",
            report_to=[],
            disable_tqdm=True,
        )
        callbacks = [] if "--untouched" in sys.argv else [Recording()]
        transformers.Trainer(
            Model(), arguments, train_dataset=rows, eval_dataset=rows[:BATCH], callbacks=callbacks
        ).train()
