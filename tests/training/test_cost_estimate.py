"""Recipes have the parameter counts of the papers; nothing is downloaded."""

from __future__ import annotations

import pytest

from lamina.config.bundled import recipe_path
from lamina.config.parse import parse_recipe, read_recipe
from lamina.tasks.checks import build_on_meta
from lamina.training.cost_estimate import count_parameters, efficiency, inspect

BERT_LARGE = 335_143_938  # with its pooler and the span head, as paper 001 counts it

TRAINABLE = {  # paper 003
    "parameter-efficiency/L0": 39_938,
    "parameter-efficiency/L1": 7_124_738,
    "parameter-efficiency/L3": 21_294_338,
    "parameter-efficiency/L6": 42_548_738,
    "parameter-efficiency/L12": 108_311_810,
    "parameter-efficiency/L0-A64": 2_417_664 + 1_538,  # the paper's count leaves out the head
    "parameter-efficiency/L0-A768": 28_388_354,
    "parameter-efficiency/L12-A64": 110_691_074,
    "parameter-efficiency/L12-A768": 108_311_810 + 28_348_416,
    "parameter-efficiency/CACNN-vectorised-L0": 38_400 + 395_298,  # every norm and the head
    "parameter-efficiency/CACNN-vectorised-L12": 108_310_272 + 395_298,
    "parameter-efficiency/CACNN-simplified-L0": 38_400 + 11_799_558,
    "parameter-efficiency/CACNN-simplified-L12": 108_310_272 + 11_799_558,
}
INTERMEDIATE = {  # paper 000 gives no counts: ALBERT with its head, and the parameters of each mixer
    "layer-mixers/plain": 11_685_122,
    "layer-mixers/learned": 11_685_122 + 2 * 13,
    "layer-mixers/dot": 11_685_122,
    "layer-mixers/multiplicative": 11_685_122 + 2 * 768**2,
    "layer-mixers/encoder": 11_685_122 + 7_087_872 - 768,  # ALBERT's own block has a bias of the keys
}
KOREAN = {
    "korean-qa/koelectra": 110_180_352 + 1_538,
    "korean-qa/mbert": 177_853_440 + 1_538,
    "korean-qa/multilingual-e5": 117_653_760 + 770,
    "korean-qa/albert-kor": 13_186_816 + 1_538,
}  # paper 004 gives none: encoder and head
ABOVE = {  # paper 001: mixer and head, running statistics included
    "bertvision/LP": 2_076,
    "bertvision/AP": 2_050,
    "bertvision/A386": 414_952,
    "bertvision/A386-skip": 417_000,
    "bertvision/A386-unshared": 9_910_552,
    "bertvision/A386-unshared-skip": 9_912_600,
    "bertvision/A64": 68_802,
    "bertvision/A64-unshared": 1_643_202,
    "bertvision/LP-A386-skip": 398_498,
    "bertvision/classify-LP": 2_076,
    "bertvision/classify-LP-A386": 398_498,
    "bertvision/classify-AP-A386": 398_472,
    "bertvision/classify-xception": 266_818,
    "bertvision/classify-xception-skip": 268_866,
    "bertvision/classify-xception-full": 20_716_538,  # ours: the paper gives none for this and the next three
    "bertvision/CNN": 36_754,
    "bertvision/inception": 49_474,
    "bertvision/xception": 6_208_490,
    "bertvision/LP-A386-xception": 6_601_862,
}
POOLED = {  # the paper's code gives its classifiers the pooled state too, 26 states
    "bertvision/classify-LP": 2_077,
    "bertvision/classify-LP-A386": 398_499,
    "bertvision/classify-AP-A386": 398_472,
    "bertvision/classify-xception": 267_010,
    "bertvision/classify-xception-skip": 269_058,
    "bertvision/classify-xception-full": 20_716_634,
}


@pytest.mark.parametrize(("name", "count"), (INTERMEDIATE | KOREAN).items())
def test_trainable_parameters_of_papers_000_and_004(name: str, count: int) -> None:
    recipe = read_recipe(recipe_path(name))
    assert count_parameters(build_on_meta(recipe))["trainable"] == count
    assert f"{count:,}" in recipe_path(name).read_text()


@pytest.mark.parametrize(("name", "count"), TRAINABLE.items())
def test_trainable_parameters_of_paper_003(name: str, count: int) -> None:
    recipe = read_recipe(recipe_path(name))
    assert count_parameters(build_on_meta(recipe))["trainable"] == count
    assert f"{count:,}" in recipe_path(name).read_text()


@pytest.mark.parametrize(("name", "count"), ABOVE.items())
def test_trainable_parameters_of_paper_001(name: str, count: int) -> None:
    counts = count_parameters(build_on_meta(read_recipe(recipe_path(name))))
    above = {part: n for part, n in counts["by_part"].items() if not part.startswith("encoder.")}
    assert sum(above.values()) == count
    assert not any(part.startswith("encoder.") for part in counts["trainable_by_part"])
    assert f"{count:,}" in recipe_path(name).read_text()


@pytest.mark.parametrize(("name", "count"), POOLED.items())
def test_parameters_of_classifiers_with_the_pooled_state(name: str, count: int) -> None:
    counts = count_parameters(build_on_meta(read_recipe(recipe_path(name), ["head.pooled=true"])))
    assert sum(n for part, n in counts["by_part"].items() if not part.startswith("encoder.")) == count
    assert f"{count:,}" in recipe_path(name).read_text()


def test_all_of_bert_and_its_pooler_train_for_answerability() -> None:
    counts = count_parameters(build_on_meta(read_recipe(recipe_path("bertvision/classify-finetune"))))
    assert counts["trainable"] == BERT_LARGE
    assert counts["trainable_by_part"]["encoder.pooler"] == 1024 * 1025
    assert f"{BERT_LARGE:,}" in recipe_path("bertvision/classify-finetune").read_text()


def test_shares_of_bert_large() -> None:
    whole = count_parameters(build_on_meta(read_recipe(recipe_path("bertvision/finetune"))))["trainable"]
    assert whole == BERT_LARGE
    shares = {
        "bertvision/A386": 0.124,
        "bertvision/A386-unshared": 2.957,
        "bertvision/A386-unshared-skip": 2.958,
        "bertvision/LP-A386-skip": 0.119,
        "bertvision/LP-A386-xception": 1.970,
    }
    for name, share in shares.items():
        assert round(100 * ABOVE[name] / BERT_LARGE, 3) == share


def test_efficiency_of_paper_003() -> None:
    assert [round(efficiency(f1, n), 2) for f1, n in ((76.3, 108_311_810), (75.2, 42_548_738), (75.0, 28_388_354))] == [
        3.27,
        3.30,
        3.35,
    ]


@pytest.mark.parametrize(
    ("term", "forwards", "passes", "copies"),
    [
        ("distil.teacher=sda", 1, 0, 6),
        ("distil.teacher=sdv", 5, 0, 5),
        ("distil.teacher=ema", 1, 0, 1),
        ("rdrop.weight=1", 0, 1, 0),
        ("rdrop.weight=0", 0, 0, 0),
        ("smart.steps=2", 1, 4, 1),
    ],
)
def test_cost_of_loss_terms(term: str, forwards: int, passes: int, copies: int) -> None:
    """Count a forward and backward pass as three times a forward pass. Each pass has its own activations."""
    settings = ["data.train=fables/dev", "data.holdout=0.1"]
    plain, found = (inspect(parse_recipe({}, [*settings, *more])) for more in ([], [f"terms.{term}"]))
    assert found["training"] and plain["training"]
    assert found["training"]["flops"] == pytest.approx(plain["training"]["flops"] * (1 + passes + forwards / 3))
    remembered = copies * plain["parameters"]["trainable"] * 4e-6
    more = found["memory_mb"] - plain["memory_mb"]
    assert more > remembered + 50 if passes else more == pytest.approx(remembered, abs=1)
