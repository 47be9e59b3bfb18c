"""An operator of ``tilewright.ops`` as a subject, described by its record."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from .compare import Comparison
from .settings import check_names
from .tensors import SEED
from .trial import Choice, Subject, Trial, findings_of, finished, instructions_of, text_of, timed, wrong

if TYPE_CHECKING:
    from tilewright.dsl import Program
    from tilewright.ops import Operator
    from tilewright.runtime import CheckReport


def operator_subject(operator: Operator) -> Subject:
    """The subject of an operator's record."""
    return Subject(operator.name, partial(_program, operator), partial(_run, operator), partial(_check, operator))


def _program(operator: Operator, settings: Mapping[str, object], choice: Choice) -> tuple[Program, Choice]:
    check_names(settings, operator.parameters)
    lowering = operator.lowering(operator.values(settings), choice.target)
    return lowering.program, Choice(choice.target, lowering.schedule if choice.schedule is None else choice.schedule)


def _run(operator: Operator, settings: Mapping[str, object], choice: Choice) -> Trial:
    import torch

    from tilewright.ops import tensors
    from tilewright.runtime import compile, recording, stats, use

    program, own = _program(operator, settings, choice)
    values = operator.values(settings)
    hits = stats()["cache_hits"]
    kernel, compile_ms = timed(lambda: compile(program, own.schedule, own.target))
    cached = stats()["cache_hits"] > hits
    args, keywords = operator.inputs(values, torch.Generator().manual_seed(SEED))
    device = "cuda" if torch.cuda.is_available() else "cpu"
    around = operator.around(values)
    with around, use(target=choice.target, schedule=choice.schedule), recording() as reports:
        moved, named = [_on(device, x) for x in args], {key: _on(device, x) for key, x in keywords.items()}
        result, run_ms = timed(lambda: finished(operator.function, *moved, **named))
    with operator.around(values):
        expected = operator.expected(*args, **keywords)
    found = operator.judge(tuple(r.cpu() for r in tensors(result)), expected)
    exact = expected.exact[0]
    return Trial(
        subject=operator.name,
        kernel=kernel,
        device="vgpu" if device == "cpu" else "cuda",
        tensors=_tensors(operator, args, keywords, result),
        comparison=Comparison(
            found.error, found.torch_error, found.allowed, float(exact.abs().max()) if exact.numel() else 0.0
        ),
        compile_ms=compile_ms,
        cached=cached,
        run_ms=run_ms,
        instructions=instructions_of(reports) if device == "cpu" else None,
        findings=findings_of(reports),
    )


def _check(operator: Operator, settings: Mapping[str, object], choice: Choice, ranks: int | None = None) -> CheckReport:
    import torch

    from tilewright.runtime import check

    check_names(settings, operator.parameters)
    values = operator.values(settings)
    args, keywords = operator.inputs(values, torch.Generator().manual_seed(SEED))
    with operator.around(values):
        expected = operator.expected(*args, **keywords)

        def verify(result: Any, *_: Any, **__: Any) -> tuple[str, ...]:
            found = operator.judge(result, expected)
            return wrong(Comparison(found.error, found.torch_error, found.allowed, 0.0))

        # by position where that is possible: an operator's own `target` is no option of the check
        call = inspect.signature(operator.function).bind(*args, **keywords)
        return check(
            operator.function,
            *call.args,
            target=choice.target,
            schedule=choice.schedule,
            verify=verify,
            ranks=ranks,
            **call.kwargs,
        )


def _on(device: str, value: Any) -> Any:
    import torch

    return value.to(device) if torch.is_tensor(value) else value


def _tensors(operator: Operator, args: Any, keywords: Mapping[str, Any], result: Any) -> dict[str, str]:
    import torch

    from tilewright.ops import tensors

    names = [part.split()[-1].split("=")[0] for part in operator.schema.split(")")[0].strip("(").split(",")]
    given = {**dict(zip(names, args, strict=False)), **keywords}
    shown = {name: text_of(value) for name, value in given.items() if torch.is_tensor(value)}
    return {**shown, "result": ", ".join(map(text_of, tensors(result)))}
