"""Certificates that claim what the checker confirms: it counts people by other means, and may confirm a little less."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from fairmend.base.errors import FairmendError
from fairmend.base.progress import Progress
from fairmend.prove.certificate import Certificate
from fairmend.quantifying.certificate import Evidence, claim_shares

if TYPE_CHECKING:
    from fairmend_check import CheckResult


_ROOM = 0.001  # of the undecided share: another machine may round differently, and count a little less
_ROUNDING = 1e-12
_MOST = 0.9  # of what is proven: if the checker confirms less, it tries again with more pieces


def confirmed_certificate(
    evidence: Evidence, fair: float, unfair: float, progress: Progress | None = None
) -> Certificate:
    """Return a certificate of these shares, or of as much of them as the checker confirms.

    The bounds of the checker may be too loose for the few pieces of protected values of the search. If it confirms much
    less, it gets more of them, which takes longer.
    """
    certificate = evidence.certificate()
    checked = _check(evidence, certificate, progress)
    if _decided(checked) < _MOST * (fair + unfair) and (finer := evidence.finer()) is not None:
        again = finer.certificate()
        found = _check(evidence, again, progress)
        if _decided(found) > _decided(checked):
            certificate, checked = again, found
    if checked.fair is None or checked.unfair is None:
        raise FairmendError(f"the checker confirms nothing, so there is no certificate: {checked.reasons[0]}")
    undecided = 1 - checked.fair - checked.unfair
    room = _ROOM * undecided if undecided > _ROUNDING else 0.0  # none if everyone is decided
    fair = min(fair, max(0.0, checked.fair - room))
    unfair = min(unfair, checked.unfair * (1 - _ROOM) if room else checked.unfair)
    if not fair and not unfair:
        raise FairmendError("the checker confirms no share, so there is no certificate; allow more seconds")
    return claim_shares(certificate, fair, unfair)


def _check(evidence: Evidence, certificate: Certificate, progress: Progress | None) -> CheckResult:
    from fairmend_check import check  # the only use that quantify makes of it is to run it

    report = None if progress is None else (lambda done, total: progress("check certificate", done, total))
    with TemporaryDirectory() as folder:
        model, file = Path(folder, "model.onnx"), Path(folder, "certificate.json")
        evidence.network.save(model)
        certificate.save(file, model)
        return check(file, model, run=False, progress=report)


def _decided(checked: CheckResult) -> float:
    return (checked.fair or 0.0) + (checked.unfair or 0.0)
