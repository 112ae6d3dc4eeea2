"""SELU: ELU with the constants of Klambauer et al. (2017), scaled."""

from __future__ import annotations

from typing import ClassVar

from fairmend.network.functions.elu import Elu

_SCALE = 1.0507009873554804934193349852946
_ALPHA = 1.6732632423543772848170429916717


class Selu(Elu):
    """scale·z on positive numbers, scale·alpha·(exp(z) - 1) on negative ones; both constants are rounded."""

    PARAMETERS: ClassVar[tuple[str, ...]] = ()
    DEFAULTS: ClassVar[tuple[float, ...]] = ()
    gain = _SCALE

    def __init__(self) -> None:
        self._set(_SCALE * _ALPHA)
