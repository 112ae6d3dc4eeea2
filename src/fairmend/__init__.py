"""fairmend: find, repair and prove individual fairness in neural networks that score people."""

from fairmend._version import __version__
from fairmend.errors import FairmendError

__all__ = ["FairmendError", "__version__"]
