"""Functional Keras models: what the layers read, and the order by which Keras assigns weights."""

import pytest

from fairmend_check.errors import CheckError
from fairmend_check.readers.keras_config import Layer, read_calls

# A diamond: in -> a, b; the sum of c(a) and b is read by d.
READS = {"in": [], "a": ["in"], "c": ["a"], "b": ["in"], "sum": ["c", "b"], "d": ["sum"]}


def read(reads=READS, ends=("in", "d"), options=None, weighted=("a", "b", "c", "d"), nodes=None):
    entries = [
        {"name": name, "inbound_nodes": [[[each, 0, 0, options or {}] for each in sources]] if sources else []}
        for name, sources in reads.items()
    ]
    for entry in entries:
        entry["inbound_nodes"] = (nodes or {}).get(entry["name"], entry["inbound_nodes"])
    content = {"input_layers": [[ends[0], 0, 0]], "output_layers": [[ends[1], 0, 0]]}
    kinds = dict.fromkeys(reads, "Add") | dict.fromkeys(weighted, "Dense") | {"in": "InputLayer"}
    if "a" in weighted:
        kinds["a"] = "BatchNormalization"
    return read_calls(content, entries, layers(kinds))


def layers(kinds):
    return {name: Layer(kind, name, {}) for name, kind in kinds.items()}


def test_layers_come_in_the_order_of_keras():
    calls = read()
    assert calls.order == ("in", "a", "c", "b", "sum", "d")
    assert calls.reads["sum", 0] == (("c", 0), ("b", 0))
    assert list(calls.reads) == [(name, 0) for name in ("in", "a", "c", "b", "sum", "d")]


def test_the_list_of_keras_3_says_the_same():
    def tensor(name):
        return {"class_name": "__keras_tensor__", "config": {"shape": [None, 3], "keras_history": [name, 0, 0]}}

    nodes = {
        "sum": [{"args": [[tensor("c"), tensor("b")]], "kwargs": {}}],
        "d": [{"args": [tensor("sum")], "kwargs": {}}],
    }
    assert read(nodes=nodes) == read()


def test_a_layer_without_weights_may_be_used_twice():
    nodes = {"sum": [[["c", 0, 0], ["b", 0, 0]], [["sum", 0, 0], ["b", 0, 0]]], "d": [[["sum", 1, 0]]]}
    assert read(nodes=nodes).reads["sum", 1] == (("sum", 0), ("b", 0))


HOSTILE = {
    "depends on itself": {"reads": READS | {"a": ["c"]}},
    "which the model does not have": {"reads": READS | {"a": ["other"]}},
    "is not a part of": {"reads": {**READS, "aside": ["in"]}},
    "listed in the order": {"reads": {"in": [], **{name: READS[name] for name in ("b", "a", "c", "sum", "d")}}},
    "reads nothing": {"reads": READS | {"a": []}},
    "is used twice": {"nodes": {"a": [[["in", 0, 0]], [["in", 0, 0]]]}},
    "called with options": {"options": {"training": True}},
    "unknown key": {"options": {"y": None}},
    "that there is not": {"nodes": {"d": [[["sum", 1, 0]]]}},
    "that its layer does not have": {"nodes": {"d": [[["sum", 0, 1]]]}},
    "something else than the output": {"nodes": {"d": [[["sum", "0", 0]]]}},
    "not read a list": {"nodes": {"d": ["sum"]}},
    "or a list of values": {"nodes": {"d": [{"args": [3], "kwargs": {}}]}},
    "input_layers are not": {"ends": ("a", "d")},
}


@pytest.mark.parametrize("reason", HOSTILE)
def test_what_does_not_fit_together_is_refused(reason):
    with pytest.raises(CheckError, match=reason):
        read(**HOSTILE[reason])


def test_a_deep_model_does_not_exhaust_the_stack():
    names = ["in", *(f"l{i}" for i in range(5000))]
    reads = {name: names[i : i + 1] for i, name in enumerate(names[1:])}
    calls = read({"in": [], **reads}, ("in", names[-1]), weighted=())
    assert calls.order == tuple(names)


def test_inputs_must_have_the_names_of_their_layers():
    """Keras takes a dict of inputs by its keys, and the condition of a certificate names the layers."""
    content = {"input_layers": {"b": ["a", 0, 0], "a": ["b", 0, 0]}, "output_layers": [["c", 0, 0]]}
    kinds = {"a": "InputLayer", "b": "InputLayer", "c": "Add"}
    nodes = {"a": [], "b": [], "c": [[["a", 0, 0, {}], ["b", 0, 0, {}]]]}
    entries = [{"name": name, "inbound_nodes": given} for name, given in nodes.items()]
    with pytest.raises(CheckError, match="other names than their layers"):
        read_calls(content, entries, layers(kinds))
    content["input_layers"] = {"b": ["b", 0, 0], "a": ["a", 0, 0]}
    assert read_calls(content, entries, layers(kinds)).inputs == ("b", "a")
