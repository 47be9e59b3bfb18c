"""A compiled kernel that is called with tensors."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import torch

from tilewright import knobs
from tilewright.dsl import Program, Target
from tilewright.lowering import (
    Artifact,
    LaunchPlan,
    Options,
    Resources,
    ScalarArgument,
    TensorArgument,
    disassemble,
    lower,
    record_stages,
)
from tilewright.schedules import Schedule

from . import diagnose, opaque
from .alignment import required_alignment
from .context import counters, current_target
from .devices.protocol import Device
from .entry import MISSING, Hooks, Launcher, generate_entry
from .errors import ArgumentError, DriverError, OptionError
from .outputs import OutIdx
from .profiler import Profiler
from .signature import Signature, signature_of


class Kernel:
    """A compiled kernel; ``k(*tensors)`` runs it and returns None, the output, or a tuple of outputs.

    CUDA tensors run on the GPU, on torch's current stream; CPU tensors on the virtual GPU of the kernel's target.
    Immutable; equal when artifact and outputs are. Under ``torch.compile``, ``make_fx`` and fake tensors a call is
    one opaque node.

    Args:
        artifact: what lowering made.
        out_idx: parameters that a call allocates and returns, by position (negative counts from the end).
        program: the program it was lowered from, which ``stages`` needs for the passes between.
        options: the options it was lowered with.
        device: sends every launch to this device, whatever the tensors are on.

    Raises:
        OutputIndexError: ``out_idx`` does not fit the parameters.
    """

    def __init__(
        self,
        artifact: Artifact,
        out_idx: OutIdx = None,
        *,
        program: Program | None = None,
        options: Options | None = None,
        device: Device | None = None,
    ) -> None:
        self._artifact = artifact
        self._program = program
        self._options = options
        self._device = device
        self._signature = signature_of(artifact.plan, out_idx)
        self._launchers: dict[int, Launcher] = {}
        self._hooks = Hooks(
            self._slow, self._align, self._pitch, self._nothing_to_do, self._prepare, self.own_device, self._launchers
        )
        self.key = hashlib.sha256(
            f"{artifact.key}:{self._signature.outputs}:{id(device) if device else 0}".encode()
        ).hexdigest()
        self._sorting = opaque.sorting_of(self._signature)  # read while Dynamo traces, so no cached property
        found = opaque.remember(self)
        self._twin = None if found is self else found  # keeps the one that traces find alive
        counters.add("kernels")

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Run on these inputs (all parameters except outputs), in the order of the kernel's parameters.

        Raises:
            ArgumentError: an argument of the wrong kind, device, dtype, rank, shape, stride or alignment.
            ArgumentCountError: too many or too few arguments.
            GradientError: an input requires a gradient while gradients are recorded.
            VirtualGpuFault: the virtual GPU found a fault.
            TracingError: called under ``vmap`` or another functorch transform.
        """
        if torch.compiler.is_dynamo_compiling():
            return opaque.traced_call(self.key, self._sorting, args)
        return self._entry(*args, **keywords)

    @property
    def artifact(self) -> Artifact:
        """What lowering made: source, binaries, resources, plan."""
        return self._artifact

    @property
    def signature(self) -> Signature:
        """Inputs, outputs and shape variables of a call."""
        return self._signature

    @property
    def out_idx(self) -> tuple[int, ...]:
        """Positions of the parameters that a call returns."""
        return self._signature.outputs

    @property
    def cuda(self) -> str:
        """The generated CUDA source."""
        return self._artifact.cuda

    @property
    def ptx(self) -> str:
        """The PTX text, which the virtual GPU runs."""
        return self._artifact.ptx

    @cached_property
    def sass(self) -> str:
        """The machine code, disassembled."""
        return disassemble(self._artifact)

    @property
    def resources(self) -> tuple[Resources, ...]:
        """Registers, spills, shared memory and remarks of each device kernel."""
        return self._artifact.resources

    @property
    def plan(self) -> LaunchPlan:
        """How it is launched."""
        return self._artifact.plan

    @property
    def target(self) -> Target:
        """The machine it was compiled for."""
        return self._artifact.target

    @property
    def schedule(self) -> Schedule:
        """The schedule that shaped it."""
        return self._artifact.schedule

    @cached_property
    def stages(self) -> Mapping[str, str]:
        """The text of every stage by name; passes between only when the program is still known (not after ``load``)."""
        if self._program is not None:
            return record_stages(self._program, self._artifact.schedule, self._artifact.target, self._options)
        known = {
            "scheduled": self._artifact.program_text,
            "cuda": self.cuda,
            "ptx": self.ptx,
            "plan": json.dumps(self.plan.to_json(), indent=2),
            "resources": "\n".join(map(str, self.resources)),
        }
        return {**known, "sass": self.sass} if self._artifact.cubin else known

    def get_kernel_source(self) -> str:
        """The CUDA source, under TileLang's name for it."""
        return self.cuda

    def get_profiler(self, tensor_supply_type: Any = "Auto") -> Profiler:
        """TileLang's profiler of the kernel: ``assert_allclose``, ``run_once`` and ``do_bench`` on inputs it makes.

        Args:
            tensor_supply_type: how inputs are filled, a ``tilelang.TensorSupplyType`` or its name.
        """
        return Profiler(self, tensor_supply_type if isinstance(tensor_supply_type, str) else tensor_supply_type.name)

    def on(self, device: Device) -> Kernel:
        """The same kernel with every launch sent to ``device``, such as a virtual GPU of another mode."""
        return Kernel(self._artifact, self.out_idx, program=self._program, options=self._options, device=device)

    def with_ptx(self, text: str) -> Kernel:
        """The same plan around another PTX text; on a GPU the driver compiles it."""
        key = hashlib.sha256(f"{self._artifact.key}:{text}".encode()).hexdigest()
        return Kernel(
            dataclasses.replace(self._artifact, ptx=text, cubin=b"", key=key), self.out_idx, device=self._device
        )

    def save(self, path: str | Path) -> None:
        """Write the artifact to ``path``; ``Kernel.load(path, out_idx)`` reads it back."""
        self._artifact.save(Path(path))

    @staticmethod
    def load(path: str | Path, out_idx: OutIdx = None) -> Kernel:
        """A kernel from a saved artifact.

        Raises:
            BadArtifact: the file is damaged or no artifact.
        """
        return Kernel(Artifact.load(Path(path)), out_idx)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Kernel) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        outputs = [self.plan.arguments[i].name for i in self.out_idx]
        returns = f" -> {', '.join(outputs)}" if outputs else ""
        return f"<Kernel {self.plan.name}({', '.join(self._signature.names)}){returns} for {self.target}>"

    def __copy__(self) -> Kernel:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Kernel:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return (Kernel, (self._artifact, self.out_idx))

    @cached_property
    def _entry(self) -> Any:
        return generate_entry(self._signature, self._hooks, guarded=True)

    @cached_property
    def _core(self) -> Any:
        return generate_entry(self._signature, self._hooks, guarded=False)

    @cached_property
    def _whole(self) -> Kernel:
        return Kernel(self._artifact, None, device=self._device) if self.out_idx else self

    @cached_property
    def _alignment(self) -> dict[str, int]:
        return required_alignment(self._artifact)

    def execute(self, args: Sequence[Any], outputs: Sequence[torch.Tensor] = ()) -> Any:
        """Run on real tensors, checked, whatever tracers are active; into ``outputs`` where they are given."""
        checked = [_plain(value) for value in diagnose.check(self._signature, args)]
        if not outputs:
            return self._core(*checked)
        given = dict(zip((*self._signature.inputs, *self.out_idx), (*checked, *outputs), strict=True))
        return self._whole.execute([given[i] for i in sorted(given)])

    def _slow(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        given = diagnose.bind(self._signature, [value for value in args if value is not MISSING], keywords)
        tensors = [value for value in given if isinstance(value, torch.Tensor)]
        opaque.refuse_functorch(self.plan.name, self._signature, given)
        if opaque.is_traced(tensors):
            checked = diagnose.check(self._signature, given)
            return opaque.traced_call(self.key, self._sorting, tuple(checked))
        return self.execute(given)

    def _align(self, pointers: tuple[int, ...]) -> None:
        diagnose.check_alignment(self._signature, self._alignment, pointers)

    def _pitch(self, values: tuple[Any, ...]) -> None:
        diagnose.check_pitch(self._signature, dict(zip(self._signature.values, values, strict=True)))

    def _nothing_to_do(self, objects: tuple[Any, ...], values: tuple[Any, ...]) -> bool:
        arguments = [a for a in self.plan.arguments if not isinstance(a, ScalarArgument)]
        named = dict(zip((a.name for a in arguments), objects, strict=True))
        tensors = {name: value for name, value in named.items() if isinstance(value, torch.Tensor)}
        diagnose.wrong_device(self.plan.name, {name: tensor.device for name, tensor in tensors.items()})
        for name, tensor in tensors.items():
            if tensor.numel() and not tensor.data_ptr():
                raise ArgumentError(f"{name} has no memory", values={"shape": tuple(tensor.shape)})
        written = [named[a.name] for a in arguments if isinstance(a, TensorArgument) and a.written]
        variables = dict(zip(self._signature.values, values, strict=True))
        if written and all(tensor.numel() == 0 for tensor in written):
            return True
        if all(0 in [extent.evaluate_in(variables) for extent in launch.grid] for launch in self.plan.launches):
            return True
        diagnose.check_pitch(self._signature, variables)
        return False

    def own_device(self) -> torch.device:
        """Where a call without tensors runs."""
        if self._device is None and torch.cuda.is_available():
            return torch.device("cuda", torch.cuda.current_device())
        return torch.device("cpu")

    def _prepare(self, index: int) -> Launcher:
        if index == -1 and self._device is None:
            self._launchers[index] = self._on_cpu()
        else:
            device = self._device or cuda_device()
            self._launchers[index] = device.prepare(self._artifact, self._signature, index)
            counters.add("device_loads")
        return self._launchers[index]

    def _on_cpu(self) -> Launcher:
        ready: dict[str, Launcher] = {}

        def launch(*flat: Any) -> None:
            name = knobs.DEVICE.text() or "vgpu"
            if name not in ready:
                ready[name] = _cpu_device(name).prepare(self._artifact, self._signature, -1)
                counters.add("device_loads")
            ready[name](*flat)

        return launch


def _plain(value: Any) -> Any:
    return value.as_subclass(torch.Tensor) if isinstance(value, torch.Tensor) else value


def compile(
    program: Any,
    schedule: Schedule | None = None,
    target: Target | str | None = None,
    *,
    out_idx: OutIdx = None,
    pass_configs: Mapping[Any, Any] | None = None,
    compile_flags: Sequence[str] | str | None = None,
) -> Kernel:
    """Compile a ``Program`` or a TileLang PrimFunc.

    Args:
        program: what to compile.
        schedule: how; None applies no schedule.
        target: for which machine; None takes that of ``use``, else the default.
        out_idx: parameters that a call allocates and returns, as TileLang numbers them.
        pass_configs: TileLang pass options by name.
        compile_flags: further flags of the CUDA compiler.

    Raises:
        TilewrightError: what the checks, the schedule, lowering or the CUDA compiler refuse.
        OutputIndexError: ``out_idx`` does not fit the parameters.
        OptionError: ``out_idx`` was given for a program that says itself what it returns.
    """
    whole = program if isinstance(program, Program) else Program.from_primfunc(program)
    returned = _returned(whole)
    if returned is not None and out_idx is not None:
        raise OptionError(
            f"{whole.name} returns its T.empty tensors, and out_idx = {out_idx} was given too",
            remedy="leave out_idx away",
        )
    options = Options.of(pass_configs, compile_flags)
    chosen = Target(target) if isinstance(target, str) else target or current_target()
    artifact = lower(whole, schedule, chosen, options)
    return Kernel(artifact, returned if out_idx is None else out_idx, program=whole, options=options)


def _returned(program: Program) -> tuple[int, ...] | None:
    attributes = program.func.attrs
    outputs = attributes.get("tilelang_out_idx") if attributes else None
    return None if outputs is None else tuple(int(index) for index in outputs)


@lru_cache(maxsize=1)
def cuda_device() -> Device:
    """The CUDA device of this process.

    Raises:
        DriverError: torch has no CUDA.
    """
    if not torch.cuda.is_available():
        raise DriverError("torch sees no CUDA device", remedy="pass CPU tensors to run on the virtual GPU")
    from .devices import CudaDevice
    from .devices.driver import CudaDriver

    return CudaDevice(CudaDriver())


def _cpu_device(name: str) -> Device:
    from .devices import NullDevice, VgpuDevice

    return NullDevice() if name == "null" else VgpuDevice()
