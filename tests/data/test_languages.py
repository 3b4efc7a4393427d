"""The language of a text: texts of our own in many languages, and English texts that must give no false alarm."""

from __future__ import annotations

import time
import unicodedata
from pathlib import Path

import pytest

from lamina.data.languages import common_language, language_name, language_of, other_language, script_of
from lamina.data.sources import load_examples

TEXTS = {
    "de": "Die alte Mühle am Fluss wurde im Jahr 1712 von einer Gilde gebaut. Heute ist sie ein Museum, das von der Stadt und "
    "den Bürgern erhalten wird. Im Sommer kommen viele Gäste aus dem Ausland, um sich die Räder anzusehen.",
    "fr": "Le vieux moulin près de la rivière a été construit en 1712 par une guilde. Il est aujourd'hui un "
    "musée que la ville et "
    "les habitants entretiennent. En été, des visiteurs viennent de loin pour voir les roues qui tournent dans l'eau.",
    "es": "El viejo molino junto al río fue construido en 1712 por un gremio. Hoy es un museo que la ciudad y "
    "los vecinos cuidan. "
    "En verano llegan visitantes de otros países para ver las ruedas que giran en el agua.",
    "pt": "O velho moinho junto ao rio foi construído em 1712 por uma guilda. Hoje é um museu que a cidade e os "
    "moradores mantêm. "
    "No verão chegam visitantes de outros países para ver as rodas que giram na água, mas não há hotel.",
    "it": "Il vecchio mulino sulla riva del fiume fu costruito nel 1712 da una corporazione. Oggi è un museo "
    "che la città e gli "
    "abitanti curano. In estate arrivano visitatori da altri paesi per vedere le ruote che girano nell'acqua.",
    "nl": "De oude molen aan de rivier werd in 1712 door een gilde gebouwd. Nu is het een museum dat de stad en de bewoners "
    "onderhouden. In de zomer komen er veel bezoekers uit het buitenland om de raderen te zien.",
    "sv": "Den gamla kvarnen vid floden byggdes år 1712 av ett gille. I dag är det ett museum som staden och "
    "invånarna tar hand "
    "om. På sommaren kommer många besökare från andra länder för att se hjulen.",
    "pl": "Stary młyn nad rzeką został zbudowany w 1712 roku przez cech. Dziś jest to muzeum, które utrzymują miasto oraz "
    "mieszkańcy. Latem przyjeżdżają goście z zagranicy, aby zobaczyć koła, ale nie ma tu hotelu, który jest w mieście.",
    "tr": "Nehrin kıyısındaki eski değirmen 1712 yılında bir lonca tarafından yapıldı. Bugün şehir ve halk için "
    "bir müze olarak "
    "açık. Yazın başka ülkelerden çok ziyaretçi gelir ve bu çarkları görür, ancak otel için daha çok zaman gerek.",
    "vi": "Cối xay cũ bên sông được một phường hội xây vào năm 1712. Ngày nay nó là một bảo tàng của thành phố và người dân. "
    "Vào mùa hè, những du khách từ các nước khác đến đây để xem bánh xe trong nước.",
    "id": "Kincir tua di tepi sungai itu dibangun oleh serikat pekerja pada tahun 1712. Kini tempat itu adalah museum yang "
    "dirawat oleh kota dan warga. Pada musim panas banyak tamu datang dari negeri lain untuk melihat roda itu.",
    "ko": "강가의 오래된 물레방아는 1712년에 한 조합이 지었다. 지금은 시와 주민이 함께 돌보는 박물관이다.",
    "ja": "川のそばの古い水車は1712年に組合によって建てられた。今は町と住民が守る博物館である。",
    "zh": "河边的老磨坊是一七一二年由行会建造的。如今它是一座博物馆。",
    "cyrillic": "Старая мельница у реки была построена гильдией в 1712 году. Сегодня это музей.",
}
ENGLISH = {
    "names": "Jean de La Fontaine met Gabriel García Márquez, Ludwig van Beethoven and Vincent van Gogh at the "
    "Café de la Paix. The "
    "Rue de la Paix leads to the Place Vendôme, and the Musée du Louvre is not far from there.",
    "quotes": 'The motto of the guild was "L\'union fait la force et le travail est la joie de la vie". It was carved into the '
    "gate by a mason who had learned it from his father. The people of the town still say it.",
    "plain": "The old mill at the river was built by a guild in 1712. It is now a museum that the town and its people keep.",
    "headlines": "Mayor Opens New Bridge. School Wins Prize. Storm Closes Road. Guild Hires Ten Millers.",
}
NEITHER = {
    "code": "def total(rows):\n    return sum(row.price * row.count for row in rows if row.open)\n\nimport "
    "os\nprint(os.getcwd())\n" * 5,
    "sql": "SELECT id, name FROM users WHERE age > 30 ORDER BY name LIMIT 10;" * 3,
    "numbers": "1998 12.5 33.1\n1999 14.0 31.9\n2000 15.5 30.2\n" * 50,
    "short": "La Paz",
    "names only": "Karim Benzema, Zinedine Zidane, Luka Modrić, Toni Kroos, Sergio Ramos, Marcelo, Pepe, Raúl, "
    "Iker Casillas, Xabi Alonso",
    "empty": "",
    "symbols": "+++ --- === ???",
}


@pytest.mark.parametrize("code", TEXTS)
def test_languages_are_found(code: str) -> None:
    assert language_of(TEXTS[code]) == other_language(TEXTS[code], "en") == code
    assert other_language(TEXTS[code], code) is None
    first = TEXTS[code].split(". ")[0]
    assert other_language(first, "en") in (code, None), "a sentence is clear or unclear, not wrong"


@pytest.mark.parametrize("kind", ENGLISH)
def test_english_is_no_other_language(kind: str) -> None:
    assert other_language(ENGLISH[kind], "en") is None
    assert language_of(ENGLISH[kind]) in ("en", None)


@pytest.mark.parametrize("kind", NEITHER)
@pytest.mark.parametrize("own", ["en", "ko", "de"])
def test_code_tables_and_short_texts_have_no_language(kind: str, own: str) -> None:
    assert other_language(NEITHER[kind], own) is None


@pytest.mark.parametrize(
    ("question", "code"),
    [
        ("Qui a construit le moulin de la ville ?", "fr"),
        ("Wann wurde die Mühle von der Gilde gebaut?", "de"),
        ("¿Cuándo fue construido el molino?", "es"),
        ("누가 물레방아를 지었는가?", "ko"),
        ("Who built the mill?", None),
        ("Who directed La Casa de Papel?", None),
        ("What is the Rue de la Paix?", None),
        ("mill?", None),
    ],
)
def test_questions(question: str, code: str | None) -> None:
    assert other_language(question, "en") == code


def test_english_is_another_language_for_korean() -> None:
    assert other_language(ENGLISH["plain"], "ko") == "en"
    assert other_language(TEXTS["ko"] + " (The Old Mill, a museum of the town)", "ko") is None


def test_decomposed_letters_count_as_composed_ones() -> None:
    assert language_of(unicodedata.normalize("NFD", TEXTS["vi"])) == "vi"
    assert script_of(unicodedata.normalize("NFD", TEXTS["ko"])) == "HANGUL"


def test_common_language() -> None:

    assert common_language([ENGLISH["plain"]] * 9 + [TEXTS["fr"]]) == "en"
    assert common_language([ENGLISH["plain"], TEXTS["ko"]] * 300) is None
    assert common_language([ENGLISH["plain"]] * 300 + [TEXTS["ko"]] * 300) is None, "not only the first texts count"
    assert common_language([]) is None


def test_the_bundled_corpus_is_english() -> None:
    contexts = list(dict.fromkeys(example.context for example in load_examples("fables/dev")))
    assert common_language(contexts) == "en"
    assert all(other_language(context, "en") is None for context in contexts)


def test_real_texts_give_no_false_alarm(shared: Path) -> None:
    for name, own in (("squad2-dev-cs224n", "en"), ("korquad-v1.0-dev", "ko")):
        contexts = list(dict.fromkeys(example.context for example in load_examples(str(shared / f"data/{name}.json.xz"))))
        assert common_language(contexts) == own
        assert sum(other_language(context, own) is not None for context in contexts) <= 0.002 * len(contexts)


def test_only_the_beginning_is_read() -> None:
    start = time.process_time()
    assert language_of(ENGLISH["plain"] + TEXTS["fr"] * 100_000) == "fr"
    assert time.process_time() - start < 0.5


def test_names() -> None:
    assert language_name("vi") == "Vietnamese" and "Cyrillic" in language_name("cyrillic")
