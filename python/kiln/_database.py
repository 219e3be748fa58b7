"""Databases of measurements."""
from __future__ import annotations

import importlib
import os
from types import TracebackType
from typing import Any

from kiln import _query
from kiln._errors import FailedPrecondition, InvalidArgument

_ORDER = {"fastest": _query.FASTEST, "oldest": _query.OLDEST, "newest": _query.NEWEST}


class Rows(list[dict[str, Any]]):
    """An answer: a list of rows, each a dict from the names of its columns to str, bytes, int, float, None, or a
    list of float (samples, in ns)."""

    columns: dict[str, str]
    """A description of each column; "" in answers to SQL."""

    def __init__(self, columns: list[tuple[str, str]], rows: list[dict[str, Any]]) -> None:
        super().__init__(rows)
        self.columns = dict(columns)

    def frame(self) -> Any:
        """The rows as a `pandas.DataFrame`."""
        try:
            pandas = importlib.import_module("pandas")
        except ImportError as error:
            raise FailedPrecondition("pandas is missing: pip install pandas") from error
        return pandas.DataFrame(list(self), columns=list(self.columns))


class Database:
    """A database of records: every measured trial. It is opened read-only; others may write meanwhile.

    `path`: a file, or postgres://HOST/DATABASE where this build has it; None: the user's own,
    $KILN_HOME/kiln.db. Raises `kiln.NotFound` where there is none.
    """

    def __init__(self, path: str | bytes | os.PathLike[str] | os.PathLike[bytes] | None = None) -> None:
        self._records = _query.open(path)

    def best(
        self, task: str | None = None, target: str | None = None, job: str | None = None, limit: int | None = None
    ) -> Rows:
        """The fastest record of each task and target, by task key and target. `task`: a key; `target`: in any form
        that --target takes; None: all. Times are in ns. Raises `kiln.NotFound` for a target without records."""
        return self._select(True, task, target, job, "fastest", limit)

    def find(
        self,
        task: str | None = None,
        target: str | None = None,
        job: str | None = None,
        order: str = "fastest",
        limit: int | None = None,
    ) -> Rows:
        """Records that match. `order`: "fastest" (only those that may be best: right ones, finals first, then by
        median), "oldest" or "newest" (all that are not in quarantine)."""
        return self._select(False, task, target, job, order, limit)

    def sql(self, statement: str) -> Rows:
        """The answer to one statement of SQL that changes nothing."""
        return Rows(*self._records._sql(statement))

    def close(self) -> None:
        """Closes it. Closing it again does nothing."""
        self._records.close()

    def _select(
        self, best: bool, task: str | None, target: str | None, job: str | None, order: str, limit: int | None
    ) -> Rows:
        if order not in _ORDER:
            raise InvalidArgument(f"the order is {order!r}: expected one of {', '.join(_ORDER)}")
        if limit is not None and not 1 <= limit < 2**32:
            raise InvalidArgument(f"the limit is {limit}: expected 1 or more, or None")
        return Rows(*self._records._select(best, task, target, job, _ORDER[order], limit or 0))

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
