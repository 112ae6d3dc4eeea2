"""The .nnet reader reads what the loader reads, and says on which condition."""

from pathlib import Path

import pytest

import fairmend
from fairmend.prove.certificate import weights_digest as their_digest
from fairmend_check.errors import CheckError
from fairmend_check.kernel.model import weights_digest
from fairmend_check.readers.read_nnet import read_nnet
from support.checker_cases import case

CORPUS = Path(__file__).parents[2] / "corpus" / "nnet"


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
        (6, lambda line: "0," + line.split(",", 1)[1], "ranges contains a 0"),
        (6, lambda line: "1e-300," + line.split(",", 1)[1], "too large"),
        (0, lambda line: line.replace("3", "4", 1), "does not describe the layers|instead of"),
        (7, lambda line: "nan," + line.split(",", 1)[1], "plain notation"),
        (7, lambda line: "1e+39," + line.split(",", 1)[1], "not finite"),  # in float32
        (7, lambda line: "1e+400," + line.split(",", 1)[1], "not finite"),
        (7, lambda line: "1_0," + line.split(",", 1)[1], "plain notation"),  # Python's float reads 10
        (7, lambda line: "0x1," + line.split(",", 1)[1], "plain notation"),  # C's strtod reads 1
        (7, lambda line: "infinity," + line.split(",", 1)[1], "plain notation"),
        (7, lambda line: line + "\x0b" + line, "instead of"),  # a line feed for Python's splitlines only
        (7, lambda line: line.replace(",", "\r", 1), "line end"),
        (7, lambda line: "// a comment", "instead of"),
        (7, lambda line: line + "\n// a comment", "does not describe the layers"),
        (7, lambda line: line + "\n", "does not describe the layers"),
        (7, lambda line: line + ",", "instead of"),
        (0, lambda line: " // a comment\n" + line, "instead of"),
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


def test_a_file_without_a_note_is_read_in_single_precision(lines):
    without = [line for line in lines if not line.startswith("// fairmend ")]
    assert weights_digest(read_nnet(content(without))) == weights_digest(read_nnet(content(lines)))
    with pytest.raises(CheckError, match="or there are two"):
        read_nnet(content([lines[1], *lines]))


def test_a_truncated_file_is_refused(lines):
    with pytest.raises(CheckError, match="truncated"):
        read_nnet(content(lines)[:-2])
    with pytest.raises(CheckError, match="does not describe the layers"):
        read_nnet(content(lines[:-1]))


FILE = """2,2,1,3,
2,3,1,
0,
{minima},
{maxima},
{means},
{ranges},
1.5,-2.1,
.25,+3e0,
-1.,1.0,
0.1,
-1.0,
2.0,
1.0,-0.5,2.0,
-3.7,
"""
PLAIN = {"minima": "0,0", "maxima": "10,10", "means": "0,0,0", "ranges": "1,1,1"}
STORED = "the program that reads the .nnet file stores its numbers and computes in float32"
HEADERS = {
    "plain": (PLAIN, "does not clip"),
    "of ACAS Xu": (PLAIN | {"means": "3,4.2,7.5", "ranges": "2,7,-0.3"}, "It subtracts the means"),
    "with another output": (PLAIN | {"means": "0,0,2"}, "It subtracts the means"),
    "with minima": (PLAIN | {"minima": "1,0", "means": "1,0,0", "ranges": "9,10,1"}, "It does not apply the means"),
    "with middles": (PLAIN | {"means": "5,5,0.5", "ranges": "10,10,1"}, "It does not apply the means"),
    "of a wider box": (PLAIN | {"means": "5,5,0.5", "ranges": "10,10.1,1"}, "It subtracts the means"),
    "of a huge box": (PLAIN | {"minima": "-1.7e308,0", "maxima": "1.7e308,1", "means": "1,1,0"}, "It subtracts"),
}


def written(folder, text):
    (folder / "m.nnet").write_bytes(text.encode())
    return folder / "m.nnet"


@pytest.mark.parametrize("name", HEADERS)
def test_files_of_other_programs_are_read_as_the_loader_reads_them(name, tmp_path):
    header, condition = HEADERS[name]
    text = FILE.format(**header)
    for same in (text, "// any\n//  text \u00e9\n" + text.replace("\n", " \r\n")):
        path = written(tmp_path, same)
        model = read_nnet(path.read_bytes())
        assert weights_digest(model) == their_digest(fairmend.load_network(path))
        assert model.condition.startswith(STORED)
        assert condition in model.condition


def test_the_last_comma_of_a_line_may_be_missing_unless_programs_lose_a_number(tmp_path):
    path = written(tmp_path, FILE.format(**PLAIN).replace(",\n", "\n"))
    assert weights_digest(read_nnet(path.read_bytes())) == their_digest(fairmend.load_network(path))
    path = written(tmp_path, FILE.format(**HEADERS["of ACAS Xu"][0]).replace("7.5,\n", "7.5\n"))
    with pytest.raises(CheckError, match="no comma after its last number"):
        read_nnet(path.read_bytes())


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.nnet")), ids=lambda path: path.stem)
def test_files_of_the_corpus(path):
    model, network = read_nnet(path.read_bytes()), fairmend.load_network(path)
    assert weights_digest(model) == their_digest(network)
    if "fairmend" in path.stem:
        assert (
            model.condition
            == f"the program that reads the .nnet file stores its numbers and computes in {network.dtype}."
        )
