"""Books."""

from __future__ import annotations

from typing import Final

from lamina.data.fables.schema import ArticleKind, Naming, Relation
from lamina.data.fables.values import FreshValues, count, languages, person, pick, town, year


def _naming(source: FreshValues) -> Naming:
    form = source.rng.choice(("The {} {}", "Under the {} {}", "Beyond the {} {}", "Letters from the {} {}"))
    colours, emblems = source.lexicon.colours, source.lexicon.emblems
    name = source.fresh(lambda: form.format(source.fresh_of(colours), source.fresh_of(emblems)))
    return Naming(name, name, source.rng.choice(("the book", "the work", "the volume")))


BOOKS: Final = ArticleKind(
    "books",
    _naming,
    relations=(
        Relation(
            "author",
            person,
            say=(
                "{s} came from the pen of {v}.",
                "{v} composed {o} in a cold attic.",
                "Every line of {o} is by {v}.",
                "{v} dreamed up {o} during a long illness.",
            ),
            say_dev=("{v} put {o} on paper over eleven winters.", "The words of {o} are those of {v}."),
            ask=(
                "Who wrote {n}?",
                "Who is the author of {n}?",
                "By whom was {n} written?",
                "Which writer created {n}?",
            ),
            ask_dev=("Who authored {n}?", "What is the name of the writer of {n}?", "Which author wrote {n}?"),
            opposite="wrong_author",
            contrast="negation",
        ),
        Relation(
            "wrong_author",
            person,
            say=(
                "{v} falsely claimed the credit for {o}.",
                "For a century {s} was wrongly credited to {v}.",
                "Careless librarians put the name of {v} on {o}, which was a mistake.",
                "{s} is sometimes said to be by {v}, but that is untrue.",
            ),
            say_dev=("{s} was long ascribed to {v} in error.", "{v} pretended to have produced {o}."),
            ask=(
                "Who did not write {n} despite what people said?",
                "Who was mistakenly believed to be the author of {n}?",
                "To whom was {n} incorrectly attributed?",
                "Who is not the real author of {n}?",
            ),
            ask_dev=(
                "Who was wrongly thought to have written {n}?",
                "To which person was {n} attributed by mistake?",
                "Who is not the true author of {n}?",
            ),
            opposite="author",
            contrast="negation",
        ),
        Relation(
            "published",
            year(20, 35),
            say=(
                "{s} left the press in {v}.",
                "The first copies of {o} reached the shops in {v}.",
                "Readers could buy {o} from {v} onward.",
                "{s} was printed in {v} on grey paper.",
            ),
            say_dev=("{s} went on sale in {v}.", "Booksellers first stocked {o} in {v}."),
            ask=(
                "When was {n} published?",
                "In what year did {n} appear?",
                "What is the publication year of {n}?",
                "When did {n} come out?",
            ),
            ask_dev=("In which year was {n} published?", "What year did {n} come out?", "When did {n} first appear?"),
            opposite="banned_book",
        ),
        Relation(
            "printer",
            person,
            say=(
                "The press that turned out {o} belonged to {v}.",
                "{v} set {o} in type with great care.",
                "{v} ran off the sheets of {o} in a damp cellar.",
                "The ink and paper for {o} were supplied by {v}, who also worked the press.",
            ),
            say_dev=(
                "{v} pulled the sheets of {o} from the press.",
                "The typesetting of {o} was done by {v}.",
            ),
            ask=(
                "Who printed {n}?",
                "Who was the printer of {n}?",
                "By whom was {n} printed?",
                "Which printer produced {n}?",
            ),
            ask_dev=("Which person printed {n}?", "What is the name of the printer of {n}?", "Which printer made {n}?"),
            detail_of="published",
        ),
        Relation(
            "banned_book",
            year(36, 80),
            say=(
                "All copies of {o} were seized by the censors in {v}.",
                "In {v} the bishop put {o} on the list of wicked reading.",
                "From {v} onward nobody was allowed to own {o}.",
                "{s} was burned in the square in {v} by order of the court.",
            ),
            say_dev=("The authorities outlawed {o} in {v}.", "In {v} the censors took {o} out of every library."),
            ask=(
                "When was {n} banned?",
                "In what year was {n} forbidden?",
                "What is the year of the ban on {n}?",
                "When was {n} suppressed?",
            ),
            ask_dev=(
                "In which year was {n} banned?",
                "What year was {n} suppressed?",
                "When did {n} become forbidden?",
            ),
            opposite="published",
        ),
        Relation(
            "pages",
            count(64, 980, "pages"),
            say=(
                "{s} runs to {v}.",
                "The full text of {o} covers {v}.",
                "{s} weighs as much as a cat and has {v}.",
                "Patient readers must turn {v} before they are done with {o}.",
            ),
            say_dev=("{s} takes up {v} of small print.", "One needs a week for the {v} of {o}."),
            ask=(
                "How long is {n}?",
                "How many pages does {n} have?",
                "What is the page count of {n}?",
                "What is the length of {n}?",
            ),
            ask_dev=(
                "How many pages are there in {n}?",
                "How many pages long is {n}?",
                "What number of pages does {n} contain?",
            ),
        ),
        Relation(
            "topic",
            pick(
                "bee stings",
                "the habits of owls",
                "the art of baking",
                "forgotten saints",
                "unlucky marriages",
                "winter stars",
                "poisonous herbs",
                "the care of wigs",
                "talking animals",
                "the language of bells",
                "shipwrecks",
            ),
            say=(
                "{s} deals with {v}.",
                "{s} tells the reader all there is to know about {v}.",
                "Thoughts on {v} fill every chapter of {o}.",
                "Whoever wonders about {v} should turn to {o}.",
            ),
            say_dev=("{s} is devoted to {v}.", "Chapter after chapter {s} discusses {v}."),
            ask=(
                "What is {n} about?",
                "What is the subject of {n}?",
                "Which topic does {n} treat?",
                "What is the theme of {n}?",
            ),
            ask_dev=("What subject is {n} about?", "What is the topic of {n}?", "Which theme does {n} have?"),
        ),
        Relation(
            "written_in",
            town,
            say=(
                "The manuscript of {o} was completed by candlelight in {v}.",
                "Each chapter of {o} took shape at a kitchen table in {v}.",
                "A rented room in {v} saw the making of {o}.",
                "Work on {o} went on for years in {v}.",
            ),
            say_dev=(
                "The quill that produced {o} scratched away in {v}.",
                "{s} grew page by page in a garden house at {v}.",
            ),
            ask=(
                "Where was {n} written?",
                "In which town was {n} written?",
                "What is the place where {n} was written?",
                "At what place was {n} composed?",
            ),
            ask_dev=(
                "What town was {n} written in?",
                "In what place was {n} composed?",
                "Where did the writing of {n} take place?",
            ),
        ),
        Relation(
            "dedicated",
            person,
            say=(
                "The opening leaf of {o} is addressed with thanks to {v}.",
                "{s} was offered as a gift to {v}.",
                "A verse to {v} stands at the front of {o}.",
                "{s} was meant as a tribute to {v}.",
            ),
            say_dev=(
                "{s} opens with warm thanks to {v}.",
                "In front of the first chapter {s} greets {v} with gratitude.",
            ),
            ask=(
                "To whom is {n} dedicated?",
                "Who is the dedicatee of {n}?",
                "Whom is the dedication of {n} to?",
                "Which person was {n} dedicated to?",
            ),
            ask_dev=(
                "Who was {n} dedicated to?",
                "Whom does the dedication of {n} name?",
                "Who receives the dedication of {n}?",
            ),
        ),
        Relation(
            "translated",
            languages,
            say=(
                "Scholars have rendered {o} into {v}.",
                "{s} can also be read in {v}.",
                "There are editions of {o} in {v}.",
                "Abroad {s} is known in {v}.",
            ),
            say_dev=("Foreign readers enjoy {o} in {v}.", "Versions of {o} exist in {v}."),
            ask=(
                "Into which languages was {n} translated?",
                "What languages has {n} been translated into?",
                "In which other languages is {n} available?",
                "Which translations of {n} are there?",
            ),
            ask_dev=(
                "Which languages was {n} translated into?",
                "What translations does {n} have?",
                "Into what languages has {n} been translated?",
            ),
        ),
        Relation(
            "price",
            count(2, 48, "shillings"),
            say=(
                "A bound copy of {o} changed hands for {v}.",
                "Booksellers asked {v} for {o}.",
                "Students saved up {v} to own {o}.",
                "Nobody could have {o} for less than {v}.",
            ),
            say_dev=("Collectors parted with {v} for {o}.", "Shops sold {o} at {v}."),
            ask=(
                "How much did {n} cost?",
                "What was the price of {n}?",
                "How expensive was {n}?",
                "What did one have to pay for {n}?",
            ),
            ask_dev=(
                "What did {n} cost?",
                "How much money did people pay for {n}?",
                "At what price could one buy {n}?",
            ),
        ),
    ),
    intros=(
        "{s} is a book that everybody praises and few have finished.",
        "Librarians keep {s} on the highest shelf.",
        "{s} changed the taste of a whole generation.",
    ),
    intros_dev=("{s} is the sort of book that falls open at the same page.", "Critics have never agreed about {s}."),
    links=(
        "A reply to {o} soon followed under the title {d}.",
        "On the same shelf stands {d}.",
        "{s} is often bound together with {d}.",
    ),
    links_dev=("Admirers of {o} also recommend {d}.", "A less famous companion is {d}."),
    asides=(
        "The woodcuts in {o} are remarkably ugly.",
        "Most surviving copies of {o} have coffee stains.",
        "A spelling mistake in {o} has become proverbial.",
    ),
    asides_dev=("The index of {o} is said to be the best part.", "Children drew moustaches on the pictures in {o}."),
)
