"""The origin of a report: files and arrays by their sha256, versions, and the date."""

import hashlib
import re
from datetime import datetime, timezone

import numpy as np
import pytest

from fairmend.base.errors import FairmendError
from fairmend.evaluate.provenance import describe_origin, file_digest


def test_files_are_named_and_hashed(tmp_path):
    file = tmp_path / "model.onnx"
    file.write_bytes(b"x" * 3_000_000)
    created = datetime(2030, 1, 2, 3, 4, tzinfo=timezone.utc)
    origin = describe_origin({"model": file}, command="fairmend audit", seed=7, created=created)
    (described,) = origin.files
    assert (described.role, described.name) == ("model", "model.onnx")
    assert described.sha256 == hashlib.sha256(b"x" * 3_000_000).hexdigest()
    assert (origin.created, origin.command, origin.seed) == ("2030-01-02 03:04 UTC", "fairmend audit", 7)
    assert {"fairmend", "Python", "numpy", "torch", "system"} <= set(origin.versions)


def test_the_hash_of_an_array_depends_on_values_shape_and_type():
    arrays = (np.zeros((2, 3)), np.zeros((3, 2)), np.zeros((2, 3), np.float32), np.ones((2, 3)))
    hashes = [describe_origin(arrays={"data": array}).files[0].sha256 for array in arrays]
    assert len(set(hashes)) == 4
    assert all(re.fullmatch("[0-9a-f]{64}", value) for value in hashes)


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    with pytest.raises(FairmendError, match=r"none\.csv: cannot read the file"):
        file_digest(tmp_path / "none.csv")
