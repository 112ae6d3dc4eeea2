"""Read the pickle of a state dict, opcode by opcode, into inert values: no code is imported, and none runs."""

from __future__ import annotations

import pickletools
from dataclasses import dataclass, field
from typing import Any

from fairmend_check.errors import CheckError

_MAX_OPCODES = 1_000_000
_CALLABLE = ("collections OrderedDict", "torch._utils _rebuild_tensor_v2", "torch._utils _rebuild_parameter")


@dataclass(frozen=True)
class Name:
    """The name of a class or function, as "module name"."""

    text: str

    def __str__(self) -> str:
        """Return the name."""
        return self.text


@dataclass(frozen=True, eq=False)
class Call:
    """A call that the pickle asks for. It is recorded, not made."""

    of: str
    arguments: tuple[Any, ...]


@dataclass(eq=False)
class StateDict:
    """An OrderedDict or dict, and the attributes set on it."""

    items: dict[Any, Any] = field(default_factory=dict)
    attributes: dict[Any, Any] = field(default_factory=dict)


_MARK = object()


def read_pickle(data: bytes) -> Any:
    """Return the value of a pickle that holds nothing but dicts, tensors and plain values."""
    stack: list[Any] = []
    memo: dict[int, Any] = {}
    argument: Any
    for count, (opcode, argument, _) in enumerate(pickletools.genops(data)):
        name = opcode.name
        if count > _MAX_OPCODES:
            raise CheckError("the pickle is too long")
        if name == "STOP":
            return stack.pop()
        if name in ("PROTO", "FRAME"):
            continue
        if name in ("BINPUT", "LONG_BINPUT", "MEMOIZE"):
            memo[len(memo) if argument is None else argument] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET"):
            stack.append(memo[argument])
        else:
            _apply(name, argument, stack)
    raise CheckError("the pickle does not end")


def _apply(name: str, argument: Any, stack: list[Any]) -> None:
    """Apply an opcode to the stack."""
    if name in _CONSTANTS:
        stack.append(_CONSTANTS[name])
    elif name == "MARK":
        stack.append(_MARK)
    elif name in ("BINUNICODE", "SHORT_BINUNICODE", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"):
        stack.append(argument)
    elif name == "GLOBAL":
        stack.append(Name(argument))
    elif name == "STACK_GLOBAL":
        last, module = stack.pop(), stack.pop()
        stack.append(Name(f"{module} {last}"))
    elif name in ("EMPTY_DICT", "EMPTY_LIST"):
        stack.append(StateDict() if name == "EMPTY_DICT" else [])
    elif name in ("TUPLE1", "TUPLE2", "TUPLE3"):
        size = int(name[-1])
        if len(stack) < size:
            raise CheckError("the pickle is damaged")
        stack[-size:] = [tuple(stack[-size:])]
    elif name == "TUPLE":
        stack.append(tuple(_since_mark(stack)))
    elif name == "BINPERSID":
        stack.append(Call("persistent", (stack.pop(),)))
    elif name == "REDUCE":
        arguments, function = stack.pop(), stack.pop()
        stack.append(_call(function, arguments))
    elif name in ("SETITEM", "SETITEMS"):
        flat = _since_mark(stack) if name == "SETITEMS" else [stack.pop(), stack.pop()][::-1]
        if not isinstance(stack[-1], StateDict) or len(flat) % 2:
            raise CheckError("the pickle is damaged")
        stack[-1].items.update(zip(flat[::2], flat[1::2], strict=True))
    elif name == "BUILD":
        attributes = stack.pop()
        if not isinstance(stack[-1], StateDict) or not isinstance(attributes, StateDict):
            raise CheckError("the pickle sets the state of an object that is not a dict")
        stack[-1].attributes.update(attributes.items)
    else:
        raise CheckError(f"the pickle uses the opcode {name}, which no state dict needs")


_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}


def _call(function: Any, arguments: Any) -> Any:
    if not isinstance(function, Name) or function.text not in _CALLABLE or not isinstance(arguments, tuple):
        raise CheckError(
            f"the pickle calls {str(function)[:60]}; only a state dict of tensors can be checked. "
            "Save model.state_dict() instead"
        )
    if function.text == _CALLABLE[0]:
        if arguments:
            raise CheckError("the pickle fills a dict in a way that cannot be checked")
        return StateDict()
    if function.text == _CALLABLE[2]:  # a parameter wraps its tensor
        return arguments[0]
    if len(arguments) < 6:
        raise CheckError("the pickle is damaged")
    return Call(function.text, arguments)


def _since_mark(stack: list[Any]) -> list[Any]:
    """Pop everything above the last mark, and the mark."""
    for place in range(len(stack) - 1, -1, -1):
        if stack[place] is _MARK:
            above = stack[place + 1 :]
            del stack[place:]
            return above
    raise CheckError("the pickle is damaged")
