"""Ships."""

from __future__ import annotations

from typing import Final

from lamina.data.fables.schema import ArticleKind, Naming, Relation
from lamina.data.fables.values import FreshValues, count, listing, month, person, pick, town, year


def _naming(source: FreshValues) -> Naming:
    colours, emblems = source.lexicon.colours, source.lexicon.emblems
    name = source.fresh(lambda: f"the {source.fresh_of(colours)} {source.fresh_of(emblems)}")
    return Naming(name, name, source.rng.choice(("the ship", "the vessel")))


SHIPS: Final = ArticleKind(
    "ships",
    _naming,
    relations=(
        Relation(
            "shipyard",
            town,
            say=(
                "{p} keel was laid at {v}.",
                "Carpenters at {v} hammered {o} together.",
                "{s} came from the yards of {v}.",
                "The oak for {o} was cut and joined in {v}.",
            ),
            say_dev=("Shipwrights in {v} put {o} together plank by plank.", "{s} took shape on the slips of {v}."),
            ask=(
                "Where was {n} built?",
                "In which town was {n} constructed?",
                "At what place was {n} built?",
                "What town built {n}?",
            ),
            ask_dev=(
                "In which port was {n} built?",
                "Where did the construction of {n} take place?",
                "What town was {n} made in?",
            ),
        ),
        Relation(
            "launched",
            year(0, 6),
            say=(
                "{s} slid into the water in {v}.",
                "{p} hull first touched salt water in {v}.",
                "A bottle was broken over {p} bow in {v}.",
                "{s} set out on its maiden voyage in {v}.",
            ),
            say_dev=("{s} was first afloat in {v}.", "The ropes holding {o} on land were cut in {v}."),
            ask=(
                "When was {n} launched?",
                "In what year was {n} launched?",
                "What was the launch year of {n}?",
                "When did {n} enter service?",
            ),
            ask_dev=(
                "Which year was {n} launched in?",
                "In which year did {n} enter service?",
                "When did the launch of {n} happen?",
            ),
            opposite="sunk",
        ),
        Relation(
            "sunk",
            year(12, 50),
            say=(
                "{s} went to the bottom in {v}.",
                "A reef tore {o} open in {v}, and within an hour only the mast could be seen.",
                "The waves closed over {o} in {v}.",
                "{s} was swallowed by a storm in {v}.",
            ),
            say_dev=("{s} disappeared beneath the waves in {v}.", "A hidden rock finished {o} in {v}."),
            ask=(
                "When did {n} sink?",
                "In what year was {n} lost?",
                "What was the year of the sinking of {n}?",
                "When was {n} wrecked?",
            ),
            ask_dev=(
                "Which year did {n} sink in?",
                "In which year was {n} wrecked?",
                "When did the sinking of {n} happen?",
            ),
            opposite="launched",
            implied_by=("sunk_month",),
        ),
        Relation(
            "sunk_month",
            month,
            say=(
                "It was a cold {v} when {s} foundered.",
                "The gales of {v} proved to be the ruin of {o}.",
                "One night in {v} {s} struck a sandbank and broke up.",
                "Church bells along the coast toll each {v} for the loss of {o}.",
            ),
            say_dev=("On a foggy morning in {v} {s} was dashed to pieces.", "{s} perished on a stormy day in {v}."),
            ask=(
                "In which month did {n} sink?",
                "In what month was {n} lost?",
                "What was the month of the sinking of {n}?",
                "During which month was {n} wrecked?",
            ),
            ask_dev=(
                "Which month did {n} sink in?",
                "In which month was {n} wrecked?",
                "What month saw the sinking of {n}?",
            ),
            detail_of="sunk",
        ),
        Relation(
            "first_captain",
            person,
            say=(
                "{v} was the earliest to command {o}.",
                "{s} was steered on its maiden voyage by {v}.",
                "The first hand on {p} wheel was that of {v}.",
                "At the outset {s} obeyed {v}.",
            ),
            say_dev=(
                "Command of {o} fell to {v} in the beginning.",
                "{v} took {o} out of harbour on its maiden voyage.",
            ),
            ask=(
                "Who was the first captain of {n}?",
                "Who commanded {n} first?",
                "What was the name of {n}'s first captain?",
                "Under which captain did {n} first sail?",
            ),
            ask_dev=(
                "Which captain commanded {n} first?",
                "Who was {n}'s first captain?",
                "Who captained {n} at the start?",
            ),
            opposite="last_captain",
        ),
        Relation(
            "last_captain",
            person,
            say=(
                "{v} was the final one to command {o}.",
                "{s} was steered on its closing voyage by {v}.",
                "The last hand on {p} wheel was that of {v}.",
                "Towards the end {s} obeyed {v}.",
            ),
            say_dev=("Command of {o} fell to {v} at the end.", "{v} took {o} out of harbour for the final time."),
            ask=(
                "Who was the last captain of {n}?",
                "Who commanded {n} last?",
                "What was the name of {n}'s last captain?",
                "Under which captain did {n} last sail?",
            ),
            ask_dev=(
                "Which captain commanded {n} last?",
                "Who was {n}'s last captain?",
                "Who captained {n} in its final days?",
            ),
            opposite="first_captain",
        ),
        Relation(
            "crew",
            count(18, 240, "sailors"),
            say=(
                "{s} needed {v} to work the ropes.",
                "Some {v} slept in hammocks below the deck of {o}.",
                "{s} put to sea with {v} on board.",
                "It took {v} to handle {o} in a gale.",
            ),
            say_dev=("{s} was manned by {v}.", "Room was found on {o} for {v}."),
            ask=(
                "How many people were in the crew of {n}?",
                "How large was the crew of {n}?",
                "What was the size of {n}'s crew?",
                "How many hands did {n} have?",
            ),
            ask_dev=("How many crew did {n} have?", "How big was {n}'s crew?", "How many people worked aboard {n}?"),
        ),
        Relation(
            "cargo",
            listing(2, "nutmeg", "rum", "tea", "ivory", "furs", "indigo", "sugar", "clocks", "wine", "mirrors", "cocoa"),
            say=(
                "{p} hold was filled with {v}.",
                "{s} came home deep in the water with {v}.",
                "Merchants hired {o} to bring them {v}.",
                "Dockers unloaded {v} from {o}.",
            ),
            say_dev=("{s} was stuffed to the hatches with {v}.", "Under {p} deck lay {v}."),
            ask=(
                "What cargo did {n} carry?",
                "What goods did {n} transport?",
                "What was the cargo of {n}?",
                "Which freight was carried by {n}?",
            ),
            ask_dev=("Which goods were carried by {n}?", "What was {n}'s cargo?", "What freight did {n} have?"),
            opposite="no_cargo",
            contrast="negation",
        ),
        Relation(
            "no_cargo",
            listing(2, "gunpowder", "cattle", "fish", "guano", "coal", "cannon", "hides", "onions", "tobacco", "lime"),
            say=(
                "{p} owners would never let it be loaded with {v}.",
                "{s} always refused {v}.",
                "By an old superstition {v} were forbidden on {o}.",
                "No merchant could persuade {o} to take {v}.",
            ),
            say_dev=("{v} were never stowed on {o}.", "{s} would not have {v} under deck at any price."),
            ask=(
                "What cargo did {n} never carry?",
                "What goods did {n} not transport?",
                "What cargo was refused by {n}?",
                "Which freight was not carried by {n}?",
            ),
            ask_dev=(
                "Which goods were never carried by {n}?",
                "What cargo did {n} refuse?",
                "What freight did {n} not have?",
            ),
            opposite="cargo",
            contrast="negation",
        ),
        Relation(
            "figurehead",
            pick(
                "a mermaid with a lute",
                "a grinning lion",
                "a bishop",
                "a winged horse",
                "a sea serpent",
                "an armoured knight",
                "a laughing child",
                "a unicorn",
                "an old fisherman",
            ),
            say=(
                "{v}, carved in limewood, leaned out over {p} bow.",
                "At the prow {s} bore {v}.",
                "Children knew {o} by {v} on its bow.",
                "A carver gave {o} {v} to watch the waves ahead.",
            ),
            say_dev=("{v} made of pine adorned {p} prow.", "Out in front {s} displayed {v}."),
            ask=(
                "What was the figurehead of {n}?",
                "Which figure decorated the front of {n}?",
                "What did the figurehead of {n} show?",
                "What kind of figurehead did {n} have?",
            ),
            ask_dev=(
                "What was {n}'s figurehead?",
                "Which figurehead did {n} have?",
                "What figure was at the front of {n}?",
            ),
        ),
    ),
    intros=(
        "{s} was a three-masted ship of the southern trade.",
        "Old sailors still raise a glass to {s}.",
        "{s} was neither fast nor handsome, but much was expected of it.",
    ),
    intros_dev=(
        "{s} was a broad-bellied ship of the herring fleet.",
        "Harbour folk called {s} a lucky ship, with some exceptions.",
    ),
    links=("{s} often lay beside {d} in harbour.", "A sister ship was {d}.", "On the same route sailed {d}."),
    links_dev=("{s} was once in collision with {d}.", "In the next berth one could find {d}."),
    asides=(
        "The cook of {o} was feared on three coasts.",
        "{p} sails were patched so often that no two panels matched.",
        "A model of {o} stands in a bottle at {town}.",
    ),
    asides_dev=("Rats were said to be fond of {o}.", "{s} leaked a little from the start and nobody minded."),
)
