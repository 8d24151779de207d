"""Running a program: output, exit codes, interrupts, and what it leaves behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.ranks.rank_support import interrupts
from tools.wine import runner
from tools.wine.environment import WineEnvironment
from tools.wine.errors import WineError

ROOT = Path(__file__).resolve().parents[3]
StandIn = Callable[..., WineEnvironment]

LEAVES_A_PROCESS = textwrap.dedent("""
    import os, sys, time
    if os.fork():
        time.sleep(0.2)
        os._exit(7)
    os.setsid()
    if os.fork():
        os._exit(0)
    time.sleep(600)  # no child of anybody here any more, and holds the output's pipe
""")


@pytest.fixture
def environment(stand_in: StandIn) -> WineEnvironment:
    return stand_in()


def _python(code: str) -> list[str]:
    return ["python", "-c", textwrap.dedent(code)]


@pytest.mark.parametrize("code", [0, 1, 5, 255])
def test_the_exit_code_is_the_programs(environment: WineEnvironment, code: int) -> None:
    assert runner.run(environment, _python(f"raise SystemExit({code})"), write=lambda text: None) == code


def test_a_signal_gives_128_and_its_number(environment: WineEnvironment) -> None:
    code = _python("import os; os.kill(os.getpid(), 9)")
    assert runner.run(environment, code, write=lambda text: None) == 128 + signal.SIGKILL


def test_output_and_errors_come_in_order_as_text(environment: WineEnvironment) -> None:
    finished = runner.capture(
        environment,
        _python(r"""
            import os
            os.write(1, "größe\r\n".encode())
            os.write(2, b"cp1252: \xe9\r\n")
            os.write(1, b"split \xe2\x82")
            os.write(1, b"\xac, no end")
        """),
        timeout=60,
    )
    assert finished == runner.Finished(0, "größe\ncp1252: \ufffd\nsplit €, no end", ())


def test_output_comes_while_the_program_runs(environment: WineEnvironment, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    program = _python(f"""
        import os, time
        print("first", flush=True)
        end = time.monotonic() + 30
        while not os.path.exists({str(seen)!r}) and time.monotonic() < end:
            time.sleep(0.01)
        raise SystemExit(0 if os.path.exists({str(seen)!r}) else 1)
    """)
    assert runner.run(environment, program, write=lambda text: seen.touch() if "first" in text else None) == 0


def test_wine_gets_a_pipe_and_no_input(environment: WineEnvironment) -> None:
    finished = runner.capture(
        environment,
        _python("""
            import os, stat, sys
            print(stat.S_ISFIFO(os.fstat(1).st_mode), os.path.sameopenfile(1, 2), repr(sys.stdin.read()))
        """),
        timeout=60,
    )
    assert finished.text == "True True ''\n"


def test_folder_and_variables(environment: WineEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GONE", "1")
    monkeypatch.setenv("PYTHONPATH", "/linux")
    finished = runner.capture(
        environment,
        _python("import os; print(os.getcwd(), os.environ['GIVEN'], 'GONE' in os.environ, 'PYTHONPATH' in os.environ)"),
        timeout=60,
        cwd=tmp_path,
        variables={"GIVEN": "ü", "GONE": None},
    )
    assert finished.text == f"{tmp_path} ü False False\n"


def test_nothing_is_written_where_the_program_runs(environment: WineEnvironment, tmp_path: Path) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    assert runner.capture(environment, _python("import cProfile, wave"), timeout=60, cwd=folder).code == 0
    assert list(folder.iterdir()) == []


def test_a_folder_that_windows_cannot_name_is_refused(environment: WineEnvironment, tmp_path: Path) -> None:
    folder = tmp_path / "a:b"
    folder.mkdir()
    with pytest.raises(WineError, match="holds ':'"):
        runner.capture(environment, ["python"], timeout=60, cwd=folder)


def test_a_wine_that_cannot_start_is_named(tmp_path: Path) -> None:
    with pytest.raises(WineError, match=r"absent: cannot be started"):
        runner.capture(WineEnvironment(tmp_path, tmp_path / "absent"), ["python"], timeout=60)


def _alive(mark: str, value: str) -> list[int]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(mark) == value and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found


def test_what_outlives_the_program_is_ended_and_named(
    environment: WineEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "SETTLE_SECONDS", 0.3)
    said: list[str] = []
    started = time.monotonic()
    code = runner.run(
        environment,
        _python(LEAVES_A_PROCESS),
        variables={"TEST_MARK": environment.folder.as_posix()},
        write=said.append,
    )
    assert code == 7
    assert time.monotonic() - started < 30
    assert "ended what outlived the Windows program: python" in "".join(said)
    assert _alive("TEST_MARK", environment.folder.as_posix()) == []


def test_the_processes_of_another_run_are_left_alone(environment: WineEnvironment) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env={**os.environ, runner.MARK: "other"}
    ) as other:
        assert runner.end_marked("mine", 0.0) == ()
        assert other.poll() is None
        assert len(runner.end_marked("other", 0.0)) == 1
        assert other.wait(10) == -signal.SIGKILL


def test_wines_own_services_are_left_to_end_by_themselves(tmp_path: Path) -> None:
    service = tmp_path / "services.exe"
    service.symlink_to(Path(sys.executable).resolve())
    command = [str(service), "-c", "input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, env={**os.environ, runner.MARK: "service"}) as process:
        assert psutil.Process(process.pid).name() == "services.exe"
        assert runner.end_marked("service", 0.0) == ()
        assert process.poll() is None
        process.communicate(b"\n", timeout=10)


def test_the_deadline_ends_a_program_and_all_that_it_started(environment: WineEnvironment) -> None:
    program = _python("""
        import subprocess, sys, time
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        print("started", flush=True)
        time.sleep(600)
    """)
    finished = runner.capture(environment, program, timeout=3.0)
    assert finished.code is None
    assert finished.text == "started\n"
    assert len(finished.ended) == 2


def test_a_closed_console_does_not_stop_the_program(environment: WineEnvironment) -> None:
    def closed(text: str) -> None:
        raise BrokenPipeError

    assert runner.run(environment, _python("print('x' * 1_000_000)\nraise SystemExit(4)"), write=closed) == 4


@contextlib.contextmanager
def _command_line(
    environment: WineEnvironment, code: str, handling: Any = signal.default_int_handler
) -> Iterator[subprocess.Popen[str]]:
    """`python -m tools.wine run` of a program that has printed its first line."""
    command = [sys.executable, "-m", "tools.wine", "--wine", str(environment.wine), "run"]
    with interrupts(handling):
        started = subprocess.Popen(
            [*command, "--env", str(environment.folder), "--", *_python(code)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            env={**os.environ, "TEST_MARK": environment.folder.as_posix()},
        )
    with started as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        yield process
        process.kill()


@pytest.mark.parametrize(
    ("number", "handling"),
    [
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGTERM, signal.default_int_handler),
        (signal.SIGTERM, signal.SIG_IGN),  # in the background of a script
    ],
)
def test_an_interrupt_reaches_the_program_which_may_clean_up(
    environment: WineEnvironment, number: signal.Signals, handling: Any
) -> None:
    program = """
        import time
        try:
            print("started", flush=True)
            time.sleep(600)
        except KeyboardInterrupt:
            print("cleaned up", flush=True)
            raise SystemExit(2)
    """
    with _command_line(environment, program, handling) as process:
        process.send_signal(number)
        output, _ = process.communicate(timeout=60)
        assert output == "\ninterrupted: the Windows program has 45 s to end\ncleaned up\n"
        assert process.returncode == 2
    assert _alive("TEST_MARK", environment.folder.as_posix()) == []


def test_a_second_interrupt_ends_a_program_that_does_not_heed_the_first(environment: WineEnvironment) -> None:
    program = """
        import signal, time
        signal.signal(signal.SIGINT, lambda *_: print("not yet", flush=True))
        print("started", flush=True)
        while True:
            time.sleep(1)
    """
    with _command_line(environment, program) as process:
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        while process.stdout.readline() != "not yet\n":
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
        assert output.startswith("ended what outlived the Windows program: python")
        assert process.returncode == 130
    assert _alive("TEST_MARK", environment.folder.as_posix()) == []
