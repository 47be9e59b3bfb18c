"""The artifact cache: what changes a key, damage, unwritable folders, strange paths, many processes."""

import os
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest

from tilewright.dsl import Target
from tilewright.lowering import Artifact, Options, artifact_key, artifact_path, cache, counters, lower
from tilewright.lowering.errors import BadArtifact, LoweringWarning
from tilewright.schedules import Schedule

SM80 = Target("sm_80")


def key(program, schedule=None, target=SM80, options=None):
    return artifact_key(program, schedule or Schedule(), target, options or Options())


def delta(before):
    return {name: value - before[name] for name, value in counters().items() if not name.endswith("seconds")}


def test_rebuilt_program_has_the_same_key(scale):
    assert key(scale(256)) == key(scale(256))


def test_key_sees_captured_values(scale):
    assert key(scale(256, 2.0)) != key(scale(256, 3.0))


@pytest.mark.parametrize(
    "other",
    [
        {"schedule": Schedule().min_blocks(2)},
        {"target": Target("sm_90a")},
        {"options": Options.of({"tl.disable_wgmma": True})},
        {"options": Options.of(compile_flags="-DX=1")},
    ],
    ids=["schedule", "target", "pass configuration", "flags"],
)
def test_key_sees_everything_that_decides_the_code(scale, other):
    program = scale(256)
    assert key(program, **other) != key(program)


def test_key_sees_our_own_sources(scale, monkeypatch):
    program = scale(256)
    before = key(program)
    cache._tools.cache_clear()
    monkeypatch.setattr(cache, "source_digest", lambda: "other")
    try:
        assert key(program) != before
    finally:
        cache._tools.cache_clear()


def test_second_lowering_is_a_hit_with_the_same_artifact(scale):
    first = lower(scale(384), target=SM80)
    before = counters()
    assert lower(scale(384), target=SM80) is first
    cache.forget()
    assert lower(scale(384), target=SM80) == first
    assert delta(before) == {"compiles": 0, "memory_hits": 1, "disk_hits": 1, "damaged": 0, "cache_hits": 2}


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[: len(data) // 2],
        lambda data: b"",
        lambda data: data[:-1] + bytes([data[-1] ^ 1]),
        lambda data: b"something else entirely, and long enough to hold a header of this format, or so it seems",
    ],
    ids=["truncated", "empty", "flipped bit", "foreign"],
)
def test_damaged_entry_is_rebuilt(scale, damage):
    first = lower(scale(384), target=SM80)
    path = artifact_path(first.key)
    path.write_bytes(damage(path.read_bytes()))
    cache.forget()
    before = counters()
    with pytest.warns(LoweringWarning, match="it is built again"):
        again = lower(scale(384), target=SM80)
    assert again == first
    assert delta(before)["compiles"] == 1
    assert Artifact.load(path) == first


def test_unwritable_folder_warns_once_and_uses_a_temporary_one(scale, tmp_path, monkeypatch):
    lower(scale(384), target=SM80)  # its precompiled header lies elsewhere
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with pytest.warns(LoweringWarning, match="cannot be written .* using"):
        first = lower(scale(640), target=SM80)
    cache.forget()
    before = counters()
    assert lower(scale(640), target=SM80) == first
    assert delta(before)["disk_hits"] == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lower(scale(768), target=SM80)


def test_long_unicode_path_with_spaces(scale, tmp_path, monkeypatch):
    folder = tmp_path / "mit Leerzeichen und Ümläut 文件"
    for part in ("a" * 100, "b" * 100, "c" * 100):
        folder = folder / part
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(folder))
    first = lower(scale(384), target=SM80)
    assert artifact_path(first.key).is_relative_to(folder)
    cache.forget()
    assert lower(scale(384), target=SM80) == first


def test_cache_switched_off(scale, tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TILEWRIGHT_CACHE", "0")
    before = counters()
    assert lower(scale(384), target=SM80) == lower(scale(384), target=SM80)
    assert delta(before) == {"compiles": 2, "memory_hits": 0, "disk_hits": 0, "damaged": 0, "cache_hits": 0}
    assert not (tmp_path / "artifacts").exists()


def test_threads_agree(scale):
    with ThreadPoolExecutor(4) as pool:
        artifacts = list(pool.map(lambda n: lower(scale(1024 + 128 * (n % 2), 5.0), target=SM80), range(4)))
    assert artifacts[0] == artifacts[2]
    assert artifacts[1] == artifacts[3]
    assert artifacts[0] != artifacts[1]


WORKER = """
import sys
from tilewright.dsl import Program, Target, language as T
from tilewright.lowering import counters, lower

@T.prim_func
def scale(A: T.Tensor((256,), "float32"), B: T.Tensor((256,), "float32")):
    with T.Kernel(2, threads=128) as bx:
        for i in T.Parallel(128):
            B[bx * 128 + i] = A[bx * 128 + i] * 2.0

artifact = lower(Program.from_primfunc(scale), target=Target("sm_80"))
print(artifact.key, len(artifact.cubin), counters()["damaged"])
"""


def test_four_processes_on_one_cold_folder(tmp_path):
    script = tmp_path / "worker.py"
    script.write_text(WORKER)
    environment = {**os.environ, "TILEWRIGHT_CACHE_DIR": str(tmp_path / "shared")}
    workers = [
        subprocess.Popen([sys.executable, str(script)], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    outputs = {worker.communicate()[0] for worker in workers}
    assert [worker.returncode for worker in workers] == [0, 0, 0, 0]
    (line,) = outputs
    stored = [path for path in (tmp_path / "shared" / "artifacts").rglob("*") if path.is_file()]
    assert [path.stem for path in stored] == [line.split()[0]]
    assert line.split()[2] == "0"


def test_save_and_load(scale, tmp_path):
    artifact = lower(scale(384), Schedule().min_blocks(2), SM80)
    loaded = Artifact.load(artifact.save(tmp_path / "deep" / "kernel.tw"))
    assert loaded == artifact
    assert loaded.schedule == Schedule().min_blocks(2)


def test_load_of_a_missing_file(tmp_path):
    with pytest.raises(BadArtifact, match="cannot read artifact"):
        Artifact.load(tmp_path / "absent.tw")


def test_load_of_a_foreign_file(tmp_path):
    (tmp_path / "x").write_bytes(b"PK\x03\x04")
    with pytest.raises(BadArtifact, match="is not an artifact of this version"):
        Artifact.load(tmp_path / "x")
