"""Hand-made launch plans and a small PTX kernel, so that the runtime is tested apart from lowering."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import pytest

from tilewright import vgpu
from tilewright.dsl import Target
from tilewright.lowering import (
    Artifact,
    Expression,
    KernelLaunch,
    LaunchPlan,
    PointerParameter,
    ScalarArgument,
    ScalarParameter,
    TensorArgument,
    TensorMapParameter,
)
from tilewright.runtime import CudaDevice, Kernel
from tilewright.schedules import Schedule

# y[i] = alpha * x[i] + shift for i < n, one thread an element; parameters in another order than the arguments
AFFINE_PTX = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry affine_kernel(
    .param .f32 affine_kernel_param_0,
    .param .u32 affine_kernel_param_1,
    .param .u64 affine_kernel_param_2,
    .param .u8 affine_kernel_param_3,
    .param .u64 affine_kernel_param_4
)
{
    .reg .pred %p<2>;
    .reg .b16 %rs<2>;
    .reg .f32 %f<5>;
    .reg .b32 %r<8>;
    .reg .b64 %rd<8>;
    ld.param.f32 %f1, [affine_kernel_param_0];
    ld.param.u32 %r1, [affine_kernel_param_1];
    ld.param.u64 %rd1, [affine_kernel_param_2];
    ld.param.s8 %r2, [affine_kernel_param_3];
    ld.param.u64 %rd2, [affine_kernel_param_4];
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %ntid.x;
    mov.u32 %r5, %tid.x;
    mad.lo.s32 %r6, %r3, %r4, %r5;
    setp.ge.s32 %p1, %r6, %r1;
    @%p1 bra $done;
    cvta.to.global.u64 %rd3, %rd1;
    cvta.to.global.u64 %rd4, %rd2;
    mul.wide.s32 %rd5, %r6, 4;
    add.s64 %rd6, %rd3, %rd5;
    add.s64 %rd7, %rd4, %rd5;
    ld.global.f32 %f2, [%rd6];
    cvt.rn.f32.s32 %f3, %r2;
    fma.rn.f32 %f4, %f1, %f2, %f3;
    st.global.f32 [%rd7], %f4;
$done:
    ret;
}
"""


def e(*texts):
    return tuple(Expression.parse(text) for text in texts)


def tensor(name, *shape, dtype="float16", read=True, written=False, strides=None):
    return TensorArgument(name, dtype, e(*shape), None if strides is None else e(*strides), read, written)


def tensor_map(name, dims, strides, box):
    return TensorMapParameter(f"{name}_desc", name, "float16", e(*dims), e(*strides), e(*box), e(1, 1), 0, 3, 2, 0)


def make_artifact(plan, ptx="", target="sm_90a"):
    return Artifact(
        key=f"hand-made {plan} {ptx}",
        target=Target(target),
        plan=plan,
        cuda="// cuda",
        ptx=ptx,
        cubin=b"",
        resources=(),
        schedule=Schedule(),
        program_text="program",
        log="",
        toolchain="none",
    )


def gemm_plan(m="M", n="N", k="K"):
    """C[M, N] = A[M, K] B[K, N] with A and B by TMA."""
    variables = tuple(sorted(str(v) for v in (m, n, k) if isinstance(v, str)))
    launch = KernelLaunch(
        kernel="main_kernel",
        grid=e(f"({n} + 127) // 128", f"({m} + 127) // 128", 1),
        block=e(256, 1, 1),
        cluster=None,
        dynamic_shared=Expression.parse(65536),
        parameters=(
            tensor_map("A", (k, m), (f"{k} * 2",), (64, 128)),
            tensor_map("B", (n, k), (f"{n} * 2",), (64, 64)),
            PointerParameter("C"),
            *(ScalarParameter(name, "int32", Expression.parse(name)) for name in variables),
        ),
    )
    arguments = (tensor("A", m, k), tensor("B", k, n), tensor("C", m, n, read=False, written=True))
    return LaunchPlan("main", arguments, variables, (launch,))


def affine_plan(*, written_shape="n"):
    launch = KernelLaunch(
        kernel="affine_kernel",
        grid=e("(n + 31) // 32", 1, 1),
        block=e(32, 1, 1),
        cluster=None,
        dynamic_shared=Expression.parse(0),
        parameters=(
            ScalarParameter("alpha", "float32", Expression.parse("alpha")),
            ScalarParameter("n", "int32", Expression.parse("n")),
            PointerParameter("x"),
            ScalarParameter("shift", "int8", Expression.parse("shift")),
            PointerParameter("y"),
        ),
    )
    arguments = (
        tensor("x", "n", dtype="float32"),
        ScalarArgument("alpha", "float32"),
        ScalarArgument("shift", "int8"),
        tensor("y", written_shape, dtype="float32", read=False, written=True),
    )
    return LaunchPlan("affine", arguments, ("n",), (launch,))


class RecordingDriver:
    """A driver that unpacks what was packed, by the PTX signature, and runs it on the virtual GPU."""

    def __init__(self, target, *tensors):
        self.target = target
        self.tensors = list(tensors)
        self.images, self.maps, self.launches, self.shared = [], [], [], []

    def load(self, image, device):
        self.images.append(image)
        return image.rstrip(b"\0").decode()

    def kernel(self, library, name):
        return library, name

    def set_dynamic_shared(self, kernel, device, size):
        self.shared.append((kernel[1], device, size))

    def encode(self, parameter, pointer, dims, strides, box, element_strides):
        self.maps.append((parameter, pointer, dims, strides, box, element_strides))
        return (len(self.maps) - 1).to_bytes(128, "little")

    def launch(self, kernel, shape, device, grid, block, dynamic_shared, parameters):
        text, name = kernel
        kinds = _parameters(text, name)
        pointers = ctypes.cast(parameters, ctypes.POINTER(ctypes.c_void_p * len(kinds))).contents
        args = [self._read(kind, address) for kind, address in zip(kinds, pointers, strict=True)]
        self.launches.append(SimpleNamespace(shape=shape, grid=grid, block=block, shared=dynamic_shared, args=args))
        report = vgpu.launch(
            text, name, grid, block, args, dynamic_smem=dynamic_shared, cluster=shape.cluster, target=self.target
        )
        report.raise_for_findings()

    def _read(self, kind, address):
        if kind == "map":
            return self._map(int.from_bytes(ctypes.string_at(address, 128), "little"))
        value = _C_TYPES[kind].from_address(address).value
        return self._tensor(value) if kind == "u64" else value

    def _map(self, number):
        parameter, pointer, dims, strides, box, steps = self.maps[number]
        return vgpu.TensorMap(
            self._tensor(pointer),
            parameter.dtype,
            dims,
            strides,
            box,
            steps,
            interleave=parameter.interleave,
            swizzle=parameter.swizzle,
            l2_promotion=parameter.l2_promotion,
            oob_fill=parameter.oob_fill,
            lower_corner=parameter.lower_corner or None,
            upper_corner=parameter.upper_corner or None,
        )

    def _tensor(self, pointer):
        return next(t for t in self.tensors if t.data_ptr() == pointer)


_C_TYPES = {
    "u64": ctypes.c_uint64,
    "u32": ctypes.c_int32,
    "f32": ctypes.c_float,
    "u8": ctypes.c_int8,
    "u16": ctypes.c_int16,
}


def _parameters(text, name):
    listed = text.partition(f".entry {name}")[2].partition("(")[2].partition(")")[0]
    return ["map" if "[128]" in line else line.split()[1].lstrip(".") for line in listed.split(",")]


@pytest.fixture
def tools():
    """Builders of plans, artifacts and drivers."""
    return SimpleNamespace(
        e=e,
        tensor=tensor,
        tensor_map=tensor_map,
        artifact=make_artifact,
        gemm_plan=gemm_plan,
        affine_plan=affine_plan,
        affine_ptx=AFFINE_PTX,
        RecordingDriver=RecordingDriver,
    )


@pytest.fixture
def affine():
    """y = alpha x + shift as a kernel that returns y, on the virtual GPU."""
    return Kernel(make_artifact(affine_plan(), AFFINE_PTX, "sm_80"), out_idx=-1)


@pytest.fixture
def recorded():
    """A kernel whose launches go through a recording driver: ``recorded(kernel, *tensors) -> (kernel, driver)``."""

    def build(kernel, *tensors):
        driver = RecordingDriver(kernel.target.name, *tensors)
        return kernel.with_ptx(kernel.ptx).on(CudaDevice(driver)), driver  # no cubin: the driver runs PTX

    return build
