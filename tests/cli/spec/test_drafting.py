"""What the commands that write a spec share."""

import pytest

from fairmend.cli.spec.drafting import refuse_overwriting, split_names
from fairmend.errors import FairmendError


def test_names_are_separated_by_commas_and_stripped():
    assert split_names("sex, race,,age ") == ["sex", "race", "age"]
    assert split_names("") == []


def test_an_existing_file_is_replaced_only_with_force_and_an_input_never(tmp_path):
    out = tmp_path / "spec.toml"
    refuse_overwriting(out, False, [None])
    out.write_text("precious")
    with pytest.raises(FairmendError, match=r"already exists.*--force"):
        refuse_overwriting(out, False, [None])
    refuse_overwriting(out, True, [tmp_path / "data.csv"])
    with pytest.raises(FairmendError, match="one of the inputs"):
        refuse_overwriting(out, True, [tmp_path / "a" / ".." / "spec.toml"])
