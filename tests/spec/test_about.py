"""[about]: read from a spec or a file of its own, kept, and refused by name if a key is unknown."""

import pytest

import fairmend
from fairmend.spec import About, Spec
from fairmend.spec.about import as_about, load_about
from fairmend_check.spec_toml import read_spec_file
from support.cli_case import small_network, small_people, small_spec

GIVEN = {"name": "Credit score", "version": "2.1", "owner": "Credit risk", "date": "2026-11-01"}


def test_a_spec_keeps_it_in_its_file(tmp_path):
    spec = small_spec().with_about(GIVEN)
    spec.save(tmp_path / "spec.toml")
    assert (tmp_path / "spec.toml").read_text(encoding="utf-8").startswith('[about]\nname = "Credit score"\n')
    again = Spec.load(tmp_path / "spec.toml")
    assert again.about == About(**GIVEN) == again.at_threshold(0.3).about
    assert again.widen({"age": (10, 80)}).about == About(**GIVEN)
    assert again == small_spec()  # it says nothing about people


def test_the_certificate_does_not_depend_on_it_and_the_checker_reads_the_spec(tmp_path):
    spec, frame, net = small_spec(), small_people(60), small_network()
    X, y = spec.encode(frame), spec.labels(frame)
    plain, named = (
        fairmend.repair(net, each, X[:5], X[5:], y[5:], method="blind") for each in (spec, spec.with_about(GIVEN))
    )
    for result, name in ((plain, "plain"), (named, "named")):
        result.network.save(tmp_path / "model.onnx")
        result.certificate.save(tmp_path / f"{name}.json", tmp_path / "model.onnx")
    assert (tmp_path / "plain.json").read_bytes() == (tmp_path / "named.json").read_bytes()
    spec.with_about(GIVEN).save(tmp_path / "spec.toml")
    assert read_spec_file(tmp_path / "spec.toml").width > 0
    assert fairmend.check(tmp_path / "named.json", tmp_path / "model.onnx", tmp_path / "spec.toml").valid


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"ownr": "x"}, r'\[about\] has an unknown key "ownr" \(did you mean "owner"\?\)'),
        ({"version": 2}, r'\[about\]: version must be a text, got 2\. Write "2", in quotes'),
        ({"purpose": "x" * 2_001}, r"purpose has 2,001 characters"),
        ("Credit score", r"\[about\] must be a table"),
    ],
)
def test_what_cannot_be_shown_is_refused(given, message):
    with pytest.raises(fairmend.FairmendError, match=message):
        as_about(given)


@pytest.mark.parametrize("head", ["", "[about]\n"])
def test_a_file_of_its_own(head, tmp_path):
    path = tmp_path / "about.toml"
    path.write_text(f'{head}name = "Credit score"\ndate = 2026-11-01\n')
    assert load_about(path) == About(name="Credit score", date="2026-11-01")
    path.write_text(f'{head}title = "Credit score"\n')
    with pytest.raises(fairmend.FairmendError, match=r'about\.toml: the file has an unknown key "title"'):
        load_about(path)


def test_later_texts_replace_earlier_ones():
    assert About(name="a", owner="b").updated(About(owner="c")) == About(name="a", owner="c")
