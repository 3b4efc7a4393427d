"""Towers, halls and other buildings."""

from __future__ import annotations

from typing import Final

from lamina.data.fables.schema import ArticleKind, Naming, Relation
from lamina.data.fables.values import FreshValues, count, month, person, pick, town, year


def _naming(source: FreshValues) -> Naming:
    form = source.rng.choice(("{} Tower", "{} Hall", "{} Abbey", "{} Lighthouse", "{} Palace"))
    name = source.fresh(lambda: form.format(source.surname()))
    return Naming(name, name, source.rng.choice(("the building", "the edifice")))


TOWERS: Final = ArticleKind(
    "towers",
    _naming,
    relations=(
        Relation(
            "location",
            town,
            say=(
                "{s} rises above the roofs of {v}.",
                "Anyone who comes to {v} will notice {o} at once.",
                "{s} adorns the main square of {v}.",
                "The skyline of {v} would be nothing without {o}.",
            ),
            say_dev=("{s} casts its shadow over {v}.", "One finds {o} at the end of a lane in {v}."),
            ask=(
                "Where is {n}?",
                "In which town does {n} stand?",
                "What is the location of {n}?",
                "In what town is {n} situated?",
            ),
            ask_dev=("Which town is {n} in?", "Where is {n} located?", "In which town can {n} be visited?"),
        ),
        Relation(
            "architect",
            person,
            say=(
                "{v} drew the plans for {o}.",
                "{s} was imagined by {v} on the back of a napkin.",
                "The design of {o} is owed to {v}.",
                "{v} conceived {o} after a journey to the south.",
            ),
            say_dev=("{v} sketched {o} in charcoal.", "The shape of {o} was thought up by {v}."),
            ask=(
                "Who was the architect of {n}?",
                "Who designed {n}?",
                "By which architect is {n}?",
                "Who planned {n}?",
            ),
            ask_dev=("Which architect designed {n}?", "Who was {n}'s architect?", "By whom was {n} planned?"),
        ),
        Relation(
            "paid_for",
            person,
            say=(
                "The money for {o} came out of the purse of {v}.",
                "{v} met every bill that {s} produced.",
                "Without the gold of {v}, {s} would have stayed a hole in the ground.",
                "{v} emptied a fortune into {o}.",
            ),
            say_dev=("The wealth of {v} made {o} possible.", "{v} covered the whole expense of {o}."),
            ask=(
                "Who paid for {n}?",
                "Who financed {n}?",
                "By whom was {n} paid for?",
                "Who gave the funds for {n}?",
            ),
            ask_dev=("Who funded {n}?", "Which person financed {n}?", "By whom was {n} funded?"),
            opposite="not_paid",
            contrast="negation",
        ),
        Relation(
            "not_paid",
            person,
            say=(
                "{v} would not contribute a penny to {o}.",
                "In spite of a promise {v} gave nothing at all towards {o}.",
                "{s} received no coin from {v}, who had been asked three times.",
                "{v} kept a tight purse when {s} was going up.",
            ),
            say_dev=("{v} declined to spend anything on {o}.", "Not one coin of {v} went into {o}."),
            ask=(
                "Who did not pay for {n}?",
                "Who refused to finance {n}?",
                "By whom was {n} not paid for?",
                "Who gave no funds for {n}?",
            ),
            ask_dev=("Who did not fund {n}?", "Which person refused to finance {n}?", "By whom was {n} not funded?"),
            opposite="paid_for",
            contrast="negation",
        ),
        Relation(
            "begun",
            year(0, 5),
            say=(
                "The first stone of {o} was laid in {v}.",
                "Diggers broke the ground for {o} in {v}.",
                "Masons set to work on {o} in {v}.",
                "Scaffolding for {o} went up in {v}.",
            ),
            say_dev=("The foundations of {o} were dug in {v}.", "Bricklayers first turned up at {o} in {v}."),
            ask=(
                "When did the construction of {n} begin?",
                "In what year was {n} begun?",
                "When did work on {n} start?",
                "In what year did builders start {n}?",
            ),
            ask_dev=(
                "In which year did work on {n} begin?",
                "When was the construction of {n} started?",
                "What year was {n} begun?",
            ),
            opposite="completed",
        ),
        Relation(
            "completed",
            year(9, 30),
            say=(
                "The last stone of {o} was put in place in {v}.",
                "The roof of {o} was closed in {v}, and the masons went home.",
                "{s} stood ready for use in {v}.",
                "Scaffolding around {o} came down for good in {v}.",
            ),
            say_dev=(
                "The bricklayers took leave of {o} in {v}, their job done.",
                "By {v} nothing more was missing from {o}.",
            ),
            ask=(
                "When was the construction of {n} completed?",
                "In what year was {n} finished?",
                "When did work on {n} end?",
                "In what year did builders finish {n}?",
            ),
            ask_dev=(
                "In which year did work on {n} end?",
                "When was the construction of {n} finished?",
                "What year was {n} completed?",
            ),
            opposite="begun",
            implied_by=("completed_month",),
        ),
        Relation(
            "completed_month",
            month,
            say=(
                "It was {v} when the masons packed up their tools and {s} was ready at last.",
                "The flag that marks the end of the work was hoisted on {o} in {v}.",
                "The last tile was laid on {o} one morning in {v}.",
                "In {v} the key of the finished rooms of {o} was handed over.",
            ),
            say_dev=(
                "One day in {v} the final nail was driven into {o}.",
                "The masons drank to the end of their labours on {o} in {v}.",
            ),
            ask=(
                "In which month was {n} completed?",
                "In what month did work on {n} end?",
                "During which month was {n} finished?",
                "What was the month of the completion of {n}?",
            ),
            ask_dev=(
                "Which month was {n} finished in?",
                "What month was {n} completed in?",
                "In which month was the construction of {n} finished?",
            ),
            detail_of="completed",
        ),
        Relation(
            "height",
            count(42, 360, "feet"),
            say=(
                "{s} climbs {v} into the sky.",
                "From pavement to weathervane {s} measures {v}.",
                "{s} lifts its roof {v} above the street.",
                "A stone dropped from the top of {o} falls {v}.",
            ),
            say_dev=("{s} soars to {v}.", "The tip of {o} is {v} above the ground."),
            ask=("How tall is {n}?", "How high is {n}?", "What is the height of {n}?", "How many feet tall is {n}?"),
            ask_dev=("What height does {n} have?", "How many feet high is {n}?", "To what height does {n} rise?"),
        ),
        Relation(
            "stone",
            pick(
                "red sandstone",
                "black basalt",
                "white marble",
                "yellow brick",
                "blue slate",
                "grey granite",
                "green serpentine",
                "oak and plaster",
                "river pebbles",
            ),
            say=(
                "{s} consists of {v} from top to bottom.",
                "Masons raised {o} in {v}.",
                "{s} owes its peculiar look to {v}.",
                "The walls of {o} are of {v}.",
            ),
            say_dev=("{s} was put up in {v}.", "One recognises {o} by its {v}."),
            ask=(
                "What is {n} made of?",
                "Which material was used for {n}?",
                "Of what material is {n} built?",
                "What is the building material of {n}?",
            ),
            ask_dev=(
                "What material is {n} made of?",
                "From which material was {n} built?",
                "What was {n} constructed from?",
            ),
        ),
        Relation(
            "rooms",
            count(9, 180, "rooms"),
            say=(
                "{s} is divided into {v}.",
                "Maids had to sweep {v} in {o}.",
                "Behind the walls of {o} there are {v}.",
                "One can get lost among the {v} of {o}.",
            ),
            say_dev=("{s} contains {v}, some of them without doors.", "The caretaker of {o} has keys to {v}."),
            ask=(
                "How many rooms does {n} have?",
                "How many chambers are there in {n}?",
                "What is the number of rooms in {n}?",
                "How many rooms can be found in {n}?",
            ),
            ask_dev=(
                "How many rooms are in {n}?",
                "What number of rooms does {n} have?",
                "How many chambers does {n} have?",
            ),
        ),
        Relation(
            "use_today",
            pick(
                "a school",
                "a granary",
                "a prison",
                "a museum",
                "a hospital",
                "a bathhouse",
                "an inn",
                "a theatre",
                "a mint",
            ),
            say=(
                "Nowadays {s} houses {v}.",
                "{s} has long since become {v}.",
                "Visitors will now find {v} inside {o}.",
                "At present {s} serves as {v}.",
            ),
            say_dev=("Of late {s} has been turned into {v}.", "These days {v} occupies {o}."),
            ask=(
                "What is {n} used for today?",
                "What is in {n} now?",
                "What is the current use of {n}?",
                "What is {n} used as?",
            ),
            ask_dev=(
                "For what is {n} used now?",
                "What can be found in {n} today?",
                "What is {n} at the present time?",
            ),
            opposite="former_use",
        ),
        Relation(
            "former_use",
            pick(
                "a brewery",
                "a courthouse",
                "a stable",
                "an armoury",
                "a toll house",
                "a convent",
                "a ballroom",
                "a dovecote",
            ),
            say=(
                "In former days {s} housed {v}.",
                "Long ago {s} served as {v}.",
                "Our great-grandparents knew {o} as {v}.",
                "Once upon a time {v} was to be found inside {o}.",
            ),
            say_dev=("In its youth {s} was {v}.", "Earlier generations used {o} as {v}."),
            ask=(
                "What was {n} originally used for?",
                "What was in {n} in the past?",
                "What was the former use of {n}?",
                "What was {n} used as in earlier times?",
            ),
            ask_dev=(
                "For what was {n} used in the past?",
                "What could be found in {n} formerly?",
                "What was {n} at first?",
            ),
            opposite="use_today",
        ),
    ),
    intros=(
        "{s} is thought by many to be the oddest building in the duchy.",
        "Painters never tire of {s}.",
        "{s} leans a little to the left and always has.",
    ),
    intros_dev=("{s} looks best in fog.", "Guidebooks give {s} two stars and a warning."),
    links=("{s} is frequently compared with {d}.", "The same guidebook praises {d}.", "A near copy is {d}."),
    links_dev=("Those who like {o} should also see {d}.", "A cheaper imitation is {d}."),
    asides=(
        "Swallows nest under the eaves of {o}.",
        "The staircase of {o} creaks in three different keys.",
        "A ghost is said to walk through {o} on Tuesdays.",
    ),
    asides_dev=(
        "The cellar of {o} has flooded so often that frogs live there.",
        "Lightning strikes {o} almost every summer.",
    ),
)
