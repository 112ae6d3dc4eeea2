"""Changes of a file that know nothing of its format."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

__all__ = ["BYTE_MUTATIONS", "mutate_bytes"]

INTERESTING = [0, 1, -1, 2, 3, 4, 7, 8, 16, 127, 128, 255, 256, 2**15 - 1, 2**15, 2**16 - 1, 2**31 - 1, 2**31]
INTERESTING += [2**32 - 1, 2**63 - 1, -(2**63)]
Mutation = Callable[[bytes, Sequence[bytes], np.random.Generator], bytes]


def random_bytes(rng: np.random.Generator, most: int = 16) -> bytes:
    return rng.bytes(int(rng.integers(1, most + 1)))


def random_range(content: bytes, rng: np.random.Generator) -> tuple[int, int]:
    """Start and end of a range; short ones are as likely as long ones."""
    start = int(rng.integers(len(content) + 1))
    longest = int(2 ** rng.uniform(0, np.log2(len(content) + 2)))
    return start, min(len(content), start + longest)


def flip_bit(content: bytes, seeds: Sequence[bytes], rng: np.random.Generator) -> bytes:
    changed = bytearray(content)
    changed[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def overwrite(content: bytes, seeds: Sequence[bytes], rng: np.random.Generator) -> bytes:
    start, new = int(rng.integers(len(content))), random_bytes(rng)
    return (content[:start] + new + content[start + len(new) :])[: len(content)]


def overwrite_integer(content: bytes, seeds: Sequence[bytes], rng: np.random.Generator) -> bytes:
    size = int(rng.choice([1, 2, 4, 8]))
    value = INTERESTING[rng.integers(len(INTERESTING))] % 256**size
    start = int(rng.integers(max(1, len(content) - size + 1)))
    new = value.to_bytes(size, "little" if rng.random() < 0.8 else "big")
    return content[:start] + new + content[start + size :]


def add_to_integer(content: bytes, seeds: Sequence[bytes], rng: np.random.Generator) -> bytes:
    size = int(rng.choice([1, 2, 4, 8]))
    start = int(rng.integers(max(1, len(content) - size + 1)))
    value = int.from_bytes(content[start : start + size], "little") + int(rng.integers(-8, 9))
    return content[:start] + (value % 256**size).to_bytes(size, "little") + content[start + size :]


def insert(content: bytes, seeds: Sequence[bytes], rng: np.random.Generator) -> bytes:
    start = int(rng.integers(len(content) + 1))
    return content[:start] + random_bytes(rng) + content[start:]


def delete(content: bytes, seeds: Sequence[bytes], rng: np.random.Generator) -> bytes:
    start, end = random_range(content, rng)
    return content[:start] + content[end:]


def truncate(content: bytes, seeds: Sequence[bytes], rng: np.random.Generator) -> bytes:
    return content[: random_range(content, rng)[0]]


def duplicate(content: bytes, seeds: Sequence[bytes], rng: np.random.Generator) -> bytes:
    """Copy a range to another place, or behind itself."""
    start, end = random_range(content, rng)
    place = end if rng.random() < 0.5 else int(rng.integers(len(content) + 1))
    return content[:place] + content[start:end] + content[place:]


def swap(content: bytes, seeds: Sequence[bytes], rng: np.random.Generator) -> bytes:
    """Exchange two ranges that do not overlap."""
    a, b, c, d = sorted(int(place) for place in rng.integers(len(content) + 1, size=4))
    return content[:a] + content[c:d] + content[b:c] + content[a:b] + content[d:]


def splice(content: bytes, seeds: Sequence[bytes], rng: np.random.Generator) -> bytes:
    """The beginning of this file, the end of another."""
    other = seeds[rng.integers(len(seeds))]
    start = int(rng.integers(len(content) + 1))
    same_place = rng.random() < 0.5
    return content[:start] + other[start if same_place else int(rng.integers(len(other) + 1)) :]


def append_file(content: bytes, seeds: Sequence[bytes], rng: np.random.Generator) -> bytes:
    """Two files in one, in either order."""
    other = seeds[rng.integers(len(seeds))]
    return content + other if rng.random() < 0.5 else other + content


def replace_text(content: bytes, seeds: Sequence[bytes], rng: np.random.Generator) -> bytes:
    """Replace a short range everywhere it occurs, with one of the same length: names, keys, counts."""
    start = int(rng.integers(len(content)))
    old = content[start : start + int(rng.integers(1, 9))]
    place = int(rng.integers(len(content)))
    new = content[place : place + len(old)] if rng.random() < 0.5 else rng.bytes(len(old))
    return content.replace(old, new) if len(new) == len(old) else content


BYTE_MUTATIONS: tuple[Mutation, ...] = (
    flip_bit, overwrite, overwrite_integer, add_to_integer, insert, delete, truncate, duplicate, swap, splice,
    append_file, replace_text,
)  # fmt: skip


def mutate_bytes(content: bytes, seeds: Sequence[bytes], rng: np.random.Generator) -> bytes:
    """Apply one of the changes; an empty file becomes a few bytes."""
    if not content:
        return random_bytes(rng)
    return BYTE_MUTATIONS[rng.integers(len(BYTE_MUTATIONS))](content, seeds, rng)
