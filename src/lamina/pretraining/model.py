"""The model of pretraining: an encoder with heads for masked tokens and for next sentences (Devlin et al. 2019).

A transform (linear map, activation, norm) is applied to the states of the masked tokens only. The logits are the products of
its result with every row of the embedding table. The encoder reads the same table: the weights are tied.

On an encoder without such a head, the transform starts near the identity:

- Its linear map is the identity. With narrower embeddings, it is the pseudo-inverse of the map that widens them.
- Its bias shifts all values so far above 0 that the activation is nearly linear.
- Its norm removes this shift, which is the same in every coordinate.
- The weight and bias of the norm restore the mean and the spread that the states of some texts have.

One difference from the identity remains: the norm gives every state the same mean and spread.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lamina.encoder.blocks import Encoder, EncoderConfig, Family, activation, initialise
from lamina.encoder.families import plain_name
from lamina.encoder.files import read_tensors, tensor_names
from lamina.encoder.load import Source
from lamina.encoder.presets import BERT_BASE
from lamina.errors import LaminaError
from lamina.pretraining.masking import MaskedBatch
from lamina.pretraining.sequences import ALONE

LINEAR = 3.0  # above this, GELU and its relatives are the identity to within 0.5%

# The names of our head's parameters in the checkpoints of each family.
NAMES: dict[Family, dict[str, str]] = {
    "bert": {
        "dense": "cls.predictions.transform.dense",
        "norm": "cls.predictions.transform.LayerNorm",
        "bias": "cls.predictions.bias",
    },
    "roberta": {"dense": "lm_head.dense", "norm": "lm_head.layer_norm", "bias": "lm_head.bias"},
    "electra": {
        "dense": "generator_predictions.dense",
        "norm": "generator_predictions.LayerNorm",
        "bias": "generator_lm_head.bias",
    },
    "albert": {"dense": "predictions.dense", "norm": "predictions.LayerNorm", "bias": "predictions.bias"},
    "distilbert": {"dense": "vocab_transform", "norm": "vocab_layer_norm", "bias": "vocab_projector.bias"},
}
NEXT_SENTENCE = "cls.seq_relationship"


class Transform(nn.Module):
    """Maps the states of masked tokens, [M, H] to [M, E]. `bias` [V] is added to the logits."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden, config.embedding)
        self.activation = activation("gelu" if config.family in ("roberta", "electra") else config.activation)
        self.norm = nn.LayerNorm(config.embedding, eps=config.eps)
        self.bias = nn.Parameter(torch.zeros(config.vocab))
        self.apply(initialise)

    def forward(self, states: Tensor) -> Tensor:
        transformed: Tensor = self.norm(self.activation(self.dense(states)))
        return transformed


class PretrainedModel(nn.Module):
    """An encoder with the heads of pretraining."""

    def __init__(self, encoder: Encoder, *, nsp: bool = False) -> None:
        super().__init__()
        self.encoder = encoder
        self.transform = Transform(encoder.config)
        self.next_sentence = nn.Linear(encoder.config.hidden, 2) if nsp else None
        if self.next_sentence is not None:
            initialise(self.next_sentence)
        encoder.requires_grad_(True)
        if encoder.pooler is not None:
            encoder.pooler.requires_grad_(nsp)

    @property
    def decoder(self) -> Tensor:
        """The weights of the last linear map, [V, E]: the embedding table."""
        return self.encoder.embeddings.word.weight

    def forward(self, batch: MaskedBatch, *, head_only: bool = False) -> tuple[Tensor, Tensor | None]:
        """Return the logits of the masked tokens [M, V] and of the next sentence [R, 2].

        With `head_only`, the encoder gets no gradients.
        """
        with torch.set_grad_enabled(torch.is_grad_enabled() and not head_only):
            states = self.encoder.embed(batch.ids, batch.type_ids)
            stack = self.encoder(states, batch.mask, pool=self.next_sentence is not None)
        hidden = stack.states[-1].flatten(0, 1)[batch.places]  # [M, H]
        decoder = self.decoder.detach() if head_only else self.decoder
        logits = F.linear(self.transform(hidden), decoder, self.transform.bias)  # [M, V]
        return logits, None if self.next_sentence is None else self.next_sentence(stack.pooled)


@torch.no_grad()
def start_as_wide(model: PretrainedModel) -> None:
    """Scale random weights so that a layer changes a state as much as in BERT-base.

    BERT's standard deviation of 0.02 fits its width. In a narrow encoder, layers with such small weights change the states
    too little at first: learning starts thousands of steps later.
    """
    factor = max(1.0, BERT_BASE.hidden / model.encoder.config.hidden) ** 0.5
    for parameter in model.parameters():
        if parameter.ndim > 1:
            parameter.mul_(factor)


def loss_sums(logits: Tensor, pairs: Tensor | None, batch: MaskedBatch) -> tuple[Tensor, Tensor]:
    """Return the cross-entropy summed over the masked tokens, and over the sequences with a second segment."""
    mlm = F.cross_entropy(logits.float(), batch.targets, reduction="sum")
    if pairs is None:
        return mlm, mlm.new_zeros(())
    return mlm, F.cross_entropy(pairs.float(), batch.following, ignore_index=ALONE, reduction="sum")


def check_nsp(config: EncoderConfig) -> None:
    """Raise LaminaError unless the encoder has two token types and a pooler, which next-sentence prediction needs."""
    if config.family != "bert" or config.types < 2 or not config.pooler:
        raise LaminaError(
            f"nsp: needs two token types and a pooler as in BERT, but this encoder ({config.family}) has "
            f"{config.types} types and {'a' if config.pooler else 'no'} pooler. Fix: leave nsp out"
        )


@torch.no_grad()
def start_near_identity(model: PretrainedModel, batch: MaskedBatch) -> None:
    """Set the transform near the identity for the encoder's states on a batch."""
    encoder, transform = model.encoder.eval(), model.transform
    states = encoder(encoder.embed(batch.ids, batch.type_ids), batch.mask).states[-1][batch.mask]  # [N, H]
    projection = encoder.embeddings.projection
    if isinstance(projection, nn.Linear):
        back = torch.linalg.pinv(projection.weight)  # [E, H]
        transform.dense.weight.copy_(back)
        transform.dense.bias.copy_(-back @ projection.bias)
    else:
        nn.init.eye_(transform.dense.weight)
        nn.init.zeros_(transform.dense.bias)
    mapped = transform.dense(states)  # [N, E]
    transform.dense.bias.add_(LINEAR - mapped.min())
    transform.norm.weight.fill_(float(mapped.std(-1, correction=0).mean()))
    transform.norm.bias.fill_(float(mapped.mean()))
    transform.bias.zero_()


@torch.no_grad()
def load_head(model: PretrainedModel, source: Source) -> bool:
    """Load the checkpoint's heads for masked tokens and next sentences. Return False if it has none for masked tokens."""
    if not source.weights or source.layout == "run":
        return False
    config = source.config
    present = {plain_name(name, f"{config.family}."): name for name in tensor_names(source.weights)}
    wanted = _named(NAMES[config.family], model.transform.state_dict())
    targets = {present[name]: value for name, value in wanted.items() if name in present}
    if len(targets) != len(wanted):
        return False
    if model.next_sentence is not None:
        pairs = {f"{NEXT_SENTENCE}.{kind}": value for kind, value in model.next_sentence.state_dict().items()}
        targets |= {present[name]: value for name, value in pairs.items() if name in present}
    for name, tensor in read_tensors(source.weights, targets):
        if tensor.shape != targets[name].shape:
            raise LaminaError(
                f"{source.name}: {name} has the shape {tuple(tensor.shape)}, not {tuple(targets[name].shape)}. "
                "Fix: use a checkpoint whose config.json fits its weights"
            )
        targets[name].copy_(tensor)
    return True


def head_weights(model: PretrainedModel) -> dict[str, Tensor]:
    """Return the heads' weights under the family's names."""
    weights = _named(NAMES[model.encoder.config.family], model.transform.state_dict())
    if model.next_sentence is not None:
        weights |= {f"{NEXT_SENTENCE}.{kind}": value for kind, value in model.next_sentence.state_dict().items()}
    return weights


def _named(names: dict[str, str], state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return a transform's weights under the family's names.

    >>> list(_named({"dense": "a.b", "bias": "c"}, {"dense.weight": torch.ones(1), "bias": torch.ones(1)}))
    ['a.b.weight', 'c']
    """
    found = {}
    for ours, value in state.items():
        module, _, kind = ours.partition(".")
        found[f"{names[module]}.{kind}" if kind else names[module]] = value
    return found
