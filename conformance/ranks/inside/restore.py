"""Making a rank's process what it was before a job, so that it can serve another.

What torch and DeepSpeed keep in their modules is compared with a snapshot taken when the process was fresh: module
variables, attributes of classes, and what DeepSpeed's own objects among them hold. Not restored are compiled ops, which
cannot be loaded twice, and what lives only in C++; a verdict other than PASS is therefore confirmed in fresh ranks.
"""

from __future__ import annotations

import collections
import contextlib
import gc
import logging
import operator
import os
import random
import signal
import sys
import threading
import types
import warnings
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from conformance.ranks.platform import posix

_CONTAINERS = (dict, list, set, collections.OrderedDict, collections.defaultdict, collections.deque)
_PLAIN = (type(None), bool, int, float, str, bytes, tuple, frozenset)
_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, staticmethod, classmethod, property)
_KEPT = frozenset({"_loaded_ops", "_deferred_hint"})
"""Names of variables that hold loaded ops."""
_TORCH = (
    "torch",
    "torch._tensor",
    "torch.functional",
    "torch.nn.functional",
    "torch.nn.init",
    "torch.nn.modules.linear",
    "torch.nn.modules.module",
    "torch.nn.parameter",
    "torch.optim.optimizer",
    "torch.distributed",
    "torch.distributed.distributed_c10d",
    "torch.utils.data.dataloader",
)


class Snapshot:
    """What a process is like now.

    Args:
        packages: names of top-level packages whose modules are remembered, besides torch's best-known ones.
    """

    def __init__(self, packages: Collection[str]) -> None:
        self._environment = dict(os.environ)
        self._folder = Path.cwd()
        self._outputs = {descriptor: os.dup(descriptor) for descriptor in (0, 1, 2)}
        self._path = list(sys.path)
        self._arguments = list(sys.argv)
        self._filters = list(warnings.filters)
        self._signals = {number: signal.getsignal(number) for number in signal.valid_signals()}
        self._threads = set(threading.enumerate())
        self._hooks = (sys.excepthook, threading.excepthook, sys.displayhook, sys.gettrace(), sys.getprofile())
        self._levels = {logger: (logger.level, list(logger.handlers), logger.disabled) for logger in _loggers()}
        self._torch = _torch_state()
        self._variables: list[_Variables] = []
        for name, module in list(sys.modules.items()):
            if type(module) is types.ModuleType and _is_remembered(name, packages):
                self._variables += _variables_of(name, module)
        self._defaults = [
            (default, _copy(default))
            for variables in self._variables
            for function in variables.functions()
            for default in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
            if type(default) in _CONTAINERS
        ]
        gc.collect()
        gc.freeze()

    def leave_folder(self) -> None:
        """Let go of the job's folder and logs, which cannot be deleted on Windows while in use."""
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        for descriptor, kept in self._outputs.items():
            os.dup2(kept, descriptor)
        os.chdir(self._folder)

    def restore(self) -> str:
        """Make the process like this again; returns what could not be, or nothing."""
        left = _destroy_groups()
        for variables in self._variables:
            variables.restore()
        for default, content in self._defaults:
            _refill(default, content)
        _restore_torch(self._torch)
        os.environ.clear()
        os.environ.update(self._environment)
        sys.path[:] = self._path
        sys.argv[:] = self._arguments
        warnings.simplefilter("default")  # also lets warnings be shown again that were shown once
        warnings.filters[:] = self._filters  # type: ignore[index]
        sys.excepthook, threading.excepthook, sys.displayhook, trace, profile = self._hooks
        sys.settrace(trace)
        sys.setprofile(profile)
        for number, handler in self._signals.items():
            if handler is not None and signal.getsignal(number) != handler:
                signal.signal(number, handler)
        for logger in _loggers():
            level, handlers, disabled = self._levels.get(logger, (logging.NOTSET, [], False))
            logger.setLevel(level)
            logger.handlers[:] = handlers
            logger.disabled = disabled
        reseed()
        _stop_watching_progress()
        _take_apart()
        gc.collect()
        left += [f"thread {thread.name}" for thread in threading.enumerate() if thread not in self._threads]
        if sys.platform == "linux":  # on Windows the harness counts them in the rank's job object
            left += [f"child process {pid}" for pid in posix.children()]
        return ", ".join(left)


class _Variables:
    """The variables in one namespace, with what containers among them hold."""

    def __init__(self, owner: Any, remembered: Callable[[Any], bool]) -> None:
        self._owner = owner
        self._remembered = remembered
        self._values = dict(self._now())
        self._contents = {name: _copy(value) for name, value in self._values.items() if type(value) in _CONTAINERS}

    def _now(self) -> Iterator[tuple[str, Any]]:
        for name, value in list(vars(self._owner).items()):
            if not name.startswith("__") and name not in _KEPT and self._remembered(value):
                yield name, value

    def functions(self) -> Iterator[types.FunctionType]:
        """Those defined here, methods of every kind included."""
        for value in self._values.values():
            # By type alone: some of torch's objects warn when they are asked for anything.
            plain = value.__func__ if type(value) in (staticmethod, classmethod) else value
            if type(plain) is types.FunctionType:
                yield plain

    def restore(self) -> None:
        now = dict(self._now())
        with contextlib.suppress(AttributeError, TypeError):  # some objects refuse; their verdicts tell
            for name in now.keys() - self._values.keys():
                delattr(self._owner, name)
            for name, value in self._values.items():
                if now.get(name, self) is not value:
                    setattr(self._owner, name, value)
        for name, content in self._contents.items():
            _refill(self._values[name], content)


def _is_remembered(name: str, packages: Collection[str]) -> bool:
    return name in _TORCH or (name.partition(".")[0] in packages and not name.startswith("conformance.ranks"))


def _variables_of(name: str, module: types.ModuleType) -> Iterator[_Variables]:
    if name == "torch.distributed.distributed_c10d":  # its objects are torch's own to tear down
        yield _Variables(module, lambda value: type(value) in _PLAIN)
        return
    yield _Variables(module, lambda value: not issubclass(type(value), types.ModuleType))
    for value in list(vars(module).values()):
        if issubclass(type(value), type):
            if value.__module__ == name:
                yield _Variables(value, lambda item: type(item) in (*_PLAIN, *_CONTAINERS, *_FUNCTIONS))
        elif _is_deepspeeds(type(value)) and hasattr(value, "__dict__"):
            yield _Variables(value, lambda item: type(item) in (*_PLAIN, *_CONTAINERS))


def _copy(container: Any) -> Any:
    return dict(container) if isinstance(container, dict) else list(container)


def _refill(container: Any, content: Any) -> None:
    if isinstance(container, dict):
        same = container.keys() == content.keys() and all(container[key] is value for key, value in content.items())
    else:
        same = len(container) == len(content) and all(map(operator.is_, container, content))
    if same:
        return
    container.clear()
    if isinstance(container, (dict, set)):
        container.update(content)
    else:
        container.extend(content)


def _destroy_groups() -> list[str]:
    """End torch.distributed; what went wrong by that."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return []
    try:
        distributed.destroy_process_group()
    except Exception as error:
        return [f"torch.distributed ({type(error).__name__}: {error})"]
    return []


def _stop_watching_progress() -> None:
    """End the thread that tqdm starts with its first bar."""
    tqdm: Any = getattr(sys.modules.get("tqdm"), "tqdm", None)
    if getattr(tqdm, "monitor", None) is not None:
        tqdm.monitor.exit()
        tqdm.monitor = None


def _take_apart() -> None:
    """Empty what DeepSpeed has made since the snapshot, and the tensors that it has hung things on.

    Its engines are in cycles through autograd's hooks, in C++, which no garbage collector sees. They would live on, and
    with each some process groups, whose threads poll their sockets for as long as the process lives.
    """
    torch = sys.modules.get("torch")
    for each in gc.get_objects():
        kind = type(each)  # and not __class__, which a weak proxy answers for an object that may be gone
        if _is_deepspeeds(kind) or (torch is not None and issubclass(kind, torch.Tensor)):
            attributes = getattr(each, "__dict__", None)
            if type(attributes) is dict:
                attributes.clear()


def _is_deepspeeds(kind: type) -> bool:
    """Whether DeepSpeed has defined this class. Some classes of extensions, such as mpi4py's, name no module."""
    module = kind.__module__
    return type(module) is str and module.partition(".")[0] == "deepspeed"


def _torch_state() -> dict[str, Any]:
    torch = sys.modules.get("torch")
    if torch is None:
        return {}
    return {
        "dtype": torch.get_default_dtype(),
        "threads": torch.get_num_threads(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "precision": torch.get_float32_matmul_precision(),
    }


def _restore_torch(state: dict[str, Any]) -> None:
    torch = sys.modules.get("torch")
    if torch is None or not state:
        return
    torch.set_default_dtype(state["dtype"])
    torch.set_default_device(None)
    torch.set_num_threads(state["threads"])
    torch.use_deterministic_algorithms(state["deterministic"])
    torch.set_float32_matmul_precision(state["precision"])
    torch.set_grad_enabled(True)
    torch.autograd.set_detect_anomaly(False)
    for kind in ("cpu", "cuda"):
        torch.set_autocast_enabled(kind, False)


def _loggers() -> list[logging.Logger]:
    known = logging.Logger.manager.loggerDict.values()
    return [logging.getLogger(), *(each for each in known if isinstance(each, logging.Logger))]


def reseed() -> None:
    """Seed the generators that a fresh interpreter seeds from the system: they differ between ranks and jobs."""
    random.seed()
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed()
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.default_generator.seed()
