"""Random specs, entries and honest ONNX models behind them, for leaks.py."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from fairmend.models.entry import ELEMENT_TYPES, Code, Cut, Entry, TableLookup
from fairmend.models.onnx_entry import add_entry
from fairmend.models.ports import Port

SEXES, RELATIONS = ["Female", "Male"], ["Husband", "Wife", "Unmarried", "Own-child"]
RACES, JOBS = ["White", "Black", "Other"], ["clerk", "driver", "teacher"]
ELEMENTS = {
    "float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE, "int64": TensorProto.INT64,
    "int32": TensorProto.INT32, "string": TensorProto.STRING, "bool": TensorProto.BOOL,
}  # fmt: skip
BANDS = [0, 10, 25, 40]
SPOUSES = [
    {"when": {"sex": "Female"}, "then": {"relationship": {"Husband": "Wife"}}},
    {"when": {"sex": "Male"}, "then": {"relationship": {"Wife": "Husband"}}},
]
SWAP = [{"when": {"sex": SEXES}, "then": {"relationship": {"Husband": "Wife", "Wife": "Husband"}}}]
MERGES = [{"when": {"sex": ["Female", "Male"]}, "then": {"relationship": {"Unmarried": ["Own-child", "Unmarried"]}}}]
LINKS: list[list[dict[str, Any]]] = [[], SPOUSES, SWAP, SWAP, MERGES]


@dataclass
class EntryCase:
    """A spec, an entry for it, and an honest model with that entry; ``bare`` is the model before it got one."""

    spec: dict[str, Any]
    entry: dict[str, Any]
    bare: onnx.ModelProto
    model: onnx.ModelProto

    def port_of(self, name: str) -> tuple[int, int]:
        """Return the port of a feature, and its first column there."""
        widths = {each["name"]: width(each) for each in self.spec["feature"]}
        for number, port in enumerate(self.entry["ports"]):
            if name in port["features"]:
                return number, sum(widths[each] for each in port["features"][: port["features"].index(name)])
        raise KeyError(name)

    def feature(self, name: str) -> dict[str, Any]:
        """Return a feature of the spec."""
        return next(each for each in self.spec["feature"] if each["name"] == name)


def width(feature: dict[str, Any]) -> int:
    """Return the number of columns of a feature."""
    if feature.get("encoding") != "one-hot":
        return 1
    return len(feature["categories"]) - ("dropped" in feature)


def with_entry(model: onnx.ModelProto, data: dict[str, Any]) -> onnx.ModelProto:
    """Return the model behind the entry of these data, as fairmend writes it."""
    ports = [Port(each["name"], each["type"], each["rank"], tuple(each["features"])) for each in data["ports"]]
    lookups = []
    for each in data["lookups"]:
        codes = [
            Code(code["port"], tuple(code["columns"]), code["compare"], tuple(code["with"]), tuple(code["weights"]))
            for code in each["codes"]
        ]
        table = np.array(each["table"], dtype=ELEMENT_TYPES[ports[each["port"]].type])
        lookups.append(TableLookup(each["port"], tuple(each["columns"]), tuple(codes), table))
    cuts = [Cut(each["port"], each["column"], each["value"]) for each in data["cuts"]]
    widths = tuple(each["width"] for each in data["ports"])
    return add_entry(model, Entry(tuple(ports), widths, tuple(cuts), tuple(lookups)))


def random_case(rng: np.random.Generator) -> EntryCase:
    """Return a random honest case."""
    texts = bool(rng.random() < 0.4)
    features = _features(rng, texts)
    links = LINKS[int(rng.integers(len(LINKS)))]
    spec = {"feature": features, **({"link": links} if links else {})}
    ports = _ports(features, rng, texts)
    case = EntryCase(spec, {"ports": ports, "cuts": [], "lookups": []}, onnx.ModelProto(), onnx.ModelProto())
    _fill_entry(case, rng)
    case.bare = _model(case, rng)
    case.model = with_entry(case.bare, case.entry)
    return case


def _features(rng: np.random.Generator, texts: bool) -> list[dict[str, Any]]:
    def category(name: str, categories: list[str], **more: Any) -> dict[str, Any]:
        made = {"name": name, "kind": "categorical", "categories": categories, **more}
        if not texts and rng.random() < 0.5:
            made["encoding"] = "one-hot"
            if rng.random() < 0.3:
                made["dropped"] = categories[int(rng.integers(len(categories)))]
        return made

    found = [
        category("sex", SEXES, protected=True),
        category("relationship", RELATIONS),
        {"name": "age", "kind": "integer", "range": [17, 90], "protected": True},
        {"name": "hours", "kind": "integer", "range": [1, 99], "tolerance": 2},
        {"name": "income", "kind": "continuous", "range": [0, 100]},
        {"name": "savings", "kind": str(rng.choice(["continuous", "integer"])), "range": [0, 60], "bands": BANDS},
        category("job", JOBS),
    ]
    if rng.random() < 0.4:
        found.append(category("race", RACES, protected=True))
    for feature in found:
        if feature["kind"] != "categorical" and rng.random() < 0.5:
            feature["scale"] = {"mean": 38.5816, "std": 13.6404} if rng.random() < 0.5 else {"min": 1.5, "max": 90.0}
    order = rng.permutation(len(found))
    return [found[at] for at in order]


def _ports(features: list[dict[str, Any]], rng: np.random.Generator, texts: bool) -> list[dict[str, Any]]:
    """Return ports: one of numbers, or one of numbers and one of texts or several of rank 1."""
    number = str(rng.choice(["float32", "float32", "float64"]))

    def port(name: str, kind: str, rank: int, mine: list[dict[str, Any]]) -> dict[str, Any]:
        for feature in mine:
            feature["input"] = name
        columns = sum(map(width, mine))
        return {"name": name, "type": kind, "rank": rank, "width": columns, "features": [f["name"] for f in mine]}

    named = [f for f in features if f["kind"] == "categorical"]
    rest = [f for f in features if f["kind"] != "categorical"]
    if not texts:
        whole = [f for f in features if f["kind"] != "continuous" and "scale" not in f]
        if rng.random() < 0.3 and whole:
            chosen = whole[: 1 + int(rng.integers(len(whole)))]
            kind = str(rng.choice(["int64", "int32", "bool"]))
            marks = [f for f in features if f.get("encoding") == "one-hot"]
            if kind == "bool":
                chosen, kind = (marks, kind) if marks else (chosen, "int64")
            others = [f for f in features if f not in chosen]
            return [port("X", number, 2, others), port("codes", kind, 2, chosen)]
        return [port("X", number, 2, features)]
    if rng.random() < 0.5:
        return [port("numbers", number, 2, rest), port("texts", "string", 2, named)]
    return [port("numbers", number, 2, rest), *(port(f["name"], "string", 1, [f]) for f in named)]


def held(feature: dict[str, Any], value: int, kind: str) -> list[Any]:
    """Return what the columns of a port of a type hold for a whole value or the number of a category."""
    if kind == "string":
        return [feature["categories"][value]]
    if feature.get("encoding") == "one-hot":
        kept = [name for name in feature["categories"] if name != feature.get("dropped")]
        columns = [float(name == feature["categories"][value]) for name in kept]
        whole = bool if kind == "bool" else int if kind.startswith("int") else float
        return [whole(each) for each in columns]
    if kind.startswith("int"):
        return [int(value)]
    return [encoded(feature, value, kind)]


def encoded(feature: dict[str, Any], value: float, kind: str) -> float:
    """Return e(v), rounded once."""
    scale = feature.get("scale", {})
    offset = scale.get("mean", scale.get("min", 0.0))
    factor = scale.get("std", scale.get("max", 1.0) - offset if "max" in scale else 1.0)
    return float(np.dtype(kind).type((value - offset) / factor))


def _fill_entry(case: EntryCase, rng: np.random.Generator) -> None:
    """Cut what varies, and look up what links set where that leaves more than one class."""
    links = case.spec.get("link", [])
    for feature in case.spec["feature"]:
        if "bands" in feature:
            _look_up_bands(case, feature, rng)
            continue
        linked = feature["name"] == "relationship" and links
        if not (feature.get("protected") or feature.get("tolerance") or linked):
            continue
        if linked and rng.random() < 0.8:
            _look_up(case, feature)
            continue
        number, start = case.port_of(feature["name"])
        kind = case.entry["ports"][number]["type"]
        reference = held(feature, int(rng.integers(2)) + 1 if "range" in feature else 0, kind)
        for at, value in enumerate(reference):
            case.entry["cuts"].append({"port": number, "column": start + at, "value": value})
    rng.shuffle(case.entry["cuts"])


def classes_of(links: list[dict[str, Any]]) -> dict[tuple[int, int], int]:
    """Return the class of each sex and relationship: moves to another sex, with what links say, joined by search."""
    people = list(product(range(len(SEXES)), range(len(RELATIONS))))
    found = {person: number for number, person in enumerate(people)}
    for (sex, own), other in product(people, range(len(SEXES))):
        if sex == other:
            continue
        targets = [own]
        for link in links:
            when = link["when"]["sex"]
            if SEXES[other] in (when if isinstance(when, list) else [when]):
                to = link["then"]["relationship"].get(RELATIONS[own], RELATIONS[own])
                changed = [RELATIONS.index(each) for each in (to if isinstance(to, list) else [to])]
                targets = changed if RELATIONS[own] in link["then"]["relationship"] else targets
        for target in targets:
            mine, theirs = found[sex, own], found[other, target]
            found = {person: mine if number == theirs else number for person, number in found.items()}
    return found


def _look_up(case: EntryCase, feature: dict[str, Any]) -> None:
    classes = classes_of(case.spec["link"])
    number, start = case.port_of("relationship")
    kind = case.entry["ports"][number]["type"]
    depends = any(len({classes[sex, own] for sex in range(2)}) > 1 for own in range(len(RELATIONS)))
    codes = [code_of(case, "sex")] if depends else []
    codes.append(code_of(case, "relationship"))
    table = []
    for values in product(*(range(_count(code)) for code in codes)):
        sex, own = values if depends else (0, values[0])
        sex, own = (_category(case.feature(name), at) for name, at in (("sex", sex), ("relationship", own)))
        first = min(person for person, each in classes.items() if each == classes[sex, own])
        table.append(held(feature, first[1], kind))
    columns = list(range(start, start + width(feature)))
    case.entry["lookups"].append({"port": number, "columns": columns, "codes": codes, "table": table})


def _look_up_bands(case: EntryCase, feature: dict[str, Any], rng: np.random.Generator) -> None:
    """Replace a number by one of its band."""
    number, start = case.port_of(feature["name"])
    kind = case.entry["ports"][number]["type"]
    whole, edges = feature["kind"] == "integer", feature["bands"][1:]
    limits = [edge if kind.startswith("int") else encoded(feature, edge - 0.5 * whole, kind) for edge in edges]
    code = {"port": number, "columns": [start], "compare": ">=", "with": limits, "weights": [1] * len(limits)}
    table = [held(feature, end + int(rng.integers(5)), kind) for end in feature["bands"]]
    case.entry["lookups"].append({"port": number, "columns": [start], "codes": [code], "table": table})


def _count(code: dict[str, Any]) -> int:
    weights = code["weights"]
    return (len(weights) if set(weights) == {1} else max(weights)) + 1


def _category(feature: dict[str, Any], code: int) -> int:
    """Return the category of a code; of a code that no one has, the last one."""
    names = feature["categories"]
    if feature.get("encoding") != "one-hot":
        return min(code, len(names) - 1)
    kept = [name for name in names if name != feature.get("dropped")]
    if code:
        return names.index(kept[min(code, len(kept)) - 1])
    return names.index(feature["dropped"]) if "dropped" in feature else 0


def code_of(case: EntryCase, name: str) -> dict[str, Any]:
    """Return a code of a categorical feature that tells its values apart."""
    feature = case.feature(name)
    number, start = case.port_of(name)
    kind = case.entry["ports"][number]["type"]
    count = len(feature["categories"])
    code: dict[str, Any] = {"port": number, "columns": [start]}
    if kind == "string":
        return {**code, "compare": "==", "with": feature["categories"][1:], "weights": list(range(1, count))}
    if feature.get("encoding") == "one-hot":
        columns = list(range(start, start + width(feature)))
        mark: Any = True if kind == "bool" else 1 if kind.startswith("int") else 0.5
        constants = [mark for _ in columns]
        return {
            **code,
            "columns": columns,
            "compare": "==" if kind == "bool" else ">=",
            "with": constants,
            "weights": [at + 1 for at in range(len(columns))],
        }
    if kind.startswith("int"):
        return {**code, "compare": ">=", "with": list(range(1, count)), "weights": [1] * (count - 1)}
    middle = [(encoded(feature, at - 1, kind) + encoded(feature, at, kind)) / 2 for at in range(1, count)]
    middle = [float(np.dtype(kind).type(each)) for each in middle]
    return {**code, "compare": ">=", "with": middle, "weights": [1] * (count - 1)}


# Models


def _model(case: EntryCase, rng: np.random.Generator) -> onnx.ModelProto:
    """Return an honest model that reads all ports: encoders, and then layers, trees, branches, loops or functions."""
    nodes: list[onnx.NodeProto] = []
    tensors: list[onnx.TensorProto] = []
    functions: list[onnx.FunctionProto] = []

    def constant(name: str, array: Any) -> str:
        tensors.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    parts, columns = [], 0
    for number, port in enumerate(case.entry["ports"]):
        name = port["name"]
        if port["type"] == "string":
            texts = SEXES + RELATIONS + RACES + JOBS
            nodes.append(
                helper.make_node(
                    "LabelEncoder", [name], [f"labels_{number}"], domain="ai.onnx.ml", keys_strings=texts,
                    values_floats=[float(at) / 3 for at in range(len(texts))], default_float=-1.0,
                )
            )  # fmt: skip
        else:
            nodes.append(helper.make_node("Cast", [name], [f"labels_{number}"], to=TensorProto.FLOAT))
        shape = constant(f"shape_{number}", np.array([-1, port["width"]]))
        nodes.append(helper.make_node("Reshape", [f"labels_{number}", shape], [f"part_{number}"]))
        parts.append(f"part_{number}")
        columns += port["width"]
    nodes.append(helper.make_node("Concat", parts, ["hidden_0"], axis=1))
    last, size = "hidden_0", columns
    for step in range(int(rng.integers(1, 4))):
        kind = rng.choice(["gemm", "matmul", "tree", "if", "loop", "function", "norm", "dropout"])
        here, next_ = f"step_{step}", f"hidden_{step + 1}"
        if kind in ("gemm", "matmul"):
            wide = int(rng.integers(1, 5))
            weight = constant(f"{here}_w", rng.normal(size=(size, wide)).astype(np.float32))
            bias = constant(f"{here}_b", rng.normal(size=wide).astype(np.float32))
            if kind == "gemm":
                nodes.append(helper.make_node("Gemm", [last, weight, bias], [f"{here}_z"]))
            else:
                nodes.append(helper.make_node("MatMul", [last, weight], [f"{here}_y"]))
                nodes.append(helper.make_node("Add", [f"{here}_y", bias], [f"{here}_z"]))
            nodes.append(helper.make_node(str(rng.choice(["Relu", "Tanh", "Sigmoid"])), [f"{here}_z"], [next_]))
            size = wide
        elif kind == "tree":
            nodes.append(_tree(last, next_, size, rng))
            size = 1
        elif kind == "if":
            nodes += _branch(last, next_, here, constant)
        elif kind == "loop":
            nodes.append(_loop(last, next_, here, constant))
        elif kind == "function":
            functions = functions or [_function()]
            nodes.append(helper.make_node("Half", [last], [next_], domain="local"))
        elif kind == "norm":
            nodes.append(helper.make_node("Shape", [last], [f"{here}_shape"]))
            nodes.append(helper.make_node("Reshape", [last, f"{here}_shape"], [f"{here}_same"]))
            nodes.append(helper.make_node("Softmax", [f"{here}_same"], [next_], axis=1))
        else:
            off = constant(f"{here}_off", np.array(False))
            ratio = constant(f"{here}_ratio", np.array(0.5, np.float32))
            nodes.append(helper.make_node("Dropout", [last, ratio, off], [next_]))
        last = next_
    axes = constant("axes", np.array([1]))
    nodes.append(helper.make_node("ReduceSum", [last, axes], ["raw_score"], keepdims=0))
    nodes.append(helper.make_node("Sigmoid", ["raw_score"], ["score"]))
    inputs = [
        helper.make_tensor_value_info(
            port["name"], ELEMENTS[port["type"]], ["N"] if port["rank"] == 1 else ["N", port["width"]]
        )
        for port in case.entry["ports"]
    ]
    output = helper.make_tensor_value_info("score", TensorProto.FLOAT, ["N"])
    graph = helper.make_graph(nodes, "honest", inputs, [output], tensors)
    texts_read = any(
        case.entry["ports"][code["port"]]["type"] == "string"
        for each in case.entry["lookups"]
        for code in each["codes"]
    )
    opset = int(rng.choice([19, 21] if texts_read else [13, 17, 21]))
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", 3)]
    imports += [helper.make_opsetid("local", 1)] if functions else []
    return helper.make_model(graph, opset_imports=imports, functions=functions, ir_version=9)


def _tree(last: str, next_: str, size: int, rng: np.random.Generator) -> onnx.NodeProto:
    feature = int(rng.integers(size))
    return helper.make_node(
        "TreeEnsembleRegressor", [last], [next_], domain="ai.onnx.ml", n_targets=1, nodes_treeids=[0, 0, 0],
        nodes_nodeids=[0, 1, 2], nodes_featureids=[feature, 0, 0], nodes_modes=["BRANCH_LEQ", "LEAF", "LEAF"],
        nodes_values=[float(rng.normal()), 0.0, 0.0], nodes_truenodeids=[1, 0, 0], nodes_falsenodeids=[2, 0, 0],
        target_treeids=[0, 0], target_nodeids=[1, 2], target_ids=[0, 0], target_weights=[-1.0, 1.0],
    )  # fmt: skip


def _value(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, None)


def _branch(last: str, next_: str, here: str, constant: Any) -> list[onnx.NodeProto]:
    zero = constant(f"{here}_zero", np.array(0.0, np.float32))
    graphs = []
    for name, kind in (("then", "Neg"), ("else", "Abs")):
        node = helper.make_node(kind, [last], [f"{here}_{name}"])
        graphs.append(helper.make_graph([node], f"{here}_{name}_graph", [], [_value(f"{here}_{name}")]))
    return [
        helper.make_node("ReduceMax", [last], [f"{here}_max"], keepdims=0),
        helper.make_node("Greater", [f"{here}_max", zero], [f"{here}_condition"]),
        helper.make_node("If", [f"{here}_condition"], [next_], then_branch=graphs[0], else_branch=graphs[1]),
    ]


def _loop(last: str, next_: str, here: str, constant: Any) -> onnx.NodeProto:
    times, go = constant(f"{here}_times", np.array(2)), constant(f"{here}_go", np.array(True))
    body = helper.make_graph(
        [
            helper.make_node("Identity", [f"{here}_in_go"], [f"{here}_out_go"]),
            helper.make_node("Add", [f"{here}_state", last], [f"{here}_next"]),
        ],
        f"{here}_body",
        [
            helper.make_tensor_value_info(f"{here}_number", TensorProto.INT64, []),
            helper.make_tensor_value_info(f"{here}_in_go", TensorProto.BOOL, []),
            _value(f"{here}_state"),
        ],
        [helper.make_tensor_value_info(f"{here}_out_go", TensorProto.BOOL, []), _value(f"{here}_next")],
    )
    return helper.make_node("Loop", [times, go, last], [next_], body=body)


def _function() -> onnx.FunctionProto:
    half = helper.make_node("Constant", [], ["half"], value=numpy_helper.from_array(np.array(0.5, np.float32)))
    node = helper.make_node("Mul", ["x", "half"], ["y"])
    return helper.make_function("local", "Half", ["x"], ["y"], [half, node], [helper.make_opsetid("", 17)])
