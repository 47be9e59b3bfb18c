"""Where the toolchain is looked for, what it reports, and NVRTC itself."""

import warnings
from pathlib import Path

import pytest

from tilewright.dsl import Target
from tilewright.lowering import Toolchain, describe_toolchain, nvrtc, pch
from tilewright.lowering.errors import CompileError, LoweringWarning, ToolchainMissing
from tilewright.lowering.nvrtc import compile_cuda, require_arch, without_dead_globals

SM80 = Target("sm_80")
KERNEL = 'extern "C" __global__ void k(float* x) {\n  x[threadIdx.x] = 1.0f;\n}\n'


def test_wheels_come_first(monkeypatch):
    monkeypatch.setenv("CUDA_HOME", "/nowhere")
    found = Toolchain.find()
    assert found.origin == "pip wheels"
    assert found.version.startswith("nvrtc 13.0")


def test_an_explicit_folder_without_nvrtc(monkeypatch, tmp_path):
    monkeypatch.setenv("TILEWRIGHT_CUDA_HOME", str(tmp_path))
    with pytest.raises(ToolchainMissing, match="no CUDA toolkit with NVRTC was found") as caught:
        Toolchain.find()
    assert f"{tmp_path} (TILEWRIGHT_CUDA_HOME)" in str(caught.value)
    assert "pip install nvidia-cuda-nvrtc" in str(caught.value)
    report = describe_toolchain()
    assert report["home"] is None
    assert report["missing"][0]["part"] == "nvrtc"


def fake_toolkit(folder: Path) -> Toolchain:
    (folder / "lib").mkdir()
    (folder / "lib" / "libnvrtc.so.13").write_bytes(b"not a library")
    return Toolchain(folder, "CUDA_HOME", folder / "lib" / "libnvrtc.so.13", (folder / "include",))


def test_a_library_that_does_not_load(tmp_path):
    chain = fake_toolkit(tmp_path)
    with pytest.raises(ToolchainMissing, match=r"NVRTC at .*libnvrtc.so.13 cannot be loaded: .*"):
        compile_cuda(KERNEL, SM80, toolchain=chain)
    missing = {entry["part"]: entry for entry in chain.describe()["missing"]}
    assert set(missing) == {"nvrtc", "headers", "ptxas", "nvdisasm", "cuobjdump"}
    assert "invalid ELF header" in missing["nvrtc"]["why"] or "too short" in missing["nvrtc"]["why"]
    assert all(entry["remedy"] for entry in missing.values())


def test_complete_report():
    report = describe_toolchain()
    assert report["missing"] == []
    assert {80, 89, 90} <= set(report["nvrtc"]["archs"])
    assert report["tilelang"]["version"] == "0.1.15"
    assert Path(report["nvdisasm"]["path"]).is_file()


def test_a_target_that_nvrtc_does_not_know(monkeypatch):
    monkeypatch.setattr(nvrtc, "supported_archs", lambda chain: (75, 80))
    with pytest.raises(ToolchainMissing, match=r"NVRTC 13.0 at .* does not compile for sm_90a") as caught:
        require_arch(Toolchain.find(), Target("sm_90a"))
    assert "supported = sm_75, sm_80" in str(caught.value)


def test_user_code_finds_uint_and_numeric_limits():
    source = KERNEL.replace("1.0f", "std::numeric_limits<uint>::max() == 4294967295u ? 3.0f : 1.0f")
    compiled = compile_cuda(source, SM80)
    assert "0f40400000" in compiled.ptx or "1077936128" in compiled.ptx  # 3.0f, so the limit is right


def test_one_compilation_gives_ptx_cubin_and_log():
    compiled = compile_cuda(KERNEL, SM80)
    assert ".target sm_80" in compiled.ptx
    assert compiled.cubin[:4] == b"\x7fELF"
    assert "Used" in compiled.log


def test_header_gone_is_made_again():
    assert "using precompiled header" in [compile_cuda(KERNEL, SM80).log for _ in range(2)][1]
    for options in pch._made.values():
        folder, name = options[1].partition("=")[2], options[0].partition("=")[2]
        (Path(folder) / name).unlink()
    plain = compile_cuda(KERNEL, SM80)
    assert "using precompiled header" not in plain.log
    assert compile_cuda(KERNEL, SM80).ptx == plain.ptx
    assert "using precompiled header" in compile_cuda(KERNEL, SM80).log


def fake_compiler(text, options):
    """Makes the header file that the options name, as NVRTC would."""
    name, folder = (option.partition("=")[2] for option in options)
    (Path(folder) / name).write_text(text)
    return 0, None


@pytest.fixture
def own_headers(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path))
    pch.forget()
    yield tmp_path
    pch.forget()


def test_header_is_made_on_second_use(own_headers):
    assert pch.precompiled("text", ["-a"], fake_compiler) == []
    use, folder = pch.precompiled("text", ["-a"], fake_compiler)
    made = Path(folder.partition("=")[2]) / use.partition("=")[2]
    assert made.read_text() == "text"
    assert made.is_relative_to(own_headers / "pch")
    assert pch.precompiled("text", ["-b"], fake_compiler) == []
    assert pch.precompiled("text", ["-a"], fake_compiler) == [use, folder]


def test_unwritable_header_folder_only_warns(own_headers, monkeypatch):
    (own_headers / "file").write_text("")
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(own_headers / "file"))
    pch.precompiled("text", ["-a"], fake_compiler)
    with pytest.warns(LoweringWarning, match="precompiled headers are off"):
        assert pch.precompiled("text", ["-a"], fake_compiler) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pch.precompiled("text", ["-a"], fake_compiler) == []


def test_header_that_does_not_appear_only_warns(own_headers):
    pch.precompiled("text", ["-a"], fake_compiler)
    with pytest.warns(LoweringWarning, match="no precompiled header could be made"):
        assert pch.precompiled("text", ["-a"], lambda text, options: (0, None)) == []


def test_folders_of_dead_processes_are_removed(own_headers):
    dead = own_headers / "pch" / f"{pch._HOST}-4194305-abcdef01"  # beyond the largest process number
    other = own_headers / "pch" / "anotherhost-4194305-abcdef01"
    dead.mkdir(parents=True)
    other.mkdir()
    for _ in range(2):
        pch.precompiled("text", ["-a"], fake_compiler)
    assert (dead.exists(), other.exists()) == (False, True)


def test_compile_error_shows_cuda_and_python_lines(tmp_path):
    kernel = tmp_path / "kernel.py"
    kernel.write_text("\n\n\nC[i] = frobnicate(A[i])\n")
    source = KERNEL.replace("  x[", f'#line 4 "{kernel}"\n  x[').replace("1.0f", "frobnicate")
    with pytest.raises(CompileError, match='identifier "frobnicate" is undefined') as caught:
        compile_cuda(source, SM80)
    shown = str(caught.value)
    assert f"{kernel}:4" in shown
    assert "C[i] = frobnicate(A[i])" in shown
    assert "CUDA line 3 = x[threadIdx.x] = frobnicate;" in shown
    assert len(shown.splitlines()) <= 12


def test_error_inside_a_header_names_both():
    source = KERNEL.replace("1.0f", "tl::from_float<int>::nope")
    with pytest.raises(CompileError) as caught:
        compile_cuda(source, SM80)
    assert len(str(caught.value).splitlines()) <= 12


def test_unknown_flag():
    with pytest.raises(CompileError, match="unrecognized option --nonsense"):
        compile_cuda(KERNEL, SM80, ["--nonsense"])


def test_dead_variables_are_dropped_and_live_ones_kept():
    ptx = "\n".join(
        [
            ".global .align 4 .u32 dead = 3;",
            ".global .align 8 .u64 pointer = live;",
            ".global .align 4 .u32 live = 4;",
            ".global .align 1 .b8 table[16];",
            ".global .align 1 .b8 unused[16];",
            ".visible .entry k() { ld.global.u64 %rd1, [pointer]; ld.global.u8 %r1, [table+3]; }",
        ]
    )
    kept = without_dead_globals(ptx)
    assert [line.split()[4].split("[")[0].rstrip(";") for line in kept.splitlines()[:-1]] == [
        "pointer",
        "live",
        "table",
    ]
