"""Towns."""

from __future__ import annotations

from typing import Final

from lamina.data.fables.schema import ArticleKind, Naming, Relation
from lamina.data.fables.values import FreshValues, count, listing, person, pick, river, town, year


def _naming(source: FreshValues) -> Naming:
    name = source.town()
    return Naming(name, name, source.rng.choice(("the town", "the place", "the settlement")))


TOWNS: Final = ArticleKind(
    "towns",
    _naming,
    relations=(
        Relation(
            "town_founder",
            person,
            say=(
                "{v} drove in the first fence post of {o}.",
                "{s} owes its existence to {v}, a widowed drover.",
                "The earliest houses of {o} were put up by {v}.",
                "{v} laid out the first street of {o} with a plough.",
            ),
            say_dev=(
                "{s} began as a camp pitched by {v}.",
                "It was {v} who drew the first plan of {o} in the sand.",
            ),
            ask=(
                "Who founded {n}?",
                "Who was the founder of {n}?",
                "By whom was {n} founded?",
                "Who established the town of {n}?",
            ),
            ask_dev=("Who was {n}'s founder?", "By whom was {n} established?", "Which person founded the town of {n}?"),
        ),
        Relation(
            "town_founded",
            year(0, 10),
            say=(
                "The earliest houses of {o} went up in {v}.",
                "{p} charter bears the date {v}.",
                "{s} sprang up in {v} around a well.",
                "Nothing but heath was here until {v}, when {s} was laid out.",
            ),
            say_dev=("{s} came into being in {v}.", "The first hearths of {o} were lit in {v}."),
            ask=(
                "When was {n} founded?",
                "In what year was {n} founded?",
                "What is the founding year of {n}?",
                "When was {n} established?",
            ),
            ask_dev=(
                "In which year was {n} established?",
                "What year was {n} founded in?",
                "When did the history of {n} begin?",
            ),
            opposite="town_destroyed",
        ),
        Relation(
            "town_destroyed",
            year(90, 200),
            say=(
                "A great fire left nothing of {o} standing in {v}.",
                "{s} was razed to the ground in {v} and rose again on the same spot.",
                "In {v} an earthquake brought every roof of {o} down.",
                "Raiders burned {o} to ashes in {v}.",
            ),
            say_dev=("{s} lay in ruins by the end of {v}.", "In {v} flames levelled {o} in a single night."),
            ask=(
                "When was {n} destroyed?",
                "In what year was {n} destroyed?",
                "What is the year of the destruction of {n}?",
                "When was {n} laid waste?",
            ),
            ask_dev=(
                "In which year was {n} laid waste?",
                "What year was {n} destroyed in?",
                "When did {n} suffer its destruction?",
            ),
            opposite="town_founded",
        ),
        Relation(
            "population",
            count(400, 9800, "souls", step=50),
            say=(
                "The last census found {v} in {o}.",
                "{s} is home to {v}.",
                "Counting the monks, {s} holds {v}.",
                "Within the walls of {o} dwell {v}.",
            ),
            say_dev=("{s} shelters {v}.", "At the last tally {s} numbered {v}."),
            ask=(
                "How many people live in {n}?",
                "What is the population of {n}?",
                "How many inhabitants does {n} have?",
                "How large is the population of {n}?",
            ),
            ask_dev=(
                "How many inhabitants are there in {n}?",
                "What population does {n} have?",
                "How many residents live in {n}?",
            ),
        ),
        Relation(
            "town_river",
            river,
            say=(
                "{s} lies on {v}.",
                "{v} flows past the gardens of {o}.",
                "{s} draws its water from {v}.",
                "The mills of {o} are turned by {v}.",
            ),
            say_dev=("{v} runs beneath the walls of {o}.", "{s} stretches along {v}."),
            ask=(
                "On which river is {n} situated?",
                "What river runs by {n}?",
                "Which river passes through {n}?",
                "What is the river of {n}?",
            ),
            ask_dev=("Which river is {n} on?", "What river passes by {n}?", "By which river is {n} located?"),
        ),
        Relation(
            "exports",
            listing(2, "cheese", "glass", "wool", "tin", "honey", "barrels", "lace", "slate", "candles", "paper", "cider"),
            say=(
                "{s} sends {v} to every corner of the realm.",
                "Carts leave {o} each morning loaded with {v}.",
                "{s} lives by selling {v} abroad.",
                "{v} made in {o} fetch good prices elsewhere.",
            ),
            say_dev=("{v} travel from {o} to distant markets.", "{s} grew rich by shipping out {v}."),
            ask=(
                "What does {n} export?",
                "Which goods does {n} sell to others?",
                "What are the exports of {n}?",
                "Which products are exported from {n}?",
            ),
            ask_dev=(
                "What goods are exported by {n}?",
                "Which wares does {n} export?",
                "What does {n} sell to other places?",
            ),
            opposite="imports",
        ),
        Relation(
            "imports",
            listing(2, "grain", "salt", "coal", "olives", "timber", "copper", "silk", "hops", "marble", "tar", "pepper"),
            say=(
                "{s} must fetch {v} from elsewhere.",
                "Carts arrive in {o} each evening loaded with {v}.",
                "{s} relies on foreign merchants for {v}.",
                "{v} have to be brought to {o} over the mountains.",
            ),
            say_dev=("{v} reach {o} from distant markets.", "{s} has to bring in {v} from abroad."),
            ask=(
                "What does {n} import?",
                "Which goods does {n} buy from others?",
                "What are the imports of {n}?",
                "Which products are imported into {n}?",
            ),
            ask_dev=(
                "What goods are imported by {n}?",
                "Which wares does {n} import?",
                "What does {n} buy from other places?",
            ),
            opposite="exports",
        ),
        Relation(
            "market_day",
            pick("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"),
            say=(
                "Stalls fill the square of {o} every {v}.",
                "On {v} farmers bring their goods to {o} for sale.",
                "Buyers and sellers meet in {o} each {v}.",
                "{v} is the day when {s} smells of onions and fresh bread from the stalls.",
            ),
            say_dev=("Each {v} pedlars set up their booths in {o}.", "{s} trades in the square every {v}."),
            ask=(
                "On which day is the market of {n} held?",
                "What is the market day of {n}?",
                "On what day does {n} have its market?",
                "Which weekday is market day in {n}?",
            ),
            ask_dev=(
                "On which weekday does {n} hold its market?",
                "What day is market day in {n}?",
                "On what weekday is there a market in {n}?",
            ),
        ),
        Relation(
            "market_hour",
            pick("four o'clock", "five o'clock", "six o'clock", "seven o'clock", "eight o'clock", "nine o'clock"),
            say=(
                "A bell opens the market of {o} at {v}.",
                "Nothing may be sold in the market of {o} before {v}.",
                "At {v} the first stall of {p} market lifts its shutters.",
                "The market crier of {o} starts shouting at {v}.",
            ),
            say_dev=("Trading in the market of {o} starts at {v} sharp.", "{p} market comes to life at {v}."),
            ask=(
                "At what hour does the market of {n} open?",
                "At what time does {n}'s market begin?",
                "What is the opening hour of the market of {n}?",
                "How early does the market in {n} begin?",
            ),
            ask_dev=(
                "At which hour does the market in {n} begin?",
                "What time does the market of {n} open?",
                "At what hour is {n}'s market opened?",
            ),
            detail_of="market_day",
        ),
        Relation(
            "ally",
            town,
            say=(
                "{s} swore friendship to {v} for all time.",
                "A treaty binds {o} to {v}.",
                "In time of war {s} stands shoulder to shoulder with {v}.",
                "{s} joined hands with {v} against the river pirates.",
            ),
            say_dev=(
                "{s} signed a pact of mutual help with {v}.",
                "{s} and {v} are bound by an old oath of friendship.",
            ),
            ask=(
                "With which town is {n} allied?",
                "Which town did {n} form an alliance with?",
                "What is the ally of {n}?",
                "With what town did {n} make an alliance?",
            ),
            ask_dev=(
                "Which town is an ally of {n}?",
                "With which place did {n} enter an alliance?",
                "What town did {n} ally itself with?",
            ),
            opposite="no_ally",
            contrast="negation",
        ),
        Relation(
            "no_ally",
            town,
            say=(
                "{s} turned down every offer of friendship from {v}.",
                "No treaty was ever signed between {o} and {v}.",
                "{s} would have nothing to do with {v}, even in time of war.",
                "Twice {s} sent the envoys of {v} home without a signature.",
            ),
            say_dev=("{s} always declined a pact with {v}.", "{s} tore up the treaty that {v} proposed."),
            ask=(
                "With which town was {n} never allied?",
                "Which town did {n} refuse to form an alliance with?",
                "What town did {n} not want as an ally?",
                "With what town did {n} never make an alliance?",
            ),
            ask_dev=(
                "Which town was never an ally of {n}?",
                "With which place did {n} refuse to enter an alliance?",
                "What town did {n} not ally itself with?",
            ),
            opposite="ally",
            contrast="negation",
        ),
    ),
    intros=(
        "{s} is a walled town in the hill country, proud of its steep streets.",
        "Travellers who come to {s} seldom mean to stay, and most of them do.",
        "{s} is known all over the province for its crooked chimneys.",
    ),
    intros_dev=(
        "{s} is a small town of narrow lanes and wide opinions.",
        "Seen from the ridge, {s} resembles a spilled box of bricks.",
    ),
    links=(
        "Two hours down the road stands {d}.",
        "{p} oldest rival is {d}.",
        "On the far side of the forest lies {d}.",
    ),
    links_dev=("Half a day to the east one comes to {d}.", "The nearest neighbour is {d}."),
    asides=(
        "The weathercock of {o} has pointed the same way for years.",
        "Every second house in {o} has a green door.",
        "The people of {o} are said to be thrifty and fond of riddles.",
    ),
    asides_dev=(
        "Cats sleep on every windowsill of {o}.",
        "The streets of {o} are so steep that hats roll down them on windy days.",
    ),
)
