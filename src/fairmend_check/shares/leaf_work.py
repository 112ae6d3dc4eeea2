"""How much work the leaves of a certificate of shares take, counted as it is done, up to a limit.

A file does not show beforehand how often its leaves are halved and their people counted. The unit is a multiplication,
of which there are more than a billion a second; what other steps cost is measured.
"""

from __future__ import annotations

from fairmend_check.errors import CheckError
from fairmend_check.kernel.model import Dense, Model
from fairmend_check.kernel.regions import box_work, point_work
from fairmend_check.shares.people import People
from fairmend_check.shares.tally import Tally

MAX_WORK = 10**13  # multiplications for all leaves: about two hours
_PER_PIECE = 50_000  # what a piece of a leaf costs beside its bounds
_PER_UNIT, _PER_COLUMN, _PER_LINK = 50, 100, 10  # what a form costs at each unit, each column, and that for each link
_PER_INPUT_LINK, _PER_INPUT_CATEGORY = 50, 100  # what an input costs for each link, and category of linked features
_PER_STEP = 100_000  # what a step costs for leaves that are proven at once, however few they are
_PER_REPLACED = 300  # what it costs beside that to replace a category of a linked feature


class LeafWork:
    """Adds up the work for the leaves of a model."""

    def __init__(self, model: Model, people: People) -> None:
        self.done = 0
        links = 0 if people.links is None else people.links.steps
        linked = 0 if people.links is None else people.links.categories
        weights = sum(node.operation.weight.size for node in model.nodes if isinstance(node.operation, Dense))
        self._input = point_work(model) + _PER_INPUT_LINK * links + _PER_INPUT_CATEGORY * linked
        self._piece = _PER_PIECE + box_work(model)
        self._form = weights + _PER_UNIT * sum(model.widths) + (_PER_COLUMN + _PER_LINK * links) * people.width
        replaced = _PER_REPLACED * links * linked
        self._axes = _PER_STEP * (len(people.axes) + len(people.protected) + links) + replaced
        # Each layer is substituted in those before.
        self._pairs = _PER_STEP * (len(model.nodes) ** 2 // 8) + replaced

    def of_bounds(self, pieces: int, forms: int) -> int:
        """Return the work to bound forms of the outputs, so many in each of so many pieces of leaves."""
        return self._pairs + pieces * (self._piece + forms * self._form)

    def of_forms(self, forms: int, leaves: int) -> int:
        """Return the work for forms of the inputs that are taken one by one, each over so many leaves."""
        return forms * (self._axes + leaves * self._form)

    def of_inputs(self, inputs: int) -> int:
        """Return the work to evaluate inputs."""
        return inputs * self._input

    def of_count(self, tally: Tally) -> int:
        """Return the work to count people by a form."""
        return self._axes + tally.work

    def require(self, work: int) -> None:
        """Refuse work above the limit."""
        if self.done + work > MAX_WORK:
            raise CheckError(
                f"certificate.shares: checking these boxes takes more than {MAX_WORK:,} multiplications (about two "
                "hours), the limit for one certificate; run quantify with fewer --seconds, or with --share, to get "
                "fewer boxes"
            )

    def add(self, work: int) -> None:
        """Note work, and refuse more than the limit."""
        self.require(work)
        self.done += work
