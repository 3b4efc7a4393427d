"""The examples of one epoch: unchanged, or augmented differently in each epoch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from lamina.augment.eda import EdaOptions, augment_all, moments_of, share_of
from lamina.augment.synonyms import read_synonyms, synonyms_file
from lamina.augment.unanswerable import CorpusIndex, UnanswerableOptions, with_unanswerable
from lamina.data.examples import Example
from lamina.utils.options import Options


class AugmentOptions(Options):
    eda: EdaOptions | None = None
    """Change words of the contexts; without it, contexts stay unchanged."""
    unanswerable: UnanswerableOptions | None = None
    """Add synthetic unanswerable questions; without it, none is added."""

    @property
    def per_epoch(self) -> bool:
        """Whether the examples differ between epochs."""
        return self.eda is not None or (self.unanswerable is not None and self.unanswerable.per_epoch)

    @property
    def ramps(self) -> bool:
        """Whether the strength of EDA grows during training."""
        return self.eda is not None and self.eda.ramp

    @property
    def ramps_by_epoch(self) -> bool:
        """Whether the strength of EDA grows once an epoch, as in the paper."""
        return self.eda is not None and self.eda.ramp and self.eda.ramp_by == "epoch"


_index = lru_cache(maxsize=4)(CorpusIndex.build)  # all epochs of the same examples share one index

Moments = list[float]  # the position of each example in an epoch, from 0 to 1


def examples_of_epoch(
    examples: Sequence[Example], options: AugmentOptions, *, seed: int, epoch: int, epochs: float
) -> tuple[list[Example], Moments | None]:
    """Return the examples of epoch number `epoch` (from 0) of `epochs`, and their moments if their order matters, else None.

    Unanswerable questions are added first, so that their contexts get noise too.
    """
    augmented = list(examples)
    if options.unanswerable is not None:
        augmented = with_unanswerable(augmented, options.unanswerable, seed, epoch=epoch, index=_index(tuple(augmented)))
    if options.eda is None:
        return augmented, None
    share: float | list[float] = share_of(epoch, epochs)
    moments = None
    if options.eda.ramp and options.eda.ramp_by == "progress":
        moments = moments_of(len(augmented) * (1 + options.eda.mix), seed=seed, epoch=epoch)
        whole = epochs or 1.0  # with 0 epochs, the examples are only counted
        share = [(epoch + moment) / whole for moment in moments[-len(augmented) :]]  # with `mix`, the noisy ones come last
    synonyms = read_synonyms(synonyms_file(options.eda.synonyms)) if options.eda.synonyms else {}
    return augment_all(augmented, options.eda, seed=seed, epoch=epoch, share=share, synonyms=synonyms), moments
