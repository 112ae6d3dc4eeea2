"""Certificates that claim what the checker confirms: it counts people by other means, and may confirm a little less."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from fairmend.errors import FairmendError
from fairmend.progress import Progress
from fairmend.prove.certificate import Certificate
from fairmend.quantify.certificate import Evidence, claim_shares

__all__ = ["confirmed_certificate"]

_ROOM = 0.001  # of the undecided share: another machine may round differently, and count a little less
_ROUNDING = 1e-12


def confirmed_certificate(
    evidence: Evidence, fair: float, unfair: float, progress: Progress | None = None
) -> Certificate:
    """Return a certificate of these shares, or of as much of them as the checker confirms."""
    from fairmend_check import check  # the only use that quantify makes of it is to run it

    certificate = evidence.certificate()
    report = None if progress is None else (lambda done, total: progress("check certificate", done, total))
    with TemporaryDirectory() as folder:
        model, file = Path(folder, "model.onnx"), Path(folder, "certificate.json")
        evidence.network.save(model)
        certificate.save(file, model)
        checked = check(file, model, progress=report)
    if checked.fair is None or checked.unfair is None:
        raise FairmendError(f"the checker confirms nothing, so there is no certificate: {checked.reasons[0]}")
    undecided = 1 - checked.fair - checked.unfair
    room = _ROOM * undecided if undecided > _ROUNDING else 0.0  # none if everyone is decided
    fair = min(fair, max(0.0, checked.fair - room))
    unfair = min(unfair, checked.unfair * (1 - _ROOM) if room else checked.unfair)
    if not fair and not unfair:
        raise FairmendError("the checker confirms no share, so there is no certificate; allow more seconds")
    return claim_shares(certificate, fair, unfair)
