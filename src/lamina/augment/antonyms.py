"""Words and their opposites: our own list of words that occur in questions about texts.

Commas separate pairs of words. Each form of a verb or an adjective has its own pair. A word may have several opposites.
"""

from __future__ import annotations

from typing import Final

_PAIRS: Final = """
large small, larger smaller, largest smallest, big little, bigger smaller, biggest smallest, huge tiny, long short
longer shorter, longest shortest, tall short, taller shorter, tallest shortest, high low, higher lower, highest lowest
highly barely, deep shallow, deeper shallower, deepest shallowest, wide narrow, wider narrower, widest narrowest
broad narrow, thick thin, thicker thinner, thickest thinnest, heavy light, heavier lighter, heaviest lightest
strong weak, stronger weaker, strongest weakest, strength weakness, hard soft, harder softer, fast slow, faster slower
fastest slowest, quick slow, quickly slowly, rapid gradual, rapidly gradually, early late, earlier later
earliest latest, old new, older newer, oldest newest, young old, younger older, youngest oldest, ancient modern
hot cold, hotter colder, hottest coldest, warm cool, warmer cooler, warmest coolest, wet dry, wetter drier
wettest driest, bright dark, brighter darker, brightest darkest, light dark, black white, full empty, rich poor
richer poorer, richest poorest, wealthy poor, wealth poverty, expensive cheap, good bad, better worse, best worst
positive negative, true false, correct incorrect, easy difficult, easier harder, easiest hardest, simple complex
simplest most-complex, safe dangerous, clean dirty, clear unclear, open closed, public private, national international
domestic foreign, local global, internal external, inner outer, inside outside, upper lower, top bottom
left right, eastern western, northern southern, east west, north south, northeast southwest, northwest southeast
northernmost southernmost, easternmost westernmost, urban rural, central remote, near far, nearest farthest
nearby distant, closest farthest, close distant, first last, initial final, initially finally, original later
original final, primary secondary, major minor, majority minority, main lesser, main secondary, common rare
commonly rarely, most least, more less, more fewer, many few, greater lesser, greater smaller, greatest least
greatest smallest, maximum minimum, maximal minimal, always never, often rarely, frequently seldom, usually seldom
frequent infrequent, usual unusual, normal abnormal, typical unusual, typically rarely, general specific
generally rarely, popular unpopular, famous unknown, important unimportant, significant insignificant
essential unnecessary, necessary unnecessary, useful useless, effective ineffective, efficient inefficient
successful unsuccessful, successfully unsuccessfully, success failure, possible impossible, likely unlikely
able unable, legal illegal, lawful unlawful, official unofficial, officially unofficially, formal informal
formally informally, direct indirect, directly indirectly, active inactive, active passive, natural artificial
real fake, permanent temporary, constant variable, stable unstable, regular irregular, equal unequal
similar different, similar dissimilar, same different, identical different, dependent independent, complete incomplete
completely partially, fully partly, whole partial, perfect imperfect, exact approximate, visible invisible
living dead, alive dead, healthy sick, male female, men women, man woman, boys girls, boy girl, husband wife
father mother, son daughter, sons daughters, brother sister, brothers sisters, uncle aunt, king queen, prince princess
nephew niece, grandfather grandmother, parents children, parent child, teacher student, teachers students
employer employee, employers employees, buyer seller, buyers sellers, producer consumer, producers consumers
predator prey, predators prey, winner loser, winners losers, ally enemy, allies enemies, friend enemy, friends enemies
supporter opponent, supporters opponents, victory defeat, victories defeats, peace war, profit loss, profits losses
gain loss, gains losses, income expense, import export, imports exports, imported exported, advantage disadvantage
advantages disadvantages, benefit harm, benefits drawbacks, increase decrease, increases decreases
increased decreased, increasing decreasing, rise fall, rises falls, rose fell, rising falling, raise lower
raises lowers, raised lowered, raising lowering, grow shrink, grows shrinks, grew shrank, growing shrinking
growth decline, expand contract, expands contracts, expanded contracted, expansion contraction, strengthen weaken
strengthened weakened, improve worsen, improves worsens, improved worsened, add remove, adds removes, added removed
adding removing, include exclude, includes excludes, included excluded, including excluding, inclusion exclusion
join leave, joins leaves, joined left, joining leaving, enter leave, enters leaves, entered left, arrive depart
arrives departs, arrived departed, arrival departure, begin end, begins ends, began ended, begun ended, beginning end
start end, starts ends, started ended, starting ending, start finish, opened closed, opening closing, create destroy
creates destroys, created destroyed, creating destroying, creation destruction, build demolish, builds demolishes
built demolished, constructed demolished, construction demolition, establish abolish, established abolished
establishing abolishing, founded dissolved, formed dissolved, introduce remove
introduced removed, introduction removal, launched cancelled, win lose, wins loses, won lost, winning losing
succeed fail, succeeds fails, succeeded failed, pass fail, passed failed, accept reject, accepts rejects
accepted rejected, accepting rejecting, acceptance rejection, approve reject, approved rejected, approval rejection
allow forbid, allows forbids, allowed forbidden, allowing forbidding, permit prohibit, permits prohibits
permitted prohibited, legalized banned, ban permit, banned permitted, agree disagree, agrees disagrees
agreed disagreed, agreement disagreement, support oppose, supports opposes, supported opposed, supporting opposing
favor oppose, favored opposed, encourage discourage, encourages discourages, encouraged discouraged, help hinder
helps hinders, helped hindered, attack defend, attacks defends, attacked defended, attacking defending
protect endanger, protects endangers, protected endangered, rescue abandon, rescued abandoned, praise criticize
praised criticized, praising criticizing, praise criticism, love hate, loves hates, loved hated, liked disliked
buy sell, buys sells, bought sold, buying selling, purchase sell, purchased sold
send receive, sends receives, sent received, sending receiving, lend borrow, lent borrowed
earn spend, earns spends, earned spent, save waste, saved wasted, teach learn, teaches learns, taught learned
teaching learning, remember forget, remembered forgot, remembered forgotten, find lose, finds loses, found lost
discovered concealed, reveal conceal, reveals conceals, revealed concealed, showed hid, shown hidden, appear disappear
appears disappears, appeared disappeared, appearance disappearance, born died, birth death, births deaths, live die
lived died, survive perish, survived perished, wake sleep, moves stays, moved stayed, moving staying, push pull
pushes pulls, pushed pulled, lift drop, lifted dropped, connect separate, connects separates, connected separated
connecting separating, unite divide, unify divide, combine separate, combined separated, merge split, merged split
attach detach, attached detached, fill empty, filled emptied, lock unlock, locked unlocked, load unload
employ dismiss, employs dismisses, employed dismissed, hire fire, hired fired, hiring firing, appoint dismiss
appointed dismissed, elected removed, promote demote, promoted demoted, promotion demotion, reward punish
rewards punishes, rewarded punished, guilty innocent, convicted acquitted, arrested released, captured released
imprisoned freed, invade defend, invaded defended, conquered lost, advance retreat, advanced retreated
advancing retreating, surrender resist, surrendered resisted, obey disobey, obeyed disobeyed, trust distrust
trusted distrusted, admit deny, admits denies, admitted denied, confirm deny, confirmed denied, claim deny
claimed denied, affirm deny, believe doubt, believes doubts, believed doubted, prove disprove, proved disproved
proven disproven, caused prevented, causing preventing, cause effect, causes effects, continue stop, continues stops
continued stopped, continuing stopping, maintain abandon, maintains abandons, maintained abandoned, keeps discards
kept discarded, adopt abandon, adopted abandoned, adoption abandonment, require forbid, requires forbids
required forbidden, before after, prior subsequent, previous next, previously subsequently, preceded followed
preceding following, precede follow, precedes follows, predecessor successor, former current, formerly currently
past future, presence absence, above below, upstream downstream, upward downward, forward backward, ahead behind
indoor outdoor, offshore onshore, inland coastal, ascending descending, ascend descend, vertical horizontal
parallel perpendicular, clockwise counterclockwise, day night, daytime nighttime, morning evening, sunrise sunset
dawn dusk, summer winter, spring autumn, liberal conservative, progressive conservative, democratic undemocratic
religious secular, sacred profane, civilian military, professional amateur, voluntary compulsory, optional mandatory
required optional, rational irrational, solid liquid, acidic alkaline, organic inorganic, metallic nonmetallic
toxic harmless, harmful harmless, fertile barren, flexible rigid, smooth rough, sharp blunt, loud quiet, fresh stale
raw cooked, sweet bitter, tight loose, transparent opaque, static dynamic, finite infinite, single multiple
singular plural, individual collective, alone together, unique common, abundant scarce, dense sparse, densest sparsest
crowded deserted, busy quiet, brave cowardly, honest dishonest, polite rude, patient impatient, happy unhappy
optimistic pessimistic, friendly hostile, loyal disloyal, peaceful violent, generous selfish
responsible irresponsible, aware unaware, conscious unconscious, intentional accidental, intentionally accidentally
deliberate accidental, certain uncertain, certainty uncertainty, literate illiterate, educated uneducated
skilled unskilled, experienced inexperienced, mature immature, adult juvenile, adults juveniles, senior junior
superior inferior, dominant subordinate, dominant recessive, absolute relative, objective subjective
theoretical practical, abstract concrete, explicit implicit, literal figurative, fictional real, mythical real
comedy tragedy, hero villain, protagonist antagonist, supply demand, debt credit, assets liabilities, surplus deficit
revenue expenditure, revenues expenditures, inflation deflation, boom recession, upload download, online offline
wireless wired, digital analog, input output, hardware software, encrypt decrypt, compress decompress
compressed uncompressed, asleep awake, inhale exhale, convex concave, dissolve precipitate, freeze melt, freezes melts
froze melted, freezing melting, evaporate condense, evaporation condensation, heat cool, heated cooled
heating cooling, absorb emit, absorbs emits, absorbed emitted, attract repel, attracts repels, attracted repelled
accelerate decelerate, accelerated slowed, extend shorten, extended shortened, lengthen shorten, enlarge reduce
enlarged reduced, boost reduce, boosted reduced, gain lose, gains loses, gained lost, gaining losing, reduce increase
reduces increases, reduced increased, reducing increasing, decline rise, declined rose, declined increased, drop rise
dropped rose, simplify complicate, simplified complicated, emphasize downplay, emphasized downplayed
underestimate overestimate, underestimated overestimated, wartime peacetime, prewar postwar, victor vanquished
offense defense, offensive defensive, immigrate emigrate, immigrants emigrants, immigration emigration
eldest youngest, elder younger, ending beginning
"""


def _opposites() -> dict[str, tuple[str, ...]]:
    """Return the opposites of every word, in both directions and in the order of the list. A hyphen becomes a space."""
    found: dict[str, dict[str, None]] = {}
    for pair in _PAIRS.replace("\n", ",").split(","):
        if pair.strip():
            one, other = (word.replace("-", " ") for word in pair.split())
            found.setdefault(one, {})[other] = None
            if " " not in other:
                found.setdefault(other, {})[one] = None
    return {word: tuple(others) for word, others in found.items()}


ANTONYMS: Final = _opposites()
