"""``path.py:factory`` as a subject: tensors made from the launch plan, compared with the file's ``reference``.

The reference is a function named ``reference`` in the same file. Its parameters are names of the kernel's arguments or
of the factory's settings; it returns what the kernel writes, in the order of the kernel's arguments.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import BadSetting
from .files import load_factory, load_module, reference_of
from .reference import expected_of, judge
from .settings import check_names
from .tensors import make_arguments
from .trial import Choice, Subject, Trial, findings_of, finished, instructions_of, text_of, timed, wrong

if TYPE_CHECKING:
    from tilewright.dsl import Program
    from tilewright.runtime import CheckReport


def factory_subject(name: str) -> Subject:
    """The subject ``path.py:factory``.

    Raises:
        BadFile: the file cannot be read or run.
        UnknownName: it has no such factory.
    """
    file, _, factory_name = name.rpartition(":")
    path = Path(file)
    module = load_module(path)
    factory = load_factory(module, path, factory_name)
    return Subject(
        name,
        lambda settings, choice: (split(factory, settings)[0], choice),
        partial(run, name, factory, reference_of(module)),
        partial(_check, factory, reference_of(module)),
    )


def split(factory: Any, settings: Mapping[str, object]) -> tuple[Program, dict[str, Any]]:
    """The program for the settings that the factory takes; the others give shape variables and scalar arguments.

    Raises:
        UnknownName: a setting that is neither.
        BadSetting: a size or scalar that is no number.
    """
    from tilewright.dsl import KernelFactory, Program, kernel

    made = factory
    if not isinstance(factory, KernelFactory) and inspect.isfunction(inspect.unwrap(factory)):
        made = kernel(inspect.unwrap(factory))  # a plain function, or the one behind tw.jit
    known = tuple(made.parameters) if isinstance(made, KernelFactory) else ()
    if isinstance(made, KernelFactory):
        program = made.bind(**{key: value for key, value in settings.items() if key in known})
    else:
        program = made if isinstance(made, Program) else Program.from_primfunc(made)
    sizes: dict[str, Any] = {key: value for key, value in settings.items() if key not in known}
    check_names(settings, (*known, *variables_of(program)))
    for key, value in sizes.items():
        if not isinstance(value, int | float):
            raise BadSetting(f"--set {key}={value} is a size or a scalar argument, so it must be a number")
    return program, sizes


def variables_of(program: Program) -> tuple[str, ...]:
    """The shape variables and scalar parameters that a call decides."""
    from tilewright.dsl import ScalarParam

    names: dict[str, None] = {}
    for param in program.params:
        if isinstance(param, ScalarParam):
            names[param.name] = None
        else:
            names.update({str(e): None for e in (*param.shape, *param.strides) if str(e).isidentifier()})
    return tuple(names)


def run(
    name: str,
    factory: Any,
    reference: Callable[..., Any] | None,
    settings: Mapping[str, object],
    choice: Choice,
) -> Trial:
    """Compiles the factory's kernel, runs it on tensors of random values, and compares what it wrote."""
    import torch

    from tilewright.runtime import compile, recording, stats

    program, sizes = split(factory, settings)
    hits = stats()["cache_hits"]
    kernel, compile_ms = timed(lambda: compile(program, choice.schedule, choice.target))
    cached = stats()["cache_hits"] > hits
    arguments = make_arguments(kernel.plan, sizes)
    device = "cuda" if torch.cuda.is_available() else "vgpu"
    on = torch.device("cuda" if device == "cuda" else "cpu")
    given = {key: value.clone().to(on) if torch.is_tensor(value) else value for key, value in arguments.items()}
    with recording() as reports:
        _, run_ms = timed(lambda: finished(kernel, *given.values()))
    written = [given[a.name] for a in kernel.plan.arguments if a.name in given and getattr(a, "written", False)]
    found = None
    if reference is not None:
        found = judge(expected_of(reference, {**program.bindings, **sizes, **arguments}), written)
    return Trial(
        subject=name,
        kernel=kernel,
        device=device,
        tensors={key: text_of(value) for key, value in arguments.items() if torch.is_tensor(value)},
        comparison=found,
        compile_ms=compile_ms,
        cached=cached,
        run_ms=run_ms,
        instructions=instructions_of(reports) if device == "vgpu" else None,
        findings=findings_of(reports),
    )


def _check(
    factory: Any,
    reference: Callable[..., Any] | None,
    settings: Mapping[str, object],
    choice: Choice,
    ranks: int | None = None,
) -> CheckReport:
    from tilewright.runtime import check, compile

    program, sizes = split(factory, settings)
    kernel = compile(program, choice.schedule, choice.target)
    if ranks is not None:
        sizes = {"rank": 0, **sizes}
    arguments = make_arguments(kernel.plan, sizes)
    places = [i for i, a in enumerate(kernel.plan.arguments) if getattr(a, "written", False)]

    if reference is None or ranks is not None:
        return check(kernel, *arguments.values(), ranks=ranks)
    expected = expected_of(reference, {**program.bindings, **sizes, **arguments})

    def verify(_: Any, *given: Any) -> tuple[str, ...]:
        return wrong(judge(expected, [given[i] for i in places]))

    return check(kernel, *arguments.values(), verify=verify)
