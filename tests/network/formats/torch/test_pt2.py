""".pt2 files: the program that torch.export wrote is read without torch.export, and only its weights change."""

import io
import json
import pickle
import zipfile

import numpy as np
import pytest
import torch

import fairmend
from fairmend.errors import FairmendError
from fairmend.network import Affine, load_network
from fairmend.network.formats import require_room
from fairmend.prove.certificate import certificate_of_fair
from fairmend.spec import Spec
from support.torch_graphs import GRAPHS, Tabular

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
