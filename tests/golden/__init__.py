"""What the pipeline of transformers 4.57.6 answered, and the models that it was asked with."""

from pathlib import Path

GOLDEN = Path(__file__).resolve().parent
TRAINED = GOLDEN / "fables"  # a small model, fine-tuned on the bundled corpus by train.py
