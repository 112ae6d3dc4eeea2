"""Refuse a .pth file whose pickle would keep PyTorch busy for ever.

A pickle can name a tuple that it has already built as a part of the next one, twice, and so on. A hundred such steps
fit into 549 bytes, and the hash of the last tuple, as the key of a dict, takes 2^100 steps in code that no signal
interrupts.
"""

from __future__ import annotations

import pickletools
from pathlib import Path
from typing import Any, BinaryIO

import torch

from fairmend.base.errors import FairmendError

_MOST = 100_000  # parts of one tuple, counted as often as it contains them
_PICKLES_OF_OLD_FILES = 5  # before the numbers: magic number, protocol, system, state dict, keys
_PUT = ("BINPUT", "LONG_BINPUT", "PUT", "MEMOIZE")
_GET = ("BINGET", "LONG_BINGET", "GET")
_MARK = -1


def check_pickles(path: Path) -> None:
    """Raise an error if a pickle that `torch.load` reads from the file builds a tuple of too many parts."""
    try:
        with path.open("rb") as file:
            if file.read(4) == b"PK\3\4":  # how PyTorch decides too
                _check_pickle(torch._C.PyTorchFileReader(str(path)).get_record("data.pkl"), path)
                return
            file.seek(0)
            for _ in range(_PICKLES_OF_OLD_FILES):
                _check_pickle(file, path)
    except (OSError, RuntimeError, ValueError, IndexError, KeyError):
        return  # a damaged file: PyTorch stops at the same place and names the damage


def _check_pickle(pickle: bytes | BinaryIO, path: Path) -> None:
    """Follow the sizes of all values on the pickle's stack, without building any."""
    stack: list[int] = []
    memo: dict[Any, int] = {}
    for opcode, argument, _ in pickletools.genops(pickle):
        if opcode.name in _PUT:
            memo[len(memo) if argument is None else argument] = stack[-1]
        elif opcode.name in _GET:
            stack.append(memo[argument])
        elif opcode.name == "MARK":
            stack.append(_MARK)
        elif opcode.name == "DUP":
            stack.append(stack[-1])
        else:
            size = 1 + sum(_popped(opcode, stack))
            keeps = opcode.name.startswith("TUPLE") or opcode.name == "REDUCE"
            if keeps and size > _MOST:
                raise FairmendError(
                    f"{path}: its pickle contains nested tuples of more than {_MOST:,} parts, which no state dict "
                    "needs; save the weights alone: torch.save(model.state_dict(), path)"
                )
            stack += [size if keeps else 1] * len(opcode.stack_after)


def _popped(opcode: pickletools.OpcodeInfo, stack: list[int]) -> list[int]:
    """Take from the stack what an opcode takes, and return the sizes."""
    count = len(opcode.stack_before)
    if pickletools.markobject in opcode.stack_before:
        mark = len(stack) - 1 - stack[::-1].index(_MARK)
        count = opcode.stack_before.index(pickletools.markobject) + len(stack) - mark
    if count > len(stack):
        raise IndexError("the pickle takes more than there is")
    found = stack[len(stack) - count :]
    del stack[len(stack) - count :]
    return [size for size in found if size != _MARK]
