"""Parameter buffers against the C layout rules, and the tensor-map cache."""

from __future__ import annotations

import ctypes

import pytest
import torch

from tilewright.lowering import Expression, KernelLaunch, PointerParameter, ScalarParameter
from tilewright.runtime import Kernel, errors
from tilewright.runtime.devices.packing import Slot, layout_of, submitter
from tilewright.runtime.signature import signature_of

C_TYPES = {
    "int8": ctypes.c_int8,
    "bool": ctypes.c_bool,
    "uint16": ctypes.c_uint16,
    "int32": ctypes.c_int32,
    "float32": ctypes.c_float,
    "int64": ctypes.c_int64,
    "float64": ctypes.c_double,
}


def launch_with(tools, parameters):
    return KernelLaunch("k", tools.e(1, 1, 1), tools.e(32, 1, 1), None, tools.e(0)[0], tuple(parameters))


@pytest.mark.parametrize(
    "kinds",
    [
        ("int8", "int64", "int8", "int32"),
        ("float32", "float64", "uint16", "bool", "int8"),
        ("pointer", "int32", "pointer", "uint16"),
        tuple(C_TYPES),
    ],
)
def test_layout_is_that_of_a_c_struct(tools, kinds):
    parameters = [
        PointerParameter("A") if kind == "pointer" else ScalarParameter(f"s{i}", kind, Expression.parse(i))
        for i, kind in enumerate(kinds)
    ]
    fields = [(f"f{i}", C_TYPES.get(kind, ctypes.c_uint64)) for i, kind in enumerate(kinds)]
    struct = type("Parameters", (ctypes.Structure,), {"_fields_": fields})
    assert layout_of(launch_with(tools, parameters)).offsets == tuple(
        getattr(struct, name).offset for name, _ in fields
    )


def test_tensor_map_takes_128_bytes_aligned_to_64(tools):
    layout = layout_of(
        launch_with(tools, [PointerParameter("A"), tools.tensor_map("A", (8, 8), (16,), (8, 8)), PointerParameter("A")])
    )
    assert (layout.offsets, layout.size) == ((0, 64, 192), 200)


def test_buffer_is_aligned_and_pointers_lead_into_it(tools):
    layout = layout_of(launch_with(tools, [tools.tensor_map("A", (8, 8), (16,), (8, 8)), PointerParameter("A")]))
    slot = Slot(layout)
    assert slot.pointers[0] % 64 == 0
    assert [slot.pointers[1] - slot.pointers[0], slot.address] == [128, ctypes.addressof(slot.pointers)]


def test_number_without_a_code(tools):
    with pytest.raises(errors.OptionError, match="s: a number of type bfloat16 cannot be passed by value"):
        layout_of(launch_with(tools, [ScalarParameter("s", "bfloat16", Expression.parse(0))]))


def test_submitted_bytes(tools):
    """What reaches the driver, read back as the struct that the kernel declares."""

    class Parameters(ctypes.Structure):
        _fields_ = (
            ("alpha", ctypes.c_float),
            ("n", ctypes.c_int32),
            ("x", ctypes.c_uint64),
            ("shift", ctypes.c_int8),
            ("y", ctypes.c_uint64),
        )

    seen = []

    def launch_one(index):
        def launch(*call):
            first = ctypes.c_void_p.from_address(call[-1]).value
            seen.append((call[:-1], Parameters.from_buffer_copy(ctypes.string_at(first, ctypes.sizeof(Parameters)))))

        return launch

    signature = signature_of(tools.affine_plan(), None)
    submit = submitter(signature, None, launch_one)
    x, y = torch.zeros(70), torch.zeros(70)
    submit(x, y, x.data_ptr(), y.data_ptr(), 70, 0.5, -3)
    ((call, packed),) = seen
    assert call == (3, 1, 1, 32, 1, 1, 0)
    assert (packed.alpha, packed.n, packed.x, packed.shift, packed.y) == (0.5, 70, x.data_ptr(), -3, y.data_ptr())


def test_tensor_maps_are_encoded_once_for_each_address_and_size(tools):
    encoded = []

    class Device:
        def prepare(self, artifact, signature, index):
            def encode(parameter, *fields):
                encoded.append((parameter.tensor, *fields))
                return bytes(128)

            return submitter(signature, encode, lambda index: lambda *call: None)

    kernel = Kernel(tools.artifact(tools.gemm_plan()), device=Device())
    a, b, c = (torch.zeros(s, dtype=torch.float16) for s in ((64, 256), (256, 128), (64, 128)))
    for _ in range(3):
        kernel(a, b, c)
    assert encoded == [
        ("A", a.data_ptr(), (256, 64), (512,), (64, 128), (1, 1)),
        ("B", b.data_ptr(), (128, 256), (256,), (64, 64), (1, 1)),
    ]
    kernel(a.view(64, 256)[:32], b, c[:32])
    assert [entry[0] for entry in encoded] == ["A", "B", "A"]
    assert encoded[-1][2] == (256, 32)
