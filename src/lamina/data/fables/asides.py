"""Remarks that fit any article and state nothing that is asked for."""

from __future__ import annotations

from typing import Final

from lamina.data.fables.names import Split

ASIDES: Final[dict[Split, tuple[str, ...]]] = {
    "train": (
        "Much of what is told about {o} comes from a single chronicle, and scholars still argue over its margins.",
        "Later copyists added ornaments to the story of {o}, most of which were struck out again.",
        "Children in {town} still sing a rhyme about {o}, although nobody agrees on the tune.",
        "The entry on {s} was rewritten in {year} after a long quarrel between two librarians.",
        "A pamphlet by {person} disputes nearly every word that has been printed about {o}.",
        "Visitors are usually surprised by how little of this is remembered today.",
        "None of the older almanacs gives more than a line to {o}.",
        "The tale is told with many flourishes on winter evenings, and with fewer in the schoolroom.",
        "A faded drawing of {o} hangs in the reading room at {town}.",
        "Several letters on the matter were lost when the archive at {town} burned in {year}.",
    ),
    "dev": (
        "Accounts of {o} differ from valley to valley, and the soberest of them are the shortest.",
        "A footnote by {person} warns the reader against believing all that is said of {o}.",
        "The librarians of {town} keep a whole shelf of verses on the subject, few of them good.",
        "What else was once known about {o} went into the fire of {year} with the rest of the old records.",
        "Grandmothers tell the story in one way and schoolmasters in quite another.",
        "A puppet play about {o} is performed at {town} whenever the weather allows.",
        "The present article follows the oldest manuscript, which a mouse has damaged in two places.",
        "Travellers seldom hear any of this unless they ask.",
    ),
}
