"""The language of a text, by its script and its most frequent function words.

The script comes first: Hangul is Korean, kana is Japanese. Function words such as "the" and "und" distinguish texts in
Latin letters. Other scripts serve several languages, so their name stands for the language. Texts with few words, or
without a clear winner, have no language. Only the beginning of a text is read, so the cost does not depend on its length.
"""

from __future__ import annotations

import random
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import Final

from lamina.data.tokenizer import script

CHARACTERS: Final = 4000  # of a text that are read
_FEWEST: Final = 4  # words of a text with a language
_SHORT: Final = 12  # with fewer words, all function words must be of one language
_DIFFERENT: Final = 4  # function words of a text that is not short; SQL repeats "from", "where" and "by"
_SHARE: Final = 0.15  # of function words in a text; 0.2 to 0.45 in running text
_SHARE_OF_SHORT: Final = 0.25
_CLEAR: Final = 2  # times the function words of another language
_MOST_TEXTS: Final = 200  # that tell the language of training data
_COMMON: Final = 0.8  # share of training texts in one language

NAMES: Final = {
    "en": "English", "de": "German", "nl": "Dutch", "sv": "Swedish", "da": "Danish", "no": "Norwegian", "fr": "French",
    "es": "Spanish", "pt": "Portuguese", "it": "Italian", "ro": "Romanian", "pl": "Polish", "cs": "Czech", "fi": "Finnish",
    "hu": "Hungarian", "tr": "Turkish", "id": "Indonesian", "vi": "Vietnamese", "ko": "Korean", "ja": "Japanese",
    "zh": "Chinese", "el": "Greek", "he": "Hebrew", "th": "Thai", "ka": "Georgian", "hy": "Armenian",
}  # fmt: skip

# Function words by language. No word is left in two lists if one of them is English: "in", "is" and "was" are Dutch too.
_WORDS: Final = {
    "en": """the of and to that it with by his her are from this be which or were had have has not but its their they she who
        been would will when what where how why did does there than other can into you whose whom these those after only""",
    "de": """der die und das den von zu mit sich des auf für ist im dem nicht ein eine es werden aus sie nach wird bei einer um
        wurde einen oder haben zum zur durch sind wer wie wann wo""",
    "nl": """de het een van en dat die met te op voor zijn niet aan er om ook als uit naar bij werd maar ze wordt hij deze dit
        kunnen tot wie wat waar wanneer hoe""",
    "sv": """och att det som en på är av för med till den inte om ett var från de sig vid efter han hade även
        vem när hur vad""",
    "da": """og det som en på er af til med den ikke et blev fra de der også han var efter ved blandt hvem hvornår hvad hvor""",
    "no": """og det som en på er av til med den ikke et ble fra de også han var etter ved seg ble hvem når hva hvor""",
    "fr": """le la les et des en un une du est que pour qui dans par sur au avec il ce ne pas se sont aux cette été ou mais elle
        ses sa leur de où quand quel quelle comment""",
    "es": """de la que el en y los se del las un por con una su para es al lo como más pero sus fue este ya entre ha sin sobre
        también era quién cuándo dónde qué cómo cuál""",
    "pt": """de que e o da em um para é não uma os se na por mais dos ao das à seu sua ou nos já pela pelo foi são também entre
        era quem quando onde qual""",
    "it": """di e il la che è un del una le con non si da al dei sono alla delle più nel anche della gli lo ha dal questo essere
        stato fu ma era chi quando dove quale""",
    "ro": """de și în la cu pe este din care nu că pentru sau fost mai lui prin după unui unei cel cea dar când unde cine""",
    "pl": """w z na się nie jest że przez od po dla oraz które który która ale był była są jak tego kto kiedy gdzie""",
    "cs": """v na se je že s z ve který která které jako byl byla pro po od jsou také nebo podle aby kdo kdy kde""",
    "fi": """ja oli että se ei hän mutta joka kun ovat myös sekä tai kuin jos sen olivat hänen vuonna mukaan
        kuka milloin missä""",
    "hu": """az és hogy nem egy volt ez meg csak mint még már vagy azt után lett ki mikor hol""",
    "tr": """ve bir bu için ile olarak çok daha gibi olan sonra kadar ancak ise değil da de kim zaman nerede""",
    "id": """yang dan di dari untuk dengan dalam pada ini itu adalah tidak oleh akan juga ke atau ia siapa kapan mana""",
    "vi": """và của là các được có trong cho một những với không người này từ đã ở vào ai khi đâu""",
}
_STOP_WORDS: Final = {code: frozenset(words.split()) for code, words in _WORDS.items()}
_BY_SCRIPT: Final = {
    "HANGUL": "ko", "HIRAGANA": "ja", "KATAKANA": "ja", "CJK": "zh", "GREEK": "el", "HEBREW": "he", "THAI": "th",
    "GEORGIAN": "ka", "ARMENIAN": "hy",
}  # fmt: skip
_WORD: Final = re.compile(r"[^\W\d_]+")


def language_of(text: str) -> str | None:
    """Return the language of a text: a code such as "en", or the name of a script such as "cyrillic"; None if unclear.

    >>> language_of("The mill at the river was built by a guild."), language_of("서울은 한국의 수도이다."), language_of("x = 7")
    ('en', 'ko', None)
    """
    return _clear_language(_beginning(text), None)


def other_language(text: str, own: str) -> str | None:
    """Return the language of a text if it is clearly not `own`, else None.

    >>> other_language("Le moulin est sur la rive et il est dans un parc.", "en"), other_language("La Scala in Milan.", "en")
    ('fr', None)
    """
    found = _clear_language(_beginning(text), own)
    return None if found == own else found


def common_language(texts: Sequence[str]) -> str | None:
    """Return the language of most texts; None if they have several, or if most have no clear one. Some texts tell it."""
    some = texts if len(texts) <= _MOST_TEXTS else random.Random(0).sample(texts, _MOST_TEXTS)
    found = [language_of(text) for text in some]
    counts = Counter(found)
    language = counts.most_common(1)[0][0] if counts else None
    return language if counts[language] >= _COMMON * len(found) else None


def script_of(text: str) -> str:
    """Return the script of more than half of a text's letters, as `lamina.data.tokenizer.script` names it; "" for none."""
    letters: Counter[str] = Counter()
    for letter, count in Counter(_beginning(text)).items():
        letters[script(letter)] += count
    del letters[""]
    if letters["CJK"] and (kana := letters["HIRAGANA"] + letters["KATAKANA"]):  # Japanese mixes three scripts
        letters["HIRAGANA"], letters["KATAKANA"], letters["CJK"] = kana + letters["CJK"], 0, 0
    name, count = letters.most_common(1)[0] if letters else ("", 0)
    return name if count > letters.total() / 2 else ""


def language_name(language: str) -> str:
    """Return a language for messages.

    >>> language_name("fr"), language_name("cyrillic")
    ('French', 'a language in the Cyrillic script')
    """
    return NAMES.get(language) or f"a language in the {language.capitalize()} script"


def _beginning(text: str) -> str:
    return unicodedata.normalize("NFC", text[:CHARACTERS])


def _clear_language(text: str, own: str | None) -> str | None:
    name = script_of(text)
    if name and name != "LATIN":
        enough = sum(map(str.isalpha, text)) >= _FEWEST
        return _BY_SCRIPT.get(name, name.lower()) if enough else None
    return _by_words(_WORD.findall(text.lower()), own)


def _by_words(words: list[str], own: str | None) -> str | None:
    """Return the language with the most function words, if it is clear. With `own`, only that one competes with it."""
    counts = Counter(words)
    hits = Counter({code: sum(counts[word] for word in stop) for code, stop in _STOP_WORDS.items()})
    (best, most), (_, second) = hits.most_common(2)
    rival = second if own is None else hits[own] if best != own else 0
    if len(words) < _SHORT:
        clear = most >= 2 and most >= _SHARE_OF_SHORT * len(words) and (rival == 0 if own else rival < most)
    else:
        different = len(_STOP_WORDS[best] & counts.keys())
        clear = different >= _DIFFERENT and most >= _SHARE * len(words) and (most >= _CLEAR * rival if own else rival < most)
    return best if clear and len(words) >= _FEWEST else None
