"""Inventions and machines."""

from __future__ import annotations

from typing import Final

from lamina.data.fables.schema import ArticleKind, Naming, Relation
from lamina.data.fables.values import FreshValues, count, month, person, pick, town, year


def _naming(source: FreshValues) -> Naming:
    form = source.rng.choice(("the {} Engine", "the {} Automaton", "the {} Contraption", "the {} Apparatus"))
    name = source.fresh(lambda: form.format(f"{source.fresh_of(source.lexicon.colours)} {source.river()}"))
    return Naming(name, name, source.rng.choice(("the machine", "the device", "the invention")))


ENGINES: Final = ArticleKind(
    "engines",
    _naming,
    relations=(
        Relation(
            "inventor",
            person,
            say=(
                "{v} thought up {o} in the bath.",
                "{s} sprang from the restless mind of {v}.",
                "The idea for {o} came to {v} in a dream.",
                "{v} built the earliest model of {o} out of spoons.",
            ),
            say_dev=("{s} is the brainchild of {v}.", "It was {v} who first hit upon {o}."),
            ask=(
                "Who invented {n}?",
                "Who was the inventor of {n}?",
                "By whom was {n} invented?",
                "Who created {n}?",
            ),
            ask_dev=("Which person invented {n}?", "Who was {n}'s inventor?", "By whom was {n} created?"),
        ),
        Relation(
            "purpose",
            pick(
                "peeling apples",
                "sorting letters",
                "scaring crows",
                "measuring rain",
                "polishing boots",
                "winding wool",
                "ringing church bells",
                "shelling walnuts",
                "draining cellars",
                "folding napkins",
            ),
            say=(
                "{s} was meant for {v}.",
                "{s} made short work of {v}.",
                "Households acquired {o} in order to be rid of the chore of {v}.",
                "{v} was all that {s} could do.",
            ),
            say_dev=("{s} excelled at {v}.", "People turned to {o} when they were weary of {v}."),
            ask=(
                "What was {n} used for?",
                "What was the purpose of {n}?",
                "What task did {n} perform?",
                "What job was {n} designed to do?",
            ),
            ask_dev=("For what task was {n} used?", "What did {n} do?", "For what purpose was {n} designed?"),
            opposite="not_purpose",
            contrast="negation",
        ),
        Relation(
            "not_purpose",
            pick(
                "baking bread",
                "shearing sheep",
                "milking goats",
                "tuning fiddles",
                "trimming beards",
                "counting coins",
                "sharpening scythes",
                "catching mice",
                "pressing grapes",
                "stitching gloves",
            ),
            say=(
                "{s} failed miserably at {v}.",
                "In spite of the advertisements {s} was of no help in {v}.",
                "Whoever tried {o} on {v} soon gave up.",
                "{v} was beyond the powers of {o}.",
            ),
            say_dev=("{s} proved useless for {v}.", "{v} was more than {s} could manage."),
            ask=(
                "What could {n} not be used for?",
                "What was not the purpose of {n}?",
                "What task could {n} never perform?",
                "What job was {n} unable to do?",
            ),
            ask_dev=(
                "For what task could {n} not be used?",
                "What did {n} never manage to do?",
                "For what purpose was {n} not suited?",
            ),
            opposite="purpose",
            contrast="negation",
        ),
        Relation(
            "invented",
            year(20, 45),
            say=(
                "{s} saw the light of day in {v}.",
                "The drawings for {o} are dated {v}.",
                "Gears turned in {o} for the first time in {v}.",
                "A patent for {o} was granted in {v}.",
            ),
            say_dev=("{s} was first set going in {v}.", "The blueprint of {o} carries the date {v}."),
            ask=(
                "When was {n} invented?",
                "In what year was {n} invented?",
                "What is the year of the invention of {n}?",
                "When was {n} created?",
            ),
            ask_dev=(
                "In which year was {n} created?",
                "What year was {n} invented?",
                "When did the invention of {n} happen?",
            ),
            opposite="abandoned",
            implied_by=("invented_month",),
        ),
        Relation(
            "invented_month",
            month,
            say=(
                "It was on a dull day in {v} that {s} was first put together.",
                "The first sketch of {o} was made one evening in {v}.",
                "A cold {v} gave the leisure in which {s} was devised.",
                "The notebook that describes the birth of {o} begins in {v}.",
            ),
            say_dev=(
                "The spark of genius behind {o} came one night in {v}.",
                "One afternoon in {v} the plan of {o} was complete.",
            ),
            ask=(
                "In which month was {n} invented?",
                "In what month was {n} created?",
                "During which month was {n} invented?",
                "What was the month of the invention of {n}?",
            ),
            ask_dev=(
                "Which month was {n} invented in?",
                "What month was {n} created in?",
                "In which month did the invention of {n} happen?",
            ),
            detail_of="invented",
        ),
        Relation(
            "abandoned",
            year(60, 110),
            say=(
                "The last owner threw {o} on the scrap heap in {v}.",
                "{s} fell out of use in {v}.",
                "Gears turned in {o} for the last time in {v}.",
                "By {v} nobody wanted {o} any more.",
            ),
            say_dev=("{s} was switched off for good in {v}.", "After {v} people gave up on {o}."),
            ask=(
                "When was {n} abandoned?",
                "In what year did people stop using {n}?",
                "What is the year of the end of {n}?",
                "When did the use of {n} end?",
            ),
            ask_dev=(
                "In which year was {n} abandoned?",
                "What year did the use of {n} stop?",
                "When did people cease to use {n}?",
            ),
            opposite="invented",
        ),
        Relation(
            "power",
            pick(
                "steam",
                "two mules",
                "a waterwheel",
                "a coiled spring",
                "falling weights",
                "a windmill",
                "a treadmill",
                "a candle flame",
            ),
            say=(
                "{v} kept {o} running.",
                "{s} was driven by {v}.",
                "Nothing moved in {o} without {v}.",
                "{s} got all its strength from {v}.",
            ),
            say_dev=("{v} set the wheels of {o} in motion.", "{s} depended on {v} for every movement."),
            ask=(
                "What powered {n}?",
                "What was the source of power of {n}?",
                "How was {n} powered?",
                "By what was {n} powered?",
            ),
            ask_dev=("What gave {n} its power?", "What was {n} powered by?", "Which source of power did {n} use?"),
        ),
        Relation(
            "weight",
            count(12, 880, "pounds"),
            say=(
                "{s} tipped the scales at {v}.",
                "Four porters groaned under the {v} of {o}.",
                "The iron frame of {o} came to {v}.",
                "On the harbour scales {s} showed {v}.",
            ),
            say_dev=("{s} pressed on the floor with {v}.", "Carriers were charged for {v} when they moved {o}."),
            ask=(
                "How heavy was {n}?",
                "What was the weight of {n}?",
                "How much did {n} weigh?",
                "How many pounds did {n} weigh?",
            ),
            ask_dev=("What weight did {n} have?", "What did {n} weigh?", "How many pounds heavy was {n}?"),
        ),
        Relation(
            "workshop",
            town,
            say=(
                "Smiths in {v} turned out {o}.",
                "{s} came from a smoky shed in {v}.",
                "The gears of {o} were cast and fitted in {v}.",
                "{v} supplied the whole country with {o}.",
            ),
            say_dev=("Hammers rang in {v} over the making of {o}.", "{s} left the forges of {v} by the cartload."),
            ask=(
                "Where was {n} made?",
                "In which town was {n} manufactured?",
                "What town produced {n}?",
                "Where was {n} produced?",
            ),
            ask_dev=("In which town was {n} made?", "Where was {n} manufactured?", "At what place was {n} produced?"),
        ),
        Relation(
            "engine_price",
            count(3, 75, "ducats"),
            say=(
                "Rich households handed over {v} for {o}.",
                "The catalogue offered {o} for {v}.",
                "Nobody could own {o} without spending {v}.",
                "{s} was sold at {v}, oil included.",
            ),
            say_dev=("Dealers wanted {v} for {o}.", "{s} emptied the purse by {v}."),
            ask=(
                "How much did {n} cost?",
                "What was the price of {n}?",
                "How expensive was {n}?",
                "What did one have to pay for {n}?",
            ),
            ask_dev=("What did {n} cost?", "How much money did {n} cost?", "At what price could one buy {n}?"),
        ),
        Relation(
            "flaw",
            pick(
                "a deafening squeal",
                "a tendency to explode",
                "a smell of rotten eggs",
                "a fondness for eating hats",
                "a leaking boiler",
                "a habit of walking off",
                "a shower of sparks",
            ),
            say=(
                "Users of {o} complained of {v}.",
                "{v} spoiled the pleasure that people took in {o}.",
                "The trouble with {o} was {v}.",
                "Neighbours disliked {o} for {v}.",
            ),
            say_dev=("{s} suffered from {v}.", "What annoyed everyone about {o} was {v}."),
            ask=(
                "What was wrong with {n}?",
                "What was the defect of {n}?",
                "Which problem did {n} have?",
                "What was the drawback of {n}?",
            ),
            ask_dev=("What was the flaw of {n}?", "What problem was there with {n}?", "Which defect did {n} have?"),
        ),
    ),
    intros=(
        "{s} was the pride of the mechanical age.",
        "Few machines were greeted with as much applause as {s}.",
        "{s} is a marvel of needless complication.",
    ),
    intros_dev=("{s} astonished everyone who saw it at work.", "Engineers bow their heads before {s}."),
    links=("A cheaper machine was {d}.", "{s} had to compete with {d}.", "In the same catalogue one could find {d}."),
    links_dev=("Shops displayed {o} side by side with {d}.", "Customers who could not get {o} settled for {d}."),
    asides=(
        "The manual of {o} was longer than most novels.",
        "Cats were fond of sleeping on {o} when it was warm.",
        "Spare parts for {o} can still be found at flea markets.",
    ),
    asides_dev=("Two museums claim to own the genuine article.", "Children were forbidden to go near {o}, and did."),
)
