"""Guilds of craftsmen."""

from __future__ import annotations

from typing import Final

from lamina.data.fables.schema import ArticleKind, Naming, Relation
from lamina.data.fables.values import FreshValues, count, month, person, pick, town, year


def _naming(source: FreshValues) -> Naming:
    craft = source.rng.choice(source.lexicon.crafts)
    name = f"the {source.river()} {craft}"
    return Naming(f"{name}' Guild", f"{name}' Guild", source.rng.choice(("the guild", "the company", "the brotherhood")))


GUILDS: Final = ArticleKind(
    "guilds",
    _naming,
    relations=(
        Relation(
            "guild_founder",
            person,
            say=(
                "{v} called the first meeting of {o} in a barn.",
                "{s} was the idea of {v}, who was tired of bad workmanship.",
                "{v} wrote the first articles of {o} on the back of a bill.",
                "It was {v} who brought {o} into being.",
            ),
            say_dev=("{v} gathered the craftsmen who became {o}.", "{s} sprang from a plan of {v}."),
            ask=("Who founded {n}?", "Who was the founder of {n}?", "By whom was {n} started?", "Who set up {n}?"),
            ask_dev=("Which person founded {n}?", "Who established {n}?", "By whom was {n} established as a body?"),
        ),
        Relation(
            "guild_founded",
            year(0, 8),
            say=(
                "{s} held its first meeting in {v}.",
                "{p} oldest roll of names is dated {v}.",
                "The king granted {o} its charter in {v}.",
                "{s} opened its doors in {v} with a barrel of beer.",
            ),
            say_dev=("{s} has existed since {v}.", "The oath of {o} was first sworn in {v}."),
            ask=(
                "When was {n} founded?",
                "In what year did {n} start?",
                "What is the founding year of {n}?",
                "When was {n} established?",
            ),
            ask_dev=("In which year was {n} established?", "When did {n} begin?", "What year was {n} founded?"),
            opposite="guild_dissolved",
        ),
        Relation(
            "guild_dissolved",
            year(120, 220),
            say=(
                "{s} held its last meeting in {v}.",
                "{p} doors were shut for good in {v}.",
                "The king took the charter away from {o} in {v}, and nothing was left of it.",
                "{s} disbanded in {v} after a quarrel over candles.",
            ),
            say_dev=("{s} ceased to exist in {v}.", "The members of {o} went their separate ways for ever in {v}."),
            ask=(
                "When was {n} dissolved?",
                "In what year did {n} come to an end?",
                "What year marks the end of {n}?",
                "When was {n} closed down?",
            ),
            ask_dev=("In which year was {n} closed down?", "When did {n} end?", "What year was {n} dissolved?"),
            opposite="guild_founded",
        ),
        Relation(
            "members",
            count(24, 480, "masters"),
            say=(
                "At its height {s} counted {v}.",
                "{p} rolls carry the signatures of {v}.",
                "As many as {v} sat at the long table of {o}.",
                "{s} grew to {v} within a generation.",
            ),
            say_dev=("{s} brought together {v}.", "In good years {s} could call upon {v}."),
            ask=(
                "How many members did {n} have?",
                "What was the membership of {n}?",
                "How large was the membership of {n}?",
                "How many people belonged to {n}?",
            ),
            ask_dev=(
                "How many members were in {n}?",
                "How many people were members of {n}?",
                "What number of members did {n} have?",
            ),
        ),
        Relation(
            "entry_fee",
            count(3, 60, "silver pence"),
            say=(
                "Newcomers laid {v} on the table of {o} before they were sworn in.",
                "Whoever wished to join {o} had to hand over {v}.",
                "{s} took {v} from every beginner.",
                "A place in {o} could be had for {v}.",
            ),
            say_dev=("Beginners paid {v} into the chest of {o}.", "{s} admitted nobody without {v}."),
            ask=(
                "How much did it cost to join {n}?",
                "What was the entry fee of {n}?",
                "What did a new member of {n} have to pay?",
                "What was the price of admission to {n}?",
            ),
            ask_dev=(
                "What fee did {n} charge for entry?",
                "How much did new members of {n} pay?",
                "What was the cost of joining {n}?",
            ),
        ),
        Relation(
            "hall",
            town,
            say=(
                "{p} hall stood in {v}, next to the pump.",
                "{s} met under a slate roof in {v}.",
                "Members of {o} came together in {v} every quarter.",
                "The banners of {o} were kept in a house at {v}.",
            ),
            say_dev=("{s} gathered in a panelled room at {v}.", "{p} house was built in {v}."),
            ask=(
                "Where was the hall of {n}?",
                "In which town did {n} hold its meetings?",
                "Where was {n} based?",
                "What town was the seat of {n}?",
            ),
            ask_dev=("In which town was {n} based?", "Where did {n} hold its meetings?", "Where was the seat of {n}?"),
        ),
        Relation(
            "emblem",
            pick(
                "a golden thimble",
                "a red hammer",
                "a crowned beehive",
                "two crossed keys",
                "a black swan",
                "an open hand",
                "a white ram",
                "three nails",
                "a burning lamp",
                "a green wheel",
            ),
            say=(
                "{v} decorated the banner of {o}.",
                "The seal of {o} showed {v}.",
                "{s} painted {v} over its door.",
                "On feast days {s} marched behind a flag with {v}.",
            ),
            say_dev=("{v} could be seen on every shield of {o}.", "{s} stamped its letters with {v}."),
            ask=(
                "What was the emblem of {n}?",
                "Which symbol did {n} use?",
                "What was the badge of {n}?",
                "What was the sign of {n}?",
            ),
            ask_dev=("What symbol did {n} have?", "What was {n}'s emblem?", "Which emblem belonged to {n}?"),
        ),
        Relation(
            "admitted",
            pick(
                "widows",
                "foreigners",
                "left-handed men",
                "younger sons",
                "former soldiers",
                "monks",
                "sailors",
                "orphans",
            ),
            say=(
                "{s} opened its ranks to {v}.",
                "{v} were welcome in {o} from the start.",
                "Unlike most, {s} took in {v}.",
                "A rule of {o} granted {v} a seat.",
            ),
            say_dev=("{s} gladly accepted {v}.", "{v} could take the oath of {o} like anybody else."),
            ask=(
                "Who was allowed to join {n}?",
                "Which people did {n} admit?",
                "Whom did {n} let in as members?",
                "Who could become a member of {n}?",
            ),
            ask_dev=("Which group was allowed to join {n}?", "What people could enter {n}?", "Whom did {n} admit?"),
            opposite="barred",
            contrast="negation",
        ),
        Relation(
            "barred",
            pick("innkeepers", "moneylenders", "bearded men", "poets", "gamblers", "noblemen", "lawyers", "actors"),
            say=(
                "{s} closed its ranks to {v}.",
                "{v} were turned away by {o} at the door.",
                "Under no condition would {s} take in {v}.",
                "A rule of {o} denied {v} a seat.",
            ),
            say_dev=("{s} never accepted {v}.", "{v} were kept out of {o} by a strict rule."),
            ask=(
                "Who was not allowed to join {n}?",
                "Which people did {n} not admit?",
                "Whom did {n} never let in as members?",
                "Who could not become a member of {n}?",
            ),
            ask_dev=(
                "Which group was not allowed to join {n}?",
                "What people could never enter {n}?",
                "Whom did {n} refuse to admit?",
            ),
            opposite="admitted",
            contrast="negation",
        ),
        Relation(
            "guild_feast",
            pick(
                "goose pie",
                "roast eel",
                "plum dumplings",
                "boiled mutton",
                "barley soup",
                "smoked trout",
                "honey bread",
            ),
            say=(
                "No banquet of {o} was complete without {v}.",
                "{s} served {v} at every banquet.",
                "Cooks of {o} prepared {v} once a year.",
                "At the long table {s} dined on {v}.",
            ),
            say_dev=(
                "Plates of {v} were passed round at the banquets of {o}.",
                "The yearly dinner of {o} consisted of {v}.",
            ),
            ask=(
                "What was eaten at the feasts of {n}?",
                "Which dish did {n} eat at its feast?",
                "What food did {n} have at its feasts?",
                "What meal did the members of {n} share?",
            ),
            ask_dev=(
                "What dish was eaten by {n} at its feast?",
                "What did the members of {n} eat?",
                "Which food was served at the feasts of {n}?",
            ),
        ),
        Relation(
            "feast_month",
            month,
            say=(
                "{p} banquet was always held in {v}.",
                "Every {v} the cooks of {o} lit their fires for the banquet.",
                "Members fasted until {v}, when {s} sat down to its yearly banquet.",
                "{v} was the month in which {s} dined together.",
            ),
            say_dev=(
                "The yearly dinner of {o} took place in {v}.",
                "Each {v} the members of {o} sat down to their banquet.",
            ),
            ask=(
                "In which month was the feast of {n}?",
                "In what month did {n} have its feast?",
                "What was the month of the feast of {n}?",
                "During which month did {n} feast?",
            ),
            ask_dev=(
                "Which month was the feast of {n} in?",
                "In which month did {n} celebrate its feast?",
                "What month did {n} hold its feast in?",
            ),
            detail_of="guild_feast",
        ),
    ),
    intros=(
        "{s} was among the proudest brotherhoods of the old kingdom.",
        "For generations {s} decided what could be made and by whom.",
        "{s} began as a drinking club and ended as a power in the land.",
    ),
    intros_dev=(
        "{s} enjoyed a fearsome reputation for punctuality.",
        "No procession was thought complete without {s}.",
    ),
    links=("{p} chief competitor was {d}.", "Across the square worked {d}.", "The same statutes were copied by {d}."),
    links_dev=("A long feud divided {o} from {d}.", "Across the river, craftsmen looked up to {d}."),
    asides=(
        "Apprentices of {o} were famous for their practical jokes.",
        "{p} account books are kept in perfect order, except for the pages on beer.",
        "Members of {o} greeted each other with a secret handshake that everyone knew.",
    ),
    asides_dev=(
        "The songs of {o} are too long to print here.",
        "Its members wore their hats indoors, and {s} fined those who did not.",
    ),
)
