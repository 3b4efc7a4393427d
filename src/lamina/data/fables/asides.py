"""Sentences that fit any article and state no fact that a question asks for."""

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
        "What the older sources say about {o} would fill a thimble, and what the newer ones say would fill a cart.",
        "An oil painting of {year} treats the subject with more zeal than skill.",
        "Some of these details were supplied by {person}, whose memory was not the best.",
        "Nobody has ever troubled to put up a plaque.",
        "The innkeepers of {town} will tell the rest of the story for the price of a drink.",
        "A learned society was founded in {year} to settle such matters and broke up over the choice of a chairman.",
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
        "The schoolbooks leave out most of this, and the ballads leave out the rest.",
        "A lecture on the subject, given by {person} in {year}, put the whole audience to sleep.",
        "More could be said about {o}, but the paper of the old encyclopaedia was running out.",
        "In {town} it is thought impolite to raise the subject at table.",
        "Travellers seldom hear any of this unless they ask.",
    ),
}
