"""Notable people."""

from __future__ import annotations

from typing import Final

from lamina.data.fables.schema import ArticleKind, Naming, Relation
from lamina.data.fables.values import FreshValues, count, month, person, pick, town, year


def _naming(source: FreshValues) -> Naming:
    woman = source.rng.random() < 0.5
    first = source.fresh(lambda: source.rng.choice(source.lexicon.women if woman else source.lexicon.men))
    surname = source.surname()
    pronouns = ("she", "her", "her") if woman else ("he", "his", "him")
    return Naming(f"{first} {surname}", surname, surname, pronouns)


PEOPLE: Final = ArticleKind(
    "people",
    _naming,
    relations=(
        Relation(
            "birthplace",
            town,
            say=(
                "{s} first saw the light of day at {v}.",
                "{p} cradle stood in {v}, behind the tannery.",
                "{s} came into the world at {v} in {birth_year}.",
                "A midwife of {v} delivered {o} during a thunderstorm.",
            ),
            say_dev=(
                "{s} drew the first breath of a noisy life at {v}.",
                "It was in {v} that {p} mother brought {o} into the world.",
            ),
            ask=(
                "Where was {n} born?",
                "In which town was {n} born?",
                "What was the birthplace of {n}?",
                "Which place is {n} a native of?",
            ),
            ask_dev=("What town was {n} born in?", "What is {n}'s birthplace?", "Where did {n} come from originally?"),
        ),
        Relation(
            "birth_year",
            year(0, 3),
            say=(
                "{s} came into the world in {v}.",
                "{p} cradle was carved in {v}, the week before it was needed.",
                "The parish book enters {p} christening under {v}.",
                "{s} arrived in {v}, the youngest of nine.",
            ),
            say_dev=(
                "A church register gives {v} as the year in which {s} first cried.",
                "{s} uttered a first cry in {v}.",
            ),
            ask=(
                "When was {n} born?",
                "In what year was {n} born?",
                "What is the year of {n}'s birth?",
                "When did the life of {n} begin?",
            ),
            ask_dev=(
                "Which year was {n} born in?",
                "In which year did {n}'s life start?",
                "What was {n}'s birth year?",
            ),
            opposite="death_year",
            implied_by=("birth_month",),
        ),
        Relation(
            "birth_month",
            month,
            say=(
                "{p} birthday was kept in {v} with honey cake.",
                "Neighbours brought cake for {p} birthday every {v}.",
                "{s} turned a year older each {v}.",
                "As a child {s} waited all year for {v}, when the birthday candles were lit.",
            ),
            say_dev=(
                "Each {v} brought {p} birthday and a great many pancakes.",
                "{s} grew one year older every {v}, always with a small party.",
            ),
            ask=(
                "In which month was {n} born?",
                "In what month did {n} celebrate a birthday?",
                "What was the month of {n}'s birth?",
                "Which month did {n}'s birthday fall in?",
            ),
            ask_dev=(
                "During which month was {n} born?",
                "What month was {n} born in?",
                "In which month did people congratulate {n} on a birthday?",
            ),
            detail_of="birth_year",
        ),
        Relation(
            "teacher",
            person,
            say=(
                "{s} learned the craft from {v}.",
                "{v} took {o} on as an apprentice.",
                "Everything {s} knew was picked up in the workshop of {v}.",
                "{s} sat for seven years at the feet of {v}, listening.",
            ),
            say_dev=(
                "Schooling came to {o} from {v}, who was strict but fair.",
                "{s} spent a long apprenticeship under {v}.",
            ),
            ask=(
                "Who taught {n}?",
                "Who was the teacher of {n}?",
                "By whom was {n} trained?",
                "Which master instructed {n}?",
            ),
            ask_dev=("Who was {n}'s teacher?", "Who trained {n}?", "Under whose instruction did {n} study?"),
            opposite="pupil",
        ),
        Relation(
            "pupil",
            person,
            say=(
                "{s} passed the craft on to {v}.",
                "{s} took {v} on as an apprentice.",
                "In old age {s} handed every secret down to {v}.",
                "{v} owed a whole education to {o}.",
            ),
            say_dev=(
                "{s} later gave lessons to {v}.",
                "In turn {s} brought up {v} in the same profession.",
            ),
            ask=(
                "Whom did {n} teach?",
                "Who was the pupil of {n}?",
                "Who was trained by {n}?",
                "Which student did {n} instruct?",
            ),
            ask_dev=("Who was {n}'s pupil?", "Whom did {n} train?", "Who studied under the instruction of {n}?"),
            opposite="teacher",
        ),
        Relation(
            "trade",
            pick(
                "a clockmaker",
                "a mapmaker",
                "a surgeon",
                "a bell founder",
                "a judge",
                "a beekeeper",
                "a lace merchant",
                "a shipwright",
                "an astronomer",
                "a gardener",
                "a printer",
                "an organ builder",
                "a tax collector",
            ),
            say=(
                "{s} earned a living as {v}.",
                "For most of {p} days {s} worked as {v}.",
                "The town rolls list {o} as {v}.",
                "{s} made ends meet as {v}.",
            ),
            say_dev=(
                "{s} paid the rent by working as {v}.",
                "By trade {s} was {v}, and not a bad one.",
            ),
            ask=(
                "What was the profession of {n}?",
                "What job did {n} have?",
                "What did {n} do for work?",
                "What occupation did {n} follow?",
            ),
            ask_dev=("What was {n}'s job?", "What was {n}'s profession?", "What kind of work did {n} do?"),
        ),
        Relation(
            "visited",
            town,
            say=(
                "{s} travelled to {v} twice, both times by mule.",
                "A long journey took {o} to {v}.",
                "{s} set out for {v} one spring and came home with a cough.",
                "{s} went on a pilgrimage to {v}.",
            ),
            say_dev=(
                "{s} once rode all the way to {v} and back.",
                "{p} travels led as far as {v}.",
            ),
            ask=(
                "Which town did {n} visit?",
                "Where did {n} travel?",
                "What place did {n} go to see?",
                "To which town did {n} make a trip?",
            ),
            ask_dev=("What town was visited by {n}?", "Which place did {n} travel to?", "Where did {n} go on a trip?"),
            opposite="unvisited",
            contrast="negation",
        ),
        Relation(
            "unvisited",
            town,
            say=(
                "{s} would not set foot in {v}, whatever the reward.",
                "Not once did {s} go to {v}.",
                "{s} swore to stay away from {v} and kept the oath.",
                "Nothing could move {o} to enter {v}.",
            ),
            say_dev=(
                "No invitation ever brought {o} to {v}.",
                "{s} kept well clear of {v} to the end.",
            ),
            ask=(
                "Which town did {n} never visit?",
                "Where did {n} refuse to travel?",
                "What place did {n} not want to go to?",
                "To which town did {n} never make a trip?",
            ),
            ask_dev=(
                "What town was never visited by {n}?",
                "Which place did {n} refuse to travel to?",
                "Where did {n} never go on a trip?",
            ),
            opposite="visited",
            contrast="negation",
        ),
        Relation(
            "children",
            count(2, 14, "children"),
            say=(
                "{s} brought up {v} in two small rooms.",
                "The household grew to {v}, all of them {p} own.",
                "{s} was the parent of {v}.",
                "{p} name was carried on by {v}.",
            ),
            say_dev=("No fewer than {v} called {o} their parent.", "{s} raised {v} under one leaking roof."),
            ask=(
                "How many children did {n} have?",
                "How many sons and daughters did {n} have?",
                "How large was the offspring of {n}?",
                "What was the number of {n}'s children?",
            ),
            ask_dev=(
                "How many sons and daughters were born to {n}?",
                "What number of children did {n} have?",
                "How many children belonged to {n}'s family?",
            ),
        ),
        Relation(
            "pet",
            pick(
                "a tame jackdaw",
                "a one-eyed cat",
                "a white hedgehog",
                "a talking starling",
                "an old greyhound",
                "a lame fox",
                "a pair of ferrets",
                "a blind donkey",
                "an otter",
                "a spotted goose",
            ),
            say=(
                "{v} followed {o} everywhere, even to church.",
                "At home {s} kept {v} that slept in a boot.",
                "{s} shared every supper with {v}.",
                "{p} constant companion was {v}.",
            ),
            say_dev=("{v} lived in {p} kitchen and was spoiled with cream.", "{s} went nowhere without {v}."),
            ask=(
                "What animal did {n} own?",
                "Which pet did {n} have?",
                "What sort of pet belonged to {n}?",
                "Which creature was {n}'s pet?",
            ),
            ask_dev=(
                "What was {n}'s pet?",
                "What kind of animal did {n} have as a pet?",
                "Which animal lived with {n}?",
            ),
        ),
        Relation(
            "death_year",
            year(48, 80),
            say=(
                "{s} passed away in {v} and was mourned by few.",
                "{p} funeral was held in {v}.",
                "A fever carried {o} off in {v}.",
                "The bells tolled for {o} in {v}, on the evening of the last breath.",
            ),
            say_dev=("{s} was laid in the grave in {v}.", "{p} heart stopped in {v}, during a game of chess."),
            ask=(
                "When did {n} die?",
                "In what year did {n} die?",
                "What is the year of {n}'s death?",
                "When did the life of {n} end?",
            ),
            ask_dev=(
                "Which year did {n} die in?",
                "In which year did {n}'s life come to an end?",
                "What was the year of death of {n}?",
            ),
            opposite="birth_year",
        ),
    ),
    intros=(
        "{s} is one of the odder figures in the annals of the Low Country.",
        "Few names are spoken with as much affection in the old quarter as that of {s}.",
        "{s} left a mark on the province that can still be seen.",
    ),
    intros_dev=(
        "The chronicles devote a whole chapter to {s}, who would have hated it.",
        "{s} is remembered as a stubborn and generous soul.",
    ),
    links=(
        "{s} is often confused with {d}, a distant cousin.",
        "The same page of the chronicle speaks of {d}.",
        "A rival in public esteem was {d}.",
    ),
    links_dev=("Readers should not mix {o} up with {d}.", "Much less has been written about {d}."),
    asides=(
        "Portraits show {o} with ink on both sleeves.",
        "{s} was known for a loud laugh and a short temper.",
        "No two witnesses agree on the colour of {p} eyes.",
    ),
    asides_dev=("Those who knew {o} recalled a fondness for bad jokes.", "{s} could not sing and did so often."),
)
