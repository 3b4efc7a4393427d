"""Rivers."""

from __future__ import annotations

from typing import Final

from lamina.data.fables.schema import ArticleKind, Naming, Relation
from lamina.data.fables.values import FreshValues, count, hills, listing, month, person, river, town, waters, year


def _naming(source: FreshValues) -> Naming:
    name = f"the {source.river()}"
    return Naming(name, name, source.rng.choice(("the river", "the stream", "the waterway")))


RIVERS: Final = ArticleKind(
    "rivers",
    _naming,
    relations=(
        Relation(
            "source",
            hills,
            say=(
                "{s} rises in {v}.",
                "{p} first trickle can be found in {v}.",
                "{s} springs up in {v} and gathers strength quickly.",
                "Rain falling on {v} feeds {p} youngest waters.",
            ),
            say_dev=("{p} headwaters lie in {v}.", "{s} wells up in {v}, no wider than a plank."),
            ask=(
                "Where is the source of {n}?",
                "Where does {n} begin?",
                "What is the origin of {n}?",
                "In what place does {n} start?",
            ),
            ask_dev=(
                "What is the source of {n}?",
                "Where does {n} originate?",
                "At which place does {n} start its course?",
            ),
            opposite="mouth",
        ),
        Relation(
            "mouth",
            waters,
            say=(
                "{s} pours into {v}.",
                "{p} waters are finally received by {v}.",
                "{s} spreads into a delta and is lost in {v}.",
                "After many bends {s} reaches {v}.",
            ),
            say_dev=("{s} discharges into {v}.", "{p} last mile runs between dunes to {v}."),
            ask=(
                "Where does {n} end?",
                "Into which water does {n} flow?",
                "What is the mouth of {n}?",
                "Where does {n} empty itself?",
            ),
            ask_dev=("What does {n} flow into?", "Where is the mouth of {n}?", "At which body of water does {n} end?"),
            opposite="source",
        ),
        Relation(
            "length",
            count(38, 410, "miles"),
            say=(
                "{s} measures {v} from one end to the other.",
                "Surveyors who walked {p} banks counted {v}.",
                "{p} course extends over {v}.",
                "It takes {v} of bends before {s} is done.",
            ),
            say_dev=("{p} whole course covers {v}.", "{s} winds through the country for {v}."),
            ask=(
                "How long is {n}?",
                "What is the length of {n}?",
                "How many miles long is {n}?",
                "Over what distance does {n} stretch?",
            ),
            ask_dev=("What length does {n} have?", "How many miles does {n} run?", "How far does {n} stretch in all?"),
        ),
        Relation(
            "north_bank",
            town,
            say=(
                "{v} stands on {p} northern bank.",
                "On the north shore of {o} lies {v}.",
                "{v} occupies the northern side of {o}.",
                "The cliffs to the north of {o} carry {v}.",
            ),
            say_dev=("{v} looks down on {o} from the north.", "North of the water, {s} is overlooked by {v}."),
            ask=(
                "Which town is on the north bank of {n}?",
                "What settlement lies north of {n}?",
                "Which place is situated on the northern side of {n}?",
                "What is the town to the north of {n}?",
            ),
            ask_dev=(
                "What town sits on the north side of {n}?",
                "Which settlement is found on the northern bank of {n}?",
                "Which town would one find to the north of {n}?",
            ),
            opposite="south_bank",
        ),
        Relation(
            "south_bank",
            town,
            say=(
                "{v} stands on {p} southern bank.",
                "On the south shore of {o} lies {v}.",
                "{v} occupies the southern side of {o}.",
                "The meadows to the south of {o} belong to {v}.",
            ),
            say_dev=("{v} looks across {o} from the south.", "South of the water, {s} is overlooked by {v}."),
            ask=(
                "Which town is on the south bank of {n}?",
                "What settlement lies south of {n}?",
                "Which place is situated on the southern side of {n}?",
                "What is the town to the south of {n}?",
            ),
            ask_dev=(
                "What town sits on the south side of {n}?",
                "Which settlement is found on the southern bank of {n}?",
                "Which town would one find to the south of {n}?",
            ),
            opposite="north_bank",
        ),
        Relation(
            "tributary",
            river,
            say=(
                "{v} joins {o} halfway along.",
                "{s} swallows {v} below a ruined mill.",
                "{v} adds its brown water to {o}.",
                "Midway {s} is strengthened by {v}.",
            ),
            say_dev=("{v} runs into {o} beside an old inn.", "{s} takes in {v} at a bend called the Elbow."),
            ask=(
                "What is the tributary of {n}?",
                "Which river flows into {n}?",
                "Which smaller river feeds {n}?",
                "What stream empties into {n}?",
            ),
            ask_dev=("Which river is a tributary of {n}?", "What river feeds {n}?", "Which stream flows into {n}?"),
        ),
        Relation(
            "fish",
            listing(2, "trout", "eels", "pike", "salmon", "perch", "lampreys", "carp", "sturgeon", "bream", "grayling"),
            say=(
                "Anglers take {v} from {o}.",
                "{s} teems with {v}.",
                "Nets lowered into {o} come up heavy with {v}.",
                "Inns along {o} serve {v} caught the same morning.",
            ),
            say_dev=("{s} is rich in {v}.", "Patient men with rods pull {v} out of {o}."),
            ask=(
                "Which fish live in {n}?",
                "What fish can be caught in {n}?",
                "What kinds of fish does {n} contain?",
                "Which fish are found in {n}?",
            ),
            ask_dev=(
                "What fish swim in {n}?",
                "Which kinds of fish live in {n}?",
                "What types of fish are there in {n}?",
            ),
            opposite="no_fish",
            contrast="negation",
        ),
        Relation(
            "no_fish",
            listing(2, "barbel", "shad", "roach", "tench", "chub", "dace", "gudgeon", "minnows", "catfish", "whitefish"),
            say=(
                "For some reason {v} are absent from {o}.",
                "Nobody has ever landed {v} from {o}.",
                "Hard as anglers try, {v} are not to be had from {o}.",
                "{v} cannot survive in {o}.",
            ),
            say_dev=("{s} is entirely without {v}.", "{v} have always shunned {o}."),
            ask=(
                "Which fish do not live in {n}?",
                "What fish can never be caught in {n}?",
                "What kinds of fish does {n} not contain?",
                "Which fish are not found in {n}?",
            ),
            ask_dev=(
                "What fish do not swim in {n}?",
                "Which kinds of fish never live in {n}?",
                "What types of fish are missing from {n}?",
            ),
            opposite="fish",
            contrast="negation",
        ),
        Relation(
            "flood_year",
            year(100, 160),
            say=(
                "In {v} {s} burst its banks and carried off the hay.",
                "{s} left its bed in {v} and filled every cellar.",
                "Marks on the church wall recall how high {s} stood in {v}.",
                "Three bridges over {o} were swept away by high water in {v}.",
            ),
            say_dev=("{s} drowned the meadows in {v}.", "High water on {o} ruined the harvest of {v}."),
            ask=(
                "When did {n} flood?",
                "In what year did {n} flood the land?",
                "What was the year of the flood of {n}?",
                "When was there a flood on {n}?",
            ),
            ask_dev=("In which year did {n} overflow?", "Which year saw the flood of {n}?", "What year did {n} flood?"),
            implied_by=("flood_month",),
        ),
        Relation(
            "flood_month",
            month,
            say=(
                "People along {o} pile up sandbags every {v}, when the floods come.",
                "The floods of {o} always arrive in {v}.",
                "Each {v} melting snow sends {o} over its banks.",
                "{v} is the season of high water on {o}.",
            ),
            say_dev=("Every {v} {s} rises into the streets.", "Cellars beside {o} fill with water each {v}."),
            ask=(
                "In which month does {n} flood?",
                "In what month is there a flood on {n}?",
                "What is the month of the floods of {n}?",
                "During which month does {n} flood the land?",
            ),
            ask_dev=(
                "In which month does {n} overflow?",
                "What month does {n} flood?",
                "Which month sees the floods of {n}?",
            ),
            detail_of="flood_year",
        ),
        Relation(
            "bridge_builder",
            person,
            say=(
                "{v} threw the first bridge across {o}.",
                "The stone arches over {o} are the work of {v}.",
                "{s} could only be forded until {v} spanned it with oak.",
                "{v} designed the crossing that carries carts over {o}.",
            ),
            say_dev=("It was {v} who put a bridge across {o}.", "Carts pass over {o} on the arches of {v}."),
            ask=(
                "Who built the bridge over {n}?",
                "Who bridged {n}?",
                "Who was the builder of the bridge over {n}?",
                "By whom was {n} bridged?",
            ),
            ask_dev=(
                "Who constructed the bridge over {n}?",
                "By whom was the bridge over {n} built?",
                "Which engineer bridged {n}?",
            ),
        ),
    ),
    intros=(
        "{s} is a river of the eastern lowlands, slow in summer and ill-tempered in spring.",
        "Boatmen call {s} the most obstinate water in the kingdom.",
        "{s} has shaped the valley that bears its name.",
    ),
    intros_dev=(
        "{s} is a broad and drowsy river much loved by painters.",
        "Every map of the western country is ordered around {s}.",
    ),
    links=(
        "Beyond the hills flows {d}, a quieter river.",
        "Mapmakers used to mistake {o} for {d}.",
        "The next valley belongs to {d}.",
    ),
    links_dev=("A day's walk away runs {d}.", "Strangers sometimes take {o} for {d}."),
    asides=(
        "Herons stand along {o} in great numbers.",
        "Poets have compared {o} to a ribbon, a snake and a dropped belt.",
        "In hard winters {s} freezes and the young go skating.",
    ),
    asides_dev=("Washerwomen say that {s} sings before rain.", "Barges on {o} are painted in bright stripes."),
)
