"""`fairmend check`: ask the independent checker whether a certificate holds for a model file."""

from __future__ import annotations

import logging
from pathlib import Path

from fairmend.errors import FairmendError
from fairmend_check.errors import CannotAnswerError
from fairmend_check.main import INVALID, VALID, check_and_print

_logger = logging.getLogger(__name__)


def run_check(certificate: Path, model: Path, spec_file: Path | None = None, *, json_output: bool = False) -> int:
    """Check the certificate, print the verdict and return the exit code."""
    try:
        result = check_and_print(certificate, model, spec_file, json_output=json_output)
    except CannotAnswerError as error:
        raise FairmendError(str(error)) from error
    _logger.info("%s with %d regions, checked in %.2f s", certificate, result.regions, result.seconds)
    return VALID if result.valid else INVALID
