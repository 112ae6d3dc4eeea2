"""The spec and the data that most tests of specs use."""

import pytest

from support.spec_cases import mixed_frame, mixed_spec


@pytest.fixture
def spec():
    return mixed_spec()


@pytest.fixture
def frame():
    return mixed_frame()
