"""The arguments of ATen's functions are those that PyTorch declares, and arguments are bound by these names."""

import pytest
import torch

from fairmend.base.errors import FairmendError
from fairmend.network.formats.torch.aten import ATEN, bind, only_computes


def schema_of(overload):
    name, _, kind = overload.partition(".")
    return getattr(getattr(torch.ops.aten, name), kind)._schema


def declared(overload):
    arguments = schema_of(overload).arguments
    names = [f"{each.name}{'=' if each.has_default_value() else ''}" for each in arguments]
    first_named = next((i for i, each in enumerate(arguments) if each.kwarg_only), None)
    if first_named is not None:
        names.insert(first_named, "*")
    return names


def test_the_arguments_are_those_that_pytorch_declares():
    assert {overload: list(names) for overload, names in ATEN.items()} == {name: declared(name) for name in ATEN}


def test_what_only_computes_changes_none_of_its_arguments():
    """By PyTorch's own marks; lists of TorchScript are no tensors of a program."""
    schemas = [each for each in torch._C._jit_get_all_schemas() if each.name.startswith("aten::")]
    writing = [each for each in schemas if any(a.alias_info and a.alias_info.is_write for a in each.arguments)]
    targets = {f"torch.ops.aten.{each.name[6:]}.{each.overload_name or 'default'}" for each in writing}
    assert len(targets) > 1000
    assert [target for target in targets if only_computes({"target": target, "inputs": []})] == []
    for honest in ("layer_norm.default", "pow.Tensor_Scalar", "glu.default", "sum.dim_IntList", "index.Tensor"):
        assert only_computes({"target": f"torch.ops.aten.{honest}", "inputs": []})


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("_operator.mul", True),
        ("torch.sym_max", True),
        ("_operator.iadd", False),
        ("torch.nn.init.zeros_", False),
        ("torch.ops.aten.linear", False),
        ("torch.ops.mylib.linear.default", False),
    ],
)
def test_other_functions_of_python_and_pytorch_may_change_anything(target, expected):
    assert only_computes({"target": target, "inputs": []}) is expected


def test_statistics_that_are_updated_and_graphs_inside_a_node_are_seen():
    norm = {"target": "torch.ops.aten.batch_norm.default", "inputs": [{"name": "training", "arg": {"as_bool": True}}]}
    assert not only_computes(norm)
    norm["inputs"][0]["arg"]["as_bool"] = False
    assert only_computes(norm)
    for target, expected in (("torch.ops.aten.mul.Tensor", True), ("torch.ops.aten.mul_.Tensor", False)):
        graph = {"as_graph": {"name": "g", "graph": {"nodes": [{"target": target, "inputs": []}]}}}
        inner = {"name": "", "arg": graph, "kind": 1}
        node = {"target": "torch.ops.higher_order.wrap_with_set_grad_enabled", "inputs": [inner]}
        assert only_computes(node) is expected


def given(*arguments):
    return [{"name": name, "arg": number, "kind": kind} for number, (name, kind) in enumerate(arguments)]


def test_arguments_are_bound_by_name():
    assert bind("linear.default", given(("input", 1), ("weight", 1))) == {"input": 0, "weight": 1}
    assert bind("add.Tensor", given(("self", 1), ("other", 1), ("alpha", 2))) == {"self": 0, "other": 1, "alpha": 2}
    assert bind("slice.Tensor", given(("self", 1), ("end", 2))) == {"self": 0, "end": 1}


@pytest.mark.parametrize(
    ("overload", "arguments"),
    [
        ("linear.default", [("weight", 1), ("input", 1)]),
        ("linear.default", [("input", 1), ("weight", 1), ("weight", 1)]),
        ("linear.default", [("input", 1), ("weight", 1), ("other", 1)]),
        ("linear.default", [("input", 1)]),
        ("linear.default", [("input", 1), ("weight", 2), ("bias", 1)]),
        ("linear.default", [("input", 1), ("weight", 0)]),
        ("add.Tensor", [("self", 1), ("other", 1), ("alpha", 1)]),
        ("slice.Tensor", [("self", 1), ("end", 1)]),
        ("slice.Tensor", [("self", 1), ("end", 2), ("start", 2)]),
    ],
)
def test_arguments_that_torch_export_would_not_write_are_refused(overload, arguments):
    with pytest.raises(FairmendError, match=r"not how torch\.export writes them"):
        bind(overload, given(*arguments))
