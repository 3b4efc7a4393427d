"""Festivals."""

from __future__ import annotations

from typing import Final

from lamina.data.fables.schema import ArticleKind, Naming, Relation
from lamina.data.fables.values import FreshValues, count, month, person, pick, town, year


def _naming(source: FreshValues) -> Naming:
    colours, emblems = source.lexicon.colours, source.lexicon.emblems
    form = source.rng.choice(("the Feast of the {} {}", "the {} {} Fair", "the {} {} Revels"))
    name = source.fresh(lambda: form.format(source.fresh_of(colours), source.fresh_of(emblems)))
    return Naming(name, name, source.rng.choice(("the festival", "the celebration")))


FESTIVALS: Final = ArticleKind(
    "festivals",
    _naming,
    relations=(
        Relation(
            "festival_town",
            town,
            say=(
                "Crowds pour into {v} for {o}.",
                "{s} fills the squares of {v} with noise.",
                "{v} hangs out its flags for {o}.",
                "{s} belongs to {v} as the bell belongs to the steeple.",
            ),
            say_dev=("For {o} the whole of {v} is hung with paper chains.", "The streets of {v} are swept for {o}."),
            ask=(
                "Where is {n} held?",
                "In which town does {n} take place?",
                "What town celebrates {n}?",
                "Where can one attend {n}?",
            ),
            ask_dev=("In what place is {n} celebrated?", "Where does {n} take place?", "Which town hosts {n}?"),
        ),
        Relation(
            "festival_month",
            month,
            say=(
                "Every {v} the lamps are lit for {o}.",
                "{s} comes round in {v}.",
                "People look forward to {v}, when {s} returns.",
                "{s} brightens the dull days of {v}.",
            ),
            say_dev=("{s} falls in {v}, whatever the weather.", "No {v} goes by without {o}."),
            ask=(
                "In which month is {n} held?",
                "What month does {n} take place in?",
                "During which month do people celebrate {n}?",
                "In what month is {n} celebrated?",
            ),
            ask_dev=(
                "Which month is {n} celebrated in?",
                "What is the month of {n}?",
                "In which month does {n} happen?",
            ),
        ),
        Relation(
            "festival_length",
            count(2, 12, "days"),
            say=(
                "{s} goes on for {v}.",
                "It takes {v} before {s} runs out of beer.",
                "Shops stay shut for {v} because of {o}.",
                "{s} fills {v} and the nights between.",
            ),
            say_dev=("{s} keeps everyone awake for {v}.", "After {v} the last guest of {o} goes home."),
            ask=(
                "How long does {n} last?",
                "How many days does {n} last?",
                "What is the duration of {n}?",
                "For how many days do people celebrate {n}?",
            ),
            ask_dev=(
                "How many days long is {n}?",
                "For how long is {n} celebrated?",
                "What time does {n} take from start to finish?",
            ),
        ),
        Relation(
            "first_held",
            year(0, 12),
            say=(
                "{s} was kept for the first time in {v}.",
                "The oldest bill for the lanterns of {o} is from {v}.",
                "{s} goes back to {v}.",
                "Monks introduced {o} in {v}.",
            ),
            say_dev=("{s} has been with us since {v}.", "The earliest mention of {o} being kept is from {v}."),
            ask=(
                "When was {n} first held?",
                "In what year did {n} begin?",
                "When did people first celebrate {n}?",
                "In which year was {n} started?",
            ),
            ask_dev=(
                "What year was {n} first celebrated?",
                "When did {n} start?",
                "In what year was {n} held for the first time?",
            ),
            opposite="banned",
        ),
        Relation(
            "banned",
            year(150, 240),
            say=(
                "A stern bishop outlawed {o} in {v}, though not for long.",
                "In {v} the council would not allow {o}, for want of money.",
                "The lanterns of {o} had to stay dark in {v} by order of the queen.",
                "{s} was against the law in {v} on account of the plague.",
            ),
            say_dev=(
                "In {v} the elders called {o} off because of a riot.",
                "A nervous duke suppressed {o} in {v} and regretted it.",
            ),
            ask=(
                "When was {n} banned?",
                "In what year was {n} forbidden?",
                "When were people not permitted to celebrate {n}?",
                "In which year was {n} prohibited?",
            ),
            ask_dev=(
                "What year was {n} prohibited?",
                "When was {n} stopped by the authorities?",
                "In what year was there a ban on {n}?",
            ),
            opposite="first_held",
        ),
        Relation(
            "honours",
            person,
            say=(
                "{s} keeps alive the memory of {v}.",
                "{s} is dedicated to {v}, who once shared out free bread.",
                "During {o} a straw figure of {v} is carried about.",
                "Everyone at {o} sings a hymn to {v}.",
            ),
            say_dev=("{s} pays tribute to {v}.", "Speeches in praise of {v} are made at {o}."),
            ask=(
                "Whom does {n} honour?",
                "Who is honoured by {n}?",
                "In whose honour is {n} held?",
                "Which person does {n} commemorate?",
            ),
            ask_dev=(
                "Who is commemorated by {n}?",
                "To whose honour is {n} celebrated?",
                "Which person is honoured at {n}?",
            ),
        ),
        Relation(
            "food",
            pick(
                "almond rings",
                "pickled herring",
                "saffron buns",
                "roast chestnuts",
                "cabbage rolls",
                "fried dough",
                "plum soup",
            ),
            say=(
                "Guests of {o} stuff themselves with {v}.",
                "Nobody leaves {o} without having tasted {v}.",
                "{s} smells of {v} from morning to night.",
                "Bakers and cooks sell {v} at {o}.",
            ),
            say_dev=("Plates of {v} are handed round at {o}.", "At {o} every household serves {v}."),
            ask=(
                "What is eaten at {n}?",
                "Which dish is traditional at {n}?",
                "What do people eat at {n}?",
                "What food belongs to {n}?",
            ),
            ask_dev=("What food is eaten at {n}?", "What is the dish of {n}?", "Which food do people eat during {n}?"),
            opposite="no_food",
            contrast="negation",
        ),
        Relation(
            "no_food",
            pick("goose", "blood sausage", "white bread", "oysters", "garlic", "boiled eggs", "veal", "sour milk"),
            say=(
                "An old vow forbids {v} at {o}.",
                "While {s} goes on, nobody touches {v}.",
                "Cooks who serve {v} at {o} are ducked in the pond.",
                "For fear of bad luck {v} must stay off the tables of {o}.",
            ),
            say_dev=("Custom bans {v} from {o}.", "{v} would be a scandal at {o}, and every cook knows it."),
            ask=(
                "What is never eaten at {n}?",
                "Which dish is not allowed at {n}?",
                "What do people not eat at {n}?",
                "What food does not belong to {n}?",
            ),
            ask_dev=(
                "What food is not eaten at {n}?",
                "What must not be eaten at {n}?",
                "Which food do people avoid during {n}?",
            ),
            opposite="food",
            contrast="negation",
        ),
        Relation(
            "prize",
            pick(
                "a fat goose",
                "a silver spoon",
                "a barrel of ale",
                "a painted egg",
                "a new hat",
                "a wheel of cheese",
                "an ivory comb",
            ),
            say=(
                "The fastest runner at {o} goes home with {v}.",
                "Whoever wins the sack race of {o} is handed {v}.",
                "Wrestlers at {o} compete for {v}.",
                "{v} awaits the champion of {o}.",
            ),
            say_dev=("The victor in the games of {o} receives {v}.", "Young people at {o} race each other for {v}."),
            ask=(
                "What is the prize at {n}?",
                "What does the winner get at {n}?",
                "What can be won at {n}?",
                "Which prize is given at {n}?",
            ),
            ask_dev=(
                "What prize does the winner receive at {n}?",
                "What do winners get at {n}?",
                "Which prize can be won at {n}?",
            ),
        ),
        Relation(
            "last_winner",
            person,
            say=(
                "{v} came first in the contests of {o} last time.",
                "The loudest cheers at {o} were for {v}, who came first in every race.",
                "{v} beat everyone in the games of {o}.",
                "At {o} it was {v} who crossed the line before all the others.",
            ),
            say_dev=(
                "{v} outran all the others at {o}.",
                "In the games of {o} nobody could match {v}.",
            ),
            ask=(
                "Who won the prize at {n}?",
                "Who was the winner at {n}?",
                "By whom was the contest at {n} won?",
                "Which person was the winner of the contest at {n}?",
            ),
            ask_dev=(
                "Who was victorious at {n}?",
                "Which person won at {n}?",
                "What is the name of the winner at {n}?",
            ),
            detail_of="prize",
        ),
        Relation(
            "ends_with",
            pick(
                "a bonfire",
                "a boat race",
                "a dance of masks",
                "a pillow fight",
                "a torchlight parade",
                "a horse auction",
            ),
            say=(
                "{v} brings {o} to a close.",
                "{s} closes with {v}.",
                "When all is eaten and drunk, {v} rounds off {o}.",
                "The final hours of {o} are given over to {v}.",
            ),
            say_dev=("{s} winds up with {v}.", "{v} marks the final evening of {o}."),
            ask=(
                "How does {n} end?",
                "With what event does {n} finish?",
                "What is the last event of {n}?",
                "What happens at the end of {n}?",
            ),
            ask_dev=("What event ends {n}?", "With what does {n} end?", "What takes place at the end of {n}?"),
            opposite="begins_with",
        ),
        Relation(
            "begins_with",
            pick(
                "a cannon shot",
                "a blessing of the animals",
                "a silent walk",
                "a rooftop concert",
                "a puppet show",
                "a snail race",
            ),
            say=(
                "{v} gets {o} under way.",
                "{s} opens with {v}.",
                "Before a drop is drunk, {v} sets {o} going.",
                "The opening hours of {o} are given over to {v}.",
            ),
            say_dev=("{s} kicks off with {v}.", "{v} marks the opening morning of {o}."),
            ask=(
                "How does {n} start?",
                "With what event does {n} begin?",
                "What is the first event of {n}?",
                "What happens at the start of {n}?",
            ),
            ask_dev=(
                "What event starts {n}?",
                "With what does {n} begin?",
                "What takes place at the beginning of {n}?",
            ),
            opposite="ends_with",
        ),
    ),
    intros=(
        "{s} is among the merriest gatherings of the year.",
        "Strangers tend to come upon {s} by accident and never forget it.",
        "{s} is a noisy affair with roots in pagan times.",
    ),
    intros_dev=(
        "{s} is a cheerful custom that no one can quite explain.",
        "Few holidays are awaited as eagerly as {s}.",
    ),
    links=("Much the same crowd attends {d}.", "{s} has a rival in {d}.", "Older people prefer {d}."),
    links_dev=("{s} is modelled on {d}.", "Visitors with strong stomachs go on to {d}."),
    asides=(
        "Pickpockets are said to enjoy {o} more than anyone.",
        "The mayor is expected to fall into a fountain during {o}.",
        "Dogs and cats hide under the beds while {s} lasts.",
    ),
    asides_dev=("Hats of every shape are worn at {o}.", "Tickets for {o} were never sold, since nobody would buy one."),
)
