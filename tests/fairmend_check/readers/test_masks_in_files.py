"""A causal transformer with a class token: its mask of truth values and its tensor of three axes are read."""

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import fairmend
from benchmarks.zoo.product_networks import PRODUCTS
from fairmend import Feature, Spec
from fairmend.prove.certificate import certificate_of_fair


@pytest.mark.parametrize("suffix", [".pth", ".safetensors", ".pt2"])
def test_a_mask_and_a_class_token_may_be_in_the_file(suffix, tmp_path):
    columns = [Feature(name=f"x{i}", kind="continuous", range=(-2, 2)) for i in range(5)]
    sex = Feature(name="sex", kind="categorical", categories=["a", "b"], encoding="ordinal", protected=True)
    X = np.random.default_rng(0).uniform(-2, 2, (12, 6)).astype(np.float32)
    X[:, 0] = X[:, 0] > 0
    torch.manual_seed(0)
    module, path = PRODUCTS["attention, causal"]().eval(), tmp_path / f"m{suffix}"
    with torch.no_grad():
        module.weight[0] = module.bias[0] = 0
    network = fairmend.load_network(module, example=X)
    if suffix == ".pt2":
        rows = {0: torch.export.Dim("rows")}
        torch.export.save(torch.export.export(module, (torch.tensor(X),), dynamic_shapes=(rows,)), path)
        network = fairmend.load_network(path)
    elif suffix == ".pth":
        torch.save(module.state_dict(), path)
    else:
        save_file({key: tensor.contiguous() for key, tensor in module.state_dict().items()}, path)
    certificate, covered = certificate_of_fair(network, Spec(features=[sex, *columns]), X)
    assert covered.all()
    certificate.save(tmp_path / "c.json", path)
    found = fairmend.check(tmp_path / "c.json", path)
    assert found.valid
    assert '"mask"' in found.condition.split("It does not use")[1]
