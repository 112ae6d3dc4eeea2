""".nnet files: the two conventions of their header, round trips to the bit, and headers that lie."""

import numpy as np
import pytest

from fairmend.base.errors import FairmendError
from fairmend.network import load_network
from support.strategies import random_network

X = np.random.default_rng(1).uniform(0, 10, size=(30, 2))
W1, B1 = np.array([[1.5, -2.0], [0.25, 3.0], [-1.0, 1.0]]), np.array([0.5, -1.0, 2.0])
W2, B2 = np.array([[1.0, -0.5, 2.0]]), np.array([-3.0])


def logits(rows):
    return (np.maximum(rows @ W1.T + B1, 0) @ W2.T + B2)[:, 0]


def text(minima="0,0", maxima="10,10", means="0,0,0", ranges="1,1,1", head="2,2,1,3", sizes="2,3,1", flag="0") -> str:
    lines = ["// a comment", "// another", head, sizes, flag, minima, maxima, means, ranges]
    for weight, bias in ((W1, B1), (W2, B2)):
        lines += [",".join(map(str, row)) for row in weight] + [str(value) for value in bias]
    return "\n".join(f"{line}," if not line.startswith("//") else line for line in lines) + "\n"


def load(tmp_path, content: str):
    (tmp_path / "m.nnet").write_text(content)
    return load_network(tmp_path / "m.nnet")


def test_a_file_without_normalisation(tmp_path):
    network = load(tmp_path, text())
    assert repr(network) == "Network(2 → 3 relu → 1 logit, float32)"
    assert np.allclose(network.logits(X), logits(X), atol=1e-4)
    assert load(tmp_path, text().replace(",\n", "\n")) == network  # some programs leave out the last comma


def test_the_normalisation_of_acas_xu_is_folded_in(tmp_path):
    network = load(tmp_path, text(means="3,4,7.5", ranges="2,8,-0.5"))
    expected = logits((X - [3, 4]) / [2, 8]) * -0.5 + 7.5
    assert np.allclose(network.logits(X), expected, atol=1e-4)
    only_output = load(tmp_path, text(means="0,0,2", ranges="1,1,1"))
    assert np.allclose(only_output.logits(X), logits(X) + 2, atol=1e-4)


def test_a_header_that_repeats_the_box_is_fairquants_and_not_applied(tmp_path):
    box = {"minima": "1,0", "maxima": "10,5", "means": "1,0,0", "ranges": "9,5,1"}
    assert np.allclose(load(tmp_path, text(**box)).logits(X), logits(X), atol=1e-4)
    wider = box | {"maxima": "11,6"}  # no longer the box: applied
    assert np.allclose(load(tmp_path, text(**wider)).logits(X), logits((X - [1, 0]) / [9, 5]), atol=1e-4)


@pytest.mark.parametrize("output", ["0.5", "0"])
def test_a_header_with_the_middles_of_the_box_is_fairquants_too(output, tmp_path):
    box = {"minima": "1,-3", "maxima": "10,4", "ranges": "9,7,1"}
    header = box | {"means": f"5.5,0.5,{output}"}
    network = load(tmp_path, text(**header))
    assert np.allclose(network.logits(X), logits(X), atol=1e-4)
    network.save(tmp_path / "same.h5")  # what such a file is the copy of
    assert np.array_equal(load_network(tmp_path / "same.h5").predict(X), network.predict(X))
    rounded = {
        "minima": "0,1",
        "maxima": "1234567,4",
        "ranges": "1.23457e+06,3,1",
        "means": f"6.17284e+05,2.5,{output}",
    }
    assert np.allclose(load(tmp_path, text(**rounded)).logits(X), logits(X), atol=1e-4)


@pytest.mark.parametrize(
    "header",
    [
        {"means": "5,5,7"},  # an output that is shifted
        {"means": "5,5,0.5", "ranges": "10,10,2"},  # or scaled
        {"means": "5,4,0"},  # the mean of data
        {"means": "0,5,0"},  # neither all minima nor all middles
        {"means": "5,5,0", "ranges": "5,10,1"},  # a standard deviation
    ],
    ids=str,
)
def test_any_other_header_is_applied(header, tmp_path):
    header = {"ranges": "10,10,1"} | header
    means, ranges = (np.array(header[line].split(","), float) for line in ("means", "ranges"))
    expected = logits((X - means[:2]) / ranges[:2]) * ranges[2] + means[2]
    assert np.allclose(load(tmp_path, text(**header)).logits(X), expected, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("outputs", "closing"), [(1, "sigmoid"), (3, "softmax"), (2, "none")])
def test_what_is_saved_loads_back_bit_equal_and_has_one_meaning(dtype, outputs, closing, tmp_path):
    network = random_network(np.random.default_rng(0), 4, [6, 5], outputs, "relu", dtype, closing)
    network.save(tmp_path / "m.nnet")
    assert load_network(tmp_path / "m.nnet") == network
    rows = [line for line in (tmp_path / "m.nnet").read_text().splitlines() if not line.startswith("//")]
    most = float(np.finfo(dtype).max)
    assert set(rows[3].rstrip(",").split(",")) == {repr(-most)}
    assert set(rows[4].rstrip(",").split(",")) == {repr(most)}
    assert set(rows[5].rstrip(",").split(",")) == {"0.0"}
    assert set(rows[6].rstrip(",").split(",")) == {"1.0"}


@pytest.mark.parametrize("activation", ["tanh", "sigmoid", "leaky_relu", "identity"])
def test_other_activations_are_refused_with_what_would_work(activation, tmp_path):
    network = random_network(np.random.default_rng(0), 4, [6], 1, activation)
    with pytest.raises(FairmendError, match=rf"'layers.0' is followed by {activation}.*save as \.onnx or \.keras"):
        network.save(tmp_path / "m.nnet")
    assert not (tmp_path / "m.nnet").exists()


LYING = {
    "more layers": (text(head="3,2,1,3"), "layer sizes has 3 numbers instead of 4"),
    "fewer layers": (text(head="1,2,1,3"), "layer sizes has 3 numbers instead of 2"),
    "other inputs": (text(head="2,5,1,3"), "says 5 inputs"),
    "other widths": (text(sizes="2,4,1"), "need 17 lines of numbers, it has 15"),
    "absurd widths": (text(sizes="2,5000000,1"), "lines of numbers"),
    "endless widths": (text(sizes="2,1e300,1"), "must hold 3 sizes"),
    "negative widths": (text(sizes="2,-3,1"), "must hold 3 sizes"),
    "half widths": (text(sizes="2,3.5,1"), "must hold 3 sizes"),
    "another widest layer": (text(head="2,2,1,4"), "widest layer has 4 units"),
    "widths in C's notation": (text(sizes="2,3e0,1"), "must hold 3 sizes"),
    "a flag that mirrors inputs": (text(flag="1"), "third line of numbers must be 0"),
    "a comment among the numbers": (text().replace("1.5,", "// 1.5,\n1.5,"), "need 15 lines of numbers"),
    "an empty line among the numbers": (text().replace("1.5,", "\n1.5,"), "need 15 lines of numbers"),
    "two commas": (text().replace("-2.0,", "-2.0,,"), "layer 0 has 3 numbers"),
    "carriage returns": (text().replace("\n", "\r"), "ends in the middle"),
    "a carriage return in a comment": (text().replace("another", "an\rother"), "carriage return"),
    "means without the last comma": (text(means="1,2,3").replace("1,2,3,", "1,2,3"), "must end in a comma"),
    "no layers": (text(head="0,2,1,3"), "must hold 4 sizes"),
    "words": (text(minima="a,b"), "not a number"),
    "short means": (text(means="0,0"), "line of means has 2 numbers instead of 3"),
    "nan": (text(maxima="nan,1"), "not a number"),
    "range 0": (text(ranges="1,0,1"), "divided"),
    "nothing": ("// only comments\n", "starts with 7"),
    "short row": (text().replace("1.5,-2.0,", "1.5,"), "layer 0 has 1 numbers instead of 2"),
    "infinite weight": (text().replace("1.5,", "inf,"), "layer 0 holds something that is not a number"),
    "Python's underscores": (text().replace("1.5,", "1_5,"), "layer 0 holds something that is not a number"),
    "digits of another script": (text().replace("1.5,", "\u0661,"), "layer 0 holds something that is not a number"),
    "two numbers": (text().replace("1.5,", "1.5 2,"), "layer 0 holds something that is not a number"),
    "Python's own line ends": (text().replace("1.5,", "1.5,\x0b"), "layer 0 holds something that is not a number"),
    "huge weight": (text().replace("1.5,", "1e300,"), "not finite"),
    "a last number cut short": (text()[:-3], "ends in the middle of a line"),
    "damaged note": ("// fairmend {\n" + text(), "note in the file is damaged"),
    "note of the future": ('// fairmend {"version": 2}\n' + text(), "note in the file is damaged"),
    "other closing": (
        '// fairmend {"version": 1, "dtype": "float32", "names": [], "closing": "softmax"}\n' + text(),
        "softmax over 1 output",
    ),
}


@pytest.mark.parametrize("case", LYING)
def test_headers_that_lie(case, tmp_path):
    content, words = LYING[case]
    with pytest.raises(FairmendError, match=words):
        load(tmp_path, content)
