# ruff: noqa: E501 - one case a row reads better than one a screen
"""Bad input: an error that says path, line, reason and remedy; the good file on disk is never lost."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import os
import pickle
import re
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest

from otel_cassette import (
    Cassette,
    CassetteEntry,
    CassetteError,
    CassetteFormatError,
    CassetteMissError,
    CassetteWriteError,
    RecordedCallError,
    compare,
    find_divergence,
    find_divergences,
    wrap_tool,
)
from otel_cassette.document import FileClaim

SRC = str(Path(__file__).parents[2] / "src")
HEADER = '{"format": "otel-cassette", "version": 1}'
GOOD = '{"kind": "tool", "index": 0, "name": "t", "request": {}, "response": 1}'


@pytest.mark.parametrize(
    ("content", "line", "reason"),
    [
        (f"{HEADER}\n{GOOD}\n{GOOD[:40]}\n", 3, r"not JSON at column \d+: .*damaged or was edited"),
        (f"\n{HEADER}\n\n{GOOD}\n[1]\n", 5, "an entry is a JSON object, this is a list"),
        (f"{HEADER}\n{GOOD}\n{GOOD}\n", 3, "kind 'tool', index 0 stands on line 2 already; remove one"),
        ('{"format": "otel-cassette", "version": 99}\n', 1, "version 99, .* pip install --upgrade otel-cassette"),
        ('{"format": "otel-cassette", "version": "1"}\n', 1, "says version '1'"),
        ('{"format": "otel-cassette"}\n', 1, "says version None"),
        ('{"format": "otel-cassette", "version": true}\n', 1, "says version True"),
        ('{"format": "vcr", "version": 1}\n', 1, "says format 'vcr'; a cassette says 'otel-cassette'"),
        ('{"format": "agentlens-cassette", "version": 2}\n', 1, "says format 'agentlens-cassette'"),
        ('{"format": "otel-cassette", "version": 1, "metadata": 5}\n', 1, "header is damaged: metadata: "),
        ("", None, "the file is empty; an empty cassette has a header line"),
        (" \n\n", None, "the file is empty"),
        (f"{HEADER}\n".encode() + b'{"kind": "tool\xff"}\n', 2, "not UTF-8: byte 0xff at offset 56; save the file as UTF-8"),
        (f'{HEADER}\n{{"kind": "tool", "index": 0, "name": "t"}}\n', 2, 'has no "response"; a recorded None is written as null'),
        (f'{HEADER}\n{{"kind": "tool", "index": 0, "failed": true, "response": 1}}\n', 2, 'has "failed" and no "error" to raise'),
        (f"{GOOD}\n{HEADER}\n", 2, "a header; it is the first line"),
        (f"{HEADER}\n{HEADER}\n{GOOD}\n", 2, "a header; it is the first line, and there is one"),
        ('{"resourceSpans": []}\n', 1, "an exported trace, no cassette: Cassette.from_trace"),
        (f'{HEADER}\n{{"kind": "taxi", "index": 0, "response": 1}}\n', 2, "not a cassette entry: kind: "),
        (f'{HEADER}\n{{"kind": "tool", "index": -1, "response": 1}}\n', 2, "not a cassette entry: index: "),
        (f'{HEADER}\n{{"kind": "tool", "response": 1}}\n', 2, "not a cassette entry: index: "),
        (f'{HEADER}\n{{"kind": "llm", "index": 0, "request": {{"messages": [{{"content": 1}}]}}, "response": null}}\n', 2, "messages/0/role"),
        (f'{HEADER}\n{{"kind": "llm", "index": 0, "request": "hi", "response": null}}\n', 2, "not a cassette entry"),
        (f'{HEADER}\n{{"kind": "tool", "index": 0, "response": NaN}}\n', 2, "not JSON: NaN is no JSON"),
        (f'{HEADER}\n{{"kind": "tool", "index": 0, "response": {"[" * 100000}\n', 2, "nested deeper"),
        (f'{HEADER}\n{{"kind": "llm", "index": 1, "request": {{}}, "messages_from": {{"index": 0, "count": 2}}, "response": null}}\n', 2, "which no earlier line has; write the messages out in full"),
        (f'{HEADER}\n{{"kind": "llm", "index": 1, "request": {{}}, "messages_from": {{"index": 0, "count": -2}}, "response": null}}\n', 2, "count -2"),
        (f'{HEADER}\n{{"kind": "llm", "index": 1, "request": {{}}, "messages_from": [0], "response": null}}\n', 2, "not a cassette entry"),
        ('{"schema_version": "1.3", "steps": []}', None, "schema '1.3'"),
        ('{"schema_version": "1.2", "steps": [{"type": "llm"}]}', None, "steps/0: a step has a name and a type"),
        ('{"schema_version": "1.2", "steps": {"a": 1}}', None, "steps: a list of steps, this is a dict"),
        ('{"schema_version": "1.2", "steps": [5]}', None, "steps/0"),
        ("not a cassette at all", 1, "not JSON at column 1"),
    ],
)  # fmt: skip
def test_a_damaged_file_is_an_error_with_path_line_reason_and_remedy(
    tmp_path: Path, content: str | bytes, line: int | None, reason: str
) -> None:
    path = tmp_path / "c.jsonl"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(CassetteFormatError) as caught:
        Cassette.load(path)
    error = caught.value
    assert error.path == str(path)
    assert error.line == line
    assert re.search(reason, error.reason), error.reason
    place = f"{path}:{line}: " if line else f"{path}: "
    assert str(error) == place + error.reason
    assert isinstance(error, ValueError)
    assert isinstance(error, CassetteError)


def test_a_damaged_line_is_not_quoted(tmp_path: Path) -> None:
    secret = "sk-" + "a1" * 20
    for line in (
        f'{{"kind": "{secret}", "index": 0, "response": 1}}',
        f'{{"kind": "tool", "x": "{secret}',
    ):
        (tmp_path / "c.jsonl").write_text(f"{HEADER}\n{line}\n")
        with pytest.raises(CassetteFormatError) as caught:
            Cassette.load(tmp_path / "c.jsonl")
        assert secret not in str(caught.value)


SECRET = "sk-" + "a1" * 20


@pytest.mark.parametrize(
    ("header", "is_masked"),
    [
        ("", True),
        (HEADER, True),
        (HEADER[:-1] + ', "redact": []}', False),
        ('{"format": "agentlens-cassette", "version": 1}', True),
    ],
)
def test_a_file_that_names_no_redaction_is_masked_on_both_sides(
    tmp_path: Path, header: str, is_masked: bool
) -> None:
    entry = {
        "kind": "tool",
        "index": 0,
        "name": "t",
        "request": {"key": SECRET},
        "response": SECRET,
    }
    (tmp_path / "c.jsonl").write_text(f"{header}\n{json.dumps(entry)}\n")
    cassette = Cassette.load(tmp_path / "c.jsonl")
    answer = cassette.wrap_tool(lambda key: None, name="t")(SECRET)
    assert (answer != SECRET) == is_masked
    assert cassette.divergences == []
    cassette.save(tmp_path / "d.jsonl")
    assert (SECRET not in (tmp_path / "d.jsonl").read_text()) == is_masked
    again = Cassette.load(tmp_path / "d.jsonl")
    assert again.wrap_tool(lambda key: None, name="t")(SECRET) == answer


def test_entries_and_metadata_that_are_given_are_masked_too(tmp_path: Path) -> None:
    entry = CassetteEntry(kind="tool", index=0, name="t", request={"key": SECRET}, response=1)
    cassette = Cassette([entry], mode="strict", metadata={"note": f"used {SECRET}"})
    assert cassette.wrap_tool(lambda key: None, name="t")(SECRET) == 1
    cassette.save(tmp_path / "c.jsonl")
    assert SECRET not in (tmp_path / "c.jsonl").read_text()


def test_there_is_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Cassette.load(tmp_path / "none.jsonl")
    with pytest.raises(OSError, match="directory"):
        Cassette.load(tmp_path)


def test_two_entries_of_one_place_are_refused() -> None:
    one = CassetteEntry(kind="tool", index=0, name="t", request={}, response=1)
    with pytest.raises(CassetteFormatError, match="two entries of kind 'tool' have index 0"):
        Cassette([one, one])
    inner = one.model_copy(update={"parent": None, "kind": "retrieval"})
    Cassette([one, inner])


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"mode": "replay"}, "mode='replay'"),
        ({"match": "fuzzy"}, "match='fuzzy'"),
        ({"kinds": ["llms"]}, "llms is none of llm, tool, retrieval, embedding"),
    ],
)
def test_unknown_words_are_value_errors(
    tmp_path: Path, arguments: dict[str, Any], name: str
) -> None:
    Cassette().save(tmp_path / "c.jsonl")
    for make in (
        lambda: Cassette(**arguments),
        lambda: Cassette.load(tmp_path / "c.jsonl", **arguments),
    ):
        with pytest.raises(ValueError, match=name):
            make()
    with pytest.raises(ValueError, match=name), Cassette().replaying(**arguments):
        pass
    if "mode" in arguments:
        with pytest.raises(ValueError, match=name):
            Cassette().mode = arguments["mode"]


# -- values without a JSON form ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        object(),
        {1, object()},
        float("nan"),
        [float("inf")],
        {"deep": [object()]},
        (i for i in "ab"),
        lambda: 1,
    ],
)
@pytest.mark.parametrize("mode", ["record", "strict"])
def test_an_argument_without_json_form_names_tool_and_argument(value: Any, mode: Any) -> None:
    cassette = Cassette(mode=mode)
    called = []
    tool = cassette.wrap_tool(lambda client, order: called.append(order), name="refund")
    with pytest.raises(CassetteError, match="argument 'client' of tool 'refund'"):
        tool(value, 1)
    assert called == []
    with pytest.raises(
        CassetteError, match="ignore_args" if not hasattr(value, "__next__") else "iterator"
    ):
        tool(value, 1)


@pytest.mark.parametrize("value", [object(), float("nan"), iter([1]), open])
def test_a_result_without_json_form_names_the_tool(value: Any) -> None:
    cassette = Cassette()
    with pytest.raises(CassetteError, match="the result of tool 'refund'"):
        cassette.wrap_tool(lambda: value, name="refund")()
    assert cassette.entries == []


def test_of_a_result_no_parameter_is_named() -> None:
    with pytest.raises(CassetteError, match=r"plain value$"):
        Cassette().wrap_tool(lambda: b"\xff", name="thumbnail")()


class _SilentError(Exception):
    """An exception whose own code fails."""

    def __str__(self) -> str:
        raise RuntimeError

    @property
    def status_code(self) -> int:
        raise RuntimeError


@pytest.mark.parametrize("traced", [False, True])
def test_the_program_gets_its_own_exception_whatever_its_text_does(
    tmp_path: Path, traced: bool
) -> None:
    def refund() -> None:
        raise _SilentError

    cassette = Cassette()
    tool = cassette.wrap_tool(refund)
    with pytest.raises(_SilentError):
        (wrap_tool(tool) if traced else tool)()
    cassette.save(tmp_path / "c.jsonl")
    [failure] = Cassette.load(tmp_path / "c.jsonl").failures
    assert failure.error.type.endswith("_SilentError")
    assert failure.error.message == ""


def test_half_a_surrogate_pair_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    cassette = Cassette()
    cassette.wrap_tool(lambda name: {"file": name}, name="find")("caf\udce9")
    cassette.save(path)
    again = Cassette.load(path)
    with again.replaying() as session:
        assert again.wrap_tool(lambda name: 0, name="find")("caf\udce9") == {"file": "caf\udce9"}
    assert session.summary.served == 1


_SET_TOOL = """
import sys
from otel_cassette import Cassette
words = {"alpha", "beta", "gamma", "delta", "epsilon"}
cassette = Cassette() if sys.argv[1] == "record" else Cassette.load(sys.argv[2])
tool = cassette.wrap_tool(lambda tags, more: 1, name="search")
assert tool(words, more={"any": [frozenset(words)]}) == 1
if sys.argv[1] == "record":
    cassette.save(sys.argv[2])
"""


def test_a_set_is_the_same_argument_in_every_process(tmp_path: Path) -> None:
    for seed, what in (("1", "record"), ("2", "strict"), ("3", "strict")):
        done = subprocess.run(
            [sys.executable, "-c", _SET_TOOL, what, str(tmp_path / "c.jsonl")],
            env={**os.environ, "PYTHONPATH": SRC, "PYTHONHASHSEED": seed},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr


def test_the_folder_one_is_in_stands_in_the_way_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CassetteWriteError, match="a folder or file stands in the way"):
        Cassette().save(".")


@pytest.mark.parametrize("ask", [find_divergence, find_divergences, compare])
def test_a_kind_that_no_call_has_is_not_nothing_different(ask: Any) -> None:
    with pytest.raises(ValueError, match="kind='tools': one of llm, tool, retrieval, embedding"):
        ask(Cassette(), Cassette(), kind="tools")


def test_a_coroutine_that_nobody_awaited_is_told() -> None:
    async def later() -> int:
        return 1

    made = []

    def tool() -> Any:
        made.append(later())
        return made[0]

    with pytest.raises(CassetteError, match="await it inside the tool"):
        Cassette().wrap_tool(tool)()
    made[0].close()


def test_an_iterator_is_not_emptied_by_the_refusal() -> None:
    values = iter([1, 2])
    with pytest.raises(CassetteError):
        Cassette().wrap_tool(lambda v: [*v], name="t")(values)
    assert list(values) == [1, 2]


@pytest.mark.parametrize("mode", ["record", "strict", "fallthrough"])
@pytest.mark.parametrize("bad", [float("nan"), object(), float("-inf")])
def test_a_model_request_without_json_form_is_an_error(mode: Any, bad: Any) -> None:
    class Model:
        def complete(self, _request: Any) -> str:
            raise AssertionError("it was asked")

    cassette = Cassette(mode=mode)
    with pytest.raises(CassetteError, match="the request to the model has no JSON form"):
        cassette.wrap_llm(Model()).complete({"messages": "hi", "params": {"temperature": bad}})
    assert cassette.calls == []


@pytest.mark.parametrize("answer", [None, 5, {"choices": "x"}, object()])
def test_an_answer_that_is_none_is_an_error_that_says_what_to_give(answer: Any) -> None:
    class Model:
        def complete(self, _request: Any) -> Any:
            return answer

    with pytest.raises(
        CassetteError, match="give an LLMResponse, a mapping of its fields, or text"
    ):
        Cassette().wrap_llm(Model()).complete("hi")


# -- writing ----------------------------------------------------------------------------------------


def _run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": SRC}
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *arguments],
        env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def _good(path: Path) -> bytes:
    cassette = Cassette()
    cassette.wrap_tool(lambda: "good", name="t")()
    cassette.save(path)
    return path.read_bytes()


def test_a_full_disk_leaves_the_good_file(tmp_path: Path) -> None:
    before = _good(tmp_path / "c.jsonl")
    done = _run(
        """
        import resource, signal, sys
        from otel_cassette import Cassette, CassetteWriteError
        cassette = Cassette()
        cassette.wrap_tool(lambda: "x" * 1_000_000, name="big")()
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        try:
            cassette.save(sys.argv[1])
        except CassetteWriteError as error:
            print(error)
        """,
        str(tmp_path / "c.jsonl"),
    )
    assert done.returncode == 0, done.stderr
    assert str(tmp_path / "c.jsonl") in done.stdout
    assert (
        "File too large; free some space, or save elsewhere; the file there is unchanged"
        in done.stdout
    )
    assert (tmp_path / "c.jsonl").read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["c.jsonl"], "the temporary sibling is gone"


def test_a_full_disk_while_recording_leaves_the_good_file(tmp_path: Path) -> None:
    before = _good(tmp_path / "c.jsonl")
    done = _run(
        """
        import resource, sys
        from otel_cassette import Cassette, CassetteWriteError
        cassette = Cassette()
        tool = cassette.wrap_tool(lambda: "x" * 1_000_000, name="big")
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        try:
            with cassette.recording(sys.argv[1]):
                assert len(tool()) == 1_000_000
        except CassetteWriteError as error:
            print(error)
        """,
        str(tmp_path / "c.jsonl"),
    )
    assert done.returncode == 0, done.stderr
    assert "File too large" in done.stdout
    assert (tmp_path / "c.jsonl").read_bytes() == before


def test_a_folder_that_is_not_ours(tmp_path: Path) -> None:
    """As another user, for root may write anywhere."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    before = _good(folder / "c.jsonl")
    folder.chmod(0o555)
    for parent in (tmp_path, *tmp_path.parents):
        if parent != parent.parent and parent.stat().st_uid == os.getuid():
            with contextlib.suppress(OSError):
                parent.chmod(parent.stat().st_mode | 0o055)
    done = _run(
        """
        import os, sys
        from otel_cassette import Cassette, CassetteWriteError
        import otel_cassette.cassette
        if os.getuid() == 0:
            os.setgid(65534)
            os.setuid(65534)
        for path in (sys.argv[1], os.path.join(os.path.dirname(sys.argv[1]), "sub", "new.jsonl")):
            try:
                Cassette().save(path)
            except CassetteWriteError as error:
                print(error)
        """,
        str(folder / "c.jsonl"),
    )
    folder.chmod(0o755)
    assert done.returncode == 0, done.stderr
    messages = done.stdout.splitlines()
    assert len(messages) == 2
    for message in messages:
        assert re.search(
            r"cannot write .*theirs.*Permission denied; the folder .* is not yours to write",
            message,
        )
    assert (folder / "c.jsonl").read_bytes() == before


def test_something_stands_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "file" / "c.jsonl", tmp_path):
        with pytest.raises(
            CassetteWriteError, match="stands in the way, choose another path"
        ) as caught:
            Cassette().save(path)
        assert caught.value.path == str(path)
    assert (tmp_path / "file").read_text() == "x"


def test_an_entry_that_is_no_json_leaves_the_good_file(tmp_path: Path) -> None:
    before = _good(tmp_path / "c.jsonl")
    bad = CassetteEntry(kind="tool", index=0, name="t", request={}, response=float("nan"))
    with pytest.raises(CassetteWriteError, match="no JSON"):
        Cassette([bad], redact=()).save(tmp_path / "c.jsonl")
    assert (tmp_path / "c.jsonl").read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["c.jsonl"]


def test_two_processes_that_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    before = _good(path)
    program = """
        import sys
        from otel_cassette import Cassette
        cassette = Cassette()
        tool = cassette.wrap_tool(lambda n: n, name="t")
        with cassette.recording(sys.argv[1]):
            print("open", flush=True)
            sys.stdin.readline()
            tool(1)
        """
    environment = {**os.environ, "PYTHONPATH": SRC}
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), str(path)],
        env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as first:  # fmt: skip
        assert first.stdout is not None
        assert first.stdin is not None
        assert first.stdout.readline() == "open\n"
        second = _run(program, str(path))
        assert second.returncode == 1
        assert re.search(
            r"CassetteWriteError: cannot write .*another writer holds it.*the file there is unchanged",
            second.stderr,
        )
        with pytest.raises(CassetteWriteError, match="give each its own file"):
            Cassette().save(path)
        assert path.read_bytes() == before
        first.stdin.write("\n")
        first.stdin.close()
        assert first.wait(60) == 0
    assert Cassette.load(path).entries[0].request == {"n": 1}
    Cassette().save(path)  # the claim went with the process


def test_many_threads_that_save_one_file_leave_a_whole_one(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    refused = []

    def save(n: int) -> None:
        cassette = Cassette()
        tool = cassette.wrap_tool(lambda n: "x" * 10_000, name="t")
        for _ in range(20):
            tool(n)
        try:
            cassette.save(path)
        except CassetteWriteError:
            refused.append(n)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(save, range(24)))
    assert len(refused) < 24
    assert len({json.dumps(e.request) for e in Cassette.load(path).entries}) == 1
    assert len(Cassette.load(path).entries) == 20


def test_a_claim_that_cannot_be_held_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"otel-cassette-{os.getuid()}").write_text(
        "a file where the folder of claims belongs"
    )
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    with pytest.raises(CassetteWriteError, match="set TMPDIR to a folder of your own"):
        Cassette().save(tmp_path / "c.jsonl")


def test_claims_are_by_file_not_by_spelling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path)
    with FileClaim(tmp_path / "c.jsonl"), pytest.raises(CassetteWriteError):
        Cassette().save("./link/c.jsonl")


def test_an_interrupted_save_leaves_the_good_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = _good(tmp_path / "c.jsonl")

    def stop(_fd: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", stop)
    with pytest.raises(KeyboardInterrupt):
        Cassette().save(tmp_path / "c.jsonl")
    assert (tmp_path / "c.jsonl").read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["c.jsonl"]


# -- errors as objects -------------------------------------------------------------------------------


def test_errors_cross_a_process_border_with_their_facts() -> None:
    cassette = Cassette(
        [CassetteEntry(kind="tool", index=0, name="t", request={"a": 1}, response=1)], mode="strict"
    )
    with pytest.raises(CassetteMissError) as caught:
        cassette.wrap_tool(lambda a: None, name="t")(2)
    miss = pickle.loads(pickle.dumps(caught.value))
    assert str(miss) == str(caught.value)
    assert (miss.kind, miss.index, miss.mode, miss.actual_name) == ("tool", 0, "strict", "t")
    assert miss.expected_request == {"a": 1}
    assert miss.divergence == caught.value.divergence
    bad = pickle.loads(pickle.dumps(CassetteFormatError("p", 3, "why")))
    assert (bad.path, bad.line, bad.reason, str(bad)) == ("p", 3, "why", "p:3: why")
    write = pickle.loads(pickle.dumps(CassetteWriteError("p", "why")))
    assert (write.path, write.reason) == ("p", "why")
    recorded = pickle.loads(pickle.dumps(RecordedCallError("app.Boom", "x", status=429)))
    assert (recorded.type, recorded.message, recorded.status) == ("app.Boom", "x", 429)


def test_a_miss_says_what_was_asked_what_was_recorded_and_the_difference() -> None:
    cassette = Cassette(
        [CassetteEntry(kind="tool", index=0, name="t", request={"a": 1, "b": 2}, response=1)],
        mode="strict",
    )
    with pytest.raises(CassetteMissError) as caught:
        cassette.wrap_tool(lambda a, b: None, name="t")(1, 3)
    error = caught.value
    assert str(error).startswith("tool call #0 ('t') has no recorded answer in mode 'strict': ")
    assert "request of 't' differs (arguments/b)" in str(error)
    assert f"\n{error.divergence.diff}\n" in str(error)  # type: ignore[union-attr]
    remedy = str(error).splitlines()[-1]
    assert "record again" in remedy
    assert "ignore=['/arguments/b']" in remedy
    assert "mode='lenient'" in remedy
    assert '-    "b": 2' in str(error)
    assert '+    "b": 3' in str(error)
    assert error.expected is cassette.entries[0] or error.expected == cassette.entries[0]
    assert error.actual_request == {"a": 1, "b": 3}


def test_concurrent_misses_do_not_mix(tmp_path: Path) -> None:
    cassette = Cassette(mode="strict")
    tool = cassette.wrap_tool(lambda n: n, name="t")
    wrong: list[int] = []

    def ask(n: int) -> None:
        try:
            tool(n)
        except CassetteMissError as error:
            if error.actual_request != {"n": n}:
                wrong.append(n)

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(50)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert wrong == []
    assert sorted(c.index for c in cassette.calls) == list(range(50))


def test_keys_that_are_one_in_json_are_refused() -> None:
    """The one would silently take the other's place."""
    cassette = Cassette()
    tool = cassette.wrap_tool(lambda: {"by": [{1: "a", "1": "b"}]}, name="look_up")
    with pytest.raises(CassetteError, match=r"'look_up'.*two of the keys"):
        tool()
    assert cassette.entries == []


def test_redact_none_says_how_to_switch_it_off() -> None:
    with pytest.raises(TypeError, match=r"redact=\(\) for none"):
        Cassette(redact=None)  # type: ignore[arg-type]
