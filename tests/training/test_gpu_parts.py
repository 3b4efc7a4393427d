"""What GPUs use, on a processor: scaled losses in float16, compiled layers, pinned copies, the choice of devices."""

from __future__ import annotations

import json
import math
from functools import partial
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from lamina.config.parse import parse_recipe
from lamina.config.train_options import TrainOptions, choose_precision
from lamina.data.batches import make_batch
from lamina.data.hidden_states import moved
from lamina.encoder.blocks import Encoder
from lamina.errors import LaminaError
from lamina.training import loss_scale, trainer
from lamina.training.compiling import compile_layers
from lamina.training.loss_scale import LossScale
from lamina.training.processes import Processes
from tests.resuming import stopped_and_resumed
from tests.tiny import corpus, model, windows
from tests.training.test_loop import Training
from tests.training.test_resume import assert_same, recipe_values, result

CUDA = torch.device("cuda")

# ---- float16


def test_an_infinite_gradient_halves_the_factor_and_many_finite_ones_double_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss_scale, "STEADY", 3)
    scale = LossScale.of(torch.float16)
    assert scale.factor == 65536
    assert not scale.usable(math.inf) and not scale.usable(math.nan) and scale.factor == 16384
    assert all(scale.usable(1.0) for _ in range(3)) and scale.factor == 32768 and scale.steady == 0
    others = LossScale.of(torch.bfloat16)
    assert others.factor is None and others.usable(math.inf), "the loop reports it"


def test_the_factor_does_not_change_a_step() -> None:
    found = Training(precision=torch.float16)
    plain = Training()
    for name in ("loss", "norm"):  # rounding makes later steps differ more
        values = [[entry[name] for entry in one.steps[:4]] for one in (found, plain)]
        assert values[0] == pytest.approx(values[1], rel=0.02)
    assert found.state.scale.factor in (32768, 65536), "a later step may have overflowed"


def test_a_step_with_an_infinite_gradient_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss_scale, "FIRST", 2.0**20)  # its gradients are more than float16 can hold
    found = Training(precision=torch.float16, evaluate_at={1, 2, 10})
    assert found.steps[0]["norm"] is None
    first, second, last = found.seen
    assert all(torch.equal(torch.as_tensor(first[name]), torch.as_tensor(second[name])) for name in first)
    assert found.steps[-1]["norm"] is not None and any(
        (torch.as_tensor(first[n]) != torch.as_tensor(last[n])).any() for n in first
    )


def test_a_gradient_that_no_factor_makes_finite_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LossScale, "divide", lambda self, parameters: parameters[0].grad.fill_(math.inf))
    monkeypatch.setattr(loss_scale, "FIRST", 4.0)
    with pytest.raises(
        LaminaError, match=r"step \d+: float16 cannot hold the gradient\. Fix: set train\.precision to bfloat16"
    ):
        Training(precision=torch.float16)


def test_a_resumed_run_in_float16_has_the_same_factors(tmp_path: Path) -> None:
    made = parse_recipe(recipe_values(tmp_path, epochs=0.7, precision="float16"))
    whole = trainer.train(made, tmp_path / "whole")
    assert_same(result(stopped_and_resumed(made, tmp_path / "again", before=3).path), result(whole.path))


# ---- torch.compile


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # a warning within torch's compiler
def test_compiled_layers_compute_the_same_and_keep_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = model().eval()
    batch = make_batch(windows(corpus(2)), [0, 1, 2])
    names, before = list(tiny.state_dict()), tiny(batch)
    compile_layers(tiny.encoder, backend="eager")
    after = tiny(batch)
    torch.testing.assert_close((after.start, after.end), (before.start, before.end))
    assert list(tiny.state_dict()) == names

    values = recipe_values(tmp_path, epochs=0.5)
    whole = trainer.train(parse_recipe(values), tmp_path / "whole")
    values["train"]["compile"] = True
    called: list[Encoder] = []

    def compile_eagerly(encoder: Encoder) -> None:
        called.append(encoder)
        compile_layers(encoder, backend="eager")

    monkeypatch.setattr(trainer, "compile_layers", compile_eagerly)
    compiled = trainer.train(parse_recipe(values), tmp_path / "compiled")
    assert called and compiled.read_recipe()["train"]["compile"] is True
    lines = [[json.loads(line).get("loss") for line in run.metrics.read_bytes().splitlines()] for run in (whole, compiled)]
    assert [one for one in lines[1] if one] == pytest.approx([one for one in lines[0] if one], rel=1e-4)


def test_a_recipe_without_compile_is_written_as_before() -> None:
    assert "compile" not in TrainOptions().model_dump(mode="json")
    assert TrainOptions(compile=True).model_dump(mode="json")["compile"] is True


# ---- devices


def test_copies_to_a_gpu_come_from_pinned_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    class Pinned:
        def to(self, device: torch.device, *, non_blocking: bool) -> tuple[torch.device, bool]:
            return device, non_blocking

    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda self: Pinned())
    assert moved(torch.zeros(2), CUDA) == (CUDA, True)
    assert moved(torch.zeros(2), torch.device("cpu")).tolist() == [0, 0]


def test_a_batch_moves_to_another_device_as_a_whole() -> None:
    batch = make_batch(windows(corpus(1)), [0, 1]).to(torch.device("meta"))
    assert {getattr(batch, name).device.type for name in ("ids", "type_ids", "mask", "context", "gold")} == {"meta"}


@pytest.mark.parametrize(("supported", "wanted"), [(True, torch.bfloat16), (False, torch.float32)])
def test_the_number_format_of_a_gpu_is_what_it_supports(
    supported: bool, wanted: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: supported)
    assert choose_precision("auto", CUDA) == wanted
    assert choose_precision("float16", CUDA) == torch.float16


def test_each_process_has_the_gpu_with_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("get_rank", 5), ("get_world_size", 8)):
        monkeypatch.setattr(dist, name, partial(int, value))
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    group = Processes()
    assert group.device(CUDA) == torch.device("cuda", 1)
    assert group.device(torch.device("cpu")) == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(LaminaError, match=r"processes: this machine has 2 GPUs, but 4 processes train on it\. Fix: "):
        group.device(CUDA)
