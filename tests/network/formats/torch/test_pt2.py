""".pt2 files: the program that torch.export wrote is read without torch.export, and only its weights change."""

import copy
import io
import json
import pickle
import re
import zipfile

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import fairmend
from fairmend.base.errors import FairmendError
from fairmend.network import Affine, load_network
from fairmend.network.formats import require_room
from fairmend.prove.certificate import certificate_of_fair
from fairmend.spec import Spec
from support.torch_graphs import GRAPHS, Tabular, pair
from support.torch_modules import trained_norm

CAT, CONT = torch.tensor([[4, 2], [0, 1], [3, 0]]), torch.randn(3, 4, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("pt2")
    rows = torch.export.Dim("rows")
    module = Tabular().eval()
    shapes = ({0: rows}, {0: rows})
    torch.export.save(torch.export.export(module, (CAT, CONT), dynamic_shapes=shapes), folder / "dynamic.pt2")
    torch.export.save(torch.export.export(GRAPHS["view"]().eval(), (CONT,)), folder / "static.pt2")
    return module, folder


def row():
    return np.concatenate([CAT.numpy(), CONT.numpy()], 1).astype(np.float32)


def test_the_exported_program_is_the_module(exported):
    module, folder = exported
    network = load_network(folder / "dynamic.pt2")
    assert network.nodes == load_network(module).nodes
    assert np.allclose(network.logits(row()), module(CAT, CONT).detach().numpy(), atol=1e-6)
    assert load_network(folder / "static.pt2").inputs == 4


def test_several_outputs_are_refused_with_a_way_out(tmp_path):
    module = pair(lambda m, x: (m.b(h := m.a(x).relu()), h)).eval()
    program = torch.export.export(module, (CONT,))
    torch.export.save(program, tmp_path / "two.pt2")
    for source in (program, tmp_path / "two.pt2"):
        with pytest.raises(FairmendError, match=r"returns 2 outputs; .*wrap the module"):
            load_network(source)


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_bags_of_a_program_for_any_number_of_rows_are_read(mode, tmp_path):
    module, rows = GRAPHS[f"{mode} of the rows of a table"]().eval(), torch.randint(0, 5, (9, 5)).float()
    program = torch.export.export(module, (rows,), dynamic_shapes=({0: torch.export.Dim("rows")},))
    torch.export.save(program, tmp_path / "m.pt2")
    for source in (program, tmp_path / "m.pt2"):
        assert np.allclose(load_network(source).logits(rows), module(rows).detach().numpy(), atol=1e-6)


def test_bags_of_a_program_for_some_rows_are_refused_by_name(tmp_path):
    program = torch.export.export(GRAPHS["sum of the rows of a table"]().eval(), (torch.zeros(3, 5),))
    torch.export.save(program, tmp_path / "m.pt2")
    for source in (program, tmp_path / "m.pt2"):
        with pytest.raises(FairmendError, match=r"arange.*of an EmbeddingBag, give the module itself"):
            load_network(source)


def test_a_changed_file_is_the_same_archive_with_other_weights(exported, tmp_path):
    _, folder = exported
    network = load_network(folder / "dynamic.pt2")
    changed = network.with_affines([Affine(a.weight * 1.25, a.bias + 0.1) for a in network.affines])
    changed.save(tmp_path / "changed.pt2")
    assert load_network(tmp_path / "changed.pt2").nodes == changed.nodes
    with torch.no_grad():
        given = torch.export.load(tmp_path / "changed.pt2").module()(CAT, CONT).numpy()
    assert np.allclose(given, changed.logits(row()), atol=1e-5)
    changed.save(tmp_path / "changed.pth")
    Tabular().load_state_dict(torch.load(tmp_path / "changed.pth", weights_only=True), strict=True)


def test_the_certificate_is_checked_against_the_weights_in_the_archive(exported, tmp_path):
    _, folder = exported
    network = load_network(folder / "dynamic.pt2")
    names = ("a", "b", "c", "d", "e", "f")
    ranges = ([0, 4], [0, 2], *([[0, 1]] * 4))
    features = [{"name": n, "kind": "integer", "range": r} for n, r in zip(names, ranges, strict=True)]
    spec = Spec.from_dict({"feature": [*features[:-1], {**features[-1], "protected": True}]})
    X = np.random.default_rng(0).integers(0, 2, (30, 6)).astype(np.float32)
    certificate, _ = certificate_of_fair(network, spec, X)
    certificate.save(tmp_path / "c.json", folder / "dynamic.pt2")
    result = fairmend.check(tmp_path / "c.json", folder / "dynamic.pt2")
    assert result.valid
    assert "the program in the file is not checked, only its weights" in result.condition


def rewritten(path, change):
    """The archive with some members changed, stored as they are."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(buffer, "w") as new:
        for name in old.namelist():
            new.writestr(name, change(name, old.read(name)))
    return buffer.getvalue()


def with_pickle(name, data):
    if not name.endswith("weights_config.json"):
        return data
    config = json.loads(data)
    config["config"]["layers.0.weight"]["use_pickle"] = True
    return json.dumps(config)


def with_operator(name, data):
    return (
        data.replace(b"torch.ops.aten.cat.default", b"torch.ops.aten.mul.Tensor")
        if name.endswith("model.json")
        else data
    )


HOSTILE = {
    "a pickle": (with_pickle, "stored as a pickle, which can run code"),
    "no program": (lambda name, data: b"{}" if name.endswith("model.json") else data, "not a readable .pt2"),
    "no numbers": (lambda name, data: b"" if "weight_" in name and "config" not in name else data, "does not fit"),
    "another operator": (with_operator, "mul"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_what_is_damaged_or_not_supported_is_refused_in_one_line(exported, case, tmp_path):
    change, words = HOSTILE[case]
    (tmp_path / "m.pt2").write_bytes(rewritten(exported[1] / "dynamic.pt2", change))
    with pytest.raises(FairmendError, match=words):
        load_network(tmp_path / "m.pt2")


@pytest.mark.parametrize("content", [b"no archive", pickle.dumps(3)])
def test_what_is_no_archive_is_refused(content, tmp_path):
    (tmp_path / "m.pt2").write_bytes(content)
    with pytest.raises(FairmendError, match=r"not a readable \.pt2 file"):
        load_network(tmp_path / "m.pt2")


def test_a_network_from_elsewhere_cannot_become_an_exported_program(exported, tmp_path):
    with pytest.raises(FairmendError, match="only if it came from one"):
        load_network(exported[0]).save(tmp_path / "m.pt2")


def test_a_program_without_a_bias_stays_without(tmp_path):
    module = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1, bias=False)).eval()
    torch.export.save(torch.export.export(module, (CONT,)), tmp_path / "m.pt2")
    network = load_network(tmp_path / "m.pt2")
    require_room(network, tmp_path / "m.pt2")
    changed = network.with_affines([Affine(a.weight * 2, a.bias + 1) for a in network.affines])
    changed.save(tmp_path / "n.pt2")
    assert load_network(tmp_path / "n.pt2") == changed
    assert set(torch.export.load(tmp_path / "n.pt2").state_dict) == {"0.weight", "0.bias", "2.weight"}


@pytest.mark.filterwarnings("ignore:No complete tensor found")  # of torch.export itself
def test_a_weight_that_is_a_part_of_a_larger_tensor_is_refused_before_a_repair(tmp_path):
    """The exported program keeps the larger tensor, which is not changed; other files hold the part alone."""
    module = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 1))
    module[0].weight = torch.nn.Parameter(torch.ones(7, 4)[:3])
    torch.export.save(torch.export.export(module.eval(), (CONT,)), tmp_path / "m.pt2")
    network = load_network(tmp_path / "m.pt2")
    with pytest.raises(
        FairmendError, match=r"m\.pt2: the tensor '0\.weight' shares .* so the file cannot hold a repaired"
    ):
        require_room(network, tmp_path / "m.pt2")
    require_room(network, tmp_path / "m.pth")


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of torch.export itself
@pytest.mark.parametrize("slopes", [1, 3])
def test_a_decomposed_prelu_is_read_as_one(tmp_path, slopes):
    """run_decompositions writes it as x where x > 0, else x times the slopes."""
    module = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.PReLU(slopes), torch.nn.Linear(3, 1)).eval()
    with torch.no_grad():
        module[1].weight.copy_(torch.linspace(-0.5, 1.5, slopes))
    exported = torch.export.export(module, (CONT,)).run_decompositions()
    assert any("where" in str(node.target) for node in exported.graph.nodes)
    torch.export.save(exported, tmp_path / "m.pt2")
    network = load_network(tmp_path / "m.pt2")
    assert network.nodes == load_network(module).nodes
    changed = network.with_affines([Affine(a.weight * 2, a.bias) for a in network.affines])
    changed.save(tmp_path / "n.pt2")
    assert load_network(tmp_path / "n.pt2") == changed


@pytest.fixture(scope="module")
def branches(tmp_path_factory):
    """A program with all that the forgeries below change."""

    class Branches(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.unused, self.norm = torch.nn.Linear(4, 4), torch.nn.LayerNorm(4), trained_norm(4)
            self.last = torch.nn.Linear(8, 1)
            self.register_buffer("shift", torch.tensor([0.5, -1.0, 2.0, 0.25]))
            self.register_buffer("factor", torch.tensor([1.5, 1.0, -2.0, 0.25]), persistent=False)

        def forward(self, a, b):
            h = self.norm(torch.nn.functional.hardtanh(self.first(torch.cat([a, b], 1)), -0.75, 1.5))
            self.unused(h)  # torch.export keeps what nothing reads
            g = torch.sub(self.shift, h, alpha=2) * self.factor + torch.tensor([1.0, 2.0, 3.0, 4.0])
            return self.last(torch.cat([torch.relu(g), h], 1))

    torch.manual_seed(1)
    module = Branches().eval()
    rows = {0: torch.export.Dim("rows")}
    path = tmp_path_factory.mktemp("branches") / "m.pt2"
    torch.export.save(torch.export.export(module, (CONT[:, :2], CONT[:, 2:]), dynamic_shapes=(rows, rows)), path)
    return module, path


def test_branches_constants_and_results_that_nothing_reads(branches):
    module, path = branches
    expected = module(CONT[:, :2], CONT[:, 2:]).detach().numpy()
    assert np.allclose(load_network(path).logits(CONT.numpy()).reshape(expected.shape), expected, atol=1e-6)


def node_of(model, function, number=0):
    nodes = model["graph_module"]["graph"]["nodes"]
    return [node for node in nodes if node["target"].startswith(f"torch.ops.aten.{function}.")][number]


def exchange_arguments(function, i, k):
    def change(model):
        inputs = node_of(model, function)["inputs"]
        inputs[i], inputs[k] = inputs[k], inputs[i]

    return change


def repeat_argument(model):
    inputs = node_of(model, "hardtanh")["inputs"]
    inputs.insert(1, {**inputs[1], "arg": {"as_float": -0.5}})


def rename_argument(model):
    node_of(model, "hardtanh")["inputs"][2]["name"] = "most"


def place_a_keyword(model):
    node_of(model, "sub")["inputs"][2]["kind"] = 1


def add_node(target, *arguments):
    def change(model):
        graph = model["graph_module"]["graph"]
        inputs = [
            {"name": name, "arg": {"as_tensor": {"name": value}}, "kind": kind} for name, value, kind in arguments
        ]
        node = {**node_of(model, "hardtanh"), "target": target, "inputs": inputs, "name": "more"}
        graph["nodes"].insert(0, {**node, "outputs": [{"as_tensor": {"name": "more"}}]})
        graph["tensor_values"]["more"] = graph["tensor_values"]["p_first_bias"]

    return change


def update_statistics(model):
    node = copy.deepcopy(node_of(model, "batch_norm"))
    next(each for each in node["inputs"] if each["name"] == "training")["arg"] = {"as_bool": True}
    graph = model["graph_module"]["graph"]
    graph["nodes"].append({**node, "outputs": [{"as_tensor": {"name": "more"}}], "name": "more"})
    graph["tensor_values"]["more"] = graph["tensor_values"]["batch_norm"]


def exchange_specs(model):
    specs = model["graph_module"]["signature"]["input_specs"]
    specs[0], specs[1] = specs[1], specs[0]


def exchange_inputs(model):
    """Both lists agree, but PyTorch fills the inputs by place: b would get the columns of a."""
    for listed in (model["graph_module"]["graph"]["inputs"], model["graph_module"]["signature"]["input_specs"]):
        listed[-1], listed[-2] = listed[-2], listed[-1]


def return_another_tensor(model):
    model["graph_module"]["graph"]["outputs"] = [{"as_tensor": {"name": "relu"}}]


def change_a_buffer(model):
    specs = model["graph_module"]["signature"]["output_specs"]
    specs.insert(0, {"buffer_mutation": {"arg": {"name": "relu"}, "buffer_name": "shift"}})


def move_a_buffer(model):
    specs = model["graph_module"]["signature"]["input_specs"]
    next(each["buffer"] for each in specs if each.get("buffer", {}).get("buffer_name") == "shift")["persistent"] = False


def name_a_result_twice(model):
    graph = model["graph_module"]["graph"]
    graph["nodes"].insert(-1, copy.deepcopy(node_of(model, "relu")))


def give_a_node_another_name(model):
    node_of(model, "relu")["name"] = "linear_1"


def read_what_comes_later(model):
    node_of(model, "relu")["inputs"][0]["arg"] = {"as_tensor": {"name": "linear_1"}}


def give_a_text_for_a_number(model):
    node_of(model, "hardtanh")["inputs"][1]["arg"] = {"as_float": "-0.75"}


def another_number_of_rows(model):
    model["graph_module"]["graph"]["tensor_values"]["a"]["sizes"][0] = {"as_int": 1}


def change_the_inputs(model):
    model["guards_code"] = ["L['a'].zero_() is not None"]


def another_version(model):
    model["schema_version"]["major"] = 7


FORGED = {
    "arguments in another order": (exchange_arguments("sub", 0, 1), "arguments other, self, alpha, which is not how"),
    "limits in another order": (exchange_arguments("hardtanh", 1, 2), "arguments self, max_val, min_val"),
    "parts of a norm in another order": (exchange_arguments("batch_norm", 2, 3), "not how torch.export writes"),
    "an argument twice": (repeat_argument, "arguments self, min_val, min_val, max_val"),
    "an unknown argument": (rename_argument, "arguments self, min_val, most"),
    "a keyword by place": (place_a_keyword, "not how torch.export writes"),
    "weights overwritten": (
        add_node("torch.ops.aten.neg.out", ("self", "p_first_bias", 1), ("out", "p_first_bias", 2)),
        "may change tensors in place",
    ),
    "weights changed in place": (add_node("torch.ops.aten.neg_.default", ("self", "p_first_bias", 1)), "in place"),
    "a function of Python": (add_node("torch.nn.init.zeros_", ("", "p_first_bias", 1)), "may change tensors"),
    "statistics updated": (update_statistics, "changes its running statistics"),
    "weights exchanged in one list": (exchange_specs, "lists its inputs in two different ways"),
    "inputs exchanged": (exchange_inputs, "its inputs b, a in another order"),
    "two outputs named": (return_another_tensor, "lists its outputs in two different ways"),
    "a buffer changed": (change_a_buffer, "an output of the kind 'buffer_mutation'"),
    "a buffer from elsewhere": (move_a_buffer, "KeyError: 'shift'"),
    "a result twice": (name_a_result_twice, "one name to several tensors"),
    "two names": (give_a_node_another_name, "the result of a node 'linear_1' and 'relu'"),
    "a result before it is computed": (read_what_comes_later, "reads 'linear_1', which nothing before it computes"),
    "a text": (give_a_text_for_a_number, "is '-0.75', which is not float"),
    "a row for everyone": (another_number_of_rows, "do not have one number of rows"),
    "code that checks the inputs": (change_the_inputs, "which may run code"),
    "another version": (another_version, "has version"),
}


@pytest.mark.parametrize("case", FORGED)
def test_a_program_that_torch_export_would_not_write_is_refused(branches, case, tmp_path):
    """PyTorch runs many of these, as another network than the one that their places, names or lists suggest."""
    change, words = FORGED[case]

    def forge(name, data):
        if not name.endswith("models/model.json"):
            return data
        model = json.loads(data)
        change(model)
        return json.dumps(model)

    (tmp_path / "m.pt2").write_bytes(rewritten(branches[1], forge))
    with pytest.raises(FairmendError, match=words):
        load_network(tmp_path / "m.pt2")


def test_a_key_twice_is_refused(branches, tmp_path):
    def forge(name, data):
        return data.replace(b'"kind": 1', b'"kind": 2, "kind": 1', 1) if name.endswith("models/model.json") else data

    (tmp_path / "m.pt2").write_bytes(rewritten(branches[1], forge))
    with pytest.raises(FairmendError, match="twice"):
        load_network(tmp_path / "m.pt2")


def share_numbers(config):
    config["norm.bias"] = {**config["shift"], "tensor_meta": {**config["shift"]["tensor_meta"], "dtype": 4}}


def point_elsewhere(config):
    config["shift"]["path_name"] = "../weights/weight_0"


def repeat_numbers(config):
    meta = config["shift"]["tensor_meta"]
    meta |= {"sizes": [{"as_int": 2**40}, {"as_int": 4}], "strides": [{"as_int": 0}, {"as_int": 1}]}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (share_numbers, "not stored as torch.export.save stores"),
        (point_elsewhere, "not stored as torch.export.save stores"),
        (repeat_numbers, "shift does not fit its numbers"),
    ],
)
def test_tensors_that_are_stored_otherwise_are_refused(branches, change, words, tmp_path):
    def forge(name, data):
        if not name.endswith("weights_config.json"):
            return data
        config = json.loads(data)
        change(config["config"])
        return json.dumps(config)

    (tmp_path / "m.pt2").write_bytes(rewritten(branches[1], forge))
    with pytest.raises(FairmendError, match=re.escape(words)):
        load_network(tmp_path / "m.pt2")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("m/data/weights/model.pt", "as a pickle, which can run code"),
        ("m/data/constants/model.pt", "as a pickle, which can run code"),
        ("m/models/other.json", "does not hold one program"),
        ("other/models/model.json", "does not hold one program"),
        ("m/DATA/weights/weight_0", "not one that torch.export.save writes"),
    ],
)
def test_an_archive_with_further_files_is_refused(branches, name, words, tmp_path):
    """PyTorch reads data/weights/model.pt, if there is one, instead of the tensors beside it."""
    content = io.BytesIO(branches[1].read_bytes())
    with zipfile.ZipFile(content, "a") as archive:
        archive.writestr(name, b"{}")
    (tmp_path / "m.pt2").write_bytes(content.getvalue())
    with pytest.raises(FairmendError, match=words):
        load_network(tmp_path / "m.pt2")


ON_WEIGHTS = {
    "transposed, under its own shape": lambda m, x: F.linear(x, m.w.weight.t().reshape(4, 4)),
    "transposed and copied": lambda m, x: F.linear(x, m.w.weight.t().contiguous().view(4, 4)),
    "transposed and squeezed": lambda m, x: F.linear(x, m.w.weight.t().squeeze()),
    "transposed and flattened": lambda m, x: x * m.w.weight[:2, :2].t().flatten(),
    "a small one, flattened": lambda m, x: x * m.small.weight.t().flatten(),
    "a small one, in a row": lambda m, x: x * m.small.weight.t().reshape(1, 4),
    "a small one, raveled": lambda m, x: x * m.small.weight.t().ravel(),
    "not transposed": lambda m, x: x * m.small.weight.flatten() + m.small.weight.reshape(1, 4),
    "the last axis": lambda m, x: x * torch.ops.aten.slice.Tensor(m.wide.weight, -1, 1, 5)[0],
    "an axis of one": lambda m, x: x * m.w.weight.narrow(0, 1, 1).squeeze(0),
    "columns by a list": lambda m, x: x * m.w.bias[torch.tensor([3, 1, 0, 0])],
    "whole numbers": lambda m, x: x * (m.w.bias * 5).long(),
}


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of torch.export itself
@pytest.mark.parametrize("decomposed", [False, True])
@pytest.mark.parametrize("case", ON_WEIGHTS)
def test_functions_of_weights_are_what_torch_computes(case, decomposed, tmp_path):
    """An exported program names them; in a module in memory they are numbers already."""
    torch.manual_seed(0)
    parts = {"w": torch.nn.Linear(4, 4), "small": torch.nn.Linear(2, 2), "wide": torch.nn.Linear(5, 5)}
    module = pair(lambda m, x: m.b(torch.relu(m.a(ON_WEIGHTS[case](m, x)))), **parts).eval()
    program = torch.export.export(module, (CONT,))
    torch.export.save(program.run_decompositions() if decomposed else program, tmp_path / "m.pt2")
    expected = module(CONT).detach().numpy()
    network = load_network(tmp_path / "m.pt2")
    assert np.allclose(network.logits(CONT.numpy()).reshape(expected.shape), expected, atol=1e-6)


def test_an_input_that_nothing_reads_may_have_any_size(tmp_path):
    class Spare(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = torch.nn.Linear(4, 1)

        def forward(self, x, spare):
            return self.a(x)

    torch.export.save(torch.export.export(Spare().eval(), (CONT, torch.zeros(7, 2))), tmp_path / "m.pt2")
    assert load_network(tmp_path / "m.pt2").inputs == 4


class Evil:
    def __reduce__(self):
        return print, ("this must not run",)


@pytest.mark.parametrize("kind", ["zip", "old", "nothing"])
def test_example_inputs_that_run_code_are_refused(branches, kind, tmp_path, capsys):
    """PyTorch unpickles them, whatever they hold."""
    buffer = io.BytesIO()
    if kind == "zip":
        torch.save(((Evil(),), {}), buffer)
    content = {"zip": buffer.getvalue(), "old": pickle.dumps(Evil()), "nothing": b""}[kind]

    def forge(name, data):
        return content if name.endswith("sample_inputs/model.pt") else data

    (tmp_path / "m.pt2").write_bytes(rewritten(branches[1], forge))
    if kind == "nothing":
        assert load_network(tmp_path / "m.pt2").inputs == 4
        return
    with pytest.raises(FairmendError, match=r"may run code|not a readable \.pt2"):
        load_network(tmp_path / "m.pt2")
    assert capsys.readouterr().out == ""


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_guards_on_sizes_are_read(tmp_path):
    """torch.export writes what control flow asks of the sizes."""

    class Even(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = torch.nn.Linear(4, 1)

        def forward(self, x, y):
            return self.a(x + y if x.shape[0] > 3 and x.shape[0] % 2 == 0 else x - y)

    auto = {0: torch.export.Dim.AUTO}
    program = torch.export.export(Even().eval(), (torch.zeros(8, 4), torch.zeros(8, 4)), dynamic_shapes=(auto, auto))
    assert program._guards_code
    torch.export.save(program, tmp_path / "m.pt2")
    assert load_network(tmp_path / "m.pt2").inputs == 8


def test_an_archive_after_other_bytes_is_refused(branches, tmp_path):
    (tmp_path / "m.pt2").write_bytes(b"before" + branches[1].read_bytes())
    with pytest.raises(FairmendError, match=r"not one that torch\.export\.save writes"):
        load_network(tmp_path / "m.pt2")


class Squares(torch.nn.Module):
    """Nine numbers of each row as three by three, what `change` makes of them with a mask and indices, and a head."""

    def __init__(self, change, width):
        super().__init__()
        self.change, self.first, self.head = change, torch.nn.Linear(4, 9), torch.nn.Linear(width, 1)
        self.register_buffer("seen", torch.tensor([[True, False, False], [True, True, False], [True, False, True]]))
        self.register_buffer("i", torch.tensor([0, 2, 2]))
        self.register_buffer("j", torch.tensor([2, 1, 0]))

    def forward(self, x):
        squares = torch.tanh(self.first(x)).reshape(-1, 3, 3)
        return self.head(self.change(self, squares).flatten(1))


def hidden(module, squares):
    return squares.masked_fill(~module.seen, -torch.inf)


PROGRAMS = {
    "copied": (lambda m, x: hidden(m, x).clone().softmax(-1), 9),
    "reshaped": (lambda m, x: hidden(m, x).view(-1, 1, 3, 3).softmax(-1), 9),
    "transposed": (lambda m, x: hidden(m, x).transpose(1, 2).softmax(1), 9),
    "in parts": (lambda m, x: hidden(m, x)[:, 1:].softmax(-1), 6),
    "pairs of indices": (lambda m, x: x[:, m.i, m.i], 3),
    "pairs, before an axis": (lambda m, x: x.unsqueeze(-1).repeat(1, 1, 1, 2)[:, m.i, m.j], 6),
    "gates of other axes": (lambda m, x: (torch.sigmoid(x.unsqueeze(3)) * x.unsqueeze(2)).mean(2), 9),
    "sums counted from both ends": (lambda m, x: x.unsqueeze(1).expand(-1, 3, -1, -1).sum(dim=(3, -2)), 3),
}


@pytest.mark.parametrize("case", PROGRAMS)
def test_masks_and_pairs_of_indices_are_those_of_the_program(case, tmp_path):
    """The program is not run when it is read, so that nothing else would show another network."""
    torch.manual_seed(0)
    module = Squares(*PROGRAMS[case]).eval()
    shapes = ({0: torch.export.Dim("rows", min=2)},)
    torch.export.save(torch.export.export(module, (CONT,), dynamic_shapes=shapes), tmp_path / "m.pt2")
    found = load_network(tmp_path / "m.pt2").logits(CONT.numpy())
    assert np.allclose(found, module(CONT)[:, 0].detach().numpy(), atol=1e-6)


def test_numbers_of_the_model_alone_are_not_added_up(tmp_path):
    """PyTorch adds up 2^27, 1 and -2^27 in an order of its own, to 1 or to 0."""

    class Gate(torch.nn.Module):
        def __init__(self, equation, rows):
            super().__init__()
            self.equation, self.last = equation, torch.nn.Linear(4, 1)
            self.register_buffer("rows", rows)
            self.register_buffer("ones", torch.ones(rows.shape[-1]))

        def forward(self, x):
            return self.last(x * torch.einsum(self.equation, self.rows, self.ones))

    large = torch.tensor([[0.0, 1.0, 2.0**27, -(2.0**27)]] * 4)
    for equation, rows, read in (("ik,k->i", large, False), ("k,k->k", torch.ones(4), True)):
        program = torch.export.export(Gate(equation, rows).eval(), (CONT,))
        torch.export.save(program, tmp_path / "m.pt2")
        if read:
            assert load_network(tmp_path / "m.pt2").inputs == 4
            continue
        with pytest.raises(FairmendError, match="adds up numbers of the model alone"):
            load_network(tmp_path / "m.pt2")


def test_functions_of_numbers_of_the_model_are_not_cancelled(tmp_path):
    """PyTorch's exp of a number may be another one than NumPy's, by one bit: what is left of it must not matter."""

    class Scaled(torch.nn.Module):
        def __init__(self, scale, number):
            super().__init__()
            self.scale, self.last = scale, torch.nn.Linear(4, 1)
            self.register_buffer("number", torch.full((4,), number))
            self.register_buffer("other", self.number.exp())

        def forward(self, x):
            return self.last(x * self.scale(self))

    allowed = {
        "exp": lambda m: m.number.exp(),
        "a root of a sum": lambda m: 1 / ((m.number * m.number + 1e-5).sqrt() + 1e-8),
        "minus exp": lambda m: -m.number.exp() / 2 - 1,
    }
    refused = {
        "a difference": lambda m: (m.number.exp() - m.other) * 2.0**26,
        "the other way": lambda m: torch.rsub(m.number.exp(), m.other),
        "a logarithm": lambda m: (m.number.exp() / m.other).log(),
        "moved": lambda m: m.number.exp().reshape(2, 2).flatten() - m.other,
    }
    for scales, read in ((allowed, True), (refused, False)):
        for name, scale in scales.items():
            module = Scaled(scale, 0.7).eval()
            torch.export.save(torch.export.export(module, (CONT,)), tmp_path / "m.pt2")
            if read:
                expected = module(CONT).detach().numpy()
                found = load_network(tmp_path / "m.pt2").logits(CONT.numpy()).reshape(expected.shape)
                assert np.allclose(found, expected, atol=1e-6), name
                continue
            with pytest.raises(FairmendError, match="round in ways of their own"):
                load_network(tmp_path / "m.pt2")
