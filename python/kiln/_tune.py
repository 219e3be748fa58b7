"""Tuning and compiling. The program `kiln` does it, in a process of its own; this file alone knows that."""
from __future__ import annotations

import asyncio
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
from typing import Any, Callable, Generator, NamedTuple, Union

from kiln._errors import BY_EXIT, Error, Internal, InvalidArgument
from kiln._module import Module, load
from kiln._programs import kiln_program
from kiln.sched import Schedule
from kiln.te import Operator

# A path, the bytes of a model's file, an onnx.ModelProto, or an operator of one's own.
Model = Union[str, "os.PathLike[str]", bytes, Operator, Any]


class Progress(NamedTuple):
    """How far a job is."""

    done: int
    """Measurements."""
    planned: int
    """At most so many; they may be fewer where little is to be gained."""
    tasks: list[dict[str, Any]]
    """Of each task: "key", "op", "done", "planned", "best_ns", "default_ns", "flops"."""


Show = Union[bool, None, Callable[[Progress], object]]


def _failure(returned: int, said: str) -> Error:
    """The exception for how the program ended, with its last words."""
    lines = [line for line in said.splitlines() if line.strip()]
    text = lines[-1] if lines else f"the program kiln ended with {returned} and said nothing"
    return BY_EXIT.get(returned, Internal)(text)


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


def _options(pairs: dict[str, Any]) -> list[str]:
    """Options of the program: name_of=value as --name-of value, True as a flag, a dict as NAME=VALUE each."""
    words: list[str] = []
    for name, value in pairs.items():
        option = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(option)
        elif isinstance(value, dict):
            for key, one in value.items():
                words += [option, f"{key}={one}"]
        else:
            words += [option, str(value)]
    return words


def _bar(progress: Progress) -> None:
    width = 30
    full = width * progress.done // max(progress.planned, 1)
    sys.stderr.write(f"\rtuning {'#' * full}{'.' * (width - full)} {progress.done} of {progress.planned} measurements")
    sys.stderr.flush()


def _shower(show: Show) -> Callable[[Progress], object] | None:
    """None: a bar where somebody looks: a terminal or a notebook."""
    if callable(show):
        return show
    if show is None:
        show = sys.stderr.isatty() or "ipykernel" in sys.modules
    return _bar if show else None


class Job:
    """A tuning job that goes on by itself: `await` it or call `result`."""

    def __init__(self, model: Model, output: str | os.PathLike[str] | None, show: Show, options: dict[str, Any]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="kiln-")
        self._tasks: dict[str, dict[str, Any]] = {}
        self._show = _shower(show)
        self._summary: dict[str, Any] = {}
        self._raised: BaseException | None = None
        self._said = ""
        try:
            self.output = os.path.abspath(output) if output else os.path.join(self._folder.name, "model.kiln")
            words = [kiln_program(), "tune", _file_of(model, self._folder.name), "--json", "--out", self.output, *_options(options)]
            # A session of its own: Control-C reaches it through `cancel` alone.
            self._process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
            )
        except BaseException:
            self._folder.cleanup()
            raise
        self._errors = threading.Thread(target=self._hear, daemon=True)
        self._errors.start()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def progress(self) -> Progress:
        """How far it is now."""
        tasks = list(self._tasks.values())
        return Progress(sum(t.get("done", 0) for t in tasks), sum(t.get("planned", 0) for t in tasks), tasks)

    @property
    def done(self) -> bool:
        """True once it has ended, well or not."""
        return not self._reader.is_alive()

    @property
    def summary(self) -> dict[str, Any]:
        """What was found: "job", "tasks" with their times in ms, and more; empty until the end."""
        return self._summary

    def cancel(self) -> None:
        """Asks the job to end; `result` raises `kiln.Cancelled` then, and what was measured stays stored."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)

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
        if self._process.returncode != 0:
            raise _failure(self._process.returncode, self._said)
        return load(self.output)

    def __await__(self) -> Generator[Any, None, Module]:
        return self._result_later().__await__()

    async def _result_later(self) -> Module:
        try:
            return await asyncio.get_running_loop().run_in_executor(None, self.result)
        except asyncio.CancelledError:
            self.cancel()
            raise

    def _hear(self) -> None:
        assert self._process.stderr
        with self._process.stderr as stream:
            self._said = stream.read()

    def _read(self) -> None:
        assert self._process.stdout
        shown = False
        with self._process.stdout as stream:
            for line in stream:
                try:
                    event = json.loads(line)
                    if event.get("event") == "done":
                        self._summary = event
                    if event.get("event") != "progress":
                        continue
                    self._tasks.update((task["key"], task) for task in event["tasks"])
                    if self._show and not self._raised:
                        self._show(self.progress)
                        shown = True
                except BaseException as error:  # of the caller's function: it ends the job
                    self._raised = self._raised or error
                    self.cancel()
        self._process.wait()
        self._errors.join()
        if shown and self._show is _bar:
            sys.stderr.write("\n")


def submit(
    model: Model,
    *,
    target: str | None = None,
    trials: int | None = None,
    seconds: float | None = None,
    tracker: str | None = None,
    db: str | os.PathLike[str] | None = None,
    output: str | os.PathLike[str] | None = None,
    progress: Show = False,
    **options: Any,
) -> Job:
    """Starts what `tune` does and returns the job, which goes on meanwhile."""
    named = {"target": target, "trials": trials, "seconds": seconds, "tracker": tracker, "db": db, **options}
    return Job(model, output, progress, named)


def tune(
    model: Model,
    *,
    target: str | None = None,
    trials: int | None = None,
    seconds: float | None = None,
    tracker: str | None = None,
    db: str | os.PathLike[str] | None = None,
    output: str | os.PathLike[str] | None = None,
    progress: Show = None,
    **options: Any,
) -> Module:
    """Searches fast schedules for a model's kernels and loads the module that is made of them.

    `model`: a path, the bytes of an ONNX file, an onnx.ModelProto, or a kiln.te.Operator. `target`: what to tune for (None: this
    machine). `trials`: at most so many measurements over all tasks. `seconds`: end after this long. `tracker`: the
    address of a fleet (None: a private one on this machine). `db`: the database of records. `output`: the module's
    file (None: one that is gone with the job). `progress`: a function that is called with a `kiln.Progress`, from
    another thread; True, False: a bar or none; None: a bar in terminals and notebooks. Others as `kiln tune --help`
    has them: threads=4, dim={"batch": 8}, exact=True.

    A module for another machine is written to `output`, then `kiln.FailedPrecondition` is raised, as it cannot be
    loaded here: `submit` such jobs and `wait`.
    """
    job = submit(
        model, target=target, trials=trials, seconds=seconds, tracker=tracker, db=db, output=output, progress=progress, **options
    )
    return job.result()


def compile(
    model: Model,
    output: str | os.PathLike[str],
    *,
    target: str | None = None,
    db: str | os.PathLike[str] | None = None,
    schedule: Schedule | str | os.PathLike[str] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Makes a module from a model and the best stored schedules, at once, into the file `output`. Returns what the
    program says of it: "module", "bytes", "tasks", "tuned". `schedule`: one of your own for one of its kernels, or a file
    of several as --schedule takes it. Options as `kiln compile --help` has them."""
    with tempfile.TemporaryDirectory(prefix="kiln-") as folder:
        if isinstance(schedule, Schedule):
            text, schedule = f"task {schedule.task}\n{schedule.trace}", os.path.join(folder, "schedule.txt")
            pathlib.Path(schedule).write_text(text, encoding="utf-8")
        named = {"target": target, "db": db, "schedule": schedule, **options}
        words = ["compile", _file_of(model, folder), "--output", os.path.abspath(output), *_options(named)]
        lines = _lines(words)
    return lines[-1] if lines else {}


def _lines(words: list[str]) -> list[dict[str, Any]]:
    """What the program prints, a dict per line."""
    done = subprocess.run([kiln_program(), *words, "--json"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise _failure(done.returncode, done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


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

    def jobs(self) -> list[dict[str, Any]]:
        """Jobs of this fleet, as `kiln jobs list --json` prints them."""
        return _lines(["jobs", "list", *_options({"tracker": self.address, **self._key})])

    def cancel(self, job: str) -> None:
        """Ends a job, by its identity."""
        _lines(["jobs", "cancel", job, *_options({"tracker": self.address, **self._key})])
