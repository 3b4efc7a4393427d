"""Mutators: they damage a good file by its structure, or byte by byte."""

from __future__ import annotations

import io
import json
import random
import re
import struct
import zipfile
from collections.abc import Callable, Sequence
from typing import Any, Final

ODD_TEXTS: Final[tuple[str, ...]] = (
    *("", " ", "\n", "\t", "\0", "\ud800", "\udcff", "\u202e", "\u2028", "\ufeff", "e\u0301", "é", "가", "각", "🏭", "İ", "ß"),
    *("N/a", "null", "true", "-1", "1e999", "0x10", "9" * 400, "a" * 5000, "[", "]", "{", "[{", '"', '""', "'", "\\", "=", "#"),
    *("../../etc/passwd", "/dev/zero", "~nobody/x", "a/b", ":", "owner/name:train", "%s%n", "<b>", "&#99999999;", "\r", "\r\n"),
)
ODD_NUMBERS: Final[tuple[Any, ...]] = (
    *(0, -1, 1, 2, 7, 2**31, -(2**31) - 1, 2**63, -(2**63), 10**40, 0.5, -0.0, 1e-300, 1e308, 3.0),
    *(float("nan"), float("inf"), float("-inf")),
)
ODD_BYTES: Final = (b"\0", b"\xff", b"\xef\xbb\xbf", b"\xff\xfe", b"\xc0\x80", b"\r", b"\n", b"\t", b'"', b"")

Mutator = Callable[[bytes, random.Random], bytes]


def odd_value(draw: random.Random) -> Any:
    """Return a value of JSON that few programs expect."""
    kind = draw.randrange(6)
    if kind == 0:
        return draw.choice(ODD_TEXTS)
    if kind == 1:
        return draw.choice(ODD_NUMBERS)
    if kind == 2:
        return draw.choice([None, True, False, [], {}, [[]], [{}], {"": ""}, [None]])
    if kind == 3:
        return [draw.choice(ODD_TEXTS) for _ in range(draw.randrange(4))]
    if kind == 4:
        return {draw.choice(["text", "start", "id", "type", "a"]): draw.choice([*ODD_TEXTS, *ODD_NUMBERS])}
    value: Any = draw.choice(ODD_TEXTS)
    for _ in range(draw.choice([2, 60, 300])):
        value = [value] if draw.random() < 0.5 else {"a": value}
    return value


def _places(value: Any, found: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Collect the containers of a value with each of their keys."""
    if isinstance(value, dict):
        for key in value:
            found.append((value, key))
            _places(value[key], found)
    elif isinstance(value, list):
        for key in range(len(value)):
            found.append((value, key))
            _places(value[key], found)
    return found


def mutate_value(value: Any, draw: random.Random) -> Any:
    """Return a value of JSON with one to three places changed. The value itself may change."""
    for _ in range(draw.choice([1, 1, 1, 2, 3])):
        places = _places(value, [])
        if not places:
            return odd_value(draw)
        box, key = draw.choice(places)
        match draw.randrange(9):
            case 0 | 1:
                box[key] = odd_value(draw)
            case 2:
                del box[key]
            case 3 if isinstance(box, list):
                box.insert(key, box[draw.randrange(len(box))])
            case 3:
                box[draw.choice([str(key).upper(), f" {key}", *ODD_TEXTS])] = box.pop(key)
            case 4:
                box[key] = [box[key]] if draw.random() < 0.5 else {"text": box[key]}
            case 5 if isinstance(box[key], int | float) and not isinstance(box[key], bool):
                box[key] += draw.choice([1, -1, 0.5, 2**40, -(2**40)])
            case 5 if isinstance(box[key], str):
                at = draw.randint(0, len(box[key]))
                box[key] = box[key][:at] + draw.choice(ODD_TEXTS) + box[key][at + draw.randrange(3) :]
            case 6:
                box[key] = str(box[key])
            case 7:
                other, name = draw.choice(places)
                if name in other if isinstance(other, dict) else name < len(other):
                    box[key] = json.loads(json.dumps(other[name]))
            case _:
                box[key] = draw.choice(ODD_NUMBERS if not isinstance(box[key], str) else ODD_TEXTS)
    return value


def mutate_json(data: bytes, draw: random.Random) -> bytes:
    """Change values of a JSON document."""
    return json.dumps(mutate_value(json.loads(data), draw), ensure_ascii=draw.random() < 0.7).encode("utf-8", "surrogatepass")


def mutate_jsonl(data: bytes, draw: random.Random) -> bytes:
    """Change values of some lines of JSONL."""
    lines = data.splitlines()
    at = draw.randrange(len(lines))
    lines[at] = mutate_json(lines[at], draw)
    return b"\n".join(lines) + b"\n"


def mutate_bytes(data: bytes, draw: random.Random) -> bytes:
    """Change, remove, insert or repeat some bytes."""
    for _ in range(draw.choice([1, 1, 2, 4])):
        if not data:
            return draw.randbytes(draw.randrange(20))
        at, length = draw.randrange(len(data)), draw.choice([1, 1, 4, 64])
        match draw.randrange(6):
            case 0:
                data = data[:at] + bytes([data[at] ^ (1 << draw.randrange(8))]) + data[at + 1 :]
            case 1:
                data = data[:at] + data[at + length :]
            case 2:
                data = data[:at] + (draw.choice(ODD_BYTES) or draw.randbytes(length)) + data[at:]
            case 3:
                data = data[:at]
            case 4:
                data = data[:at] + data[at : at + length] * draw.choice([2, 3, 50]) + data[at + length :]
            case _:
                data = data[:at] + draw.randbytes(length) + data[at + length :]
    return data


_TOKEN: Final = re.compile(r"[\w.]+|\s|[^\w\s]")


def mutate_text(data: bytes, draw: random.Random) -> bytes:
    """Change words, signs or lines of a text."""
    text = data.decode("utf-8", "replace")
    for _ in range(draw.choice([1, 1, 2, 4])):
        parts = text.splitlines(keepends=True) if draw.random() < 0.3 else _TOKEN.findall(text)
        if not parts:
            break
        at = draw.randrange(len(parts))
        match draw.randrange(5):
            case 0:
                parts[at] = draw.choice([*ODD_TEXTS, *map(str, ODD_NUMBERS)])
            case 1:
                del parts[at]
            case 2:
                parts.insert(at, draw.choice([*ODD_TEXTS, ",", ";", "\t", "<", ">"]))
            case 3:
                parts.insert(at, parts[draw.randrange(len(parts))])
            case _:
                parts[at] = parts[draw.randrange(len(parts))]
        text = "".join(parts)
    return text.encode("utf-8", "surrogatepass" if draw.random() < 0.3 else "replace")


def mutate_zip(data: bytes, draw: random.Random) -> bytes:
    """Change a member of an archive, or its name."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = draw.choice(list(members))
    match draw.randrange(5):
        case 0:
            del members[name]
        case 1:
            members[draw.choice(["../x", "/etc/x", "a" * 300, name.upper()])] = members.pop(name)
        case 2:
            members[name] = mutate_bytes(members[name], draw)
        case _:
            members[name] = mutate_text(members[name], draw)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for key, content in members.items():
            archive.writestr(key.replace("\0", ""), content)
    return out.getvalue()


def mutate_safetensors(data: bytes, draw: random.Random) -> bytes:
    """Change the header of a safetensors file, or its numbers."""
    (length,) = struct.unpack("<Q", data[:8])
    header, numbers = data[8 : 8 + length], data[8 + length :]
    match draw.randrange(5):
        case 0:
            return struct.pack("<Q", draw.choice([0, 1, length - 1, length + 1, 2**40, 2**63, 2**64 - 1])) + header + numbers
        case 1:
            numbers = numbers[: draw.randrange(len(numbers) + 1)]
        case 2:
            at = draw.randrange(max(1, len(numbers) - 8))
            odd = draw.choice([b"\xff\xff\xff\x7f", b"\x00\x00\xc0\x7f", draw.randbytes(4)])  # NaN in float32
            numbers = numbers[:at] + odd + numbers[at + 4 :]
        case 3:
            header = mutate_bytes(header, draw)
        case _:
            header = mutate_json(header, draw)
    return struct.pack("<Q", len(header)) + header + numbers


def any_of(mutators: Sequence[Mutator]) -> Mutator:
    """Return a mutator that takes the first of some most of the time, and one of the others else."""

    def mutate(data: bytes, draw: random.Random) -> bytes:
        chosen = mutators[0] if draw.random() < 0.6 else draw.choice(mutators)
        try:
            return chosen(data, draw)
        except (ValueError, KeyError, RecursionError, OverflowError, TypeError, zipfile.BadZipFile, struct.error):
            return mutate_bytes(data, draw)  # the structure cannot be changed like this

    return mutate


JSON: Final = any_of([mutate_json, mutate_bytes, mutate_text])
JSONL: Final = any_of([mutate_jsonl, mutate_bytes, mutate_text])
TEXT: Final = any_of([mutate_text, mutate_bytes])
ZIP: Final = any_of([mutate_zip, mutate_bytes])
SAFETENSORS: Final = any_of([mutate_safetensors, mutate_bytes])
BYTES: Final = any_of([mutate_bytes])
