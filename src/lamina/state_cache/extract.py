"""Compute the hidden states of a store, and the fingerprint of what they depend on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from lamina.data.batches import make_batch
from lamina.data.padding import pack
from lamina.data.windows import Windows
from lamina.encoder.blocks import Encoder
from lamina.state_cache.store import Contents, Extract, Store, open_store
from lamina.utils.arrays import Longs
from lamina.utils.parallel import side_by_side
from lamina.utils.progress import Progress

EXTRACT_TOKENS = 1024  # padded tokens of a batch on a CPU
EXTRACT_GPU_TOKENS = 1 << 15


def store_of(encoder: Encoder, windows: Windows, contents: Contents, progress: Progress | None = None) -> Store:
    """Return the store of some windows' states; compute what is missing."""
    return open_store(contents, stored_starts(windows, contents), extractor(encoder, windows, contents), progress=progress)


def stored_starts(windows: Windows, contents: Contents) -> Longs:
    """Return where each window's tokens begin in the store: [W + 1]."""
    return np.arange(len(windows) + 1) if contents.positions == "cls" else windows.starts


def extractor(encoder: Encoder, windows: Windows, contents: Contents) -> Extract:
    """Return the function that computes the states of some windows."""
    device = next(encoder.parameters()).device
    counts = np.diff(stored_starts(windows, contents))

    def states_of(rows: Longs) -> Tensor:
        batch = make_batch(windows, rows).to(device)
        stack = encoder(encoder.embed(batch.ids, batch.type_ids), batch.mask, keep=contents.layers)
        stack = stack.cls() if contents.positions == "cls" else stack
        return torch.stack(stack.states, 2)  # [R, T, layers, H]

    return partial(gathered, compute=states_of, counts=counts, lengths=windows.lengths, contents=contents, device=device)


def gathered(
    rows: Longs,
    *,
    compute: Callable[[Longs], Tensor],
    counts: Longs,
    lengths: Longs,
    contents: Contents,
    device: torch.device,
) -> Tensor:
    """Return what `compute` returns for some windows or items, in their order and without padding: [tokens, layers, H].

    Args:
        rows: The windows or items.
        compute: Runs a model on a batch of windows or items, and returns [R, T, layers, H].
        counts: The number of tokens to store for each window or item of the dataset.
        lengths: The number of tokens that the model reads for each, by which they are put into batches.
        contents: The contents of the store.
        device: The device of the model.
    """
    first = np.concatenate([[0], np.cumsum(counts[rows])])  # [rows + 1] in the result
    states = torch.empty(int(first[-1]), contents.planes, contents.hidden)
    order = np.argsort(-lengths[rows], kind="stable")

    @torch.inference_mode()
    def fill(run: Longs) -> None:
        chosen = order[run]
        found = compute(rows[chosen]).cpu()
        for row, place in enumerate(chosen.tolist()):
            states[first[place] : first[place + 1]] = found[row, : first[place + 1] - first[place]]

    runs = pack(lengths[rows][order], EXTRACT_TOKENS if device.type == "cpu" else EXTRACT_GPU_TOKENS)
    for _ in side_by_side(fill, runs) if device.type == "cpu" else map(fill, runs):
        pass
    return states


def fingerprint(encoder: Encoder, top: int) -> str:
    """Return a checksum of all that the states up to layer `top` depend on in the encoder."""
    shape = {name: value for name, value in encoder.config.to_json().items() if "dropout" not in name}
    digest = hashlib.sha256(json.dumps([top, shape], sort_keys=True).encode())
    for part in (encoder.embeddings, *encoder.layers[: 1 if encoder.config.shared else top]):
        add_weights(digest, part)
    return digest.hexdigest()


def add_weights(digest: hashlib._Hash, module: nn.Module) -> None:
    """Add the names and values of a module's weights to a checksum."""
    for name, value in module.state_dict().items():
        digest.update(name.encode())
        digest.update(value.detach().cpu().contiguous().numpy().data.cast("B"))
