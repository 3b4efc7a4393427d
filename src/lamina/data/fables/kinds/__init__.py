"""The kinds of articles, one table each."""

from __future__ import annotations

from typing import Final

from lamina.data.fables.kinds.battles import BATTLES
from lamina.data.fables.kinds.beasts import BEASTS
from lamina.data.fables.kinds.books import BOOKS
from lamina.data.fables.kinds.engines import ENGINES
from lamina.data.fables.kinds.festivals import FESTIVALS
from lamina.data.fables.kinds.guilds import GUILDS
from lamina.data.fables.kinds.laws import LAWS
from lamina.data.fables.kinds.people import PEOPLE
from lamina.data.fables.kinds.rivers import RIVERS
from lamina.data.fables.kinds.ships import SHIPS
from lamina.data.fables.kinds.towers import TOWERS
from lamina.data.fables.kinds.towns import TOWNS
from lamina.data.fables.schema import ArticleKind

KINDS: Final[tuple[ArticleKind, ...]] = (
    BATTLES,
    BEASTS,
    BOOKS,
    ENGINES,
    FESTIVALS,
    GUILDS,
    LAWS,
    PEOPLE,
    RIVERS,
    SHIPS,
    TOWERS,
    TOWNS,
)
