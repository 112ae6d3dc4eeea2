"""Run the calls of a traced model on rows of unknown numbers: what comes out is the graph that it computes.

torch.fx does not say how wide the inputs are. Each starts with one column; a layer that reads more says so
(`InputWidthError`), and the calls are run again.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from fairmend.base.errors import FairmendError
from fairmend.network import Network
from fairmend.network.form import Form
from fairmend.network.formats.axes import ROWS
from fairmend.network.formats.build import SUPPORTED, Value, unsupported
from fairmend.network.formats.torch.operators import OPERATORS, Context, refusal
from fairmend.network.formats.torch.operators.context import InputWidthError, Memory, RowTensor
from fairmend.network.formats.torch.program import Call, Program, ProgramInput, Ref
from fairmend.network.formats.torch.steps import Entry, Steps, Tensors, pruned, replay

_MOST_ATTEMPTS = 2000
_IN_PLACE = {"iadd": "add", "isub": "sub", "imul": "mul", "itruediv": "truediv", "imatmul": "matmul"}
_AFFINE = {"linear", "matmul", "mm", "addmm", "bmm", "baddbmm", "einsum", "bilinear", "multi_head_attention"}
# What may read an input whose width is not known, because it reads certain columns, or passes all of them on.
_PARTIAL = {
    *("getitem", "slice", "select", "index", "index_select", "narrow", "size", "sym_size", "dim", "getattr"),
    *("to", "_to_copy", "type", "type_as", "float", "double", "long", "int", "contiguous", "detach", "clone", "cpu"),
    *("cuda", "alias", "nan_to_num", "_assert_tensor_metadata"),
}


@dataclass(frozen=True)
class Reading:
    """What was read: the description of the steps, and the inputs with their widths and ranks.

    ``indices`` are the inputs that must hold whole numbers, as embeddings read them as they are, and ``copied`` the
    tensors of affine layers that the module computes with elsewhere as well.
    """

    entries: list[Entry]
    places: list[str]
    inputs: tuple[ProgramInput, ...]
    indices: frozenset[str]
    copied: frozenset[str]

    def network(self, tensors: Tensors, source: str, form: Form | None) -> Network:
        """Return the network."""
        return replay(self.entries, tensors, source, form, self.places)


def interpret(program: Program, tensors: Tensors, source: str) -> Reading:
    """Return the steps of a program and the widths of its inputs."""
    if not any(_plain(call.operator)[0].removeprefix("aten.") in _AFFINE for call in program.calls):
        raise FairmendError(f"{source}: holds no affine layer; {SUPPORTED}")
    used = _used_inputs(program)
    if not used:
        raise FairmendError(f"{source}: the output does not depend on any input")
    if len({each.rows for each in used}) > 1:
        raise FairmendError(f"{source}: the inputs of the program do not have one number of rows")
    failure: FairmendError | None = None
    for inputs in _ranked(used):
        attempt = _Attempts(replace(program, inputs=inputs), tensors, source)
        try:
            return attempt.read()
        except FairmendError as error:
            failure = failure or error
    assert failure is not None
    raise failure


def _ranked(inputs: tuple[ProgramInput, ...]) -> Iterator[tuple[ProgramInput, ...]]:
    """Yield the ranks that inputs may have: all (rows, n); if that fails, some or all (rows,)."""
    yield tuple(each if each.rank is not None else replace(each, rank=2) for each in inputs)
    unknown = [each.name for each in inputs if each.rank is None]
    if len(inputs) == 1 or not unknown:
        return
    flat = {name: {name} for name in unknown} | {"all": set(unknown)}
    for chosen in flat.values():
        yield tuple(
            replace(each, rank=1, width=1) if each.name in chosen else replace(each, rank=each.rank or 2)
            for each in inputs
        )


class _Attempts:
    """Runs of one program with assumed widths, until they fit."""

    def __init__(self, program: Program, tensors: Tensors, source: str) -> None:
        self.program, self.tensors, self.source = program, tensors, source
        self.widths = {each.name: each.width or 1 for each in program.inputs}
        self.pinned = {each.name for each in program.inputs if each.width is not None}

    def read(self) -> Reading:
        """Return the steps once all widths fit."""
        for _ in range(_MOST_ATTEMPTS):
            run = _Run(self.program, Steps(self.source, self.tensors), self.widths, self.pinned)
            try:
                output = run.run()
            except InputWidthError as error:
                self.widths[error.name] += error.change
                if error.exact:
                    self.pinned.add(error.name)
                if self.widths[error.name] < 1:
                    raise self._unclear(error.name) from error
                continue
            unclear = sorted(run.whole - run.exact - self.pinned)
            if unclear:
                raise self._unclear(unclear[0])
            entries, places = pruned(run.steps, output.step)
            inputs = tuple(replace(each, width=self.widths[each.name]) for each in self.program.inputs)
            return Reading(entries, places, inputs, frozenset(run.indices), frozenset(run.steps.copied))
        raise self._unclear(self.program.inputs[0].name)

    def _unclear(self, name: str) -> FairmendError:
        label = next(each.label for each in self.program.inputs if each.name == name)
        return FairmendError(
            f"{self.source}: the layers do not say how many columns the input {label!r} has; give an example of what "
            "forward() takes, load_network(model, example=x)"
        )


class _Run:
    """One run of a program with assumed widths."""

    def __init__(self, program: Program, steps: Steps, widths: Mapping[str, int], pinned: set[str]) -> None:
        self.program, self.steps = program, steps
        self.exact, self.indices, self.whole = set(pinned), set[str](), set[str]()
        self.values: dict[str, Any] = dict(program.constants)
        inputs = program.inputs
        names = [(each.label, widths[each.name]) for each in inputs] if len(inputs) > 1 else []
        row = steps.input(sum(widths[each.name] for each in inputs), names)
        start = 0
        for each in inputs:
            width = widths[each.name]
            part = steps.columns(row, f"input {each.label!r}", range(start, start + width))
            opens = {} if each.name in pinned else {each.name: 1}
            dims = (ROWS,) if each.rank == 1 else (ROWS, width)
            axis = 1 if each.rank != 1 and opens else None
            self.values[each.name] = RowTensor((part,), dims, opens, Memory(owner=each.name), open_axis=axis)
            start += width

    def run(self) -> Value:
        """Return the value of the output."""
        needed = _needed(self.program)
        for call in self.program.calls:
            if call.result in needed:
                self.values[call.result] = self._call(call)
        output = self._resolve(self.program.output, "the output")
        if not isinstance(output, RowTensor):
            raise FairmendError(f"{self.steps.source}: the output does not depend on the input")
        if output.whole:
            raise FairmendError(
                f"{self.steps.source}: the output is cast to whole numbers (.long() or .int()), which cuts off what is "
                "after the point"
            )
        if output.dims[0] != ROWS or len(output.dims) > 2:
            raise FairmendError(f"{self.steps.source}: the output has shape {output.shape()}; it must be (rows, n)")
        if output.left_out is not None:
            raise FairmendError(f"{self.steps.source}: the output holds -infinity where a mask says so")
        self.whole.update(output.opens)
        return self.steps.concatenate("the output", output.parts)

    def _call(self, call: Call) -> Any:
        name, in_place = _plain(call.operator)
        operator = OPERATORS.get(name) or OPERATORS.get(name.removeprefix("aten."))
        if operator is None:
            raise unsupported(self.steps.source, call.where, refusal(name.removeprefix("aten.")))
        args = [self._resolve(arg, call.where) for arg in call.args]
        kwargs = {key: self._resolve(arg, call.where) for key, arg in call.kwargs.items()}
        first = kwargs.pop("input", kwargs.pop("self", None))
        args = args if first is None else [first, *args]
        kwargs = {{"axis": "dim"}.get(key, key): value for key, value in kwargs.items() if key != "memory_format"}
        context = Context(self.steps, call.where, self.exact, self.indices)
        try:
            bound = inspect.signature(operator).bind(context, *args, **kwargs)
        except TypeError as error:
            raise unsupported(
                self.steps.source, call.where, f"has arguments that are not supported ({error})"
            ) from error
        if name.removeprefix("aten.") not in _PARTIAL:
            for tensor in _tensors((args, kwargs)):
                self.whole.update(tensor.opens)
        result = operator(context, *args, **kwargs)
        if in_place or bound.arguments.get("inplace") is True:
            return _changed(context, args[0], result)
        return result

    def _resolve(self, argument: Any, where: str) -> Any:
        """Return an argument with the values that its references name."""
        if isinstance(argument, Ref):
            if argument.name not in self.values:
                raise unsupported(
                    self.steps.source, where, f"reads {argument.name!r}, which nothing before it computes"
                )
            value = self.values[argument.name]
            if isinstance(value, RowTensor) and value.stale:
                raise unsupported(
                    self.steps.source,
                    where,
                    f"reads a tensor that {value.memory.changed_by} has changed in place; use the form without inplace",
                )
            return value
        if isinstance(argument, list | tuple):
            return type(argument)(self._resolve(each, where) for each in argument)
        if isinstance(argument, slice):
            return slice(*(self._resolve(part, where) for part in (argument.start, argument.stop, argument.step)))
        return argument


def _changed(context: Context, target: Any, result: Any) -> Any:
    """Put the result of a call into the tensor that it changes in place; views of that become stale."""
    if result is target:  # detach_() and requires_grad_() of a constant
        return target
    if not isinstance(target, RowTensor) or not isinstance(result, RowTensor):
        raise context.refuse("changes a constant in place")
    target.memory.version += 1
    target.memory.changed_by = context.where
    target.parts, target.dims, target.opens = result.parts, result.dims, result.opens
    target.whole, target.sigmoid_of, target.product_of = result.whole, result.sigmoid_of, result.product_of
    target.left_out = result.left_out
    target.version = target.memory.version
    return target


def _plain(name: str) -> tuple[str, bool]:
    """Return the name of an operator without the mark of a change in place, and whether it had one."""
    if name in _IN_PLACE:
        return _IN_PLACE[name], True
    if name.endswith("_") and not name.endswith("__"):
        return name[:-1], True
    return name, False


def _needed(program: Program) -> set[str]:
    """Return the calls that the output depends on, and those that change something in place."""
    needed = {program.output.name}
    for call in reversed(program.calls):
        in_place = (
            _plain(call.operator)[1]
            or call.kwargs.get("inplace") is True
            or any(each is True for each in call.args[1:])
        )
        if call.result in needed or in_place or call.operator == "setitem":
            needed.add(call.result)
            needed.update(ref.name for ref in _refs((call.args, tuple(call.kwargs.values()))))
    return needed


def _used_inputs(program: Program) -> tuple[ProgramInput, ...]:
    needed = _needed(program)
    return tuple(each for each in program.inputs if each.name in needed)


def _refs(argument: Any) -> Iterator[Ref]:
    if isinstance(argument, Ref):
        yield argument
    elif isinstance(argument, list | tuple):
        for each in argument:
            yield from _refs(each)
    elif isinstance(argument, slice):
        yield from _refs((argument.start, argument.stop, argument.step))


def _tensors(argument: Any) -> Iterator[RowTensor]:
    if isinstance(argument, RowTensor):
        yield argument
    elif isinstance(argument, list | tuple):
        for each in argument:
            yield from _tensors(each)
    elif isinstance(argument, dict):
        yield from _tensors(list(argument.values()))
