"""The questions that a pass over the training data has: as they are, or made anew from them for each pass."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from pydantic import BaseModel, ConfigDict

from lamina.augment.eda import EdaOptions, augment_all, moments_of, read_synonyms, share_of
from lamina.augment.unanswerable import CorpusIndex, UnanswerableOptions, with_unanswerable
from lamina.data.examples import Example
from lamina.utils.files import expanded


class AugmentOptions(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    eda: EdaOptions | None = None
    unanswerable: UnanswerableOptions | None = None

    @property
    def by_lap(self) -> bool:
        """Whether every pass over the data has other texts."""
        return self.eda is not None or (self.unanswerable is not None and self.unanswerable.per_epoch)

    @property
    def ramps(self) -> bool:
        return self.eda is not None and self.eda.ramp

    @property
    def ramps_by_epoch(self) -> bool:
        return self.eda is not None and self.eda.ramp and self.eda.ramp_by == "epoch"


_known = lru_cache(maxsize=4)(CorpusIndex.build)  # passes over the same examples find out the same about them

Moments = list[float]  # when each example comes in a pass, as shares of it


def rewrite(
    examples: Sequence[Example], options: AugmentOptions, *, seed: int, lap: int, epochs: float
) -> tuple[list[Example], Moments | None]:
    """The examples of a pass over them, of which training makes `epochs`; and where it matters when each is trained on, the
    moments.

    Unanswerable questions are made first, so that their contexts are disturbed as all others are.
    """
    made = list(examples)
    if options.unanswerable is not None:
        made = with_unanswerable(made, options.unanswerable, seed, epoch=lap, index=_known(tuple(made)))
    if options.eda is None:
        return made, None
    share: float | list[float] = share_of(lap, epochs)
    moments = None
    if options.eda.ramp and options.eda.ramp_by == "progress":
        moments = moments_of(len(made) * (1 + options.eda.mix), seed=seed, epoch=lap)
        share = [(lap + moment) / epochs for moment in moments[-len(made) :]]  # with `mix`, augmented ones come last
    synonyms = read_synonyms(expanded(options.eda.synonyms)) if options.eda.synonyms else {}
    return augment_all(made, options.eda, seed=seed, epoch=lap, share=share, synonyms=synonyms), moments
