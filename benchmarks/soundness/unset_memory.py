"""Runs every operator that the checker permits behind an entry with odd sizes: which read or give what is in memory?

    python benchmarks/soundness/unset_memory.py                # all operators, two processes, about ten minutes
    python benchmarks/soundness/unset_memory.py --only Concat  # operators whose names contain this
    python benchmarks/soundness/unset_memory.py --list         # also print each case that gives what was in memory
    python benchmarks/soundness/unset_memory.py --sizes        # compares sizes that the checker follows with real ones

The cases are ONNX's own node tests, and `unset_memory_cases.py` for the operators that these do not have. Each is
changed in many ways: axes of inputs become empty, one, two and all of them; sizes, indices, lengths and counts become
0, negative or large; attributes change; inputs are left out or become constants. Each is then run in ONNX Runtime with
its default options in two processes whose allocator fills memory with different bytes (MALLOC_PERTURB_ of glibc). If
the outputs differ, the node gives memory that it did not write, or reads beyond the end of an input: with it a file
could keep what its entry takes away.

The table says for each operator how often that happened with and without an empty input. It fails if one of these is
not in `readers/onnx_operators.NEED_ENTRIES`, or one that `readers/onnx_memory.py` follows.
"""

from __future__ import annotations

import argparse
import copy
import hashlib
import itertools
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).parents[2]))

from fairmend_check.readers import onnx_memory, protobuf
from fairmend_check.readers.onnx_operators import DETERMINISTIC, MICROSOFT, NEED_ENTRIES
from fairmend_check.readers.onnx_shapes import sizes_of_outputs

Rng = np.random.Generator
FILLS = (85, 170)  # what the allocator fills memory with
VERSIONS = (26, 25, 24, 23, 22, 21)  # of ONNX's operators, for a test that is newer than the runtime
SECONDS, BYTES = 5, 2**33  # that a variant may take
MOST_TESTS = 16  # of one operator: many differ in the type of numbers alone
FEW, MANY = 16, 40
MOST_SIZES = 30  # variants of a case of which sizes are compared


@dataclass
class Case:
    """A model of one node with what it is fed."""

    name: str
    model: onnx.ModelProto
    inputs: list[Any]

    @property
    def operator(self) -> str:
        """The domain and the name of the node's operator."""
        names = [f"{each.domain}:{each.op_type}".lstrip(":") for each in self.model.graph.node]
        return " + ".join(names)


@dataclass
class Variant:
    """A changed case: inputs, attributes of its node, and which of the inputs are constants."""

    name: str
    inputs: list[Any]
    attributes: list[Any]
    constants: bool = False

    @property
    def empty(self) -> bool:
        """Whether an input is empty."""
        return any(_is_empty(each) for each in self.inputs)


def _is_empty(value: Any) -> bool:
    if isinstance(value, list):
        return not value or any(_is_empty(each) for each in value)
    return value is not None and np.asarray(value).size == 0


# Cases


def cases(only: str) -> Iterator[Case]:
    """Yield the cases of operators that the checker permits, in one order."""
    from onnx.backend.test.case.node import collect_testcases

    from benchmarks.soundness.unset_memory_cases import more_cases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.random.seed(0)  # noqa: NPY002 -- some tests draw their inputs with it
        tests = collect_testcases(None)
    of_operator: dict[str, list[Case]] = defaultdict(list)
    for test in tests:
        if test.model is None or len(test.model.graph.node) != 1 or not test.data_sets:
            continue
        case = Case(test.name, test.model, [_as_fed(each) for each in test.data_sets[0][0]])
        if _is_permitted(case) and only.lower() in case.operator.lower():
            of_operator[case.operator].append(case)
    for some in of_operator.values():
        yield from (some[at] for at in sorted(set(np.linspace(0, len(some) - 1, MOST_TESTS).astype(int))))
    for name, model, inputs in more_cases():
        case = Case(name, model, inputs)
        if only.lower() in case.operator.lower():
            yield case


def _as_fed(value: Any) -> Any:
    """Return an input of a node test as ONNX Runtime takes it."""
    if isinstance(value, TensorProto):
        return numpy_helper.to_array(value)
    return np.asarray(value) if isinstance(value, np.generic) else value


def _is_permitted(case: Case) -> bool:
    node = case.model.graph.node[0]
    return node.op_type in DETERMINISTIC.get(node.domain, ())


# Variants


def variants(case: Case) -> Iterator[Variant]:
    """Yield the case as it is and changed in many ways, always the same."""
    rng = np.random.default_rng(int(hashlib.sha256(case.name.encode()).hexdigest()[:8], 16))
    attributes = list(case.model.graph.node[0].attribute)
    found = [Variant("as it is", case.inputs, attributes)]
    shortened = list(_shortened(case.inputs))
    found += [Variant(name, inputs, attributes) for name, inputs in shortened]
    numbers = list(_other_numbers(case.inputs))
    rng.shuffle(numbers)
    found += [Variant(name, inputs, attributes) for name, inputs in numbers[:MANY]]
    for _ in range(FEW if numbers else 0):
        name, inputs = numbers[int(rng.integers(len(numbers)))]
        more = [*_shortened(inputs), *_other_numbers(inputs)]
        if more:
            also, inputs = more[int(rng.integers(len(more)))]
            found.append(Variant(f"{name}, {also}", inputs, attributes))
    changed = list(_other_attributes(attributes))
    rng.shuffle(changed)
    found += [Variant(name, case.inputs, given) for name, given in changed[:MANY]]
    for _ in range(FEW if changed and shortened else 0):
        name, given = changed[int(rng.integers(len(changed)))]
        also, inputs = shortened[int(rng.integers(len(shortened)))]
        found.append(Variant(f"{name}, {also}", inputs, given))
    for at in range(1, len(case.inputs)):
        inputs = [None if place == at else each for place, each in enumerate(case.inputs)]
        found.append(Variant(f"without input {at}", inputs, attributes))
    yield from found
    for variant in found:
        if len(case.inputs) > 1:
            yield Variant(f"constants: {variant.name}", variant.inputs, variant.attributes, constants=True)


def _shortened(inputs: list[Any]) -> Iterator[tuple[str, list[Any]]]:
    """Yield inputs of which one axis, two, all of one size or all of one place are empty."""
    axes = [(at, axis) for at, each in enumerate(inputs) for axis in range(np.ndim(each) if _is_array(each) else 0)]
    sets: list[tuple[tuple[int, int], ...]] = [(each,) for each in axes]
    sizes = {inputs[at].shape[axis] for at, axis in axes}
    sets += [tuple(each for each in axes if inputs[each[0]].shape[each[1]] == size) for size in sizes]
    sets += [tuple(each for each in axes if each[1] == axis) for axis in {axis for _, axis in axes}]
    last = [(at, np.ndim(inputs[at]) - 1) for at in {at for at, _ in axes}]
    sets += [tuple(last), tuple(axes)]
    sets += list(itertools.combinations(axes, 2))[:MANY]
    for chosen in dict.fromkeys(sets):
        changed = list(inputs)
        for at, axis in chosen:
            changed[at] = np.take(changed[at], [], axis)
        yield f"empty {' '.join(f'{at}.{axis}' for at, axis in chosen)}", changed
    for at, each in enumerate(inputs):
        if isinstance(each, list):
            for name, value in (("no entries", []), ("empty entries", [np.take(one, [], 0) for one in each])):
                yield f"{name} in {at}", [value if place == at else other for place, other in enumerate(inputs)]


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray)


def _other_numbers(inputs: list[Any]) -> Iterator[tuple[str, list[Any]]]:
    """Yield inputs of which whole numbers, such as sizes and indices, are others."""
    for at, each in enumerate(inputs):
        if not _is_array(each) or each.dtype.kind not in "iu" or not 0 < each.size <= 64:
            continue
        signed = each.dtype.kind == "i"
        for value in (0, 1, 3, 20, 300, *((-1, -2, -100) if signed else ())):
            changed = np.full_like(each, min(value, int(np.iinfo(each.dtype).max)))
            yield f"input {at} all {value}", [changed if at == place else other for place, other in enumerate(inputs)]
            for entry in range(min(each.size, 6)):
                changed = each.copy()
                changed.reshape(-1)[entry] = min(value, int(np.iinfo(each.dtype).max))
                yield (
                    f"input {at} entry {entry} is {value}",
                    [changed if at == place else other for place, other in enumerate(inputs)],
                )


def _other_attributes(attributes: list[Any]) -> Iterator[tuple[str, list[Any]]]:
    """Yield attributes of which a number or a list is another, or missing."""
    for at, each in enumerate(attributes):
        others = []
        if each.type == onnx.AttributeProto.INT:
            others = [0, 1, 2, 3, 7, -1, each.i + 1, each.i - 1]
        elif each.type == onnx.AttributeProto.INTS:
            numbers = list(each.ints)
            others = [[value] * len(numbers) for value in (0, 1, 5, -1)]
            others += [[*numbers[:-1], numbers[-1] + more] for more in (-1, 1, 4) if numbers]
            others += [[*numbers, 1], numbers[:-1]] if len(numbers) > 1 else [[*numbers, 1]]
        elif each.type == onnx.AttributeProto.FLOATS:
            others = [list(each.floats)[:-1], [*each.floats, 1.0]]
        elif each.type == onnx.AttributeProto.STRINGS:
            others = [list(each.strings)[:-1], [*each.strings, b"x"]]
        for value in others:
            changed = list(attributes)
            if value == []:
                continue
            changed[at] = helper.make_attribute(each.name, value)
            yield f"{each.name} = {value}", changed
        yield f"no {each.name}", [other for place, other in enumerate(attributes) if place != at]


# Runs, in a process whose memory is filled


def run_all(only: str) -> None:
    """Print one line for each variant of each case: the digest of what it gives, or that it fails."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    for case in cases(only):
        first = 0
        while first >= 0:
            first = _run_in_child(case, first)


def _run_in_child(case: Case, first: int) -> int:
    """Run variants from the first on; return where to go on if ONNX Runtime crashed, else -1."""
    found, status = _of_child(lambda lines: _run_variants(case, first, lines))
    done = [line for line in found if line.endswith("}")]
    print("\n".join(done))
    return first + len(done) + 1 if status else -1


def _of_child(write: Callable[[Any], None]) -> tuple[list[str], int]:
    """Return the lines that a child of this process writes, and how it ended: ONNX Runtime may crash."""
    sys.stdout.flush()
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reads)
        resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
        with os.fdopen(writes, "w") as lines, open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 2)
            write(lines)
        os._exit(0)
    os.close(writes)
    with os.fdopen(reads) as lines:
        found = lines.read().splitlines()
    return found, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _run_variants(case: Case, first: int, lines: Any) -> None:
    sessions: dict[Any, Any] = {}
    for number, variant in enumerate(variants(case)):
        if number < first:
            continue
        signal.alarm(SECONDS)
        what = {"case": case.name, "operator": case.operator, "variant": variant.name, "empty": variant.empty}
        try:
            what["gives"] = _digest(_run(case, variant, sessions))
        except Exception as error:  # whatever ONNX Runtime has against it
            what["fails"] = type(error).__name__ + str(error)[:80]
        lines.write(json.dumps(what) + "\n")
        lines.flush()


def _digest(outputs: list[Any]) -> str:
    return hashlib.sha256(repr([_bits(each) for each in outputs]).encode()).hexdigest()[:16]


def _bits(value: Any) -> Any:
    if isinstance(value, list):
        return [_bits(each) for each in value]
    if isinstance(value, np.ndarray):
        return (value.shape, value.tolist() if value.dtype == object else value.tobytes())
    return repr(value)


def _run(case: Case, variant: Variant, sessions: dict[Any, Any]) -> list[Any]:
    kept = not variant.constants
    absent = tuple(at for at, each in enumerate(variant.inputs) if each is None)
    key = (absent, tuple(each.SerializeToString() for each in variant.attributes))
    if kept and key in sessions:
        session = sessions[key]
    else:
        session = _session(case, variant)
        if kept:
            sessions[key] = session
    fed = {}
    for value in session.get_inputs():
        at = [each.name for each in case.model.graph.input].index(value.name)
        fed[value.name] = variant.inputs[at]
    found: list[Any] = session.run(None, fed)
    return found


def _session(case: Case, variant: Variant) -> Any:
    """Return a session of the case's model with inputs and outputs of any shape, in a version that is known."""
    import onnxruntime

    model = copy.deepcopy(case.model)
    graph = model.graph
    node = graph.node[0]
    del node.attribute[:]
    node.attribute.extend(variant.attributes)
    names = [each.name for each in graph.input]
    given = dict(zip(names, variant.inputs, strict=True))
    for each in graph.node:
        each.input[:] = ["" if name in given and given[name] is None else name for name in each.input]
    kept = []
    for number, each in enumerate(graph.input):
        value = given[each.name]
        if variant.constants and number and _is_array(value):
            graph.initializer.append(numpy_helper.from_array(value, each.name))
        elif value is not None:
            kept.append(each)
    del graph.input[:]
    graph.input.extend(kept)
    for each in (*graph.input, *graph.output):
        if each.type.HasField("tensor_type"):
            each.type.tensor_type.ClearField("shape")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    own = next((each for each in model.opset_import if not each.domain), None)
    newest = own.version if own is not None else 0
    for version in (newest, *(each for each in VERSIONS if each < newest)):
        if own is not None:
            own.version = version
        model.ir_version = min(model.ir_version, 11)
        try:
            return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        except Exception as error:
            last = error
    raise last


# Sizes


def compare_sizes(only: str) -> int:
    """Return whether a size that the checker follows is another one than ONNX Runtime's, for any variant."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    checked: Counter[str] = Counter()
    wrong: list[str] = []
    for case in cases(only):
        if len(case.model.graph.node) == 1:
            for line in _of_child(partial(_compare_case, case))[0]:
                checked[case.operator] += 1
                wrong += [line] if line != "fits" else []
    print("\n".join(wrong[:50]))
    print(f"{checked.total():,} outputs of {len(checked)} operators: {len(wrong)} have other sizes")
    return 1 if wrong else 0


def _compare_case(case: Case, lines: Any) -> None:
    sessions: dict[Any, Any] = {}
    if not all(map(_is_array, case.inputs)) or not any(
        _followed(case, next(variants(case)), [x.shape for x in case.inputs])
    ):
        return
    for variant in itertools.islice(variants(case), MOST_SIZES):
        if not all(_is_array(each) and each.size < 10**4 for each in variant.inputs) or variant.constants:
            continue
        signal.alarm(SECONDS)
        try:
            outputs = _run(case, variant, sessions)
        except Exception:  # an error has no sizes
            continue
        for what, given in _as_known(variant.inputs):
            for output, sizes in zip(outputs, _followed(case, variant, given), strict=False):
                if sizes is not None and _is_array(output):
                    other = f"{case.name}, {variant.name}, {what}: {sizes} is {output.shape}"
                    lines.write(f"{'fits' if _fit(sizes, output.shape) else other}\n")
                    lines.flush()


def _as_known(inputs: list[Any]) -> Iterator[tuple[str, list[tuple[int | None, ...]]]]:
    """Yield the sizes of inputs as they are, and with the first or all of them known to be at least 1, or not known."""
    exact = [each.shape for each in inputs]
    yield "exact", exact
    yield "some rows", [(-1 if each and each[0] else None, *each[1:])[: len(each)] for each in exact]
    yield "some", [tuple(-1 if size else 0 for size in each) for each in exact]
    yield "unknown rows", [(None, *each[1:])[: len(each)] for each in exact]


def _followed(case: Case, variant: Variant, given: list[tuple[int | None, ...]]) -> list[Any]:
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    node = model.graph.node[0]
    del node.attribute[:]
    node.attribute.extend(variant.attributes)
    message = protobuf.read_message("Model", model.SerializeToString(), whole=True)["graph"]["node"][0]
    values = dict(zip([each.name for each in model.graph.input], variant.inputs, strict=True))
    sizes = dict(zip([each.name for each in model.graph.input], given, strict=True))

    def numbers(name: str) -> list[int] | None:
        held = values.get(name)
        return held.reshape(-1).tolist() if held is not None and held.dtype == np.int64 else None

    def lists(name: str) -> tuple[int | None, ...] | None:
        held = numbers(name)
        return None if held is None else tuple(number if number >= 0 else None for number in held)

    inputs = [sizes.get(name) for name in node.input]
    full = all(each and all(each) for each in inputs) and node.op_type == "Reshape"
    return sizes_of_outputs(message, inputs, numbers, lists, full=bool(full))


def _fit(sizes: tuple[int | None, ...], shape: tuple[int, ...]) -> bool:
    pairs = zip(sizes, shape, strict=False)
    return len(sizes) == len(shape) and all(
        size is None or (size == real if size >= 0 else real >= 1) for size, real in pairs
    )


# The comparison


def main() -> int:
    """Run all variants in two processes and print what differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="operators whose names contain this")
    parser.add_argument("--list", action="store_true", help="print each variant that gives what was in memory")
    parser.add_argument(
        "--sizes", action="store_true", help="compare the sizes that the checker follows with real ones"
    )
    parser.add_argument("--run", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.run:
        run_all(options.only)
        return 0
    if options.sizes:
        return compare_sizes(options.only)
    with tempfile.TemporaryDirectory() as folder:
        outputs = [Path(folder) / str(fill) for fill in FILLS]
        processes = []
        for fill, path in zip(FILLS, outputs, strict=True):
            with path.open("w") as file:
                given = {**os.environ, "MALLOC_PERTURB_": str(fill), "OMP_NUM_THREADS": "1"}
                command = [sys.executable, __file__, "--run", "--only", options.only]
                processes.append(subprocess.Popen(command, stdout=file, env=given))
        if any(process.wait() for process in processes):
            raise RuntimeError("a process of runs failed")
        runs = [_read(path) for path in outputs]
    return _report(runs, options.list)


def _read(path: Path) -> dict[tuple[str, str], dict[str, Any]]:
    rows = [json.loads(line) for line in path.read_text().splitlines() if line]
    return {(row["case"], row["variant"]): row for row in rows}


def _report(runs: list[dict[tuple[str, str], dict[str, Any]]], show: bool) -> int:
    tallies: dict[str, Counter[str]] = defaultdict(Counter)
    for key in runs[0].keys() | runs[1].keys():
        rows = [run.get(key, {}) for run in runs]
        row = rows[0] or rows[1]
        tally, kind = tallies[row["operator"]], "empty" if row["empty"] else "full"
        tally["variants"] += 1
        tally[f"run, {kind}"] += "gives" in row
        if len({each.get("gives") for each in rows}) > 1:
            tally[f"differ, {kind}"] += 1
            if show:
                print(f"{kind:6} {row['operator']:28} {key[0]}: {key[1]}")
    columns = ("variants", "run, empty", "run, full", "differ, empty", "differ, full")
    print(f"| operator | {' | '.join(columns)} |\n|---|{'---|' * len(columns)}")
    for operator, tally in sorted(tallies.items()):
        print(f"| {operator} | {' | '.join(str(tally[column]) for column in columns)} |")
    unseen = {f"{domain}:{kind}" if domain else kind for domain, kinds in DETERMINISTIC.items() for kind in kinds}
    never = sorted(unseen - {name for name, tally in tallies.items() if tally["run, empty"] + tally["run, full"]})
    print(f"never run: {' '.join(never)}")
    followed = {*onnx_memory.PRODUCTS, ("", "Concat"), (MICROSOFT, "QLinearConcat")}
    followed |= {(domain, kind) for domain, kinds in NEED_ENTRIES.items() for kind in kinds}
    named = {f"{domain}:{kind}" if domain else kind for domain, kind in followed}
    unknown = [
        name
        for name, tally in sorted(tallies.items())
        if tally["differ, empty"] + tally["differ, full"] and not named & set(name.split(" + "))
    ]
    print(f"give what was in memory, and the checker permits it: {' '.join(unknown) or 'none'}")
    total = sum((tally for tally in tallies.values()), Counter[str]())
    print(f"{len(tallies)} operators: {', '.join(f'{total[column]:,} {column}' for column in columns)}")
    return 1 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
