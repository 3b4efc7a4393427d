"""The routes give what the library gives, and each mistake has its status and one line."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lamina
from lamina.data.sources import load_examples
from lamina.data.squad import to_squad
from lamina.reader.documents import Document
from lamina.serving.settings import Limits, Settings
from lamina.serving.why import explain
from tests import tiny
from tests.serving.live import Service, running

TEXT = "🌊 The bridge was built by Jonas Thele in 1712. Cafe\u0301 Mira opened in 1820. It has 24 rooms."


def expected(reader: lamina.Reader, question: str, texts: list[str], **options: Any) -> dict[str, Any]:
    reply = reader.answer(question, texts if len(texts) > 1 else texts[0], **options)
    numbers = {"confidence": pytest.approx(reply.confidence, abs=1e-4), "no_answer": pytest.approx(reply.no_answer, abs=1e-4)}
    return {"answer": reply.text, "start": reply.start, "end": reply.end, "context": reply.context, **numbers}


def given(reply: dict[str, Any]) -> dict[str, Any]:
    quote = reply["quote"] or {"start": None, "end": None, "context": None}
    names = {name: quote[name] for name in ("start", "end", "context")}
    return {"answer": reply["answer"], **names, "confidence": reply["confidence"], "no_answer": reply["no_answer"]}


@pytest.mark.parametrize("options", [{}, {"threshold": 1e6}, {"threshold": -1e6}, {"top_k": 3}, {"top_k": 20}])
def test_answers_are_those_of_the_library(service: Service, reader: lamina.Reader, options: dict[str, Any]) -> None:
    for texts in ([TEXT], [TEXT, "The mill was built by Ada Thorn."], ["One. " * 900 + TEXT]):
        question = "Who built the bridge?"
        body = {"question": question, "context": texts if len(texts) > 1 else texts[0], **options}
        reply = service.post("/answer", body)
        assert reply.status == 200, reply.body
        assert given(reply.json) == expected(reader, question, texts, **options)
        assert len(reply.json["others"]) <= options.get("top_k", 1)


def test_places_are_code_points(service: Service) -> None:
    reply = service.post("/answer", {"question": "Who built the bridge?", "context": TEXT, "threshold": 1e6, "top_k": 9}).json
    for quote in (reply["quote"], *reply["others"]):
        sentence = quote["sentence"]
        assert TEXT[quote["start"] : quote["end"]] == quote["answer"]
        assert TEXT[sentence["start"] : sentence["end"]] == sentence["text"]
        assert quote["place"] == Document("", TEXT).place(quote["start"])


def test_clients_at_once_get_their_own_answers(service: Service, reader: lamina.Reader) -> None:
    examples = load_examples("fables/dev")[:24]
    with ThreadPoolExecutor(12) as pool:
        bodies = [{"question": example.question, "context": example.context} for example in examples]
        replies = list(pool.map(lambda body: service.post("/answer", body), bodies))
    for example, reply in zip(examples, replies, strict=True):
        assert reply.status == 200
        assert given(reply.json) == expected(reader, example.question, [example.context])
    batches = [line for line in service.get("/metrics").body.decode().splitlines() if "lamina_batch_requests_bucket" in line]
    alone, all_of = (int(line.split()[1]) for line in (batches[0], batches[-1]))
    assert alone < all_of, "some requests were computed together"


def test_many_questions_from_many_texts(service: Service, reader: lamina.Reader) -> None:
    questions, texts = ["Who built the bridge?", "When?"], [TEXT, "The mill was built by Ada Thorn in 1612."]
    replies = service.post("/answer/batch", {"questions": questions, "contexts": texts, "names": ["a", "b"]}).json["replies"]
    assert [given(reply) for reply in replies] == [expected(reader, question, texts) for question in questions]
    assert {reply["quote"]["name"] for reply in replies if reply["quote"]} <= {"a", "b"}


def test_a_large_request_leaves_the_event_loop_free(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    longest, run = [0.0], asyncio.events.Handle._run

    def timed(handle: asyncio.events.Handle) -> None:
        began = time.thread_time()  # of the processor, so other programs do not matter
        run(handle)
        longest[0] = max(longest[0], time.thread_time() - began)

    monkeypatch.setattr(asyncio.events.Handle, "_run", timed)
    texts = ["The mill was built by Ada Thorn in 1712. " * 20]
    reply = service.post(
        "/answer/batch", {"questions": [f"Who built mill {n}?" for n in range(256)], "contexts": texts, "top_k": 20}
    )
    assert reply.status == 200 and len(reply.json["replies"]) == 256
    assert 0 < longest[0] < 0.2, "its replies alone take more"


def test_sentences(service: Service, sentences: lamina.Reader) -> None:
    texts, others = ["What a day!", "I want my money back."], ["A fine day.", "Give it back."]
    labels = service.post("/classify", {"texts": texts, "task": "sentiment"}).json["labels"]
    for label, own in zip(labels, sentences.classify(texts, task="sentiment"), strict=True):
        assert (label["label"], label["confidence"]) == (own.label, pytest.approx(own.confidence, abs=1e-4))
    pairs = [list(pair) for pair in zip(texts, others, strict=True)]
    assert (
        service.post("/classify", {"texts": pairs}).json["labels"][0]["label"]
        == sentences.classify((texts[0], others[0])).label
    )
    scores = service.post("/similar", {"first": texts, "second": others}).json["scores"]
    assert scores == pytest.approx(sentences.similarity(texts, others), abs=1e-4)
    vectors = service.post("/embed", {"texts": texts, "task": "similarity"}).json["vectors"]
    assert vectors[1] == pytest.approx(sentences.embed(texts, task="similarity")[1].tolist(), abs=1e-4)


def test_examples_of_the_openapi_document_run(service: Service) -> None:
    document = service.get("/openapi.json").json
    bodies = {name: schema["examples"] for name, schema in document["components"]["schemas"].items() if "examples" in schema}
    ran = 0
    for path, methods in document["paths"].items():
        content = methods.get("post", {}).get("requestBody", {}).get("content", {}).get("application/json")
        if content is None or path.startswith("/project"):
            continue
        for body in bodies[content["schema"]["$ref"].rpartition("/")[2]]:
            body = body | ({"task": "sentiment"} if path == "/classify" else {"task": "similarity"} if path == "/embed" else {})
            reply = service.post(path, body)
            assert reply.status == 200, (path, reply.body)
            ran += 1
    assert ran >= 6


def test_why_has_the_probabilities_of_every_token(service: Service) -> None:
    found = service.post("/why", {"question": "Who built the bridge?", "context": TEXT}).json
    assert len(found["start"]) == len(found["starts"]) == len(found["ends"]) > 10
    assert found["start"] == sorted(found["start"]) and found["layers"] is None
    assert 0 < sum(found["starts"]) + found["none"] <= 2.001
    best = max(range(len(found["starts"])), key=found["starts"].__getitem__)
    assert TEXT[found["start"][best] : found["end"][best]].strip()
    long = service.post("/why", {"question": "Who built the bridge?", "context": TEXT * 60}).json
    assert long["start"] == sorted(set(long["start"])), "each token once, although windows overlap"


def test_why_has_the_layers_of_a_model_that_weighs_them(tmp_path: Path) -> None:
    (tmp_path / "train.json").write_text(json.dumps(to_squad(tiny.corpus(3))))
    (tmp_path / "dev.json").write_text(json.dumps(to_squad(tiny.corpus(1))))
    (tmp_path / "small.toml").write_text(tiny.SMALL_RECIPE.format(folder=tmp_path))
    run = lamina.train(tmp_path / "small.toml", tmp_path / "run", settings={"mixer.type": "learned", "train.epochs": 0})
    layers = explain(lamina.load(run.path, device="cpu"), tiny.corpus(1)[0])["layers"]
    assert layers["mixer"] == "learned" and len(layers["numbers"]) >= 2
    weights = np.array(layers["weights"])  # [tokens, 2, layers]
    assert weights.shape[1:] == (2, len(layers["numbers"])) and weights.sum(-1) == pytest.approx(1.0, abs=1e-3)


def test_health_ready_and_models(service: Service) -> None:
    assert service.get("/health").json == {"status": "ok"}
    assert (service.get("/ready").status, service.get("/ready").json) == (200, {"ready": True})
    models = service.get("/models").json["models"]
    assert [(one["name"], one["answers"]) for one in models] == [("small", True), ("sentences", False)]


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("/answer", {"question": "x" * 2001, "context": "a"}, 413, "question: has 2,001 characters, over the limit of 2,000"),
        (
            "/answer",
            {"question": "Who?", "context": "ab" * 500_001},
            413,
            "has 1,000,002 characters, over the limit of 1,000,000",
        ),
        ("/answer/batch", {"questions": ["a"] * 50, "contexts": ["b"] * 50}, 413, "has 2,500 items, over the limit of 2,048"),
        ("/answer", {"question": " ", "context": "a"}, 422, "is empty"),
        ("/answer", {"question": "Who?", "context": " "}, 422, "there is no text"),
        ("/answer", {"question": "Who?", "context": []}, 422, "context"),
        ("/answer", {"question": "Who?"}, 422, "context: Field required"),
        ("/answer", {"question": "Who?", "context": "a", "top_k": 0}, 422, "greater than or equal to 1"),
        ("/answer", {"question": "Who?", "context": "a", "colour": 1}, 422, "colour"),
        ("/answer", {"question": "Who?", "context": "a", "names": ["b", "c"]}, 422, "2 names for 1 contexts"),
        ("/answer", {"question": "Who?", "context": "a", "model": "no"}, 404, "'small' or 'sentences'"),
        ("/answer", {"question": "Who?", "context": "a", "model": "sentences"}, 422, "has no head for spans|does not answer"),
        ("/answer", {"question": "Who?", "context": "\ud800"}, 422, "not UTF-8"),
        ("/answer", {"question": "\udfff?", "context": "a"}, 422, "not UTF-8"),
        ("/answer", {"question": "Who?", "context": "a", "names": ["\ud83d"]}, 422, "not UTF-8"),
        ("/classify", {"texts": ["a"], "task": "no"}, 422, "'no' is no task"),
        ("/classify", {"texts": [""]}, 422, "text 1: is empty"),
        ("/similar", {"first": ["a"], "second": ["a", "b"]}, 422, "first has 1 texts, second 2"),
        ("/nothing", {}, 404, "there is no such path"),
    ],
)
def test_mistakes_have_a_status_and_one_line(service: Service, path: str, body: Any, status: int, message: str) -> None:
    reply = service.post(path, body)
    assert reply.status == status, reply.body
    assert re.search(message, reply.error), reply.error
    assert reply.error.count("Fix: ") == 1 and "\n" not in reply.error


def test_a_request_that_takes_too_long_gets_504(reader: lamina.Reader, tmp_path: Path) -> None:
    settings = Settings(project=tmp_path, limits=replace(Limits(), seconds=0.001))
    with running({"small": reader}, settings) as service:
        reply = service.post("/answer", {"question": "Who?", "context": TEXT * 2000})
        assert (reply.status, reply.json["error"]["code"]) == (504, "deadline")


def test_a_full_queue_gets_429_and_every_accepted_request_is_answered(reader: lamina.Reader, tmp_path: Path) -> None:
    settings = Settings(project=tmp_path, limits=replace(Limits(), waiting=3))
    body = {"question": "Who built the bridge?", "context": TEXT * 20}
    with running({"small": reader}, settings) as service, ThreadPoolExecutor(16) as pool:
        replies = list(pool.map(lambda _: service.post("/answer", body), range(48)))
    statuses = [reply.status for reply in replies]
    assert set(statuses) == {200, 429}
    assert {reply.json["answer"] for reply in replies if reply.status == 200} == {
        reader.answer(body["question"], body["context"]).text
    }
    assert all(1 <= int(reply.headers["retry-after"]) <= 60 for reply in replies if reply.status == 429)


def test_the_log_has_one_line_a_request_and_no_texts(service: Service) -> None:
    before = len(service.logged)
    secret = "zanzibar quagga"
    service.post("/answer", {"question": f"Who is {secret}?", "context": f"Nobody is {secret}."})
    service.post("/answer", {"question": secret})
    threading.Event().wait(0.05)
    entries = service.logged[before:]
    assert [(one["path"], one["status"]) for one in entries] == [("/answer", 200), ("/answer", 422)]
    assert {"time", "request", "ms", "client", "model", "questions", "characters"} <= set(entries[0])
    assert secret not in json.dumps(entries)


def test_texts_are_logged_if_asked(reader: lamina.Reader, tmp_path: Path) -> None:
    with running({"small": reader}, Settings(project=tmp_path, log_texts=True)) as service:
        service.post("/answer", {"question": "Who is there?", "context": "Nobody."})
        threading.Event().wait(0.05)
        assert (service.logged[-1]["asked"], service.logged[-1]["texts"]) == (["Who is there?"], ["Nobody."])


def test_metrics_are_prometheus_text(service: Service) -> None:
    service.get("/health")
    lines = service.get("/metrics").body.decode().splitlines()
    sample = re.compile(r'[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? [0-9.e+-]+')
    assert all(line.startswith("# ") or sample.fullmatch(line) for line in lines)
    assert any(line.startswith('lamina_requests_total{method="GET",path="/health",status="200"}') for line in lines)
