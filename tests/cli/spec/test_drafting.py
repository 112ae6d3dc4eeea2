"""What the commands that write a spec share."""

import json

import numpy as np
import pytest
import torch

from fairmend.base.errors import FairmendError
from fairmend.cli.spec.drafting import refuse_overwriting, split_names
from fairmend.network import load_network
from fairmend.spec.draft.draft import require_columns
from support.cli_case import run
from support.drafting_cases import people


def test_names_are_separated_by_commas_and_stripped():
    assert split_names("sex, race,,age ") == ["sex", "race", "age"]
    assert split_names("") == []


def test_a_name_with_a_comma_is_in_double_quotes():
    assert split_names('sex, "job, branch",age') == ["sex", "job, branch", "age"]
    with pytest.raises(FairmendError, match=r"""Put a name with a comma in double quotes: '"job, branch"'"""):
        require_columns(split_names("job, branch"), ["sex", "job, branch"], "protected")


@pytest.mark.parametrize(
    ("text", "names"),
    [('"a ""b"", c"', ['a "b", c']), ('"', ['"']), ('"a"b,c', ['"a"b', "c"]), ("\r0,a\nb", ["0", "a\nb"])],
    ids=repr,
)
def test_names_may_hold_quotes_and_line_breaks(text, names):
    assert split_names(text) == names


def test_the_next_commands_can_be_copied_whatever_the_files_are_called(folder):
    data = folder / "our people.csv"
    data.write_bytes((folder / "people.csv").read_bytes())
    result = run("spec", "init", data.name, "--protected", "sex", "--label", "approved", "--json")
    document = json.loads(result.stdout)
    assert all("--data 'our people.csv'" in step for step in document["next"])
    assert document["warnings"] == []


def test_a_network_that_ranks_against_the_label_is_reported_with_the_draft(folder):
    """As those of scikit-learn do, if the word for yes comes first in the alphabet."""
    frame = people().assign(approved=lambda table: np.where(table["income"] > table["income"].median(), "yes", "no"))
    frame.to_csv("people.csv", index=False)
    layer = torch.nn.Linear(7, 1)
    with torch.no_grad():
        layer.weight.zero_()
        layer.weight[0, 1] = -1  # of the income
    load_network(torch.nn.Sequential(layer)).save("model.onnx")
    typed = ("spec", "init", "people.csv", "--protected", "sex", "--label", "approved", "--model", "model.onnx")
    result = run(*typed)
    assert result.exit_code == 0, result.output
    assert "ranks people against their labels (AUC 0.000)" in result.output
    assert "positive value" in json.loads(run(*typed, "--force", "--json").stdout)["warnings"][-1]


def test_an_existing_file_is_replaced_only_with_force_and_an_input_never(tmp_path):
    out = tmp_path / "spec.toml"
    refuse_overwriting(out, False, [None])
    out.write_text("precious")
    with pytest.raises(FairmendError, match=r"already exists.*--force"):
        refuse_overwriting(out, False, [None])
    refuse_overwriting(out, True, [tmp_path / "data.csv"])
    with pytest.raises(FairmendError, match="one of the inputs"):
        refuse_overwriting(out, True, [tmp_path / "a" / ".." / "spec.toml"])
