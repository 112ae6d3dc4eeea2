"""The .nnet reader: only a file with a single meaning is read."""

from pathlib import Path

import pytest

import fairmend
from fairmend.prove.certificate import weights_digest as their_digest
from fairmend_check.errors import CheckError
from fairmend_check.model import weights_digest
from fairmend_check.read_nnet import read_nnet
from support.checker_cases import case

CORPUS = Path(__file__).parents[1] / "corpus" / "nnet"


@pytest.fixture
def lines(tmp_path):
    _, model = case().save(tmp_path, "nnet")
    return model.read_text().splitlines()


def content(lines):
    return ("\n".join(lines) + "\n").encode()


def rows(lines):
    """The places of the lines that are not comments: sizes, widths, flag, minima, maxima, means, ranges, weights."""
    return [place for place, line in enumerate(lines) if line and not line.startswith("//")]


def test_relu_stands_between_the_layers(lines):
    model = read_nnet(content(lines))
    assert [activation.name for activation in model.activations] == ["relu", "relu"]
    assert model.inputs == case().network.affines[0].weight.shape[1]


@pytest.mark.parametrize(
    ("row", "edit", "why"),
    [
        (3, lambda line: "0," * line.count(","), "clip the inputs"),
        (4, lambda line: "1," * line.count(","), "clip the inputs"),
        (5, lambda line: "0.5," * line.count(","), "means and ranges"),
        (6, lambda line: "2.0," * line.count(","), "means and ranges"),
        (0, lambda line: line.replace("3", "4", 1), "does not describe the layers|instead of"),
        (7, lambda line: "nan," + line.split(",", 1)[1], "plain notation"),
        (7, lambda line: "0.1," + line.split(",", 1)[1], "float32 cannot represent"),
        (7, lambda line: "1e+400," + line.split(",", 1)[1], "not finite"),
        (7, lambda line: "1" * 21 + "," + line.split(",", 1)[1], "plain notation"),
        (7, lambda line: "0." + "0" * 31 + "," + line.split(",", 1)[1], "plain notation"),
        (7, lambda line: "0e+0000," + line.split(",", 1)[1], "plain notation"),
        (7, lambda line: "1_0," + line.split(",", 1)[1], "plain notation"),  # Python's float reads 10
        (7, lambda line: "0x1," + line.split(",", 1)[1], "plain notation"),  # C's strtod reads 1
        (7, lambda line: " 1.0," + line.split(",", 1)[1], "plain notation"),
        (7, lambda line: "infinity," + line.split(",", 1)[1], "plain notation"),
        (
            7,
            lambda line: line[:-1],
            "each with a comma after it",
        ),  # the format's own readers drop what follows the last
        (
            7,
            lambda line: line + "\x0b" + line,
            "each with a comma after it",
        ),  # a line feed for Python's splitlines only
        (7, lambda line: "// a comment", "each with a comma after it"),
        (2, lambda line: "1,", "not 0"),
        (0, lambda line: line.replace("3", "3.0", 1), "not a size"),
        (0, lambda line: line.rsplit(",", 2)[0] + ",99,", "does not describe the layers"),
        (7, lambda line: line + "1,", "instead of"),
    ],
)
def test_a_file_that_programs_read_differently_is_refused(lines, row, edit, why):
    place = rows(lines)[row]
    lines[place] = edit(lines[place])
    with pytest.raises(CheckError, match=why):
        read_nnet(content(lines))


def test_the_note_on_the_precision_is_needed(lines):
    without = [line for line in lines if not line.startswith("// fairmend ")]
    with pytest.raises(CheckError, match="does not name its precision"):
        read_nnet(content(without))


def test_a_truncated_file_is_refused(lines):
    with pytest.raises(CheckError, match="truncated"):
        read_nnet(content(lines)[:-1])
    with pytest.raises(CheckError, match="does not describe the layers"):
        read_nnet(content(lines[:-1]))


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.nnet")), ids=lambda path: path.stem)
def test_files_of_the_corpus(path):
    if path.stem.startswith("refused"):
        with pytest.raises(CheckError, match="does not name its precision"):
            read_nnet(path.read_bytes())
        return
    model, network = read_nnet(path.read_bytes()), fairmend.load_network(path)
    assert weights_digest(model) == their_digest(network)
    assert model.condition == f"the program that reads the .nnet file computes in {network.dtype}."
