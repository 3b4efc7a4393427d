"""Train SetFit on a table and score it on another, in an environment of its own; `setfit_comparison.py` calls this script.

    python -m venv setfit && setfit/bin/pip install torch==2.13.0 setfit==1.2.0
    setfit/bin/python scripts/setfit_training.py ENCODER TRAIN.json TEST.json

ENCODER is a folder of sentence-transformers. TRAIN and TEST are JSON lists of [text, label]. All settings are SetFit's
defaults. Prints the accuracy and the seconds of training as JSON.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

from datasets import Dataset
from setfit import SetFitModel, Trainer, TrainingArguments


def main(encoder: str, train: str, test: str) -> None:
    given, wanted = (json.loads(Path(name).read_text(encoding="utf-8")) for name in (train, test))
    data = Dataset.from_dict({"text": [text for text, _ in given], "label": [label for _, label in given]})
    model = SetFitModel.from_pretrained(encoder, device="cpu")
    with tempfile.TemporaryDirectory() as folder:
        options = TrainingArguments(output_dir=folder, report_to="none", show_progress_bar=False, save_strategy="no")
        began = time.monotonic()
        Trainer(model=model, args=options, train_dataset=data).train()
        seconds = time.monotonic() - began
    predicted = model.predict([text for text, _ in wanted])
    right = sum(str(found) == str(label) for found, (_, label) in zip(predicted, wanted, strict=True))
    print(json.dumps({"accuracy": right / len(wanted), "seconds": seconds}))


if __name__ == "__main__":
    main(*sys.argv[1:])
