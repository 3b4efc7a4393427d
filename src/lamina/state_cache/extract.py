"""Compute the hidden states of a store, and the fingerprint of what they depend on."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import torch
from torch import Tensor

from lamina.data.batches import make_batch, pack
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
    starts = stored_starts(windows, contents)

    def extract(rows: Longs) -> Tensor:
        length = np.diff(starts)[rows]
        first = np.concatenate([[0], np.cumsum(length)])  # [rows + 1] in the result
        states = torch.empty(int(first[-1]), len(contents.layers), contents.hidden)
        order = np.argsort(-windows.lengths[rows], kind="stable")

        @torch.inference_mode()
        def fill(run: Longs) -> None:
            chosen = order[run]
            batch = make_batch(windows, rows[chosen]).to(device)
            stack = encoder(encoder.embed(batch.ids, batch.type_ids), batch.mask, keep=contents.layers)
            stack = stack.cls() if contents.positions == "cls" else stack
            found = torch.stack(stack.states, 2).cpu()  # [R, T, layers, H]
            for row, window in enumerate(chosen.tolist()):
                states[first[window] : first[window + 1]] = found[row, : length[window]]

        runs = pack(windows.lengths[rows][order], EXTRACT_TOKENS if device.type == "cpu" else EXTRACT_GPU_TOKENS)
        for _ in side_by_side(fill, runs) if device.type == "cpu" else map(fill, runs):
            pass
        return states

    return extract


def fingerprint(encoder: Encoder, top: int) -> str:
    """Return a checksum of all that the states up to layer `top` depend on in the encoder."""
    shape = {name: value for name, value in encoder.config.to_json().items() if "dropout" not in name}
    digest = hashlib.sha256(json.dumps([top, shape], sort_keys=True).encode())
    for part in (encoder.embeddings, *encoder.layers[: 1 if encoder.config.shared else top]):
        for name, value in part.state_dict().items():
            digest.update(name.encode())
            digest.update(value.detach().cpu().contiguous().numpy().data.cast("B"))
    return digest.hexdigest()
