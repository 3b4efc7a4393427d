"""Run a model as a graph, and compare it with torch on random batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from lamina.data.padding import Padded
from lamina.model import Model
from lamina.runs.onnx_link import link, made_of
from lamina.runs.onnx_trace import Outputs, trace
from lamina.runtime.graph_engine import feeds
from lamina.runtime.manifest import Purpose
from lamina.runtime.onnx_session import make_session

CLOSE = 1e-4  # the greatest difference of a logit


def random_batch(rows: int, tokens: int, vocab: int, seed: int, types: int = 2) -> Padded:
    """Return windows of random lengths with random tokens. The context is a random part of each."""
    random = np.random.default_rng(seed)
    lengths = random.integers(min(5, tokens), tokens + 1, rows)
    lengths[0] = tokens
    column = np.arange(tokens)
    mask = column < lengths[:, None]
    context = mask & (column >= random.integers(2, 4, rows)[:, None])
    ids = np.where(mask, random.integers(1, vocab, (rows, tokens)), 0)
    return Padded(ids, np.where(context, min(1, max(0, types - 1)), 0), mask, context)


def session_of(model: Model, purpose: Purpose = "outputs", sides: int = 1) -> Any:
    """Return the session of the traced task "main"."""
    graph, weights = link(trace(model, "main", purpose, sides=sides))
    made = {name: made_of(how, weights) for name, how in graph.initializers.items()}
    return make_session(graph.model.SerializeToString(), made)


def greatest_difference(model: Model, session: Any, batch: Padded, purpose: Purpose = "outputs", sides: int = 1) -> float:
    """Return the greatest difference between the outputs of a graph and those of torch, on real tokens."""
    whole = Outputs(model, "main", purpose, sides).eval()
    with torch.no_grad():
        wanted = whole(*(torch.from_numpy(part) for part in (batch.ids, batch.mask, batch.type_ids, batch.context)))
    found = session.run(None, feeds(batch, [one.name for one in session.get_inputs()]))
    assert len(found) == len(wanted)
    differences = []
    for ours, theirs in zip(found, wanted, strict=True):
        assert ours.shape == tuple(theirs.shape)
        apart = np.abs(ours - theirs.numpy())
        differences.append(apart[batch.mask].max() if apart.shape == batch.mask.shape else apart.max())
    return float(max(differences))
