TUNE: int
COMPILE: int
JOBS: int
JOB: int
CANCEL: int
WATCH: int
ATTACH: int
PROGRESS: int
RESULT: int

class Request:
    def wait(self, timeout_ms: int, /) -> tuple[bool, list[tuple[int, str]], int, str]: ...
    def cancel(self) -> None: ...

def start(what: int, subject: str | None, settings: list[tuple[str, str | None]], programs: str | None, /) -> Request: ...
