"""The page in a real browser: ask, see, correct, improve, compare, and what happens when something goes wrong."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import docx
import pytest
from playwright.sync_api import Browser, FilePayload, Page

import lamina
from lamina.data.examples import Example
from lamina.data.sources import load_examples
from lamina.serving.corrections import Correction, Corrections
from lamina.serving.settings import Limits, Settings
from tests import tiny
from tests.reader.test_documents import pdf
from tests.serving.browser import chromium, opened, violations
from tests.serving.live import Service, running

pytestmark = pytest.mark.xdist_group("browser")  # one browser, for all of these tests

PREFIX = "👩‍👩‍👧 🌊 Cafe\u0301 no\u0308te: \U0001d11e. "  # letters of several code points, code points of two UTF-16 units
Visit = Callable[..., AbstractContextManager[Page]]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def answered(reader: lamina.Reader) -> Example:
    """Return a question that the small model answers, on a text that begins with long letters."""
    for example in load_examples("fables/dev")[:60]:
        changed = replace(example, context=PREFIX + example.context)
        if example.answers and reader.answer(changed.question, changed.context).text:
            return changed
    raise AssertionError("the model answers nothing")


@pytest.fixture(scope="module")
def unanswered(reader: lamina.Reader, answered: Example) -> str:
    """Return a question that the small model does not answer from that text."""
    asked = [example.question for example in load_examples("fables/dev")[60:200]]
    return next(question for question in asked if reader.answer(question, answered.context).text is None)


@pytest.fixture
def visit(browser: Browser, service: Service) -> Visit:
    """Return a function that opens the page of the shared service, with the models loaded."""

    def visit(path: str = "", at: Service = service, **options: Any) -> AbstractContextManager[Page]:
        return opened(browser, at.address + path, **options)

    return visit


def ask(page: Page, text: str | None, *questions: str) -> None:
    """Paste a text, type the questions and ask. Wait for the replies."""
    page.wait_for_selector("html[data-ready=yes]")
    if text is not None:
        if page.locator("#edit").is_visible():
            page.click("#edit")
        page.fill("#paste", text)
    page.fill("#question", "\n".join(questions))
    page.press("#question", "Enter")
    page.wait_for_selector("#answer .card, #answer table")


def marked(page: Page) -> dict[str, Any]:
    """Return the marked text, and the UTF-16 units before it in the whole text."""
    found: dict[str, Any] = page.evaluate(
        """() => {
        const mark = document.querySelector("#reading mark"), range = document.createRange();
        range.selectNodeContents(document.querySelector("#reading"));
        range.setEndBefore(mark);
        const frame = document.querySelector("#reading").getBoundingClientRect(), box = mark.getBoundingClientRect();
        const seen = box.top >= frame.top && box.bottom <= frame.bottom;
        return { text: mark.textContent, before: range.toString().length, seen };
        }"""
    )
    return found


def units(text: str) -> int:
    return len(text.encode("utf-16-le")) // 2


def test_the_answer_is_marked_at_the_right_characters(visit: Visit, reader: lamina.Reader, answered: Example) -> None:
    text = answered.context + "\n\n" + "More 🌊 text without an answer. " * 120
    reply = reader.answer(answered.question, text)
    with visit() as page:
        ask(page, text, answered.question)
        assert page.inner_text("#answer .quoted") == (reply.text or "Not in the text")
        assert f"{round(100 * reply.confidence)}%" in page.inner_text("#answer .sure")
        assert reply.text is not None and reply.start is not None
        assert marked(page) == {"text": reply.text, "before": units(text[: reply.start]), "seen": True}
        assert page.inner_text("#answer .sentence mark") == reply.text
        page.hover(".other >> nth=0")
        near = page.evaluate("() => [...CSS.highlights.get('near')][0].toString()")
        others = [one.text for one in reader.answer(answered.question, text, top_k=12).others]
        assert near == page.inner_text(".other >> nth=0 >> span") and near in others


def test_no_answer_is_an_answer(visit: Visit, reader: lamina.Reader, answered: Example, unanswered: str) -> None:
    with visit() as page:
        ask(page, answered.context, unanswered)
        assert page.inner_text("#answer .quoted") == "Not in the text"
        assert "that the text does not answer it" in page.inner_text("#answer .sure")
        assert page.locator("#reading mark").count() == 0
        assert "nearest" in page.inner_text(".others h3")


def test_files_of_every_kind(visit: Visit, tmp_path: Path) -> None:
    line = "The mill was built by Ada Thorn."
    made = docx.Document()
    made.add_paragraph(line)
    made.save(str(tmp_path / "a.docx"))
    contents = {"a.txt": line.encode(), "b.md": f"# Mill\n\n{line}".encode(), "c.html": f"<p>{line}</p>".encode()}
    for name, content in {**contents, "d.pdf": pdf("A cover.", line)}.items():
        (tmp_path / name).write_bytes(content)
    names = ["a.txt", "b.md", "c.html", "d.pdf", "a.docx"]
    with visit() as page:
        page.set_input_files("#files", [str(tmp_path / name) for name in names])
        page.wait_for_selector(".chip >> nth=4")
        for name in names:
            page.click(f".chip >> text={name}")
            assert line in page.inner_text("#reading")
        page.wait_for_selector("html[data-ready=yes]")
        ask(page, None, "Who built the mill?", "When was it built?")
        assert page.locator("#answer tbody tr").count() == 2
        (tmp_path / "e.pdf").write_bytes(b"%PDF-1.4 broken")
        page.set_input_files("#files", str(tmp_path / "e.pdf"))
        page.wait_for_selector("#notice:not([hidden])")
        assert "e.pdf: the PDF cannot be read" in page.inner_text("#notice")


def test_many_questions_make_a_table_that_downloads(
    visit: Visit, reader: lamina.Reader, answered: Example, unanswered: str
) -> None:
    with visit() as page:
        ask(page, answered.context, answered.question, unanswered)
        with page.expect_download() as download:
            page.click("#csv")
        rows = list(csv.DictReader(io.StringIO(Path(download.value.path()).read_text(encoding="utf-8-sig"))))
        replies = reader.answer([answered.question, unanswered], answered.context)
        assert [(row["question"], row["answer"] or None) for row in rows] == [(one.question, one.text) for one in replies]
        assert answered.context[int(rows[0]["start"]) : int(rows[0]["end"])] == rows[0]["answer"]
        page.click("#answer tbody button >> nth=0")
        assert marked(page)["text"] == replies[0].text


def test_a_dropped_file_is_asked_and_quoted_with_its_place(visit: Visit, answered: Example) -> None:
    with visit(permissions=["clipboard-read", "clipboard-write"]) as page:
        page.wait_for_selector("html[data-ready=yes]")
        page.evaluate(
            """(text) => {
            const files = new DataTransfer();
            files.items.add(new File([`A title\n\n${text}`], "note.txt"));
            files.items.add(new File(["Nothing of it."], "other.md"));
            for (const type of ["dragover", "drop"]) {
              document.querySelector("#paste").dispatchEvent(
                new DragEvent(type, { dataTransfer: files, bubbles: true, cancelable: true }));
            }}""",
            answered.context,
        )
        page.wait_for_selector(".chip >> nth=1")
        ask(page, None, answered.question)
        assert page.locator("#answer .card").get_attribute("data-answer")
        answer, sentence = (page.inner_text(f"#answer {name}") for name in (".quoted", ".sentence"))
        page.click("text=Copy with its place")
        page.wait_for_selector("text=Copied")
        assert page.evaluate("() => navigator.clipboard.readText()") == f"“{answer}” (note.txt, line 3)\n{sentence}"


def test_a_stranger_can_try_an_example(visit: Visit) -> None:
    with visit(viewport={"width": 360, "height": 740}) as page:
        page.wait_for_selector("html[data-ready=yes]")
        page.click("#example")
        page.wait_for_selector("#answer .card")
        assert page.input_value("#question") and "mill" in page.inner_text("#reading")
        page.wait_for_function("() => document.querySelector('#answer .quoted').getBoundingClientRect().top < innerHeight")


def test_why_shows_heat_lines(visit: Visit, answered: Example) -> None:
    with visit() as page:
        ask(page, answered.context, answered.question)
        page.click("text=Why?")
        page.wait_for_selector(".heat")
        assert page.locator(".heat rect").count() > 1
        assert "Where the answer may start" in (page.get_attribute(".heat >> nth=0", "aria-label") or "")


def test_history_survives_a_reload_and_is_forgotten(visit: Visit, answered: Example) -> None:
    with visit() as page:
        ask(page, answered.context, answered.question)
        answer = page.inner_text("#answer .quoted")
        page.reload()
        assert page.input_value("#question") == answered.question
        assert page.inner_text("#past li >> nth=0").split("\n") == [answered.question, answer]
        page.wait_for_selector("html[data-ready=yes]")
        page.click("#past button >> nth=0")
        page.wait_for_selector("#reading mark")
        page.click("#forget")
        page.reload()
        assert page.input_value("#question") == page.input_value("#paste") == ""
        assert page.evaluate("() => localStorage.length") == 0


def test_the_keyboard_is_enough(visit: Visit, answered: Example) -> None:
    with visit() as page:
        page.wait_for_selector("html[data-ready=yes]")
        page.focus("#paste")
        page.keyboard.insert_text(answered.context)
        for _ in range(20):
            page.keyboard.press("Tab")
            if page.evaluate("() => document.activeElement.id") == "question":
                break
        page.keyboard.insert_text(answered.question)
        page.keyboard.press("Enter")
        page.wait_for_selector("#answer .quoted")
        seen = set()
        for _ in range(30):
            page.keyboard.press("Tab")
            seen.add(page.evaluate("() => document.activeElement.textContent"))
            outline = page.evaluate("() => getComputedStyle(document.activeElement).outlineStyle")
            assert outline != "none" or page.evaluate("() => document.activeElement === document.body")
        assert {"Why?", "Right", "Wrong: mark the right words"} <= seen
        page.focus("#reading")
        page.keyboard.press("/")
        assert page.evaluate("() => document.activeElement.id") == "question"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_view_is_accessible_and_fits(visit: Visit, answered: Example, unanswered: str, scheme: Any) -> None:
    for size in ({"width": 1280, "height": 860}, {"width": 360, "height": 740}):
        with visit(color_scheme=scheme, viewport=size) as page:
            ask(page, answered.context, answered.question)
            page.click("text=Why?")
            page.wait_for_selector(".heat")
            states = [page.url.partition("#")[0] + view for view in ("#ask", "#correct", "#compare", "#runs")]
            for address in states:
                page.goto(address)
                page.wait_for_selector("main > section:not([hidden])")
                assert violations(page) == []
                assert page.evaluate("() => document.documentElement.scrollWidth") <= size["width"]
            page.goto(states[0])
            ask(page, None, answered.question, unanswered)
            assert violations(page) == []
            assert page.evaluate("() => document.documentElement.scrollWidth") <= size["width"]
            paper = page.evaluate("() => getComputedStyle(document.documentElement).backgroundColor")
            assert (paper == "rgb(20, 21, 23)") == (scheme == "dark")


# ---- what goes wrong


def test_errors_are_in_words(browser: Browser, reader: lamina.Reader, tmp_path: Path) -> None:
    limits = replace(Limits(), text=200, waiting=0)
    with (
        running({"small": reader}, Settings(project=tmp_path, limits=limits)) as service,
        opened(browser, service.address) as page,
    ):
        page.wait_for_selector("html[data-ready=yes]")
        page.fill("#paste", "word " * 100)
        page.fill("#question", "Who?")
        page.press("#question", "Enter")
        page.wait_for_selector("#notice:not([hidden])")
        assert "500 characters, over the limit of 200" in page.inner_text("#notice")
        page.click("#edit")
        page.fill("#paste", "Ada Thorn built the mill.")
        page.press("#question", "Enter")
        page.wait_for_selector("#notice >> text=Too many people are asking")
        page.context.set_offline(True)
        page.press("#question", "Enter")
        page.wait_for_selector("#notice >> text=The service does not answer")
        assert page.input_value("#question") == "Who?", "nothing is lost"


def test_a_key_is_asked_for(browser: Browser, reader: lamina.Reader, tmp_path: Path, answered: Example) -> None:
    settings = Settings(project=tmp_path, keys=("a-key-of-more-than-16-letters",))
    with running({"small": reader}, settings) as service, opened(browser, service.address) as page:
        page.fill("#key-value", settings.keys[0])
        page.press("#key-value", "Enter")
        ask(page, answered.context, answered.question)
        assert page.locator("#answer .quoted").count() == 1


# ---- correct, improve, compare, runs


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Yield a service with a run that has learnt nothing yet, 29 corrections, and one question to label."""
    folder = tmp_path_factory.mktemp("workshop")
    (folder / "small.toml").write_text(tiny.SMALL_RECIPE.format(folder=folder))
    examples = tiny.corpus(6)
    for name in ("train", "dev"):
        (folder / f"{name}.json").write_text(_squad(examples))
    for name in ("one", "two"):
        lamina.train(str(folder / "small.toml"), folder / "runs" / name, settings={"train.epochs": 1})
    corrections = Corrections(folder / "project")
    for example in examples[:29]:
        answer = example.answers[0] if example.answers else None
        span = None if answer is None else (answer.start, answer.start + len(answer.text))
        corrections.add(Correction(example.article, example.context, example.question, span))
    (folder / "label.json").write_text(_squad(examples[27:30]))
    settings = Settings(project=folder / "project", runs=folder / "runs")
    with running([str(folder / "runs/one"), str(folder / "runs/two")], settings, str(folder / "label.json")) as service:
        yield service


def _squad(examples: list[Example]) -> str:
    import json

    from lamina.data.squad import to_squad

    return json.dumps(to_squad(examples))


def test_a_span_is_marked_by_dragging(visit: Visit, service: Service, answered: Example) -> None:
    words = next(word for word in answered.context[len(PREFIX) :].split() if len(word) > 5)
    with visit() as page:
        ask(page, answered.context, answered.question)
        page.click("text=Mark the right words")
        box = page.evaluate(
            """(words) => {
            const walker = document.createTreeWalker(document.querySelector("#reading"), NodeFilter.SHOW_TEXT);
            while (walker.nextNode()) {
              const at = walker.currentNode.data.indexOf(words);
              if (at < 0) continue;
              const range = document.createRange();
              range.setStart(walker.currentNode, at);
              range.setEnd(walker.currentNode, at + words.length);
              const box = range.getBoundingClientRect();
              return [box.left, box.right, box.top + box.height / 2];
            }}""",
            words,
        )
        page.mouse.move(box[0] + 0.5, box[2])
        page.mouse.down()
        page.mouse.move((box[0] + box[1]) / 2, box[2])
        page.mouse.move(box[1] - 0.5, box[2])
        page.mouse.up()
        page.click("#answer .actions button.primary")
        page.wait_for_selector("text=Saved")
        (stored,) = [one for one in service.state.corrections.all() if one.question == answered.question]
        assert stored.answer is not None and stored.context == answered.context
        assert stored.context[slice(*stored.answer)] == words
        page.goto(service.address + "#correct")
        page.wait_for_selector("#corrections .right")
        assert page.inner_text("#corrections .right") == words
        page.click("#corrections >> text=Edit")
        page.fill("#corrections input", "")
        page.click("#corrections button.primary")
        page.wait_for_selector("#corrections .right >> text=Not in the text")
        with page.expect_download() as download:
            page.click("#exports >> text=CSV")
        assert answered.question in Path(download.value.path()).read_text(encoding="utf-8")
        page.click("#corrections >> text=Remove")
        page.wait_for_selector("#corrections >> text=No corrections yet")


def test_a_correction_names_the_text_that_it_was_marked_in(visit: Visit, service: Service, answered: Example) -> None:
    other = "🌊 It was Mira Quill."
    with visit() as page:
        page.wait_for_selector("html[data-ready=yes]")
        files: list[FilePayload] = [
            {"name": name, "mimeType": "text/plain", "buffer": text.encode()}
            for name, text in (("one.txt", answered.context), ("two.txt", other))
        ]
        page.set_input_files("#files", files)
        page.wait_for_selector(".chip >> nth=1")
        ask(page, None, answered.question)
        page.click("text=Wrong: mark")
        page.click(".chip >> text=two.txt")
        page.fill("#answer .actions input", "Mira Quill")
        page.click("#answer .actions button.primary")
        page.wait_for_selector("text=Saved")
        (stored,) = service.state.corrections.all()
        assert (stored.title, stored.context) == ("two.txt", other)
        assert stored.answer is not None and other[slice(*stored.answer)] == "Mira Quill"
        ask(page, None, answered.question)
        page.click("#answer .actions button >> text=not")
        page.wait_for_selector("text=Saved")
        assert {(one.title, one.answer) for one in service.state.corrections.all()} == {("one.txt", None), ("two.txt", None)}
        for one in service.state.corrections.all():
            service.state.corrections.remove(one.id)


@pytest.mark.slow
def test_label_improve_and_switch(browser: Browser, workshop: Service) -> None:
    with opened(browser, workshop.address + "#label") as page:
        page.wait_for_selector("#labelling .quoted")
        page.wait_for_selector("#label-state >> text=1 of 3 left")
        question = page.inner_text("#labelling .quoted")
        assert question == tiny.corpus(6)[29].question
        page.evaluate("document.querySelector('#labelling .quoted').dataset.old = 'yes'")
        page.click("#labelling button >> text=Skip")
        page.wait_for_selector("#labelling .quoted:not([data-old])")
        assert page.inner_text("#labelling .quoted") == question, "the questions that were skipped come again"
        assert page.locator("#start").is_disabled()
        page.wait_for_selector("html[data-ready=yes]")
        page.locator("#labelling [data-key='1'], #labelling [data-key='3']").last.click()
        page.wait_for_selector("#labelling >> text=All questions are labelled")
        page.wait_for_selector("#count >> text=30 corrections")
        page.fill("#minutes", "0.2")
        page.click("#start")
        page.wait_for_selector("#improve .busy")
        page.wait_for_selector("#result, #improve .down", timeout=240_000)
        result = workshop.state.improvement.result
        assert result is not None, workshop.state.improvement.lines
        assert f"{result['scores']['f1']['before']:.1f}" in page.inner_text("#result")
        assert workshop.get("/models").json["models"][0]["name"] == "one", "nothing switches unasked"
        if result["kept_start"]:
            assert page.locator("#switch").count() == 0
            workshop.state.improvement.result = result | {"kept_start": False}  # to test the switch all the same
            page.reload()
            page.wait_for_selector("#result")
        page.wait_for_selector("html[data-ready=yes]")
        page.click("#switch")
        page.wait_for_selector("#result >> text=The improved model answers now")
        assert workshop.get("/models").json["models"][0]["name"] == "improved-1"
        assert page.input_value("#model") == "improved-1"


def test_compare_and_runs(browser: Browser, workshop: Service) -> None:
    example = tiny.corpus(6)[0]
    with opened(browser, workshop.address + "#compare") as page:
        page.wait_for_selector("html[data-ready=yes]")
        assert page.input_value("#first") != page.input_value("#second")
        page.fill("#compare-question", example.question)
        page.fill("#compare-text", example.context)
        page.click("#compare button")
        page.wait_for_selector(".verdict")
        answers = page.locator("#compared article").evaluate_all("all => all.map((one) => one.dataset.answer)")
        assert ("differ" in page.inner_text(".verdict")) == (answers[0] != answers[1])
        page.goto(workshop.address + "#runs")
        page.wait_for_selector("#runs tbody tr")
        assert page.locator("#runs tbody button").all_inner_texts() == ["one", "two"]
        page.click("#runs tbody button >> nth=0")
        page.wait_for_selector("#run .cards li, #run .empty")
        assert page.locator("#run .line").count() >= 1
        assert page.locator("#run .cards li").count() >= 1, page.inner_text("#run")
