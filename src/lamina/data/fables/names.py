"""The lists of names, one lexicon a split. They share no piece of a name, so no dev name occurs in train."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Split = Literal["train", "dev"]


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


@dataclass(frozen=True, slots=True)
class Lexicon:
    """The pieces of names. Heads and tails are joined: ``Tarrow`` + ``wick``."""

    men: tuple[str, ...]
    women: tuple[str, ...]
    surname_heads: tuple[str, ...]
    surname_tails: tuple[str, ...]
    town_heads: tuple[str, ...]
    town_tails: tuple[str, ...]
    river_heads: tuple[str, ...]
    river_tails: tuple[str, ...]
    colours: tuple[str, ...]
    emblems: tuple[str, ...]
    crafts: tuple[str, ...]
    subjects: tuple[str, ...]


TRAIN: Final = Lexicon(
    men=_words(
        "Orlen Bram Tavish Edric Hollis Corvin Jory Matthis Fenn Alaric Dorrin Piers Osbert Lorcan Wystan Garrick "
        "Ulric Tobin Rafe Anselm Barnaby Cuthbert Emeric Florian Gideon Harald Ivo Jasper Kester Leoric"
    ),
    women=_words(
        "Maren Isolde Tamsin Brida Yvaine Petra Linnet Oda Sabine Hesper Morwen Agnes Clemence Dagny Elspeth Greta "
        "Ingrid Johanna Kirsten Lavinia Merrin Nell Rosamund Sigrid Thea Ursula Verity Winifred Alisoun Beatrix"
    ),
    surname_heads=_words(
        "Vask Holl Tren Mard Bren Quill Thorn Ash Garr Pell Stan Wick Dell Rook Lund Farr Hask Corm Bell Sorr Tull "
        "Marl Fenn Hart Crow"
    ),
    surname_tails=_words("ard away by croft er gate ing lake man mere ow sby sen ston thorpe vane wald well wright"),
    town_heads=_words(
        "Tarrow Osken Brindle Hather Merrow Collen Sarn Wither Eldan Rusk Hollow Pender Amble Dunmar Kestrel Loam "
        "Narrow Orchard Stair Velm Winter Yarrow Cinder Marsh Galder"
    ),
    town_tails=_words("wick fell moor haven bridge stead combe ness holm ford cross hythe leigh minster port"),
    river_heads=_words("Aru Bel Cale Dove Eska Ith Lor Mel Nar Oss Pell Sorr Tane Ulm Wen Yar Brae Ister"),
    river_tails=_words("ne rin dle wen low mar sk ra del ver th nn"),
    colours=_words(
        "Grey Silver Amber Hollow Crooked Gilded Silent Scarlet Winding Frosted Iron Velvet Weeping Lonely Salted "
        "Painted Humble Broken Wandering Paper"
    ),
    emblems=_words(
        "Heron Lantern Orchard Crown Thistle Anchor Bell Falcon Harp Mirror Otter Candle Stag Compass Wheel Raven "
        "Sickle Acorn Pearl Kettle"
    ),
    crafts=_words(
        "Glaziers Coopers Weavers Chandlers Tanners Bakers Locksmiths Saddlers Dyers Potters Masons Fletchers "
        "Papermakers Ropemakers"
    ),
    subjects=_words(
        "Salt Hearth Bridge Mill Wool Harbour Timber Candle Orchard Market Fishery Chimney Ferry Stable Granary Tallow"
    ),
)

DEV: Final = Lexicon(
    men=_words(
        "Aldous Caspian Dunstan Evander Fergus Godwin Horatio Ignace Lambert Magnus Nicodemus Oswin Percival Quentin "
        "Roderic Silvan Tiberius Valentin"
    ),
    women=_words(
        "Adela Bronwen Cordelia Delphine Eulalia Fenella Ginevra Henrike Imogen Jocasta Katrin Leonora Mirabel Nerys "
        "Ottilie Philippa Seraphine Theodora"
    ),
    surname_heads=_words("Drum Kell Skal Nett Ober Prim Ravel Sedge Tiver Umber Venn Yolt Zell Gorse Plum Irons"),
    surname_tails=_words("bourne dale fax grave hurst jack kin low mont nock path rood shaw tree"),
    town_heads=_words(
        "Quarry Bramble Sele Thrush Ivel Juniper Cask Dray Fallow Gannet Hemlock Inch Lapwing Mossy Nettle Umber"
    ),
    town_tails=_words("bury dale garth gill keld mouth shaw side thwaite ton water wold"),
    river_heads=_words("Zav Quo Fir Gim Hul Jas Kav Vel Thry Pho Dwi Ank"),
    river_tails=_words("enn ock ash imber olt une ary esk"),
    colours=_words("Copper Drowsy Ivory Jolly Merry Patient Russet Stubborn Tawny Umber Violet Woollen Laughing Ashen"),
    emblems=_words("Badger Cradle Dolphin Fiddle Gate Hourglass Ladder Needle Owl Plough Quill Rose Swan Trumpet"),
    crafts=_words("Brewers Cobblers Drapers Gilders Hatters Joiners Millers Thatchers Vintners Wheelwrights"),
    subjects=_words("Barley Well Lamp Honey Road Slate Loom Pasture Vineyard Pigeon Quay Cellar"),
)

LEXICONS: Final[dict[Split, Lexicon]] = {"train": TRAIN, "dev": DEV}
