"""The pickle of a .pth file is read and never run."""

import io
import pickle
import zipfile

import pytest

from fairmend_check.errors import CheckError
from fairmend_check.read_model import read_model


def test_nothing_in_a_pickle_runs(tmp_path):
    ran = tmp_path / "ran"

    class Attack:
        def __reduce__(self):
            return (open, (str(ran), "w"))

    for protocol in (2, 4):
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr("archive/data.pkl", pickle.dumps({"w": Attack()}, protocol=protocol))
        (tmp_path / "attack.pth").write_bytes(archive.getvalue())
        with pytest.raises(CheckError, match=r"pickle calls|which no state dict needs"):
            read_model(tmp_path / "attack.pth")
    (tmp_path / "bare.pth").write_bytes(pickle.dumps(Attack()))
    with pytest.raises(CheckError, match=r"not a \.pth file"):
        read_model(tmp_path / "bare.pth")
    assert not ran.exists()
