"""Tuning and compiling, over libkiln, which runs the program `kiln` in a separate process."""
from __future__ import annotations

import asyncio
import json
import os
import pathlib
import sys
import tempfile
import threading
from typing import Any, Callable, Generator, NamedTuple, Union

from kiln import _request
from kiln._errors import BY_NUMBER, Internal, InvalidArgument
from kiln._module import Module, load
from kiln._programs import kiln_program
from kiln.sched import Schedule
from kiln.te import Operator

# A path, the bytes of a model's file, an onnx.ModelProto, or a custom operator.
Model = Union[str, "os.PathLike[str]", bytes, Operator, Any]
# One for a kernel of the model, or a file of several as --schedule takes it.
OwnSchedule = Union[Schedule, str, "os.PathLike[str]", None]


class Progress(NamedTuple):
    """Progress of a job."""

    done: int
    """Measurements."""
    planned: int
    """The largest number of measurements; fewer if little can be gained."""
    tasks: list[dict[str, Any]]
    """Of each task: "key", "op", "done", "planned", "best_ns", "default_ns", "flops"."""


Show = Union[bool, None, Callable[[Progress], object]]


_HEAR_MS = 200  # between two looks at a job: the time that `cancel` of a callback takes


def _schedule_of(schedule: OwnSchedule, folder: str) -> str | None:
    """The schedule as a file, which may be new in `folder`."""
    if not isinstance(schedule, Schedule):
        return None if schedule is None else os.path.abspath(os.fspath(schedule))
    path = os.path.join(folder, "schedule.txt")
    pathlib.Path(path).write_text(f"task {schedule.task}\n{schedule.trace}", encoding="utf-8")
    return path


def _file_of(model: Model, folder: str) -> str:
    """The model as a file, which may be new in `folder`."""
    if isinstance(model, (str, os.PathLike)):
        return os.path.abspath(os.fspath(model))
    serialize = getattr(model, "SerializeToString", None)
    data = serialize() if serialize else bytes(model) if isinstance(model, Operator) else model
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise InvalidArgument(f"the model is of type {type(model).__name__}: expected a path, the bytes of an ONNX file, an onnx.ModelProto, or a kiln.te.Operator")
    path = os.path.join(folder, "model.onnx")
    with open(path, "wb") as file:
        file.write(data)
    return path


def _settings(pairs: dict[str, Any]) -> list[tuple[str, str | None]]:
    """Options of the program: name_of=value as its --name-of, True as a flag, a dict as NAME=VALUE each."""
    settings: list[tuple[str, str | None]] = []
    for key, value in pairs.items():
        name = key.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            settings.append((name, None))
        elif isinstance(value, dict):
            settings += [(name, f"{one}={size}") for one, size in value.items()]
        else:
            settings.append((name, str(value)))
    return settings


def _check(number: int, text: str) -> None:
    if number:
        raise BY_NUMBER.get(number, Internal)(text)


def _results(what: int, subject: str | None, options: dict[str, Any]) -> list[dict[str, Any]]:
    """Runs a request to its end and returns its result."""
    request = _request.start(what, subject, _settings(options), os.path.dirname(kiln_program()))
    ended, number, text = False, 0, ""
    results: list[dict[str, Any]] = []
    while not ended:
        ended, heard, number, text = request.wait(_HEAR_MS)
        results += [json.loads(said) for kind, said in heard if kind == _request.RESULT]
    _check(number, text)
    return results


def _bar(progress: Progress) -> None:
    width = 30
    full = width * progress.done // max(progress.planned, 1)
    sys.stderr.write(f"\rtuning {'#' * full}{'.' * (width - full)} {progress.done} of {progress.planned} measurements")
    sys.stderr.flush()


def _shower(show: Show) -> Callable[[Progress], object] | None:
    """None: a progress bar in a terminal or a notebook."""
    if callable(show):
        return show
    if show is None:
        show = sys.stderr.isatty() or "ipykernel" in sys.modules
    return _bar if show else None


class Job:
    """A tuning job that runs in the background: `await` it or call `result`."""

    def __init__(self, model: Model, output: str | os.PathLike[str] | None, schedule: OwnSchedule, show: Show, options: dict[str, Any]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="kiln-")
        self._tasks: dict[str, dict[str, Any]] = {}
        self._show = _shower(show)
        self._summary: dict[str, Any] = {}
        self._raised: BaseException | None = None
        self._ended = (0, "")
        try:
            self.output = os.path.abspath(output) if output else os.path.join(self._folder.name, "model.kiln")
            settings = _settings({"out": self.output, "schedule": _schedule_of(schedule, self._folder.name), **options})
            self._request = _request.start(_request.TUNE, _file_of(model, self._folder.name), settings, os.path.dirname(kiln_program()))
        except BaseException:
            self._folder.cleanup()
            raise
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def progress(self) -> Progress:
        """Its progress now."""
        tasks = list(self._tasks.values())
        return Progress(sum(t.get("done", 0) for t in tasks), sum(t.get("planned", 0) for t in tasks), tasks)

    @property
    def done(self) -> bool:
        """True once it has ended, well or not."""
        return not self._reader.is_alive()

    @property
    def summary(self) -> dict[str, Any]:
        """The result: "job", "tasks" with their times in ms, and more; empty until the end."""
        return self._summary

    def cancel(self) -> None:
        """Asks the job to end; `result` raises `kiln.Cancelled` then, and its measurements stay stored."""
        self._request.cancel()

    def wait(self, timeout: float | None = None) -> bool:
        """Waits for the end, at most `timeout` seconds; True once it has ended."""
        self._reader.join(timeout)
        return self.done

    def result(self) -> Module:
        """Waits for the end and loads the module. Control-C cancels the job."""
        try:
            self.wait()
        except BaseException:
            self.cancel()
            self.wait()
            raise
        if self._raised:
            raise self._raised
        _check(*self._ended)
        return load(self.output)

    def __await__(self) -> Generator[Any, None, Module]:
        return self._result_later().__await__()

    async def _result_later(self) -> Module:
        try:
            return await asyncio.get_running_loop().run_in_executor(None, self.result)
        except asyncio.CancelledError:
            self.cancel()
            raise

    def _read(self) -> None:
        ended, shown = False, False
        while not ended:
            ended, heard, number, text = self._request.wait(_HEAR_MS)
            self._ended = (number, text)
            for kind, said in heard:
                try:
                    shown = self._take(kind, said) or shown
                except BaseException as error:  # of the caller's function: it ends the job
                    self._raised = self._raised or error
                    self.cancel()
        if shown and self._show is _bar:
            sys.stderr.write("\n")

    def _take(self, kind: int, said: str) -> bool:
        """Takes in what was heard; True if it was shown."""
        if kind not in (_request.PROGRESS, _request.RESULT):
            return False
        event = json.loads(said)
        if kind == _request.RESULT:
            self._summary = event if event["event"] == "done" else self._summary
            return False
        self._tasks.update((task["key"], task) for task in event["tasks"])
        if not self._show or self._raised:
            return False
        self._show(self.progress)
        return True


def submit(
    model: Model,
    *,
    target: str | None = None,
    trials: int | None = None,
    seconds: float | None = None,
    tracker: str | None = None,
    db: str | os.PathLike[str] | None = None,
    output: str | os.PathLike[str] | None = None,
    schedule: OwnSchedule = None,
    progress: Show = False,
    **options: Any,
) -> Job:
    """Starts tuning as `tune` does and returns the job, which runs in the background."""
    named = {"target": target, "trials": trials, "seconds": seconds, "tracker": tracker, "db": db, **options}
    return Job(model, output, schedule, progress, named)


def tune(
    model: Model,
    *,
    target: str | None = None,
    trials: int | None = None,
    seconds: float | None = None,
    tracker: str | None = None,
    db: str | os.PathLike[str] | None = None,
    output: str | os.PathLike[str] | None = None,
    schedule: OwnSchedule = None,
    progress: Show = None,
    **options: Any,
) -> Module:
    """Searches fast schedules for a model's kernels and loads the module made from them.

    `model`: a path, the bytes of an ONNX file, an onnx.ModelProto, or a kiln.te.Operator. `target`: what to tune for (None: this
    machine). `trials`: the largest number of new measurements over all tasks. `seconds`: stop after this time. `tracker`: the
    address of a fleet (None: a private one on this machine). `db`: the database of records. `output`: the module's
    file (None: one that is gone with the job). `schedule`: one of your own, as `compile` takes it: it is measured first,
    and the search goes on from it. `progress`: a function that is called with a `kiln.Progress`, from
    another thread; True, False: a bar or none; None: a bar in terminals and notebooks. Others as `kiln tune --help`
    has them: threads=4, dim={"batch": 8}, exact=True.

    A module for another machine is written to `output`, then `kiln.FailedPrecondition` is raised, as it cannot be
    loaded here: `submit` such jobs and `wait`.
    """
    job = submit(
        model, target=target, trials=trials, seconds=seconds, tracker=tracker, db=db, output=output, schedule=schedule, progress=progress,
        **options,
    )
    return job.result()


def compile(
    model: Model,
    output: str | os.PathLike[str],
    *,
    target: str | None = None,
    db: str | os.PathLike[str] | None = None,
    schedule: OwnSchedule = None,
    **options: Any,
) -> dict[str, Any]:
    """Makes a module from a model and the best stored schedules, at once, into the file `output`. Returns what the
    program says of it: "module", "bytes", "tasks", "tuned". `schedule`: one of your own for one of its kernels, or a file
    of several as --schedule takes it. Options as `kiln compile --help` has them."""
    with tempfile.TemporaryDirectory(prefix="kiln-") as folder:
        named = {"output": os.path.abspath(output), "target": target, "db": db, "schedule": _schedule_of(schedule, folder), **options}
        results = _results(_request.COMPILE, _file_of(model, folder), named)
    return results[-1] if results else {}


class Fleet:
    """A fleet of boards behind a tracker, at HOST:PORT or unix:PATH."""

    def __init__(self, address: str, key_file: str | os.PathLike[str] | None = None) -> None:
        self.address = address
        self._key: dict[str, Any] = {"key_file": key_file}

    def submit(self, model: Model, **options: Any) -> Job:
        """`kiln.submit` on this fleet."""
        return submit(model, tracker=self.address, **self._key, **options)

    def tune(self, model: Model, **options: Any) -> Module:
        """`kiln.tune` on this fleet."""
        return tune(model, tracker=self.address, **self._key, **options)

    def leave(self, model: Model, schedule: OwnSchedule = None, **options: Any) -> str:
        """Submits a job to the fleet, where it runs without this program, and returns its identity. Options as
        those of `kiln.tune`, but for a module: `kiln.compile` packs one, once `attach` has brought the records."""
        with tempfile.TemporaryDirectory(prefix="kiln-") as folder:
            named = {"tracker": self.address, **self._key, "detach": True, "schedule": _schedule_of(schedule, folder), **options}
            [result] = _results(_request.TUNE, _file_of(model, folder), named)
        return str(result["job"])

    def attach(self, job: str, db: str | os.PathLike[str] | None = None) -> dict[str, Any]:
        """Waits for the end of a job, also one of another program, and imports its records into the database `db`. Returns
        its row; raises its error."""
        return _results(_request.ATTACH, job, {"tracker": self.address, **self._key, "db": db})[-1]

    def jobs(self) -> list[dict[str, Any]]:
        """Jobs of this fleet, as `kiln jobs list --json` prints them."""
        return _results(_request.JOBS, None, {"tracker": self.address, **self._key})

    def cancel(self, job: str) -> None:
        """Ends a job, by its identity."""
        _results(_request.CANCEL, job, {"tracker": self.address, **self._key})
