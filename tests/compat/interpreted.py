"""References written in Triton, run by Triton 3.5's interpreter: what it lacks of bfloat16 and of libdevice.

The interpreter holds the bits of a bfloat16 and computes with them as integers; here it holds the value, rounded, as
float32.
"""

from __future__ import annotations

import types
from typing import Any

import numpy
import torch
import triton.language as tl
import triton.runtime.autotuner
import triton.testing
from triton.backends.compiler import GPUTarget
from triton.language.extra import libdevice
from triton.runtime import interpreter
from triton.runtime.interpreter import InterpreterBuilder as Builder
from triton.runtime.interpreter import TensorHandle

BF16, BITS, VALUE = tl.bfloat16, numpy.dtype(numpy.uint16), numpy.dtype(numpy.float32)
_native, _memory = interpreter._get_np_dtype, interpreter._interpreter
_load, _store = Builder.create_masked_load, Builder.create_masked_store
_fp_to_fp, _bitcast, _fabs = Builder.create_fp_to_fp, Builder.create_bitcast, Builder.create_fabs
ROUNDED = ("binary_op", "unary_op", "ternary_op", "create_fma", "create_rsqrt", "create_dot")


def prepare(do_bench: Any) -> None:
    """Give Triton a driver, the first configuration in place of tuning, and the missing operations."""
    triton.testing.do_bench = do_bench
    triton.runtime.driver.set_active(
        types.SimpleNamespace(
            get_current_device=lambda: 0,
            get_current_stream=lambda *_: 0,
            get_current_target=lambda: GPUTarget("cuda", 90, 32),
            get_active_torch_device=lambda: torch.device("cpu"),
            get_device_interface=lambda: torch.cuda,
            get_benchmarker=lambda: do_bench,
            utils=types.SimpleNamespace(
                get_device_properties=lambda *_: {"max_shared_mem": 232448, "multiprocessor_count": 132}
            ),
        )
    )
    tuner = triton.runtime.autotuner.Autotuner
    tuner._bench = lambda *_, **__: [1.0, 1.0, 1.0]
    tuner.check_disk_cache = lambda _, key, configs, bench: bool(bench()) and False
    # looked up at the call: the interpreter replaces these functions of tl while a kernel runs
    libdevice.exp2 = lambda x, **_: tl.exp2(x)
    libdevice.fast_expf = lambda x, **_: tl.exp(x)
    libdevice.fast_logf = lambda x, **_: tl.log(x)
    libdevice.fast_log2f = lambda x, **_: tl.log2(x)
    libdevice.fast_dividef = lambda x, y, **_: x / y
    interpreter._get_np_dtype = _held
    Builder.create_masked_load, Builder.create_masked_store = load, store
    Builder.cast_impl, Builder.create_fp_to_fp = cast, fp_to_fp
    Builder.create_bitcast, Builder.create_fabs = bitcast, fabs
    Builder.get_bf16 = lambda _, value: TensorHandle(_rounded([value]), BF16)
    for name in ROUNDED:
        setattr(Builder, name, _rounding(getattr(Builder, name)))


def _rounded(values: Any) -> Any:
    """The nearest bfloat16 of each value, ties to even, as float32."""
    return torch.from_numpy(numpy.array(values, numpy.float32)).bfloat16().float().numpy()


def _rounding(method: Any) -> Any:
    def run(*args: Any) -> Any:
        result = method(*args)
        return TensorHandle(_rounded(result.data), BF16) if result.dtype.scalar == BF16 else result

    return run


def _held(dtype: Any) -> Any:
    return VALUE if dtype.scalar == BF16 else _native(dtype)


def load(self: Any, ptrs: Any, mask: Any, other: Any, *rest: Any, **keywords: Any) -> Any:
    if ptrs.get_element_ty() != BF16:
        return _load(self, ptrs, mask, other, *rest, **keywords)
    bits = _memory.load(ptrs.data, mask.data, numpy.zeros(ptrs.data.shape, BITS), BITS)
    data = (bits.astype(numpy.uint32) << 16).view(VALUE)
    return TensorHandle(data if other is None else numpy.where(mask.data, data, other.data), BF16)


def store(self: Any, ptrs: Any, value: Any, mask: Any, *rest: Any, **keywords: Any) -> Any:
    if ptrs.get_element_ty() != BF16:
        return _store(self, ptrs, value, mask, *rest, **keywords)
    bits = numpy.ascontiguousarray(_rounded(value.data)).view(numpy.uint32) >> 16
    return _memory.store(ptrs.data, bits.astype(BITS), mask.data)


def cast(_: Any, src: Any, dst_type: Any) -> Any:
    if dst_type.scalar == BF16:
        return TensorHandle(_rounded(src.data), BF16)
    return TensorHandle(src.data.astype(_native(dst_type)), dst_type.scalar)


def fp_to_fp(self: Any, src: Any, dst_type: Any, *rest: Any) -> Any:
    if dst_type.scalar == BF16:
        return TensorHandle(_rounded(src.data), BF16)
    if src.dtype.scalar == BF16:
        src = TensorHandle(src.data, tl.float32)
    return src if dst_type.scalar == src.dtype.scalar else _fp_to_fp(self, src, dst_type, *rest)


def bitcast(self: Any, src: Any, dst_type: Any) -> Any:
    if BF16 in (src.dtype.scalar, dst_type.scalar):
        raise TypeError("the bits of bfloat16 are not held")
    return _bitcast(self, src, dst_type)


def fabs(self: Any, arg: Any) -> Any:
    return TensorHandle(numpy.abs(arg.data), BF16) if arg.dtype.scalar == BF16 else _fabs(self, arg)
