"""Files of torch.export.save: their JSON and archives are changed; torch.export.load says what they mean.

Two readers are tried: the checker's, which takes the weights alone, and fairmend's loader, which reads the program.
"""

from __future__ import annotations

import copy
import io
import json
import logging
import warnings
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from fairmend.base.errors import FairmendError
from fairmend.network import Network, load_network
from fairmend_check.errors import CheckError
from fairmend_check.kernel.model import Model
from fairmend_check.readers.read_model import read_model
from support.fuzzing.file_format import FileFormat, RuntimeRefusal
from support.state_dict_steps import chain, function, layer, norm

Members = list[tuple[str, bytes]]

_ROWS = np.random.default_rng(5).integers(0, 3, (40, 4)).astype(np.float32)
_LAYERS = chain(4, layer("0"), function("leaky_relu", slope=0.25), norm("2"), layer("3"))
_FUNCTIONS = ("relu", "neg", "relu_", "neg_", "detach", "detach_", "exp_", "zero_", "clone", "t", "selu", "squeeze")
_TARGETS = [f"torch.ops.aten.{name}.default" for name in _FUNCTIONS]
_TARGETS += [
    "torch.ops.aten.add.Tensor",
    "torch.ops.aten.add_.Tensor",
    "torch.ops.aten.add.out",
    "torch.ops.aten.sub.Tensor",
]
_TARGETS += [
    "torch.ops.aten.mul.Tensor",
    "torch.ops.aten.mul_.Tensor",
    "torch.ops.aten.rsub.Tensor",
    "torch.ops.aten.linear",
]
_TARGETS += [
    "torch.relu",
    "torch.neg",
    "_operator.add",
    "_operator.iadd",
    "_operator.sub",
    "torch.ops.aten.copy_.default",
]
_GUARDS = [
    "L['x'].size()[0] >= 2",
    "L['x'].zero_() is not None",
    "L['input'].mul_(2) is not None",
    "L['input'].dim() == 2",
]
_NUMBERS = [0, 1, 2, -1, 3, 4, 7, 8, 0.5, 1.0, -2.0, True, False, None, "1", [], {}, [1]]
_PLACES = (
    "nodes",
    "nodes",
    "nodes",
    "nodes",
    "inputs",
    "outputs",
    "tensor_values",
    "signature",
    "module_call_graph",
    "",
)


@cache
def _seeds() -> tuple[bytes, ...]:
    import torch
    from torch import nn

    from support.torch_modules import trained_norm

    class Branches(nn.Module):
        """Skips, constants, a buffer that is not saved, and functions whose arguments have another order than x, y."""

        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.unused = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2)
            self.last = nn.Linear(8, 1)
            self.register_buffer("shift", torch.tensor([0.5, -1.0, 2.0, 0.25]))
            self.register_buffer("factor", torch.tensor([1.5, 1.0, -2.0, 0.25]), persistent=False)

        def forward(self, x):
            self.unused(x)
            h = nn.functional.hardtanh(self.first(x), -0.75, 1.5)
            g = torch.sub(self.shift, self.second(h), alpha=2) * self.factor
            a, b = torch.split(nn.functional.elu(g + torch.tensor([1.0, 2.0, 3.0, 4.0])), [1, 3], 1)
            return self.last(torch.cat([b, a, h - x], dim=1))

    class Shapes(nn.Module):
        """Functions that move numbers, of activations and of weights."""

        def __init__(self) -> None:
            super().__init__()
            self.first, self.square, self.last = nn.Linear(4, 6), nn.Linear(4, 4), nn.Linear(9, 1)
            self.register_buffer("order", torch.tensor([2, 0, 1]))

        def forward(self, x):
            w = self.square.weight
            h = self.first(x * w[-1, :4] + torch.add(w.t().reshape(-1)[2:6], w.narrow(1, 1, 1).squeeze(1)))
            h = torch.where(h > 0, h, 0.5 * h).reshape(-1, 2, 3)
            a = torch.chunk(h.permute(0, 2, 1).flatten(1), 2, 1)[1]
            c = torch.stack(torch.unbind(h.transpose(1, 2), 2), dim=1).mean(dim=1)
            d = torch.addmm(self.square.bias, torch.tanh(x), w.t()).sum(1, keepdim=True)
            e = torch.clamp(torch.index_select(h[:, 1], 1, self.order), -1.0, 0.5)
            return self.last(torch.cat([a, c, d.unsqueeze(1).squeeze(-1), e[:, 1:]], dim=-1) / (w.flatten()[:9] + 3))

    class Two(nn.Module):
        """Two inputs."""

        def __init__(self) -> None:
            super().__init__()
            self.table, self.last = nn.Embedding(3, 2), nn.Linear(5, 1)

        def forward(self, group, values):
            return self.last(torch.cat([self.table(group[:, 0].long()), torch.relu(values)], 1))

    torch.manual_seed(3)
    chain = nn.Sequential(nn.Linear(4, 4), nn.LeakyReLU(0.25), trained_norm(4), nn.Linear(4, 1)).eval()
    rows = {0: torch.export.Dim("rows", min=2)}
    x = torch.from_numpy(_ROWS[:3])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        programs = [
            torch.export.export(chain, (x,), dynamic_shapes=(rows,)),
            torch.export.export(Branches().eval(), (x,), dynamic_shapes=(rows,)),
            torch.export.export(Branches().eval(), (x,), dynamic_shapes=(rows,)).run_decompositions(),
            torch.export.export(Shapes().eval(), (x,), dynamic_shapes=(rows,)),
            torch.export.export(Shapes().eval(), (x,), dynamic_shapes=(rows,)).run_decompositions(),
            torch.export.export(Two().eval(), (x[:, :1], x[:, 1:]), dynamic_shapes=(rows, rows)),
        ]
        return tuple(_saved(program) for program in programs)


def _saved(program: Any) -> bytes:
    """Return the file, without the places in Python code that torch.export notes."""
    import torch

    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    members = []
    for name, data in _members(buffer.getvalue()):
        if name.endswith("models/model.json"):
            model = json.loads(data)
            for node in model["graph_module"]["graph"]["nodes"]:
                node["metadata"] = {}
            data = json.dumps(model).encode()
        if not name.endswith(".data/serialization_id"):  # of the time when it was saved
            members.append((name, data))
    return _pack(members)


def _members(content: bytes) -> Members:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return [(entry.filename, archive.read(entry)) for entry in archive.infolist()]


def _pack(members: Members) -> bytes:
    """Return an archive as PyTorch writes it; where it refuses the names, as Python does."""
    import torch

    buffer = io.BytesIO()
    root = members[0][0].split("/")[0]
    if all(name.startswith(f"{root}/") for name, _ in members):
        try:
            writer = torch._C.PyTorchFileWriter(buffer)
            for name, data in members:
                short = name.removeprefix(f"{root}/")
                if short not in (".data/version", "byteorder", ".data/serialization_id"):
                    writer.write_record(short, data, len(data))
            writer.write_end_of_file()
            return buffer.getvalue()
        except RuntimeError:
            buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w") as archive:
        warnings.simplefilter("ignore")
        for name, data in members:
            archive.writestr(zipfile.ZipInfo(name), data)
    return buffer.getvalue()


def mutate(content: bytes, rng: np.random.Generator) -> bytes:
    """Change the program, the description of the tensors, or the files of the archive."""
    members = _members(content)
    if rng.random() < 0.15:
        return _pack(_change_members(members, rng))
    wanted = rng.choice(["models/model.json", "weights_config.json", "constants_config.json"], p=[0.8, 0.15, 0.05])
    return _pack([(name, _change_json(data, rng) if name.endswith(str(wanted)) else data) for name, data in members])


def _change_members(members: Members, rng: np.random.Generator) -> Members:
    i, k = (int(rng.integers(len(members))) for _ in range(2))
    name, data = members[i]
    root = name.split("/")[0]
    legacy = [
        "data/weights/model.pt",
        "data/constants/model.pt",
        "models/other.json",
        "data/weights/WEIGHT_0",
        "byteorder",
    ]
    kind = rng.integers(5)
    if kind == 0:
        members[i], members[k] = (name, members[k][1]), (members[k][0], data)
    elif kind == 1:
        members.insert(k, members.pop(i))
    elif kind == 2:
        del members[i]
    elif kind == 3:
        members.insert(k, (f"{root}/{legacy[rng.integers(len(legacy))]}", _tensors_of(members, rng)))
    else:
        members.append((f"x{name}" if rng.random() < 0.5 else name.upper(), data))
    return members


def _tensors_of(members: Members, rng: np.random.Generator) -> bytes:
    """Return other weights as older versions of PyTorch stored them, or any file."""
    import torch

    if rng.random() < 0.4:
        return members[rng.integers(len(members))][1]
    config = next(json.loads(data) for name, data in members if name.endswith("weights_config.json"))["config"]
    metas = {key: entry["tensor_meta"] for key, entry in config.items()}
    sizes = {key: [size["as_int"] for size in meta["sizes"]] for key, meta in metas.items()}
    kinds = {key: torch.float32 if meta["dtype"] == 7 else torch.int64 for key, meta in metas.items()}
    buffer = io.BytesIO()
    torch.save({key: torch.full(size, 0.125).to(kinds[key]) for key, size in sizes.items()}, buffer)
    return buffer.getvalue()


def _change_json(data: bytes, rng: np.random.Generator) -> bytes:
    text = json.loads(data)
    part = text
    if "graph_module" in text:
        place = str(rng.choice(_PLACES))
        module = text["graph_module"]
        part = module["graph"].get(place, module.get(place, text))
    containers = [each for each in _containers(part) if each]
    container = containers[rng.integers(len(containers))]
    if isinstance(container, list):
        _change_list(container, containers, rng)
    else:
        _change_dict(container, containers, rng)
    if "guards_code" in text and rng.random() < 0.05:
        text["guards_code"] = [_GUARDS[rng.integers(len(_GUARDS))]]
    written = json.dumps(text)
    if rng.random() < 0.05:
        written = written.replace('"name":', '"name": "x", "name":', 1 + int(rng.integers(20)))
    return written.encode()


def _containers(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        yield value
        for each in value.values() if isinstance(value, dict) else value:
            yield from _containers(each)


def _change_list(items: list[Any], containers: list[Any], rng: np.random.Generator) -> None:
    i, k = (int(rng.integers(len(items))) for _ in range(2))
    kind = rng.integers(4)
    if kind == 0:
        items[i], items[k] = items[k], items[i]
    elif kind == 1:
        items.insert(k, copy.deepcopy(items[i]))
    elif kind == 2:
        del items[i]
    else:
        rng.shuffle(items)


def _change_dict(entries: dict[str, Any], containers: list[Any], rng: np.random.Generator) -> None:
    keys = list(entries)
    key = keys[rng.integers(len(keys))]
    others = [each for each in containers if isinstance(each, dict) and key in each]
    other = others[rng.integers(len(others))]
    kind = rng.integers(7)
    if kind == 6:
        _change_numbers(containers, rng)
    elif kind == 0:
        entries[key], other[key] = other[key], entries[key]
    elif kind == 1:
        entries[key] = copy.deepcopy(other[key])
    elif kind == 2:
        del entries[key]
    elif kind == 3 and "target" in entries:
        entries["target"] = _TARGETS[rng.integers(len(_TARGETS))]
    elif kind == 4:
        entries[keys[rng.integers(len(keys))]] = entries.pop(key)
    else:
        entries[key] = _NUMBERS[rng.integers(len(_NUMBERS))]


def _change_numbers(containers: list[Any], rng: np.random.Generator) -> None:
    """Change one argument that is a number, by little: an axis, an end or a limit."""
    numbers = [
        (each, key) for each in containers if isinstance(each, dict) for key in ("as_int", "as_float") if key in each
    ]
    lists = [each["as_ints"] for each in containers if isinstance(each, dict) and each.get("as_ints")]
    found = [*numbers, *((each, int(rng.integers(len(each)))) for each in lists)]
    if found:
        entries, key = found[rng.integers(len(found))]
        entries[key] = entries[key] + int(rng.integers(-3, 4)) if rng.random() < 0.7 else -entries[key]


def _program(content: bytes) -> Any:
    import torch

    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return torch.export.load(io.BytesIO(content))
    except BaseException as error:  # PyTorch raises what a damaged file makes it raise
        raise RuntimeRefusal(f"torch.export.load: {type(error).__name__}: {str(error)[:200]}") from error
    finally:
        logging.disable(level)


def weights_disagreement(model: Model, content: bytes, path: Path) -> str | None:
    """Say how the weights that torch.export.load reads differ from those of the checker."""
    state = {key: value.detach().numpy().astype(np.float64) for key, value in _program(content).state_dict.items()}
    with np.errstate(all="ignore"):
        factor = state["2.weight"] / np.sqrt(state["2.running_var"] + 1e-5)
    hidden = _ROWS.astype(np.float64) @ state["0.weight"].T + state["0.bias"]
    hidden = (np.where(hidden > 0, hidden, 0.25 * hidden) - state["2.running_mean"]) * factor + state["2.bias"]
    expected = hidden @ state["3.weight"].T + state["3.bias"]
    own = _ROWS @ model.layers[0].weight.T + model.layers[0].bias
    own = np.where(own > 0, own, 0.25 * own) @ model.layers[1].weight.T + model.layers[1].bias
    return _difference(own, expected)


def program_disagreement(network: Network, content: bytes, path: Path) -> str | None:
    """Say how the program that torch.export.load reads computes something else than the network."""
    import torch

    loaded = _program(content)
    rows = torch.tensor(_ROWS)  # a copy, which the program may change
    wide = [
        int(node.meta["val"].shape[1]) for node in loaded.graph.nodes if node.name in loaded.graph_signature.user_inputs
    ]
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = loaded.module()(*torch.split(rows, wide, 1)).numpy()
    except Exception as error:  # a program that does not run
        raise RuntimeRefusal(f"the program: {type(error).__name__}: {str(error)[:200]}") from error
    return _difference(network.logits(_ROWS[:, : network.inputs]).reshape(len(rows), -1), found)


def _difference(own: np.ndarray, expected: np.ndarray) -> str | None:
    if own.shape != expected.shape:
        return f"the output has shape {expected.shape}, not {own.shape}"
    close = np.abs(own - expected) <= 1e-4 * (1 + np.abs(own) + np.abs(expected))
    return None if close.all() else f"PyTorch computes {expected[:3].tolist()}, not {own[:3].tolist()}"


def read_weights(path: Path) -> Model:
    """Read the weights as the checker does."""
    return read_model(path, _LAYERS)[0]


def read_program(path: Path) -> Network:
    """Read the program as the loader does."""
    try:
        return load_network(path)
    except FairmendError as error:
        raise CheckError(str(error)) from error


FORMAT = FileFormat("pt2", ".pt2", lambda: [_seeds()[0]], mutate, weights_disagreement, read_weights)
FORMAT_PROGRAM = FileFormat(
    "pt2-program",
    ".pt2",
    lambda: list(_seeds()),
    mutate,
    program_disagreement,
    read_program,  # type: ignore[arg-type]
)
