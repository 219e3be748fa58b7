from os import PathLike
from typing import Any

FASTEST: int
OLDEST: int
NEWEST: int

_Answer = tuple[list[tuple[str, str]], list[dict[str, Any]]]

class Records:
    def close(self) -> None: ...
    def _select(
        self, is_best: bool, task: str | None, target: str | None, job: str | None, order: int, limit: int, /
    ) -> _Answer: ...
    def _sql(self, statement: str, /) -> _Answer: ...

def open(path: str | bytes | PathLike[str] | PathLike[bytes] | None, /) -> Records: ...
