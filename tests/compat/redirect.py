"""What an example finds in this process in place of a GPU: ``tw.jit``, CPU tensors, clocks that do not wait."""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import sys
import types
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy
import stand_ins
import tilelang
import tilelang.autotuner
import tilelang.profiler
import tilelang.testing
import torch
from torch.overrides import TorchFunctionMode

import tilewright as tw
from tilewright.runtime import Profiler
from tilewright.runtime import kernel as kernel_module

FIRST_CONFIGS = 4


@dataclass
class Log:
    """What an example did: comparisons with its reference that held, and that did not."""

    held: int = 0
    failed: list[str] = field(default_factory=list)
    stock: str = ""
    reports: list[Any] = field(default_factory=list)


class OnCpu(TorchFunctionMode):
    """Sends every tensor that a CUDA device is asked for to the CPU."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[weakref.ref[torch.Tensor]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if func is torch.Tensor.cuda:
            return args[0]
        if name == "__get__" and getattr(func, "__self__", None) is torch.Tensor.is_cuda:
            return _in_example(sys._getframe(1)) or func(*args)
        if name == "pin_memory":
            return args[0]
        kwargs = {key: _device(value) for key, value in (kwargs or {}).items() if key != "pin_memory"}
        result = func(*map(_device, args), **kwargs)
        if kwargs.get("device") is not None and isinstance(result, torch.Tensor):
            self.made.append(weakref.ref(result))
        return result

    def __len__(self) -> int:
        return len(self.alive())

    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(self.alive())

    def alive(self) -> list[torch.Tensor]:
        """The tensors made on the GPU that still live: what addresses in memory may reach."""
        return [tensor for made in self.made if (tensor := made()) is not None and tensor.numel()]


def _in_example(frame: Any) -> bool:
    return "/tilelang-examples/" in frame.f_code.co_filename


def _device(value: Any) -> Any:
    if isinstance(value, torch.device):
        return torch.device("cpu") if value.type == "cuda" else value
    if isinstance(value, str) and value.split(":")[0] == "cuda":
        return "cpu"
    return value


class _Event:
    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def record(self, *_: Any) -> None:
        pass

    wait = synchronize = record

    def elapsed_time(self, _: Any) -> float:
        return 1.0


def _nothing(*_: Any, **__: Any) -> None:
    return None


def redirect(target: str, log: Log, *, zeroed: bool) -> OnCpu:
    """Put ``tw`` in TileLang's place and the CPU in the GPU's for the rest of this process; enter the result."""
    _torch_cuda(tw.Target(target).arch)
    _clocks()
    _comparisons(log)
    _beside(log)
    # TileLang's kernels take tensors that require a gradient and record none
    tw.Kernel.__call__ = torch.no_grad()(tw.Kernel.__call__)
    tilelang.jit = tw.jit
    tilelang.compile = _compile
    tilelang.autotune = tilelang.autotuner.autotune = autotune
    tilelang.autotuner.AutoTuner = AutoTuner
    stand_ins.install()
    if zeroed:
        _clear_fresh_memory()
    return OnCpu()


def _clear_fresh_memory() -> None:
    """Not by the mode: autograd leaves it."""

    def cleared(function: Any) -> Any:
        return lambda *args, **keywords: function(*args, **keywords).zero_()

    for name in ("empty", "empty_like", "empty_strided"):
        setattr(torch, name, cleared(getattr(torch, name)))
    torch.Tensor.new_empty = cleared(torch.Tensor.new_empty)


def _compile(program: Any, out_idx: Any = None, target: Any = None, **options: Any) -> Any:
    return tw.compile(program, out_idx=out_idx, **{k: v for k, v in options.items() if k == "pass_configs"})


def _torch_cuda(arch: int) -> None:
    sms = 132 if arch == 90 else 108
    properties = types.SimpleNamespace(
        major=arch // 10,
        minor=arch % 10,
        multi_processor_count=sms,
        total_memory=80 << 30,
        name="virtual",
        shared_memory_per_block_optin=232448 if arch == 90 else 166912,
        shared_memory_per_multiprocessor=233472 if arch == 90 else 167936,
        warp_size=32,
        L2_cache_size=50 << 20,
    )
    cuda = torch.cuda
    for name in ("synchronize", "empty_cache", "init", "set_device", "manual_seed", "manual_seed_all"):
        setattr(cuda, name, _nothing)
    cuda.get_device_properties = lambda *_: properties
    cuda.get_device_capability = lambda *_: (arch // 10, arch % 10)
    cuda.get_device_name = lambda *_: "virtual"
    cuda.current_device = lambda: 0
    cuda.device_count = lambda: 1
    cuda.memory_allocated = cuda.max_memory_allocated = lambda *_: 0
    cuda.reset_peak_memory_stats = _nothing
    cuda.Event = _Event
    cuda.profiler.start = cuda.profiler.stop = _nothing
    available = cuda.is_available
    cuda.is_available = lambda: _in_example(sys._getframe(1)) or available()
    generator = torch.Generator
    torch.Generator = lambda device="cpu": generator(_device(device))
    cuda.Stream = cuda.current_stream = cuda.default_stream = lambda *_, **__: types.SimpleNamespace(
        cuda_stream=0, synchronize=_nothing, wait_stream=_nothing
    )
    cuda.device = cuda.stream = lambda *_: contextlib.nullcontext()
    averages = types.SimpleNamespace(table=lambda *_, **__: "")
    trace = types.SimpleNamespace(key_averages=lambda *_, **__: averages, export_chrome_trace=_nothing, step=_nothing)
    torch.profiler.profile = lambda *_, **__: contextlib.nullcontext(trace)
    torch.compile = lambda function=None, **_: function if function is not None else (lambda inner: inner)
    from tilelang.carver.arch import driver
    from tilelang.contrib import nvcc
    from tilelang.utils import device

    driver.get_num_sms = lambda *_: sms
    device.get_current_device = lambda *_: torch.device("cpu")
    nvcc.get_target_compute_version = lambda *_: f"{arch // 10}.{arch % 10}"


def _clocks() -> None:
    def do_bench(function: Callable[..., Any], *given: Any, quantiles: Any = None, **_: Any) -> Any:
        if not any(isinstance(value, torch.Tensor) for value in given):  # else the call was made before
            function()
        return [1.0] * len(quantiles) if quantiles else 1.0

    if importlib.util.find_spec("triton") is not None:
        import interpreted

        interpreted.prepare(do_bench)
    tilelang.profiler.do_bench = tilelang.profiler.bench.do_bench = do_bench


def _beside(log: Log) -> None:
    """Where lowering fails, note whether TileLang by itself lowers the program."""
    original = kernel_module.lower

    def lower(program: Any, schedule: Any, target: Any, options: Any) -> Any:
        try:
            return original(program, schedule, target, options)
        except tw.errors.TilewrightError:
            log.stock = _stock(program.func, target.name, dict(options.pass_configs))
            raise

    kernel_module.lower = lower


def _stock(func: Any, arch: str, pass_configs: dict[str, Any]) -> str:
    machine = tilelang.tvm.target.Target({"kind": "cuda", "arch": arch})
    try:
        with machine, tilelang.tvm.transform.PassContext(opt_level=3, config=pass_configs):
            tilelang.lower(func)
    except Exception as error:
        return f"TileLang by itself: {type(error).__name__}: {str(error).strip().splitlines()[-1][:120]}"
    return "TileLang by itself lowers it"


def _comparisons(log: Log) -> None:
    def watched(function: Callable[..., Any], *, verdict: bool = False) -> Callable[..., Any]:
        def compare(*args: Any, **keywords: Any) -> Any:
            result = function(*args, **keywords)
            if verdict and not result:
                log.failed.append(f"{function.__name__} is False")
            else:
                log.held += 1
            return result

        return compare

    torch.testing.assert_close = watched(torch.testing.assert_close)
    torch.allclose = watched(torch.allclose, verdict=True)
    torch.equal = watched(torch.equal, verdict=True)
    numpy.testing.assert_allclose = watched(numpy.testing.assert_allclose)
    close = watched(tilelang.utils.tensor.torch_assert_close)
    tilelang.testing.torch_assert_close = tilelang.utils.tensor.torch_assert_close = close
    checked = watched(Profiler.assert_allclose)
    Profiler.assert_allclose = checked  # a function, so a method again


@dataclass
class Tuned:
    """A kernel with the figures that TileLang's tuner leaves on it."""

    kernel: Any
    config: dict[str, Any]
    latency: float = 1.0
    ref_latency: float = 1.0

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return self.kernel(*args, **keywords)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.kernel, name)


def _first(configs: Any, arguments: tuple[Any, ...], build: Callable[[dict[str, Any]], Any]) -> Any:
    found = configs(*arguments) if callable(configs) else configs
    error: Exception = ValueError("no configuration given")
    for config in list(found)[:FIRST_CONFIGS]:
        try:
            return build({name: value for name, value in config.items() if name != "pass_configs"}), config
        except tw.errors.TilewrightError as failed:
            error = failed
    raise error


def autotune(function: Any = None, *, configs: Any = (), **_: Any) -> Any:
    """In place of tuning: the caller's own settings, else the first configuration that compiles."""

    def decorate(inner: Any) -> Any:
        signature = inspect.signature(inner)

        def tuned(run: Any, args: Any, keywords: Any) -> Any:
            named = {*list(signature.parameters)[: len(args)], *keywords}
            wants = tuple(args) if callable(configs) else ()
            if callable(configs):
                wants = wants[: len(inspect.signature(configs).parameters)]
            known = set(configs[0]) if isinstance(configs, list | tuple) and configs else set()
            if known and known <= named:
                return run(*args, **keywords)
            result, config = _first(configs, wants, lambda config: run(*args, **{**config, **keywords}))
            return Tuned(result, config) if isinstance(result, tw.Kernel) else result

        def call(*args: Any, **keywords: Any) -> Any:
            return tuned(inner, args, keywords)

        call.compile = lambda *args, **keywords: tuned(inner.compile, args, keywords)
        call.get_tir = inner.get_tir
        return call

    return decorate(function) if function is not None else decorate


class AutoTuner:
    """In place of TileLang's tuner object: the first configuration that compiles."""

    def __init__(self, kernel: Any, configs: Any) -> None:
        self._kernel, self._configs, self._out_idx = kernel, configs, None

    @classmethod
    def from_kernel(cls, kernel: Any, configs: Any) -> AutoTuner:
        return cls(kernel, configs)

    def set_compile_args(self, out_idx: Any = None, **_: Any) -> AutoTuner:
        self._out_idx = out_idx
        return self

    def set_profile_args(self, **_: Any) -> AutoTuner:
        return self

    def run(self, **_: Any) -> Tuned:
        def build(config: dict[str, Any]) -> Any:
            made = self._kernel(**config)
            return made if isinstance(made, tw.Kernel) else tw.compile(made, out_idx=self._out_idx)

        kernel, config = _first(self._configs, (), build)
        return Tuned(kernel, config)
