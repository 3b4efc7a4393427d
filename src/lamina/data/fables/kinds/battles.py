"""Battles."""

from __future__ import annotations

from typing import Final

from lamina.data.fables.schema import ArticleKind, Naming, Relation
from lamina.data.fables.values import FreshValues, count, month, person, pick, town, year


def _naming(source: FreshValues) -> Naming:
    form = source.rng.choice(("the Battle of {}", "the Siege of {}", "the Skirmish of {}"))
    name = source.fresh(lambda: form.format(source.town()))
    return Naming(name, name, source.rng.choice(("the fight", "the encounter", "the clash")))


BATTLES: Final = ArticleKind(
    "battles",
    _naming,
    relations=(
        Relation(
            "battle_year",
            year(0, 12),
            say=(
                "Swords were drawn for {o} in {v}.",
                "The chronicles place {o} in {v}.",
                "In {v} two armies met in {o}.",
                "{s} was fought out in {v}.",
            ),
            say_dev=("{s} darkened the year {v}.", "Drums sounded for {o} in {v}."),
            ask=(
                "When did {n} take place?",
                "In what year was {n}?",
                "What was the year of {n}?",
                "When did {n} happen?",
            ),
            ask_dev=("In which year did {n} take place?", "What year did {n} happen in?", "When did {n} occur?"),
            implied_by=("battle_month",),
        ),
        Relation(
            "battle_month",
            month,
            say=(
                "It was a bitter {v} when {s} was fought.",
                "{v} mud hindered both armies in {o}.",
                "The armies chose {v} for {o}, to the dismay of the farmers.",
                "Every {v} the town remembers {o} with a minute of silence.",
            ),
            say_dev=("The trumpets of {o} broke the quiet of {v}.", "{v} frost lay on the field during {o}."),
            ask=(
                "In which month did {n} take place?",
                "In what month was {n} fought?",
                "What was the month of {n}?",
                "During which month did {n} happen?",
            ),
            ask_dev=("What month did {n} take place in?", "In which month did {n} occur?", "Which month saw {n}?"),
            detail_of="battle_year",
        ),
        Relation(
            "victor",
            person,
            say=(
                "{v} carried the day in {o}.",
                "When the smoke of {o} cleared, {v} held the field.",
                "{s} ended with cheers for {v}.",
                "{v} came out of {o} triumphant.",
            ),
            say_dev=("{v} got the upper hand in {o}.", "After {o} the banner of {v} flew over the field."),
            ask=(
                "Who won {n}?",
                "Who was the victor of {n}?",
                "By whom was {n} won?",
                "Which leader was victorious in {n}?",
            ),
            ask_dev=("Which commander won {n}?", "Who was victorious in {n}?", "Who was the winner of {n}?"),
            opposite="loser",
        ),
        Relation(
            "loser",
            person,
            say=(
                "{v} came out of {o} beaten.",
                "When the smoke of {o} cleared, {v} had fled.",
                "{s} ended in disgrace for {v}.",
                "{v} handed over a broken sword after {o}.",
            ),
            say_dev=("{v} got the worst of it in {o}.", "After {o} the banner of {v} lay in the dirt."),
            ask=(
                "Who lost {n}?",
                "Who was the loser of {n}?",
                "By whom was {n} lost?",
                "Which leader was defeated in {n}?",
            ),
            ask_dev=("Which commander lost {n}?", "Who was defeated in {n}?", "Who suffered defeat in {n}?"),
            opposite="victor",
        ),
        Relation(
            "soldiers",
            count(300, 9500, "soldiers", step=50),
            say=(
                "Altogether {v} marched into {o}.",
                "{s} brought {v} face to face.",
                "Cooks had to feed {v} on the eve of {o}.",
                "The field of {o} was trampled by {v}.",
            ),
            say_dev=("As many as {v} lined up for {o}.", "{s} drew in {v}, many without boots."),
            ask=(
                "How many men fought in {n}?",
                "How many troops took part in {n}?",
                "What was the number of troops in {n}?",
                "How large were the forces in {n}?",
            ),
            ask_dev=(
                "How many troops fought in {n}?",
                "How many fighters took part in {n}?",
                "What number of men fought in {n}?",
            ),
            implied_by=("dead",),
        ),
        Relation(
            "dead",
            count(20, 280, "men"),
            say=(
                "{s} cost the lives of {v}.",
                "After {o} the priest buried {v}.",
                "{s} made widows of the wives of {v}.",
                "Stones on the field name {v} who never came home from {o}.",
            ),
            say_dev=("Some {v} perished in {o}.", "For {v} there was no return from {o}."),
            ask=(
                "How many died in {n}?",
                "How many soldiers were killed in {n}?",
                "What was the death toll of {n}?",
                "How many people lost their lives in {n}?",
            ),
            ask_dev=(
                "How many people died in {n}?",
                "How many were killed in {n}?",
                "What was the number of deaths in {n}?",
            ),
            implied_by=("soldiers",),
        ),
        Relation(
            "duration",
            count(2, 19, "hours"),
            say=(
                "{s} raged for {v}.",
                "After {v} the drums of {o} fell silent.",
                "{s} kept both sides busy for {v}.",
                "It took {v} to decide {o}.",
            ),
            say_dev=("{s} dragged on for {v}.", "Blow followed blow in {o} for {v}."),
            ask=(
                "How long did {n} last?",
                "How many hours did {n} take?",
                "What was the duration of {n}?",
                "For how long was {n} fought?",
            ),
            ask_dev=(
                "How many hours did {n} last?",
                "For how many hours was {n} fought?",
                "What length of time did {n} take?",
            ),
        ),
        Relation(
            "cause",
            pick(
                "a stolen pig",
                "a broken engagement",
                "an unpaid toll",
                "a disputed bridge",
                "an insulting song",
                "a lost crown",
                "a badly drawn map",
                "a dead falcon",
                "a forged letter",
                "the tax on salt",
            ),
            say=(
                "What set {o} off was {v}.",
                "{v} had stirred up the anger that led to {o}.",
                "{s} sprang from a quarrel over {v}.",
                "It all came to {o} on account of {v}.",
            ),
            say_dev=("{v} lay behind {o}.", "The trouble that ended in {o} started with {v}."),
            ask=(
                "What caused {n}?",
                "What was the reason for {n}?",
                "Why was {n} fought?",
                "What was the cause of {n}?",
            ),
            ask_dev=("What was {n} fought over?", "What led to {n}?", "For what reason did {n} happen?"),
        ),
        Relation(
            "joined",
            town,
            say=(
                "{v} sent its pikemen to {o}.",
                "The archers of {v} played their part in {o}.",
                "{v} answered the call to arms before {o}.",
                "Volunteers from {v} hurried to {o}.",
            ),
            say_dev=("The militia of {v} turned up for {o}.", "{v} threw its men into {o}."),
            ask=(
                "Which town took part in {n}?",
                "What town joined {n}?",
                "Which town sent troops to {n}?",
                "From which town did troops come to {n}?",
            ),
            ask_dev=(
                "What town participated in {n}?",
                "Which town joined in {n}?",
                "Which town supplied troops for {n}?",
            ),
            opposite="stayed_out",
            contrast="negation",
        ),
        Relation(
            "stayed_out",
            town,
            say=(
                "{v} kept its pikemen at home during {o}.",
                "The archers of {v} would have no part in {o}.",
                "{v} ignored the call to arms before {o}.",
                "Nobody from {v} could be talked into {o}.",
            ),
            say_dev=("{v} shut its gates and let {o} pass by.", "The militia of {v} remained in bed during {o}."),
            ask=(
                "Which town did not take part in {n}?",
                "What town never joined {n}?",
                "Which town sent no troops to {n}?",
                "From which town did no troops come to {n}?",
            ),
            ask_dev=(
                "What town did not participate in {n}?",
                "Which town refused to join in {n}?",
                "Which town did not supply troops for {n}?",
            ),
            opposite="joined",
            contrast="negation",
        ),
    ),
    intros=(
        "{s} is taught to every schoolchild in the marches.",
        "Old soldiers lower their voices when they speak of {s}.",
        "{s} decided very little, though nobody knew it then.",
    ),
    intros_dev=("{s} has been painted more often than it deserves.", "Historians love to quarrel about {s}."),
    links=(
        "A similar affair was {d}.",
        "In the songs of the marches {s} stands next to {d}.",
        "The war went on with {d}.",
    ),
    links_dev=("Veterans liked to compare {o} with {d}.", "Another bloody page of the war was {d}."),
    asides=(
        "Farmers still plough up rusty spurs from {o}.",
        "The weather during {o} was reported to be dreadful.",
        "A wooden horse in the local church recalls {o}.",
    ),
    asides_dev=("No poem about {o} is entirely truthful.", "Tin figures of {o} are popular with collectors."),
)
