"""Laws."""

from __future__ import annotations

from typing import Final

from lamina.data.fables.schema import ArticleKind, Naming, Relation
from lamina.data.fables.values import FreshValues, count, listing, month, person, pick, town, year


def _naming(source: FreshValues) -> Naming:
    form = source.rng.choice(("the {} {} Act", "the {} {} Statute", "the {} {} Decree"))
    colours, subjects = source.lexicon.colours, source.lexicon.subjects
    name = source.fresh(lambda: form.format(source.fresh_of(colours), source.fresh_of(subjects)))
    return Naming(name, name, source.rng.choice(("the law", "the measure", "the rule")))


LAWS: Final = ArticleKind(
    "laws",
    _naming,
    relations=(
        Relation(
            "author_of_law",
            person,
            say=(
                "{v} drafted {o} in a single night.",
                "The wording of {o} came from the pen of {v}.",
                "{v} drew {o} up on the orders of the queen.",
                "{s} was put on paper by {v}.",
            ),
            say_dev=("{v} set down every clause of {o}.", "The text of {o} was composed by {v}."),
            ask=(
                "Who wrote {n}?",
                "Who was the author of {n}?",
                "By whom was {n} written?",
                "Which person devised {n}?",
            ),
            ask_dev=("Which person wrote {n}?", "Who authored {n}?", "By whom was {n} devised?"),
        ),
        Relation(
            "enacted",
            year(0, 10),
            say=(
                "The council voted for {o} in {v}.",
                "{s} has been read out in the courts since {v}.",
                "{s} received the royal seal in {v}.",
                "Judges began to apply {o} in {v}.",
            ),
            say_dev=("{s} was approved by the elders in {v}.", "From {v} onward everyone had to obey {o}."),
            ask=(
                "When was {n} passed?",
                "In what year did {n} come into force?",
                "When was {n} enacted?",
                "What is the year in which {n} took effect?",
            ),
            ask_dev=("In which year was {n} enacted?", "What year was {n} passed?", "When did {n} take effect?"),
            opposite="repealed",
            implied_by=("enacted_month",),
        ),
        Relation(
            "enacted_month",
            month,
            say=(
                "It was on a rainy day in {v} that the heralds first proclaimed {o}.",
                "The vote that carried {o} took place in {v}.",
                "{s} was nailed to the church doors in {v}, with the ink of the seal still wet.",
                "The assembly adopted {o} one afternoon in {v}.",
            ),
            say_dev=("Heralds announced the adoption of {o} in {v}.", "The seal was pressed on {o} one day in {v}."),
            ask=(
                "In which month was {n} passed?",
                "In what month did {n} come into force?",
                "What was the month when {n} was enacted?",
                "During which month was {n} enacted?",
            ),
            ask_dev=(
                "What month was {n} enacted in?",
                "Which month was {n} passed in?",
                "In which month did {n} take effect?",
            ),
            detail_of="enacted",
        ),
        Relation(
            "repealed",
            year(40, 130),
            say=(
                "The council struck {o} from the books in {v}.",
                "{s} lost all power in {v}.",
                "Nobody has had to obey {o} since {v}.",
                "A milder judge did away with {o} in {v}.",
            ),
            say_dev=("{s} was scrapped by the elders in {v}.", "In {v} the courts were freed from {o}."),
            ask=(
                "When was {n} repealed?",
                "In what year was {n} abolished?",
                "When did {n} cease to be in force?",
                "What is the year in which {n} was cancelled?",
            ),
            ask_dev=("In which year was {n} abolished?", "What year was {n} repealed?", "When was {n} withdrawn?"),
            opposite="enacted",
        ),
        Relation(
            "fine",
            count(2, 90, "crowns"),
            say=(
                "Offenders against {o} had to part with {v}.",
                "Whoever broke {o} was poorer by {v}.",
                "A breach of {o} cost {v}.",
                "{s} took {v} out of the pocket of every culprit.",
            ),
            say_dev=("Those caught breaking {o} owed the crown {v}.", "Disregard of {o} was settled with {v}."),
            ask=(
                "What was the fine for breaking {n}?",
                "How much was the penalty under {n}?",
                "How high was the fine set by {n}?",
                "What fine did {n} impose?",
            ),
            ask_dev=(
                "How much was the fine under {n}?",
                "What penalty had to be paid for breaking {n}?",
                "How large a fine did {n} set?",
            ),
        ),
        Relation(
            "permits",
            pick(
                "bathing",
                "whistling",
                "archery",
                "selling beer",
                "dancing",
                "kite flying",
                "card games",
                "pig keeping",
            ),
            say=(
                "{s} allowed {v} on Sundays.",
                "Thanks to {o}, {v} became lawful at all hours.",
                "{s} gave {v} its full blessing.",
                "Under {o}, {v} went free of punishment.",
            ),
            say_dev=("{s} left {v} to everyone's own conscience.", "With {o} came full freedom for {v}."),
            ask=(
                "What did {n} permit?",
                "Which activity was legal under {n}?",
                "What was permitted by {n}?",
                "What were people free to do under {n}?",
            ),
            ask_dev=("Which activity did {n} permit?", "What was legal under {n}?", "What did {n} let people do?"),
            opposite="forbids",
        ),
        Relation(
            "forbids",
            pick(
                "snoring",
                "juggling",
                "fishing by night",
                "wearing bells",
                "gossip",
                "shouting",
                "dicing",
                "selling cats",
            ),
            say=(
                "{s} outlawed {v} within the walls.",
                "Because of {o}, {v} became a crime at all hours.",
                "{s} threatened {v} with a night in the cellar.",
                "Under {o}, {v} led straight to the stocks.",
            ),
            say_dev=("{s} made {v} a matter for the constable.", "With {o} came an end to {v}."),
            ask=(
                "What did {n} forbid?",
                "Which activity was illegal under {n}?",
                "What was prohibited by {n}?",
                "What did {n} ban?",
            ),
            ask_dev=(
                "Which activity did {n} prohibit?",
                "What was illegal under {n}?",
                "What did {n} stop people from doing?",
            ),
            opposite="permits",
        ),
        Relation(
            "applied",
            listing(2, "bakers", "shepherds", "widows", "boatmen", "students", "butchers", "monks", "pedlars", "barbers"),
            say=(
                "{v} had to submit to {o}.",
                "{s} was aimed at {v}.",
                "{v} lived in constant fear of {o}.",
                "The clauses of {o} bound {v}.",
            ),
            say_dev=("{s} concerned {v} above all.", "{v} had to swear obedience to {o}."),
            ask=(
                "Who was subject to {n}?",
                "To whom did {n} apply?",
                "Which people did {n} cover?",
                "Which groups were affected by {n}?",
            ),
            ask_dev=("Which people were subject to {n}?", "Which groups did {n} apply to?", "Whom did {n} affect?"),
            opposite="exempt",
            contrast="negation",
        ),
        Relation(
            "exempt",
            listing(2, "nuns", "soldiers", "midwives", "judges", "beggars", "sailors", "foresters", "heralds", "minstrels"),
            say=(
                "{v} were spared by {o}.",
                "{s} made an exception for {v}.",
                "{v} could ignore {o} with a smile.",
                "None of the clauses of {o} bound {v}.",
            ),
            say_dev=("{s} did not concern {v} in the least.", "{v} were excused from {o}."),
            ask=(
                "Who was not subject to {n}?",
                "To whom did {n} not apply?",
                "Which people did {n} not cover?",
                "Which groups were not affected by {n}?",
            ),
            ask_dev=(
                "Which people were not subject to {n}?",
                "Which groups did {n} not apply to?",
                "Whom did {n} not affect?",
            ),
            opposite="applied",
            contrast="negation",
        ),
        Relation(
            "kept_at",
            town,
            say=(
                "The original parchment of {o} lies in a chest at {v}.",
                "Scholars who wish to read {o} in the original travel to {v}.",
                "{v} guards the only surviving copy of {o}.",
                "The sheet on which {s} was written hangs in a frame at {v}.",
            ),
            say_dev=("The parchment of {o} is locked away in {v}.", "{v} owns the one remaining manuscript of {o}."),
            ask=(
                "Where is {n} kept today?",
                "In which town is the document of {n} preserved?",
                "Where can one see the document of {n}?",
                "What town keeps the document of {n}?",
            ),
            ask_dev=(
                "Where is the document of {n} kept?",
                "Which town preserves the document of {n}?",
                "In which town can the document of {n} be seen?",
            ),
        ),
    ),
    intros=(
        "{s} is a curious chapter in the legal history of the realm.",
        "Law students still groan at the mention of {s}.",
        "{s} was meant to last for ever and to please everyone.",
    ),
    intros_dev=("{s} is quoted more often than it is understood.", "Lawyers grew fat on {s}."),
    links=(
        "A companion piece was {d}.",
        "Clerks often filed {o} next to {d}.",
        "The following page of the code contains {d}.",
    ),
    links_dev=("{s} is easily mixed up with {d}.", "Another product of the same court was {d}."),
    asides=(
        "The preamble of {o} alone runs to eleven pages.",
        "Ballads were written against {o}, and a few in its favour.",
        "Schoolchildren used to recite {o} backwards for a wager.",
    ),
    asides_dev=("Nobody has ever finished reading {o} aloud.", "Parrots were taught to quote {o} in the taverns."),
)
