"""scikit-learn: a classifier that trains a network, repairs it and proves individual fairness, in one `fit`."""

from fairmend.base.errors import FairmendError

try:
    from sklearn.frozen import FrozenEstimator as _FrozenEstimator  # noqa: F401  # the newest class in use
except ImportError as error:
    raise FairmendError('fairmend.sklearn needs scikit-learn 1.7 or later: pip install "fairmend[sklearn]"') from error

from fairmend.network.formats.sklearn import to_estimator
from fairmend.sklearn._classifier import FairRepairClassifier, RepairWarning
from fairmend.sklearn._estimators import InputError

__all__ = ["FairRepairClassifier", "InputError", "RepairWarning", "to_estimator"]
