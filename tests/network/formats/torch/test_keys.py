"""State dicts without a note are one chain, if the user says so and the keys can only be that; never guessed."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import fairmend
from fairmend.base.errors import FairmendError
from fairmend.network import load_network
from fairmend.prove.certificate import certificate_of_fair
from fairmend.spec import Spec
from support.torch_modules import Scorer, rows


def save(state, path):
    torch.save(state, path)
    return path


@pytest.mark.parametrize("suffix", ["pth", "ckpt"])
def test_without_an_activation_a_state_dict_of_several_layers_is_refused_with_the_way_out(suffix, tmp_path):
    path = save({"state_dict": Scorer().state_dict()}, tmp_path / f"m.{suffix}")
    with pytest.raises(FairmendError, match=r"load_network\(module\).*torch\.export\.save.*--activation relu") as error:
        load_network(path)
    assert "\n" not in str(error.value)
    assert load_network(path, "relu").depth == 3


WEIGHTS = {
    "out of order": ({"last.weight": (1, 6), "first.weight": (6, 4)}, "'first' takes 4 values"),
    "a skip": ({"fc1.weight": (6, 4), "skip.weight": (1, 4), "fc2.weight": (1, 6)}, "'skip' takes 4 values"),
    "fits in another order": (
        {"a.weight": (6, 4), "late.weight": (6, 6), "early.weight": (6, 6), "b.weight": (1, 6)},
        "in another order",
    ),
    "numbers that fall": ({"fc0.weight": (6, 4), "fc2.weight": (6, 6), "fc1.weight": (6, 6)}, "in another order"),
    "an extra tensor": ({"fc1.weight": (6, 4), "scale": (1,), "fc2.weight": (1, 6)}, "is neither affine"),
}


@pytest.mark.parametrize("case", WEIGHTS)
def test_keys_that_are_not_one_chain_in_order_are_refused_with_the_way_out(case, tmp_path):
    shapes, words = WEIGHTS[case]
    path = save({key: torch.ones(shape) for key, shape in shapes.items()}, tmp_path / "m.pth")
    with pytest.raises(FairmendError, match=rf"{words}.*load_network\(module\)"):
        load_network(path, "relu")


@pytest.mark.parametrize("names", [("net.0", "net.2", "net.4"), ("fc1", "fc2", "fc3"), ("fc1", "fc2", "out")])
def test_numbers_in_the_names_give_the_order_of_layers_of_one_shape(names, tmp_path):
    path = save({f"{name}.weight": torch.ones(4, 4) for name in names}, tmp_path / "m.pth")
    assert load_network(path, "relu").names == names


def people(count=12):
    return pd.DataFrame({"sex": ["F", "M"] * (count // 2), "age": np.arange(20, 20 + count)})


SPEC = Spec.from_dict(
    {
        "feature": [
            {"name": "sex", "kind": "categorical", "categories": ["F", "M"], "encoding": "ordinal", "protected": True},
            {"name": "age", "kind": "integer", "range": [18, 60]},
        ],
        "label": {"column": "hired", "positive": 1, "score": "score"},
    }
)


def test_the_certificate_of_a_bare_linear_layer_is_valid(tmp_path):
    layer = nn.Linear(2, 1)
    layer.weight.data = torch.tensor([[0.0, 0.3]])
    network = load_network(save(layer.state_dict(), tmp_path / "m.pth"))
    certificate, _ = certificate_of_fair(network, SPEC, np.array([[0, 30], [1, 40]], np.float32))
    certificate.save(tmp_path / "c.json", tmp_path / "m.pth")
    assert fairmend.check(tmp_path / "c.json", tmp_path / "m.pth").valid


def test_scores_of_the_module_itself_show_a_wrong_activation(tmp_path):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
    frame = people()
    X = SPEC.encode(frame, np.float32)
    frame["hired"], frame["score"] = 1, torch.sigmoid(module(torch.tensor(X))).detach().numpy()[:, 0]
    frame.to_csv(tmp_path / "people.csv", index=False)
    path = save(module.state_dict(), tmp_path / "m.pth")
    from fairmend.workflows.inputs import load_people

    load_people(tmp_path / "people.csv", SPEC, load_network(path, "tanh"))
    with pytest.raises(FairmendError, match="score"):
        load_people(tmp_path / "people.csv", SPEC, load_network(path, "relu"))


def test_rows_are_read_in_the_order_of_the_keys(tmp_path):
    module = Scorer()
    network = load_network(save(module.state_dict(), tmp_path / "m.pth"), "relu")
    with torch.no_grad():
        expected = module(torch.tensor(rows(5))).numpy()[:, 0]
    assert np.allclose(network.probabilities(rows(5)), expected, atol=1e-6)
