"""The .pth reader: what torch.save writes passes, and no file in which PyTorch finds other weights."""

import io
import pickle
import warnings
import zipfile
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
import torch

import fairmend
from fairmend.network import Affine, Network
from fairmend.prove.certificate import certificate_of_blindness
from fairmend_check.errors import CheckError
from fairmend_check.readers.read_model import read_model
from support.checker_cases import TWO_FEATURES
from support.state_dict_steps import chain, function, layer
from support.torch_modules import adam_state

CORPUS = Path(__file__).parents[2] / "corpus" / "pth"
ONE = chain(2, layer("a"))
FAIR, UNFAIR = torch.tensor([[0.0, 1.0]]), torch.tensor([[5.0, 1.0]])  # weights; the first column is protected
BIAS = torch.tensor([0.5])


def state(weight, **more):
    return OrderedDict({"a.weight": weight, "a.bias": BIAS, **more})


def saved(content, **options):
    buffer = io.BytesIO()
    torch.save(content, buffer, **options)
    return buffer.getvalue()


def unpacked(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def verdict_for_fair_weights(path):
    """Check the certificate that a forger would write: true for the weights FAIR, bound to the file."""
    network = Network([Affine(FAIR.numpy(), BIAS.numpy())], [], names=["a"])
    certificate_of_blindness(network, TWO_FEATURES, [0], method="blind").save(path.with_suffix(".json"), path)
    return fairmend.check(path.with_suffix(".json"), path)


def refusal(folder, content):
    """Return why a file is refused in which PyTorch reads the weights UNFAIR."""
    path = folder / "model.pth"
    path.write_bytes(content)
    assert torch.equal(torch.load(path, weights_only=True)["a.weight"], UNFAIR)
    result = verdict_for_fair_weights(path)
    assert not result.valid
    return result.reasons[0]


def test_the_forger_is_believed_about_fair_weights(tmp_path):
    torch.save(state(FAIR), tmp_path / "model.pth")
    assert verdict_for_fair_weights(tmp_path / "model.pth").valid


def test_a_second_state_dict_in_a_folder_of_the_first(tmp_path):
    fair, unfair = unpacked(saved(state(FAIR))), unpacked(saved(state(UNFAIR)))
    members = {"archive/version": unfair["archive/version"]}  # PyTorch takes the folder of the first member
    members |= {name.replace("archive/", "archive/bait/"): data for name, data in fair.items()}
    assert "torch.save does not write" in refusal(tmp_path, packed({**members, **unfair}))


def test_an_old_file_with_an_archive_after_it(tmp_path):
    old = saved(state(UNFAIR), _use_new_zipfile_serialization=False)
    assert "PyTorch 1.6 or later" in refusal(tmp_path, old + saved(state(FAIR)))


def test_a_tensor_with_flipped_signs(tmp_path):
    content = saved(state(torch._neg_view(-UNFAIR)))
    negative = torch._neg_view(FAIR)
    (tmp_path / "model.pth").write_bytes(saved(state(negative)))
    assert torch.equal(torch.load(tmp_path / "model.pth", weights_only=True)["a.weight"], -FAIR)
    assert "differs from what torch.save writes" in verdict_for_fair_weights(tmp_path / "model.pth").reasons[0]
    assert "differs from what torch.save writes" in refusal(tmp_path, content)


def test_names_that_differ_in_case_only(tmp_path):
    """PyTorch's reader of archives ignores case, and reads here the one that the pickle does not name."""
    members = unpacked(saved(state(FAIR)))
    unfair = unpacked(saved(state(UNFAIR)))["archive/data/0"]
    content = packed({**members, "archive/data/0": members["archive/data/0"], "archive/DATA/0": unfair})
    assert "equal or differ only in case" in refusal(tmp_path, content)


def test_storages_that_pytorch_does_not_load(tmp_path):
    """From the location "meta" PyTorch makes tensors without numbers, and a module keeps the weights it has."""
    members = unpacked(saved(state(FAIR)))
    members["archive/data.pkl"] = members["archive/data.pkl"].replace(b"\3\0\0\0cpu", b"\4\0\0\0meta")
    (tmp_path / "model.pth").write_bytes(packed(members))
    assert torch.load(tmp_path / "model.pth", weights_only=True)["a.weight"].is_meta
    assert "'meta'; save it on the CPU" in verdict_for_fair_weights(tmp_path / "model.pth").reasons[0]


def test_a_member_with_the_attribute_of_a_folder(tmp_path):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in unpacked(saved(state(FAIR))).items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = 0x10 if name == "archive/data/0" else 0
            archive.writestr(entry, data)
    (tmp_path / "model.pth").write_bytes(buffer.getvalue())
    assert "not a plain file" in verdict_for_fair_weights(tmp_path / "model.pth").reasons[0]


def test_programs(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.script(torch.nn.Linear(2, 1)).save(tmp_path / "model.pt")
    with pytest.raises(CheckError, match="TorchScript archive"):
        read_model(tmp_path / "model.pt", ONE)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("archive/.data/version", b"3\n"),  # PyTorch prefers it to archive/version
        ("archive/constants.pkl", b"\x80\x02."),
        ("archive/version", b"10\n"),
        ("archive/byteorder", b"big"),
        ("archive/data/2", bytes(8)),
        ("archive/data/0", bytes(4)),
        ("archive/extra/notes", b""),
    ],
)
def test_members_that_torch_does_not_write(tmp_path, name, data):
    (tmp_path / "model.pth").write_bytes(packed({**unpacked(saved(state(FAIR))), name: data}))
    with pytest.raises(CheckError):
        read_model(tmp_path / "model.pth", ONE)


def test_parameters_views_and_shared_storages(tmp_path):
    weight = torch.arange(12.0).reshape(3, 4)
    for content in (
        {"a.weight": torch.nn.Parameter(weight.T), "a.bias": torch.zeros(4)},
        {"a.weight": weight.T, "a.bias": weight.reshape(-1)[2:6]},
        state(weight.T, **{"a.bias": torch.ones(4, requires_grad=True)}),
    ):
        torch.save(content, tmp_path / "view.pth")
        model, _ = read_model(tmp_path / "view.pth", chain(3, layer("a")))
        assert np.array_equal(model.layers[0].weight, weight.numpy().T)
        assert np.array_equal(model.layers[0].bias, content["a.bias"].detach().numpy())


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"a.weight": torch.zeros(1).expand(1000, 1000)}, "does not fit its storage"),
        ({"a.weight": torch.zeros(2, 2).half()}, "only float32 and float64"),
        ({"a.weight": torch.zeros(2, 2), "epoch": 3}, '"epoch" in the state dict is not a tensor'),
        ({"state_dict": state(FAIR), "model": state(FAIR)}, 'contains "state_dict" and "model"'),
        ({"state_dict": {"module": state(FAIR)}}, '"module" in the state dict is not a tensor'),
        ({"ema": state(FAIR)}, '"ema" in the state dict is not a tensor'),
        ({3: torch.zeros(2, 2)}, '"3" in the state dict is not a tensor'),
        ({"a.weight": torch.tensor([[1.0, float("nan")]]), "a.bias": BIAS}, "not finite"),
        (state(FAIR, **{"b.weight": FAIR}), "belongs to no step"),
        ({"b.weight": FAIR}, "which is not there"),
        ({"a.weight": torch.zeros(2, 2, 2), "a.bias": BIAS}, "weights of shape|not a matrix"),
        ([FAIR], "does not contain a state dict"),
        (FAIR, "state dict"),
    ],
)
def test_other_contents(tmp_path, content, reason):
    torch.save(content, tmp_path / "other.pth")
    with pytest.raises(CheckError, match=reason):
        read_model(tmp_path / "other.pth", ONE)


@pytest.mark.parametrize("key", ["state_dict", "model_state_dict", "model"])
def test_a_checkpoint(key, tmp_path):
    module = torch.nn.Sequential(OrderedDict(a=torch.nn.Linear(2, 1)))
    torch.save({"epoch": 7, key: module.state_dict(), "optimizer": adam_state(module)}, tmp_path / "model.pth")
    model, _ = read_model(tmp_path / "model.pth", ONE)
    assert np.array_equal(model.layers[0].weight, module[0].weight.detach().numpy())
    assert model.condition.startswith(f'the module loads the part "{key}" of the checkpoint. The file stores weights')


def test_storages_of_a_checkpoint_that_contradict_each_other(tmp_path):
    other = FAIR.double()
    members = unpacked(saved({"other": other, "state_dict": state(FAIR)}))
    pickled = members["archive/data.pkl"]
    assert pickled.count(b"X\1\0\0\0" + b"1") == 1  # the key of the second storage
    members["archive/data.pkl"] = pickled.replace(b"X\1\0\0\0" + b"1", b"X\1\0\0\0" + b"0")
    (tmp_path / "model.pth").write_bytes(packed(members))
    with pytest.raises(CheckError, match="two different ways"):
        read_model(tmp_path / "model.pth", ONE)


def test_a_state_dict_without_steps(tmp_path):
    torch.save(state(FAIR), tmp_path / "model.pth")
    with pytest.raises(CheckError, match="a certificate names the steps of the module"):
        read_model(tmp_path / "model.pth")


def test_a_key_of_nested_tuples_is_refused_at_once(tmp_path):
    """Its hash takes 2 to the power of the levels steps."""
    key = (1,)
    for _ in range(60):
        key = (key, key)

    pickled = pickle.dumps({"a": key}, protocol=2)
    name = pickled.index(b"X\1\0\0\0a")
    value = name + 8
    swapped = pickled[:name] + pickled[value:-2] + b"X\1\0\0\0a" + b"s."
    members = {**unpacked(saved(state(FAIR))), "archive/data.pkl": swapped}
    (tmp_path / "model.pth").write_bytes(packed(members))
    with pytest.raises(CheckError, match=r"differs from what torch\.save writes"):
        read_model(tmp_path / "model.pth", ONE)
    with pytest.raises(fairmend.FairmendError, match="nested"):
        fairmend.load_network(tmp_path / "model.pth")


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.pth")), ids=lambda path: path.stem)
def test_files_of_every_release(path):
    kind = path.name.split("-torch-")[0]
    names = {"classifier": ["fc1", "out"], "single": [""]}.get(kind, ["0", "2"])
    if kind == "refused-old-format":
        with pytest.raises(CheckError, match=r"Save it again: torch\.save"):
            read_model(path, chain(3, layer("0")))
        return
    stored = torch.load(path, weights_only=True)
    steps = [layer(name, f"{name}.bias".lstrip(".") in stored) for name in names]
    between = [each for step in steps for each in (function("relu"), step)][1:]
    model, _ = read_model(path, chain(stored[steps[0]["weight"]].shape[1], *between))
    for name, own in zip(names, model.layers, strict=True):
        key = f"{name}." if name else ""
        assert np.array_equal(own.weight, stored[f"{key}weight"].detach().numpy())
        assert np.array_equal(own.bias, stored.get(f"{key}bias", torch.zeros(len(own.weight))).detach().numpy())
