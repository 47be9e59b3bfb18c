"""Imports go one way, between packages only through public names, and the virtual GPU stands alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

FACADE = "(the facade)"
# folder -> the folders it may import; ``tilewright.errors`` and ``tilewright.knobs`` are open to all
ALLOWED: dict[str, set[str]] = {
    "dsl": set(),
    "schedules": {"dsl"},
    "lowering": {"dsl", "schedules"},
    "vgpu": set(),
    "runtime": {"dsl", "schedules", "lowering", "vgpu"},
    "ops": {"dsl", "schedules", "lowering", "vgpu", "runtime"},
    "integrations": {FACADE, "dsl", "schedules", "lowering", "vgpu", "runtime", "ops"},
    "benchmarks": {FACADE, "dsl", "schedules", "lowering", "vgpu", "runtime", "ops"},
    "cli": {FACADE, "dsl", "schedules", "lowering", "vgpu", "runtime", "ops", "benchmarks"},
}
OPEN_TO_ALL = {"errors", "knobs"}
# besides a folder's names: its error catalogue, and these parts
PUBLIC_PARTS = {
    "tilewright.dsl.language",
    "tilewright.dsl.tree",
    "tilewright.schedules.library",
    "tilewright.runtime.devices",
}
NOT_IN_VGPU = {"torch", "tilelang", "tvm", "tvm_ffi"}


def imported(path: Path, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every absolute dotted module name that a file imports, with its line; relative names are resolved."""
    here = ["tilewright", *path.parent.parts]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = [] if not node.level else here[: len(here) - node.level + 1]
            module = ".".join([*base, *([node.module] if node.module else [])])
            if module == "tilewright" or not node.module:
                yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)
            else:
                yield node.lineno, module
        elif (
            isinstance(node, ast.Call)
            and getattr(node.func, "attr", getattr(node.func, "id", "")) == "import_module"
            and node.args
            and isinstance(node.args[0], ast.Constant)
        ):
            yield node.lineno, str(node.args[0].value)


def shipped(trees: dict[Path, ast.Module]) -> Iterator[tuple[Path, int, str]]:
    for path, tree in trees.items():
        if path.parts[0] in ALLOWED:
            yield from ((path, line, name) for line, name in imported(path, tree))


def test_imports_go_one_way(trees: dict[Path, ast.Module]) -> None:
    wrong = []
    for path, line, name in shipped(trees):
        parts = name.split(".")
        if parts[0] != "tilewright":
            continue
        folder, other = path.parts[0], parts[1] if len(parts) > 1 else FACADE
        if other != folder and other not in ALLOWED[folder] | OPEN_TO_ALL:
            wrong.append(f"{path}:{line}: {folder} must not import {other}")
    assert not wrong, "\n".join(wrong)


def test_packages_meet_only_at_their_public_names(trees: dict[Path, ast.Module]) -> None:
    wrong = []
    for path, line, name in shipped(trees):
        parts = name.split(".")
        if parts[0] != "tilewright" or len(parts) < 3 or parts[1] == path.parts[0]:
            continue
        if name not in PUBLIC_PARTS and parts[2] != "errors":
            wrong.append(f"{path}:{line}: import {'.'.join(parts[:2])}, not its inside {name}")
    assert not wrong, "\n".join(wrong)


def test_a_package_names_itself_relatively(trees: dict[Path, ast.Module]) -> None:
    """An absolute import of the own package is a second way to say the same."""
    wrong = []
    for path, tree in trees.items():
        for node in ast.walk(tree):
            module = node.module if isinstance(node, ast.ImportFrom) and not node.level else None
            if path.parts[0] in ALLOWED and module and module.split(".")[:2] == ["tilewright", path.parts[0]]:
                wrong.append(f"{path}:{node.lineno}: use a relative import for {module}")
    assert not wrong, "\n".join(wrong)


def test_no_folder_is_imported_by_its_own_name(trees: dict[Path, ast.Module]) -> None:
    """From the project's root, ``import dsl`` succeeds and gives a second copy of the package."""
    wrong = [
        f"{path}:{line}: import tilewright.{name}"
        for path, tree in trees.items()
        for line, name in imported(path, tree)
        if name.split(".")[0] in ALLOWED
    ]
    assert not wrong, "\n".join(wrong)


def test_the_virtual_gpu_knows_neither_torch_nor_tilelang(trees: dict[Path, ast.Module]) -> None:
    wrong = [
        f"{path}:{line}: {name}"
        for path, line, name in shipped(trees)
        if path.parts[0] == "vgpu" and name.split(".")[0] in NOT_IN_VGPU
    ]
    assert not wrong, "\n".join(wrong)


def test_every_shipped_folder_is_in_the_table(root: Path) -> None:
    folders = {path.parent.name for path in root.glob("*/__init__.py")} - {"tilewright"}
    assert folders == set(ALLOWED)
