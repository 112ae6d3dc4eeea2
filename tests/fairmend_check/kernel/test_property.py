"""For any spec, any network and any inputs: what fairmend proves, the checker confirms; and it is true.

And whatever else is listed, the checker confirms only what is true by enumeration.
"""

import numpy as np
from hypothesis import HealthCheck, assume, given
from hypothesis import strategies as st

import fairmend
from fairmend.network import Network
from fairmend.prove.certificate import certificate_of_inputs
from fairmend.prove.proof import Proof, prove_inputs
from support.checker_cases import class_of, content_of, is_true, margin_of, write
from support.examples import examples
from support.strategies import ACTIVATIONS, random_network
from support.strategies_spec import specs_and_inputs

relaxed = examples(120, suppress_health_check=list(HealthCheck))


@st.composite
def claims(draw, finite):
    """A network, a spec and inputs that fit together; small first weights, so that much can be proven."""
    spec, X = draw(specs_and_inputs(finite=finite))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    hidden = draw(st.lists(st.integers(1, 7), max_size=3))
    net = random_network(rng, spec.width, hidden, draw(st.integers(1, 3)), "relu", X.dtype)
    scales = [X.dtype.type(draw(st.sampled_from([1.0, 0.1, 0.001, 30.0, 1e4]))) for _ in net.affines]
    affines = [
        type(affine)(affine.weight * scale, affine.bias) for affine, scale in zip(net.affines, scales, strict=True)
    ]
    return Network(affines, [draw(st.sampled_from(ACTIVATIONS)) for _ in hidden]), spec, X


def near_its_error(net, prove, times):
    """The network with a last bias that leaves one neighbourhood a margin of a few times the error of inference."""
    proof = prove(net)
    kept = np.flatnonzero(proof.holds & np.isfinite(proof.error))
    assume(len(kept))
    row = kept[np.argmin(proof.margin[kept])]
    sign = (
        np.where(np.arange(net.outputs) == proof.classes[row], 1.0, 0.0)
        if net.outputs > 1
        else proof.classes[row] * 2 - 1
    )
    bias = net.head.bias - (proof.margin[row] - times * proof.error[row]) * sign
    assume(np.isfinite(bias.astype(net.dtype)).all())
    head = type(net.head)(net.head.weight, bias.astype(net.dtype))
    return net.with_affines([*net.affines[:-1], head])


def confirmed(net, spec, X, proof, folder):
    kept = np.flatnonzero(proof.holds)
    assume(len(kept))  # an example without a proof does not count; a run without any fails
    certificate = certificate_of_inputs(net, spec, X[kept], proof.subset(kept), method="certify")
    net.save(folder / "model.safetensors")
    certificate.save(folder / "certificate.json", folder / "model.safetensors")
    report = fairmend.check(folder / "certificate.json", folder / "model.safetensors", real=certificate.real_only)
    assert report.valid, report.reasons
    assert is_true(content_of(certificate), net, np.random.default_rng(0))


@relaxed
@given(claims(finite=False))
def test_proofs(tmp_path_factory, claim):
    net, spec, X = claim
    confirmed(net, spec, X, prove_inputs(net, spec, X), tmp_path_factory.mktemp("proofs"))


@relaxed
@given(claims(finite=True))
def test_proofs_of_finite_neighbourhoods(tmp_path_factory, claim):
    net, spec, X = claim
    confirmed(net, spec, X, prove_inputs(net, spec, X), tmp_path_factory.mktemp("proofs"))


@relaxed
@given(claims(finite=False), st.sampled_from([1e-6, 0.5, 1.0001, 1.1, 3.0]))
def test_proofs_with_margins_near_the_error_of_inference(tmp_path_factory, claim, times):
    net, spec, X = claim
    net = near_its_error(net, lambda net: prove_inputs(net, spec, X), times)
    confirmed(net, spec, X, prove_inputs(net, spec, X), tmp_path_factory.mktemp("proofs"))


@relaxed
@given(claims(finite=True), st.sampled_from([0.0, 1e-6, 1.0]))
def test_no_unfair_input_is_ever_confirmed(tmp_path_factory, claim, shift):
    """All inputs are listed, fair or not, of networks whose answers change near them."""
    net, spec, X = claim
    bias = net.head.bias - net.logits(X[:1]).reshape(-1) * net.dtype.type(1 - shift)
    assume(np.isfinite(bias).all())
    net = net.with_affines([*net.affines[:-1], type(net.head)(net.head.weight, bias.astype(net.dtype))])
    folder = tmp_path_factory.mktemp("any")
    net.save(folder / "model.safetensors")
    nothing = Proof.by_blindness(net, spec.claim, X)
    certificate = certificate_of_inputs(net, spec, X, nothing, method="forged")
    content = content_of(certificate.for_model(folder / "model.safetensors"))
    for x in X:
        points = np.concatenate([p for _, p in spec.points(x[None], dtype=X.dtype)]).astype(np.float64)
        for arithmetic in ("real", net.dtype.name):
            one = content | {"inputs": x[None], "arithmetic": arithmetic}
            report = fairmend.check(write(folder, one), folder / "model.safetensors", real=True)
            if report.valid:
                assert margin_of(net, points, class_of(net, x)) >= report.least_margin - 1e-9 * (
                    1 + report.least_margin
                )
                assert arithmetic == "real" or len(set(net.predict(points.astype(net.dtype)).tolist())) == 1
