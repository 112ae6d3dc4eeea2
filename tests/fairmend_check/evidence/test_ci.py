"""JUnit XML, the summary in Markdown, and the composite action that GitHub runs."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from fairmend_check.evidence import ci
from fairmend_check.main import main
from fairmend_check.result import CheckResult
from support.checker_cases import case

ROOT = Path(__file__).parents[3]


@pytest.fixture
def files(tmp_path):
    certificate, model = case(spec="tolerance").save(tmp_path)
    return [str(certificate), str(model)]


@pytest.fixture
def wrong(tmp_path):
    """A certificate, and the model file of another."""
    other = tmp_path / "other"
    other.mkdir()
    return [str(case(spec="tolerance").save(tmp_path)[0]), str(case(spec="ordinal").save(other)[1])]


def suite(path):
    [found] = ElementTree.parse(path).getroot()
    return found


def test_valid_is_a_test_that_passed_and_a_run_that_was_skipped(files, tmp_path, capsys):
    path = tmp_path / "junit.xml"
    assert main([*files, "--junit", str(path)]) == 0
    found = suite(path)
    assert [found.get(key) for key in ("tests", "failures", "errors", "skipped")] == ["2", "0", "0", "1"]
    assert found[0].get("name") == "certificate.json holds for model.onnx"
    assert found[0].find("system-out").text.startswith("Proven: For each of the 4 inputs")
    assert "ONNX Runtime is not installed" in found[1].find("skipped").get("message")


def test_invalid_is_a_failure_with_its_reasons(wrong, tmp_path, capsys):
    path, summary = tmp_path / "junit.xml", tmp_path / "summary.md"
    assert main([*wrong, "--junit", str(path), "--summary", str(summary)]) == 1
    failure = suite(path)[0].find("failure")
    assert failure.get("type") == "INVALID"
    assert "weights_sha256 differs" in failure.text
    assert summary.read_text().startswith("### ❌ fairmend check: INVALID\n")
    assert "weights\\_sha256 differs" in summary.read_text()


def test_unreadable_is_an_error(files, tmp_path, capsys):
    Path(files[0]).write_text("{}")
    path, summary = tmp_path / "junit.xml", tmp_path / "summary.md"
    assert main([*files, "--junit", str(path), "--summary", str(summary)]) == 2
    found = suite(path)
    assert (found.get("errors"), found[0].find("error").get("type")) == ("1", "UNREADABLE")
    assert "UNREADABLE" in summary.read_text()


def test_the_summary_has_the_claim_the_condition_and_the_digests(files, tmp_path, capsys):
    path = tmp_path / "summary.md"
    assert main([*files, "--summary", str(path)]) == 0
    text = path.read_text()
    assert text.startswith("### ✅ fairmend check: VALID\n")
    assert "**Proven:** For each of the 4 inputs" in text
    assert text.count("| sha256 |") == 2
    assert "VALID rests on reading the file alone" in text


def test_nothing_in_a_name_is_markup():
    claim = "whatever its <script>x</script> | `a` **b** \x1b[31m"
    result = CheckResult(True, (), claim, 0, True, None, 0.1, not_run="no reason")
    text = ci.summary(result, Path("c|d.json"), Path("m.onnx"), None)
    assert "<script>" not in text
    assert "\x1b" not in text
    assert "c\\|d.json" in text
    xml = ci.junit(result, Path("<c>.json"), Path("m.onnx"))
    assert ElementTree.fromstring(xml)[0][0].get("name") == "<c>.json holds for m.onnx"


# The composite action


@pytest.fixture(scope="module")
def action():
    return yaml.safe_load((ROOT / "action.yml").read_text())


def run_step(action, folder, **inputs):
    """Run the step that checks as GitHub does: its inputs as variables, in bash -eo pipefail."""
    known = {name: str(each.get("default", "")) for name, each in action["inputs"].items()}
    assert set(inputs) <= set(known)
    known |= {"python": sys.executable, "require-run": "false", **inputs}
    step = action["runs"]["steps"][1]
    values = {f"${{{{ inputs.{name} }}}}": value for name, value in known.items()}
    values["${{ github.action_path }}"] = str(ROOT)
    variables = {name: values[expression] for name, expression in step["env"].items()}
    for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"):
        (folder / name).write_text("before\n")
        variables[name] = str(folder / name)
    script = folder / "script.sh"
    script.write_text(step["run"])
    return subprocess.run(
        [shutil.which("bash"), "--noprofile", "--norc", "-eo", "pipefail", script],
        cwd=folder,
        env={**os.environ, **variables, "RUNNER_TEMP": str(folder)},
        capture_output=True,
        text=True,
    )


def test_the_action_has_the_inputs_and_outputs_that_it_uses(action):
    text = (ROOT / "action.yml").read_text()
    used = set(re.findall(r"inputs\.([\w-]+)", text))
    assert used == set(action["inputs"])
    for step in action["runs"]["steps"]:
        assert step["shell"] == "bash"
        assert "${{" not in step["run"], "an input in a script could run code"
        subprocess.run(["bash", "-n"], input=step["run"], text=True, check=True)


@pytest.mark.runs_models
def test_the_action_passes_a_model_that_fits(action, files, tmp_path):
    names = {"certificate": "certificate.json", "model": "model.onnx"}
    done = run_step(action, tmp_path, **names, attest="a.json", **{"require-run": "true"})
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "GITHUB_OUTPUT").read_text() == "before\nverdict=VALID\n"
    assert "before\n### ✅ fairmend check: VALID" in (tmp_path / "GITHUB_STEP_SUMMARY").read_text()
    assert suite(tmp_path / "fairmend-check.xml").get("skipped") == "0"
    assert (tmp_path / "a.json").exists()


def test_the_action_fails_on_a_model_that_no_longer_fits(action, wrong, tmp_path):
    done = run_step(action, tmp_path, certificate="certificate.json", model="other/model.onnx")
    assert done.returncode == 1
    assert "verdict=INVALID" in (tmp_path / "GITHUB_OUTPUT").read_text()
    assert "❌ fairmend check: INVALID" in (tmp_path / "GITHUB_STEP_SUMMARY").read_text()
    assert suite(tmp_path / "fairmend-check.xml").get("failures") == "1"


def test_the_action_fails_without_a_verdict(action, files, tmp_path):
    (tmp_path / "fairmend-check.xml").write_text("<testsuites></testsuites>")
    done = run_step(action, tmp_path, certificate="certificate.json", model="$(touch x).onnx", options="--no-run")
    assert done.returncode == 2
    assert not (tmp_path / "x").exists()
    assert "verdict=NONE" in (tmp_path / "GITHUB_OUTPUT").read_text()
    assert "no verdict" in (tmp_path / "GITHUB_STEP_SUMMARY").read_text()
    assert not (tmp_path / "fairmend-check.xml").exists(), "that of an earlier check"
