"""The report that commands write into their folder."""

import io
import json
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper
from rich.console import Console

from fairmend.base.errors import FairmendError
from fairmend.cli.figures import show_report
from fairmend.network.formats.torch.state_dict import to_tensors
from fairmend.report.report import DATA_NAME, PAGE_NAME
from fairmend.workflows.outputs import REPORT_FILES, check_certificate
from support.checker_cases import case as checker_case
from support.cli_case import Case, run, small_network, small_people, small_spec, succeeded


def test_the_files_are_those_that_fairmend_report_reads():
    assert list(REPORT_FILES) == [PAGE_NAME, DATA_NAME]


def test_a_repair_describes_its_files_and_how_to_check_them(tmp_path):
    case = Case(tmp_path)
    assert case.repair(method="blind", steps=1).exit_code == 0
    document = json.loads((case.out / DATA_NAME).read_text())
    roles = {file["role"] for file in document["origin"]["files"]}
    assert {"model", "data", "spec", "repaired model", "certificate"} <= roles
    assert f"fairmend check {case.out / 'certificate.json'} {case.out / 'model.onnx'}" in json.dumps(document)


def test_the_report_of_an_audit_shows_that_the_spec_may_be_wrong(tmp_path):
    """The page was once written before the spec was checked against the model."""
    case = Case(tmp_path)
    case.write(inverted_labels())
    arguments = ["--spec", case.spec, "--data", case.data, "--report", tmp_path / "audit", "--json"]
    shown = json.loads(run("audit", case.model, *arguments).stdout)
    assert shown["warnings"]
    assert json.loads((tmp_path / "audit" / DATA_NAME).read_text())["warnings"] == shown["warnings"]


def inverted_labels():
    """Return people whose label is the opposite of the prediction."""
    people, spec = small_people(), small_spec()
    wrong = small_network().predict(spec.encode(people)) == 0
    return people.assign(good=["yes" if row else "no" for row in wrong])


def test_show_report_names_the_page_on_one_line():
    screen = Console(file=io.StringIO(), width=40)
    show_report(screen, Path("a/very/long/folder/name/that/is/wider/than/the/screen/report.html"))
    assert screen.file.getvalue().strip().count("\n") == 0


def test_a_certificate_is_checked_before_it_is_published(tmp_path):
    case = Case(tmp_path)
    assert case.repair(method="blind", steps=1).exit_code == 0
    assert check_certificate(case.out / "certificate.json", case.out / "model.onnx").valid
    with pytest.raises(FairmendError, match=r"the certificate failed its check \(.*\), so nothing was written"):
        check_certificate(case.out / "certificate.json", case.model)


def test_a_file_that_the_checker_does_not_read_gets_no_certificate(tmp_path):
    """The loader reads more than the checker, which refuses what programs could read in two ways."""
    import torch

    made = checker_case()
    state = {key: torch.tensor(array) for key, array in to_tensors(made.network).items()}
    first = next(iter(state))
    torch.save({"state_dict": {**state, first: torch._neg_view(-state[first])}}, tmp_path / "checkpoint.pth")
    made.certificate.save(tmp_path / "c.json", tmp_path / "checkpoint.pth")
    with pytest.raises(FairmendError, match=r"model checkpoint\.pth: .*Save the network with fairmend"):
        check_certificate(tmp_path / "c.json", tmp_path / "checkpoint.pth")


def with_another_output(case: Case, *, first: bool) -> None:
    """Give the model the names of a caller and, beside its scores, their largest as a label: before or after them."""
    model = onnx.load(case.model)
    graph = model.graph
    for node in graph.node:
        for names in (node.input, node.output):
            for place, name in enumerate(names):
                names[place] = {"input": "people", "output": "risks"}.get(name, name)
    graph.input[0].name, graph.output[0].name = "people", "risks"
    graph.node.append(helper.make_node("ArgMax", ["risks"], ["class"], axis=1, keepdims=0))
    label = helper.make_tensor_value_info("class", TensorProto.INT64, ["batch"])
    graph.output.insert(0 if first else 1, label)
    onnx.save(model, case.model)


@pytest.mark.parametrize("first", [False, True])
def test_a_repair_says_that_the_file_has_another_form_than_the_original(first, tmp_path):
    """The loader reads this label and the checker does not: a program that reads it must be told that it is gone."""
    case = Case(tmp_path)
    small_network(2).save(case.model)
    with_another_output(case, first=first)
    done = succeeded(case.repair(method="blind", steps=1))
    assert "model.onnx with a certificate will have fairmend's own form: fairmend check cannot read that" in done.stderr
    warning = next(each for each in json.loads((case.out / "result.json").read_text())["warnings"] if "form" in each)
    assert warning.startswith("model.onnx has fairmend's own form")
    old = ["'class' (int64, 1 axis)", "'risks' (float32, 2 columns)"]
    assert f"the outputs {' and '.join(old if first else old[::-1])} became 'output' (float32, 2 columns)" in warning
    assert "people" not in warning  # the input keeps its name
    assert warning in json.loads((case.out / DATA_NAME).read_text())["warnings"]
    assert " ".join(warning.split()) in " ".join(done.stdout.split())
    repaired = onnx.load(case.out / "model.onnx").graph
    assert [value.name for value in (*repaired.input, *repaired.output)] == ["people", "output"]


def test_a_repair_of_a_file_that_the_checker_reads_keeps_its_form_and_says_nothing(tmp_path):
    case = Case(tmp_path)
    done = succeeded(case.repair(method="blind", steps=1))
    assert "own form" not in done.stdout + done.stderr
    assert not any("own form" in each for each in json.loads((case.out / "result.json").read_text())["warnings"])
