"""The questions of one epoch: as they are, or augmented anew for each epoch."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from pydantic import BaseModel, ConfigDict

from lamina.augment.eda import EdaOptions, augment_all, moments_of, read_synonyms, share_of
from lamina.augment.unanswerable import CorpusIndex, UnanswerableOptions, with_unanswerable
from lamina.data.examples import Example
from lamina.utils.files import expanded


class AugmentOptions(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    eda: EdaOptions | None = None
    """Change words of the contexts; without it, contexts stay unchanged."""
    unanswerable: UnanswerableOptions | None = None
    """Add synthetic unanswerable questions; without it, none is added."""

    @property
    def per_epoch(self) -> bool:
        """Whether the texts change with each epoch."""
        return self.eda is not None or (self.unanswerable is not None and self.unanswerable.per_epoch)

    @property
    def ramps(self) -> bool:
        return self.eda is not None and self.eda.ramp

    @property
    def ramps_by_epoch(self) -> bool:
        return self.eda is not None and self.eda.ramp and self.eda.ramp_by == "epoch"


_index = lru_cache(maxsize=4)(CorpusIndex.build)  # one index serves all epochs of the same examples

Moments = list[float]  # when each example comes in an epoch, as shares of it


def examples_of_epoch(
    examples: Sequence[Example], options: AugmentOptions, *, seed: int, epoch: int, epochs: float
) -> tuple[list[Example], Moments | None]:
    """The examples of an epoch, out of `epochs` in all; and the moments, where it matters when each example comes.

    Unanswerable questions are made first, so that noise reaches their contexts too.
    """
    made = list(examples)
    if options.unanswerable is not None:
        made = with_unanswerable(made, options.unanswerable, seed, epoch=epoch, index=_index(tuple(made)))
    if options.eda is None:
        return made, None
    share: float | list[float] = share_of(epoch, epochs)
    moments = None
    if options.eda.ramp and options.eda.ramp_by == "progress":
        moments = moments_of(len(made) * (1 + options.eda.mix), seed=seed, epoch=epoch)
        share = [(epoch + moment) / epochs for moment in moments[-len(made) :]]  # with `mix`, augmented ones come last
    synonyms = read_synonyms(expanded(options.eda.synonyms)) if options.eda.synonyms else {}
    return augment_all(made, options.eda, seed=seed, epoch=epoch, share=share, synonyms=synonyms), moments
