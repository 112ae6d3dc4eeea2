"""Certificates of many inputs: small files, the same claim, and a checker that needs no boxes from them."""

import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import fairmend
from fairmend.prove import certificate_blocks
from fairmend.prove.certificate import certificate_of_fair, certificate_of_regions
from fairmend.prove.proof import prove_regions
from fairmend.spec import Claim, Spec
from fairmend.spec.neighbourhoods import Regions
from support.block_cases import certificate_in_blocks, nearly_fair_network, read_blocks_of
from support.checker_cases import SPECS

DELTA = {"logit": 2.0, "probability": 0.4}


def case(spec, outputs=1, activation="relu", count=60, seed=0):
    rng = np.random.default_rng(seed)
    return nearly_fair_network(rng, spec, outputs, activation), spec.sample_inputs(count, rng)


def checked(folder, certificate, network, suffix="onnx"):
    model = folder / f"model.{suffix}"
    network.save(model)
    certificate.save(folder / "certificate.json", model)
    return fairmend.check(folder / "certificate.json", model)


@pytest.mark.parametrize("name", SPECS)
@pytest.mark.parametrize("outputs", [1, 3])
def test_both_forms_cover_the_same_inputs_and_claim_the_same(name, outputs, tmp_path):
    network, X = case(SPECS[name], outputs)
    listed, covered = certificate_of_fair(network, SPECS[name], X)
    blocks, same = certificate_in_blocks(network, SPECS[name], X)
    assert covered.any()
    assert covered.tolist() == same.tolist()
    assert (blocks.count, blocks.claim) == (listed.count, listed.claim)
    first, second = (checked(tmp_path, each, network) for each in (listed, blocks))
    assert first.valid
    assert second.valid, second.reasons
    assert (second.regions, second.claim) == (covered.sum(), first.claim)
    assert second.least_margin >= first.least_margin * (1 - 1e-6)  # the checker also tries intervals
    assert second.covers_inference is True


@pytest.mark.parametrize("activation", ["tanh", "sigmoid", "leaky_relu", "identity"])
def test_slopes_of_the_checker_are_as_tight_as_those_of_fairmend(activation, tmp_path):
    network, X = case(SPECS["tolerance"], 3, activation, 40)
    listed, blocks = (
        certificate_of_fair(network, SPECS["tolerance"], X)[0],
        certificate_in_blocks(network, SPECS["tolerance"], X)[0],
    )
    first, second = (checked(tmp_path, each, network) for each in (listed, blocks))
    assert second.valid, second.reasons
    assert second.least_margin >= first.least_margin * (1 - 1e-6)


@pytest.mark.parametrize("on", ["logit", "probability"])
@pytest.mark.parametrize("outputs", [1, 3])
def test_claims_about_scores(on, outputs, tmp_path):
    spec = Spec(SPECS["tolerance"].features, claim=Claim("score", DELTA[on], on))
    network, X = case(spec, outputs)
    certificate, covered = certificate_in_blocks(network, spec, X)
    assert covered.any()
    result = checked(tmp_path, certificate, network)
    assert result.valid, result.reasons
    assert 0 < result.largest_difference <= DELTA[on]
    assert "classes" not in read_blocks_of(tmp_path / "certificate.json")[1]


def test_a_state_dict_a_spec_and_a_global_claim_beside_it(tmp_path):
    spec = SPECS["tolerance"]
    network, X = case(spec)
    first = network.affines[0]
    weight = first.weight.copy()
    weight[:, 0] = 0
    network = network.with_affines([type(first)(weight, first.bias), *network.affines[1:]])
    regions = spec.regions(X, np.float32)
    kept = np.flatnonzero(prove_regions(network, regions).covers_inference)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fairmend.prove.certificate._MOST_LISTED", 0)
        certificate = certificate_of_regions(
            network, spec, X[kept], prove_regions(network, regions).subset(kept), method="prof",
            regions=regions.subset(kept), blind_columns=[0],
        )  # fmt: skip
    result = checked(tmp_path, certificate, network, "pth")
    assert result.valid, result.reasons
    assert "does not depend on sex" in result.claim
    assert "the file stores weights only" in result.condition
    spec.save(tmp_path / "spec.toml")
    assert fairmend.check(tmp_path / "certificate.json", tmp_path / "model.pth", tmp_path / "spec.toml").valid


def test_boxes_that_are_not_those_of_the_spec_are_listed(monkeypatch, tmp_path):
    """The checker would choose other boxes, and might not confirm what these prove."""
    spec = SPECS["ordinal"]
    network, X = case(spec, count=3)
    monkeypatch.setattr("fairmend.prove.certificate._MOST_LISTED", 0)
    lower, upper = spec.hull(X)
    other = Regions(lower, upper + np.float32(1e-3), np.arange(3), 3)
    certificate = certificate_of_regions(network, spec, X, prove_regions(network, other), method="x", regions=other)
    assert certificate.inputs == ()
    assert len(certificate.content["regions"]) == certificate.count == 3


def test_blocks_hold_all_inputs_in_order_and_are_written_one_by_one(monkeypatch, tmp_path):
    monkeypatch.setattr(certificate_blocks, "_MOST_REGIONS", 7)
    network, X = case(SPECS["one-hot"])
    certificate, covered = certificate_in_blocks(network, SPECS["one-hot"], X)
    assert checked(tmp_path, certificate, network).valid
    header, *blocks, end = read_blocks_of(tmp_path / "certificate.json")
    assert header["format"] == "fairmend-certificate-blocks"
    assert header["regions"] == end["regions"] == covered.sum() == certificate.count
    assert [block["block"] for block in blocks] == list(range(len(blocks)))
    assert len(blocks) >= covered.sum() / 7
    kept = np.concatenate([block["inputs"] for block in blocks])
    assert sorted(map(tuple, kept.tolist())) == sorted(map(tuple, X[covered].tolist()))
    classes = np.concatenate([block["classes"] for block in blocks])
    assert classes.tolist() == network.predict(kept).tolist()


def test_every_line_fits_the_published_schema(tmp_path):
    schema = json.loads(Path(certificate_blocks.__file__).with_name("certificate.schema.json").read_text())
    network, X = case(SPECS["one-hot"], count=5)
    certificate_in_blocks(network, SPECS["one-hot"], X)[0].save(tmp_path / "certificate.json")
    header, *blocks, closing = map(json.loads, (tmp_path / "certificate.json").read_text().splitlines())
    jsonschema.validate(header, schema)
    for block in blocks:
        jsonschema.validate(block, {**schema["$defs"]["block"], "$defs": schema["$defs"]})
    jsonschema.validate(closing, {**schema["$defs"]["closing"], "$defs": schema["$defs"]})
    for wrong in ({**header, "regions": []}, {**header, "format": "fairmend-certificate"}, {**header, "regions": 0}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)


def test_a_certificate_of_many_inputs_is_small(tmp_path):
    """22,407 people made 329 MB, which the checker did not read."""
    spec = SPECS["one-hot"]
    network, X = case(spec, count=20)
    X = np.tile(X, (1500, 1))
    certificate, covered = certificate_of_fair(network, spec, X)
    assert certificate.count == covered.sum() > 20_000
    certificate.save(tmp_path / "certificate.json")
    assert (tmp_path / "certificate.json").stat().st_size < 100 * covered.sum()


def test_small_certificates_stay_readable():
    network, X = case(SPECS["ordinal"])
    certificate, covered = certificate_of_fair(network, SPECS["ordinal"], X)
    assert certificate.inputs == ()
    assert len(json.loads(json.dumps(certificate.content))["regions"]) == covered.sum()
