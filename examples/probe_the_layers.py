"""Train a small classifier on each layer of a frozen encoder, and draw how much each layer knows.

A probe is logistic regression on the mean of a layer's hidden states. Its accuracy shows what the layer holds about the labels.
It shows how to run an encoder layer by layer. It takes about a minute for the default encoder on two cores.

    python examples/probe_the_layers.py --model minilm --out layers.png
    python examples/probe_the_layers.py --model runs/quickstart --train reviews.csv --dev reviews-dev.csv
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib
import torch
from torch import Tensor, nn

from lamina.data.batches import make_batch
from lamina.data.labels import Labels
from lamina.data.sentence_windows import make_sentence_windows
from lamina.data.sources import load_sentences
from lamina.data.windows import Windows
from lamina.encoder import load as encoders
from lamina.encoder.blocks import Encoder
from lamina.encoder.load import EncoderOptions

matplotlib.use("Agg")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="minilm", help="an encoder: a name, a run folder, a checkpoint's folder or a hub id")
    parser.add_argument("--train", default="fables/sentiment/train", help="labelled sentences")
    parser.add_argument("--dev", default="fables/sentiment/dev")
    parser.add_argument("--rows", type=int, default=500, help="use at most so many sentences of each file")
    parser.add_argument("--out", type=Path, default=Path("layers.png"))
    options = parser.parse_args()

    source = encoders.find(EncoderOptions(model=options.model))
    encoder, tokenizer = encoders.load(source).eval(), encoders.load_tokenizer(source)
    train, dev = load_sentences(options.train)[: options.rows], load_sentences(options.dev)[: options.rows]
    classes = Labels(tuple(sorted({str(sentence.label) for sentence in train})))
    seen, labels = features(encoder, make_sentence_windows(train, tokenizer, classes, length=128, sides=1))
    new, wanted = features(encoder, make_sentence_windows(dev, tokenizer, classes, length=128, sides=1))
    scores = [probe(seen[:, layer], labels, new[:, layer], wanted) for layer in range(seen.shape[1])]
    guess = (wanted == labels.mode().values).float().mean().item()
    for layer, score in enumerate(scores):
        print(f"layer {layer}: accuracy {score:.3f}")
    print(f"the most frequent class: {guess:.3f}")
    draw(scores, guess, options.out)
    print(f"written: {options.out}")


@torch.no_grad()
def features(encoder: Encoder, windows: Windows) -> tuple[Tensor, Tensor]:
    """Return the mean states of every sentence and layer, [sentences, layers + 1, H], and the numbers of the classes."""
    found = []
    for start in range(0, len(windows), 32):
        batch = make_batch(windows, range(start, min(start + 32, len(windows))))
        stack = encoder(encoder.embed(batch.ids, batch.type_ids), batch.mask, keep=range(encoder.config.layers + 1))
        mask = batch.mask.unsqueeze(-1)  # [R, T, 1]
        found.append(torch.stack([(state * mask).sum(1) / mask.sum(1) for state in stack.states], 1))  # [R, L + 1, H]
    return torch.cat(found), torch.as_tensor(windows.labels).long()


def probe(seen: Tensor, labels: Tensor, new: Tensor, wanted: Tensor) -> float:
    """Return the accuracy of logistic regression on new sentences. States are scaled to mean 0 and deviation 1."""
    torch.manual_seed(0)
    mean, deviation = seen.mean(0), seen.std(0) + 1e-6
    seen, new = (seen - mean) / deviation, (new - mean) / deviation
    linear = nn.Linear(seen.shape[1], int(labels.max()) + 1)
    optimizer = torch.optim.AdamW(linear.parameters(), lr=1e-2, weight_decay=0.1)
    for _ in range(100):
        loss = nn.functional.cross_entropy(linear(seen), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return float((linear(new).argmax(-1) == wanted).float().mean())


def draw(scores: list[float], guess: float, out: Path) -> None:
    """Write a picture of the accuracy of each layer, with that of the most frequent class as a line."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 3))
    axes.bar(range(len(scores)), scores)
    axes.axhline(guess, linestyle="--", color="grey")
    axes.set(xlabel="layer (0: embeddings)", ylabel="accuracy", xticks=range(len(scores)))
    figure.tight_layout()
    figure.savefig(out, dpi=120)


if __name__ == "__main__":
    main()
