"""Train a new WordPiece vocabulary on texts with `tokenizers` (Schuster and Nakajima 2012, as BERT uses it).

Departures from BERT:

- Texts are normalised to the composed form (NFC), and accents are kept by default. Stripping accents splits Hangul syllables
  into letters, which a vocabulary of syllables does not have.
- The library's trainer numbers the letters inside words in an order that differs between processes, and the numbers break
  ties between pairs. This module gives it the letters in a fixed order, so equal texts give equal vocabularies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import tokenizers
from pydantic import Field
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from lamina.errors import LaminaError
from lamina.utils.options import Options

SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
LETTERS = 4  # size / LETTERS letters at most; a letter takes up to two entries, so half of the vocabulary or less
MOST_UNKNOWN = 0.1  # greatest share of words with letters outside the vocabulary


class VocabularyOptions(Options):
    size: int = Field(default=8000, ge=len(SPECIALS) + 1)
    """Number of entries of the vocabulary."""
    lowercase: bool = True
    """Convert texts to lower case."""
    keep_accents: bool = True
    """Keep accents; `false` also splits Hangul syllables into letters."""
    min_count: int = Field(default=2, ge=1)
    """Number of occurrences that a piece needs to enter the vocabulary."""


def train_vocabulary(texts: Sequence[str], options: VocabularyOptions) -> str:
    """Return the text of a tokenizer.json with a vocabulary of the texts. It may have fewer entries than `options.size`."""
    words = _count_words(texts, options)
    letters = _letters(words, options.size // LETTERS)
    known = set(letters)
    unknown = sum(count for word, count in words.items() if not known.issuperset(word)) / max(1, words.total())
    if unknown > MOST_UNKNOWN:
        raise LaminaError(
            f"vocabulary.size: {options.size} is too small: {100 * unknown:.0f}% of the words have letters that do not fit. "
            f"Fix: set it to {LETTERS * len(set().union(*words))}, enough for all {len(set().union(*words))} letters"
        )
    inside = sorted({f"##{letter}" for word in words for letter in word[1:] if letter in known})
    trainer = trainers.WordPieceTrainer(
        vocab_size=options.size,
        min_frequency=options.min_count,
        special_tokens=[*SPECIALS, *inside],  # a fixed order; the trainer's own is random
        initial_alphabet=letters,
        limit_alphabet=len(letters),
        show_progress=False,
    )
    draft = _tokenizer(options, {name: number for number, name in enumerate(SPECIALS)})
    draft.train_from_iterator(texts, trainer)
    vocabulary = draft.get_vocab(with_added_tokens=True)
    return str(_tokenizer(options, vocabulary).to_str(pretty=True))


def _tokenizer(options: VocabularyOptions, vocabulary: dict[str, int]) -> tokenizers.Tokenizer:
    """Return a tokenizer with this vocabulary and BERT's normalisation, pre-tokenization and special tokens."""
    tokenizer = tokenizers.Tokenizer(models.WordPiece(vocab=vocabulary, unk_token="[UNK]", continuing_subword_prefix="##"))
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.NFC(),
            normalizers.BertNormalizer(
                clean_text=True,
                handle_chinese_chars=True,
                strip_accents=not options.keep_accents,
                lowercase=options.lowercase,
            ),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    tokenizer.add_special_tokens(list(SPECIALS))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(name, vocabulary[name]) for name in ("[CLS]", "[SEP]")],
    )
    return tokenizer


def _count_words(texts: Sequence[str], options: VocabularyOptions) -> Counter[str]:
    steps = _tokenizer(options, {name: number for number, name in enumerate(SPECIALS)})
    words: Counter[str] = Counter()
    for text in texts:
        words.update(word for word, _ in steps.pre_tokenizer.pre_tokenize_str(steps.normalizer.normalize_str(text)))
    return words


def _letters(words: Counter[str], most: int) -> list[str]:
    """Return the `most` frequent letters, in the order of their code points."""
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for letter in word:
            counts[letter] += count
    frequent = sorted(counts, key=lambda letter: (-counts[letter], letter))[:most]
    return sorted(frequent)
