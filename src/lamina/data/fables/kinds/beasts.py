"""Fabulous beasts."""

from __future__ import annotations

from typing import Final

from lamina.data.fables.schema import ArticleKind, Naming, Relation
from lamina.data.fables.values import FreshValues, count, listing, month, person, pick, year


def _naming(source: FreshValues) -> Naming:
    colours = source.lexicon.colours
    name = source.fresh(lambda: f"the {source.fresh_of(colours).lower()} {source.river().lower()}")
    return Naming(name, name, source.rng.choice(("the beast", "the animal", "the creature")))


BEASTS: Final = ArticleKind(
    "beasts",
    _naming,
    relations=(
        Relation(
            "habitat",
            pick(
                "birch forests",
                "salt marshes",
                "abandoned quarries",
                "mountain meadows",
                "church attics",
                "deep caves",
                "reed beds",
                "pine groves",
                "stony beaches",
            ),
            say=(
                "{s} makes its home in {v}.",
                "Hunters look for {o} in {v}.",
                "{v} give {o} all the shelter it needs.",
                "One meets {o} mostly in {v}.",
            ),
            say_dev=("{s} dwells in {v}.", "The dens of {o} are hidden in {v}."),
            ask=(
                "Where does {n} live?",
                "What is the habitat of {n}?",
                "In what surroundings is {n} found?",
                "What kind of place does {n} inhabit?",
            ),
            ask_dev=("What habitat does {n} have?", "In what kind of place does {n} live?", "Where can {n} be found?"),
        ),
        Relation(
            "discoverer",
            person,
            say=(
                "{v} was the first scholar to describe {o}.",
                "{s} was unknown until {v} stumbled over one.",
                "The earliest drawing of {o} was made on the spot by {v}.",
                "{v} brought the news of {o} to the academy.",
            ),
            say_dev=("{v} was the first to set eyes on {o}.", "Science owes its knowledge of {o} to {v}."),
            ask=(
                "Who discovered {n}?",
                "Who was the discoverer of {n}?",
                "By whom was {n} discovered?",
                "Who first found {n}?",
            ),
            ask_dev=(
                "Which person discovered {n}?",
                "By whom was {n} first found?",
                "What is the name of the discoverer of {n}?",
            ),
        ),
        Relation(
            "discovered",
            year(0, 10),
            say=(
                "The academy first heard of {o} in {v}.",
                "{s} entered the scholarly books in {v}.",
                "Rumours of {o} were first confirmed in {v}.",
                "Nobody knew of {o} before {v}.",
            ),
            say_dev=("Word of {o} first reached the learned world in {v}.", "{s} was first described in {v}."),
            ask=(
                "When was {n} discovered?",
                "In what year was {n} discovered?",
                "What is the year of the discovery of {n}?",
                "When was {n} first found?",
            ),
            ask_dev=(
                "In which year was {n} discovered?",
                "What year was {n} first found?",
                "When did the discovery of {n} happen?",
            ),
            opposite="last_seen",
        ),
        Relation(
            "last_seen",
            year(80, 160),
            say=(
                "Nobody has met {o} since {v}.",
                "In {v} a miller caught the final glimpse of {o}.",
                "The trail of {o} goes cold in {v}.",
                "{s} vanished from the country in {v}.",
            ),
            say_dev=("After {v} no eye ever rested on {o}.", "The most recent report of {o} is from {v}."),
            ask=(
                "When was {n} last seen?",
                "In what year was {n} last sighted?",
                "What is the year of the last sighting of {n}?",
                "When did {n} disappear?",
            ),
            ask_dev=(
                "In which year was {n} last seen?",
                "What year did {n} disappear?",
                "When did the last sighting of {n} happen?",
            ),
            opposite="discovered",
        ),
        Relation(
            "eats",
            listing(
                2, "beetles", "acorns", "candle wax", "frogs", "turnips", "clover", "old boots", "honey", "mussels", "moss"
            ),
            say=(
                "{s} lives on {v}.",
                "{v} make up the diet of {o}.",
                "The jaws of {o} are made for {v}.",
                "{s} spends its nights gathering {v} for breakfast.",
            ),
            say_dev=("{s} feeds on {v}.", "A hungry specimen of {o} will go after {v}."),
            ask=("What does {n} eat?", "What is the food of {n}?", "Which things does {n} eat?", "What does {n} consume?"),
            ask_dev=("What food does {n} eat?", "Which food does {n} like?", "What sort of food does {n} consume?"),
            opposite="never_eats",
            contrast="negation",
        ),
        Relation(
            "never_eats",
            listing(2, "mutton", "cabbage", "berries", "eels", "bread", "mushrooms", "poultry", "oats", "snails", "apples"),
            say=(
                "{s} turns away in disgust from {v}.",
                "Even when starving {s} leaves {v} untouched.",
                "{v} are not to the taste of {o}.",
                "No keeper ever got {o} to swallow {v}.",
            ),
            say_dev=("{s} would rather go hungry than touch {v}.", "{v} hold no attraction for {o}."),
            ask=(
                "What does {n} never eat?",
                "What is not food for {n}?",
                "Which things does {n} not eat?",
                "What does {n} refuse to consume?",
            ),
            ask_dev=(
                "What food does {n} not eat?",
                "Which food does {n} not like?",
                "What sort of food does {n} never consume?",
            ),
            opposite="eats",
            contrast="negation",
        ),
        Relation(
            "size",
            count(4, 95, "inches"),
            say=(
                "From nose to tail {s} measures {v}.",
                "A grown specimen of {o} reaches {v}.",
                "{s} stretches to {v} when it yawns.",
                "The skeleton of {o} in the museum comes to {v}.",
            ),
            say_dev=("{s} attains {v} when fully grown.", "Laid along a ruler, {s} covers {v}."),
            ask=("How long is {n}?", "What is the length of {n}?", "How large is {n}?", "What is the size of {n}?"),
            ask_dev=("How big is {n}?", "How many inches long is {n}?", "What length does {n} have?"),
        ),
        Relation(
            "young",
            count(2, 15, "young"),
            say=(
                "{s} brings forth {v} at a time.",
                "In a good nest of {o} there are {v}.",
                "A litter of {o} consists of {v}.",
                "{s} has to feed {v} each season.",
            ),
            say_dev=("{s} rears {v} in one litter.", "One birth of {o} yields {v}."),
            ask=(
                "How many young does {n} have?",
                "How many offspring does {n} have?",
                "What is the number of offspring of {n}?",
                "How large is the offspring of {n}?",
            ),
            ask_dev=(
                "How many babies does {n} have?",
                "What number of offspring does {n} have?",
                "How many young are born to {n}?",
            ),
        ),
        Relation(
            "birth_season",
            month,
            say=(
                "The litters of {o} arrive in {v}.",
                "In {v} the nests of {o} fill with squeaking.",
                "{s} gives birth in {v}, always at night.",
                "Naturalists wait for {v}, when {s} becomes a mother.",
            ),
            say_dev=("The little ones of {o} open their eyes in {v}.", "{v} is when {s} drops its litter."),
            ask=(
                "In which month are the young of {n} born?",
                "In what month does {n} have its young?",
                "What is the month of birth of the young of {n}?",
                "During which month do the offspring of {n} appear?",
            ),
            ask_dev=(
                "Which month are the offspring of {n} born in?",
                "In which month does {n} have its offspring?",
                "What month are the young of {n} born in?",
            ),
            detail_of="young",
        ),
        Relation(
            "fears",
            pick(
                "bagpipes",
                "mirrors",
                "waterfalls",
                "red flags",
                "hedgehogs",
                "church bells",
                "tar barrels",
                "full moons",
            ),
            say=(
                "{v} put {o} to flight.",
                "{s} trembles at {v}.",
                "Farmers keep {o} away with {v}.",
                "Nothing alarms {o} as much as {v}.",
            ),
            say_dev=("{s} bolts at the first hint of {v}.", "{v} drive {o} into hiding."),
            ask=(
                "What is {n} afraid of?",
                "What does {n} fear?",
                "What frightens {n}?",
                "Of what is {n} scared?",
            ),
            ask_dev=("What scares {n}?", "Which thing does {n} fear?", "What is feared by {n}?"),
            opposite="loves",
        ),
        Relation(
            "loves",
            pick(
                "lullabies",
                "warm ashes",
                "thunderstorms",
                "feather beds",
                "old ladies",
                "fiddle tunes",
                "mint leaves",
                "snowflakes",
            ),
            say=(
                "{v} bring {o} running.",
                "{s} purrs at {v}.",
                "Farmers coax {o} closer with {v}.",
                "Nothing pleases {o} as much as {v}.",
            ),
            say_dev=("{s} grows tame at the first hint of {v}.", "{v} draw {o} out of hiding."),
            ask=(
                "What is {n} fond of?",
                "What does {n} love?",
                "What attracts {n}?",
                "Of what is {n} fond?",
            ),
            ask_dev=("What delights {n}?", "Which thing does {n} love?", "What is loved by {n}?"),
            opposite="fears",
        ),
    ),
    intros=(
        "{s} is mentioned in every bestiary, never twice in the same way.",
        "Country people speak of {s} with a mixture of pride and alarm.",
        "{s} is an elusive animal with a bad reputation.",
    ),
    intros_dev=("{s} puzzles naturalists to this day.", "Mothers threaten naughty children with {s}."),
    links=("A close relative is {d}.", "{s} is not to be confused with {d}.", "In the same cabinet one can see {d}."),
    links_dev=("Amateurs tend to mistake {o} for {d}.", "Somewhat better known is {d}."),
    asides=(
        "The fur of {o} is said to cure toothache.",
        "Taxidermists have never got the expression of {o} right.",
        "Two coats of arms feature {o} with a foolish grin.",
    ),
    asides_dev=("Nobody has managed to keep {o} as a pet for long.", "The footprints of {o} resemble a dropped fork."),
)
