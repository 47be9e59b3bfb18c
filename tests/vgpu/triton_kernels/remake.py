"""Compiles the kernels of this folder to ``ptx/``: ``python tests/vgpu/triton_kernels/remake.py [NAME ...]``.

Needs no GPU, only Triton: ``pip install -e '.[triton]'``. The texts come without debug sections and comments; the first
line says what a launch needs to know. Run it again when the pinned Triton changes, and look at the difference.
"""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")

import matrix_kernels as matrix
import thread_kernels as thread
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

TYPES = {
    "f16": "*fp16",
    "bf16": "*bf16",
    "f32": "*fp32",
    "f64": "*fp64",
    "e4": "*fp8e4nv",
    "e5": "*fp8e5",
    "u8": "*u8",
    "i8": "*i8",
    "i32": "*i32",
    "i64": "*i64",
    "int": "i32",
    "int16": "i32",  # a multiple of 16
    "float": "fp32",
}
ALIGNED = frozenset(name for name, type_ in TYPES.items() if type_.startswith("*")) | {"int16"}


@dataclass(frozen=True)
class Case:
    """One kernel with the words of ``TYPES`` (or ``map[ROWS,COLUMNS]``) for its parameters, and its constants."""

    kernel: Any
    parameters: str
    constants: dict[str, Any] = field(default_factory=dict)
    targets: tuple[int, ...] = (80, 90)
    options: dict[str, Any] = field(default_factory=dict)

    def compile(self, target: int) -> Any:
        words = iter(self.parameters.split())
        signature: dict[str, str] = {}
        attributes = {}
        for at, name in enumerate(self.kernel.arg_names):
            if name in self.constants:
                signature[name] = "constexpr"
                continue
            word = next(words)
            signature[name] = f"tensordesc<fp16{word[3:]}>" if word.startswith("map") else TYPES[word]
            if word in ALIGNED:
                attributes[(at,)] = [["tt.divisibility", 16]]
        source = ASTSource(self.kernel, signature, self.constants, attributes)
        return triton.compile(source, target=GPUTarget("cuda", target, 32), options=self.options)


def gemm(types: str, acc: Any = tl.float32, targets: tuple[int, ...] = (80, 90), rows: int = 64, ctas: int = 1) -> Case:
    constants = {"BM": rows, "BN": 32, "BK": 32, "GROUP": 2, "ACC": acc}
    return Case(matrix.matmul, f"{types} int int16 int16", constants, targets, {"num_ctas": ctas})


def block(m: int, n: int, k: int, **more: Any) -> dict[str, Any]:
    return {"BM": m, "BN": n, "BK": k, **more}


def mapped(kernel: Any, sizes: str, rows: int, options: dict[str, Any], **constants: Any) -> Case:
    parameters = f"map[{rows},64] map[64,64] map[{rows},64] {sizes}"
    return Case(kernel, parameters, block(rows, 64, 64, **constants), (90,), options)


CASES = {
    "add": Case(thread.add, "f32 f32 f32 int", {"BLOCK": 1024}),
    "softmax": Case(thread.softmax, "f16 f16 int16 int", {"BLOCK": 512}),
    "layer_norm": Case(thread.layer_norm, "bf16 f32 f32 bf16 f32 f32 int float", {"BLOCK": 256}, (90,)),
    "reductions": Case(thread.reductions, "f32 f32 i32", {"M": 8, "N": 64}),
    "scans": Case(thread.scans, "f32 f32 f32", {"M": 8, "N": 64}, (80,)),
    "gather_scatter": Case(thread.gather_scatter, "f32 i32 f32 i32 int int", {"BLOCK": 256}, (80,)),
    "atomics": Case(thread.atomics, "i32 i32 i32", {"BLOCK": 128}),
    "elementary": Case(thread.elementary, "f32 f32 f32 int", {"BLOCK": 128}, (80,)),
    "random_numbers": Case(thread.random_numbers, "i32 int int", {"BLOCK": 128}, (80,)),
    "integers": Case(thread.integers, "i32 i32 i32 i64 int", {"BLOCK": 128}),
    "casts": Case(thread.casts, "f32 f16 bf16 e4 e5 f32 int", {"BLOCK": 512, "E4": True}, (89, 90)),
    "casts_e5": Case(thread.casts, "f32 f16 bf16 e5 e5 f32 int", {"BLOCK": 512, "E4": False}, (80,)),
    "shapes": Case(thread.shapes, "f32 f32", {"M": 8, "N": 32}, (90,)),
    "calls": Case(thread.calls, "i32 i32"),
    "asserts": Case(thread.asserts, "i32 i32 int", {"BLOCK": 128}, (80,), {"debug": True}),
    "matmul_f16": gemm("f16 f16 f16"),
    "matmul_bf16": gemm("bf16 bf16 f32"),
    "matmul_tf32": gemm("f32 f32 f32"),
    "matmul_f64": gemm("f64 f64 f64", tl.float64, rows=32),
    "matmul_i8": gemm("i8 i8 i32", tl.int32),
    "matmul_e4": gemm("e4 e4 f32", targets=(89, 90)),
    "matmul_e5": gemm("e5 e5 f32"),
    "matmul_cluster": gemm("f16 f16 f16", targets=(90,), rows=128, ctas=2),
    "split_k": Case(matrix.split_k, "f16 f16 f32 int16 int16 int16", block(64, 32, 32, SPLITS=4)),
    "split_k_f16": Case(matrix.split_k, "f16 f16 f16 int16 int16 int16", block(64, 32, 32, SPLITS=4)),
    "attention": Case(
        matrix.attention, "f16 f16 f16 f16 f32 float int16", {"CAUSAL": True, "BM": 64, "BN": 32, "D": 32}
    ),
    "attention_full": Case(
        matrix.attention, "bf16 bf16 bf16 bf16 f32 float int16", {"CAUSAL": False, "BM": 64, "BN": 32, "D": 64}
    ),
    "scaled": Case(matrix.scaled, "e4 u8 u8 u8 f32", block(64, 32, 64), (90,)),
    "tma_matmul": mapped(matrix.tma_matmul, "int16", 64, {}),
    "tma_matmul_cluster": mapped(matrix.tma_matmul, "int16", 128, {"num_ctas": 2}),
    "persistent": mapped(matrix.specialised, "int16 int16 int16", 64, {}, SPECIAL=False),
    "specialised": mapped(matrix.specialised, "int16 int16 int16", 64, {}, SPECIAL=True),
}


def clean(ptx: str) -> str:
    """Without debug sections, line numbers and comments."""
    ptx = re.sub(r"^\s*\.section[^{]*\{.*?^\s*\}\s*$", "", ptx, flags=re.M | re.S)
    lines = (re.sub(r"\s*//.*$", "", line).rstrip() for line in ptx.splitlines())
    return "".join(f"{line}\n" for line in lines if line.strip() and not re.match(r"\s*\.(loc|file)\b", line))


def remake(names: list[str]) -> None:
    folder = Path(__file__).parent / "ptx"
    for name in names or list(CASES):
        for path in folder.glob(f"{name}.sm_*.ptx"):
            path.unlink()
        for target in CASES[name].targets:
            compiled = CASES[name].compile(target)
            data = compiled.metadata
            head = f"// triton {triton.__version__}: shared {data.shared}, scratch {data.global_scratch_size}"
            path = folder / f"{name}.sm_{target}{'a' if target == 90 else ''}.ptx"
            path.write_text(f"{head}, ctas {data.num_ctas}\n{clean(compiled.asm['ptx'])}")
            print(path.name, path.stat().st_size)


if __name__ == "__main__":
    remake(sys.argv[1:])
