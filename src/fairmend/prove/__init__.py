"""Prove that inputs are treated equally, and write down what is proven.

- `certify`: a verdict for each input, by one of the `engines`; `result` and `witness` are what it returns
- `proof`: which class a whole neighbourhood provably gets, and by which margin; a repair ends with it
- `claims`: every sentence about what is proven
- `certificate`: the proof as a file that `fairmend check` verifies

Other parts also use `witness.keep_ignored_features`. The modules `margin` and `rational` are for the engines.

This package is light to import: it loads `certify` only when it is used.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairmend.prove.certify import certify
    from fairmend.prove.result import CertifyResult, Verdict, Witness

__all__ = ["CertifyResult", "Verdict", "Witness", "certify"]


def __getattr__(name: str) -> Any:
    if name == "certify":
        from fairmend.prove.certify import certify

        return certify
    if name in ("CertifyResult", "Verdict", "Witness"):
        from fairmend.prove import result

        return getattr(result, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
