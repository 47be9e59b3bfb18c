"""The CUDA device: loads an artifact's cubin and launches it on torch's current stream, without synchronisation.

Everything that touches the driver goes through the small ``Driver`` protocol, so that the packing can be run against
another implementation of it. A call allocates nothing on the device and may be captured into a CUDA graph.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from tilewright.lowering import Artifact, TensorMapParameter

from ..context import counters
from ..entry import Launcher
from ..errors import DriverError
from ..signature import Signature
from .packing import Submit, submitter


@dataclass(frozen=True)
class LaunchShape:
    """The parts of a launch that its shape variables do not change."""

    kernel: str
    cluster: tuple[int, int, int] | None
    cooperative: bool
    programmatic: bool


class Driver(Protocol):
    """What the CUDA device needs of the driver. ``device`` is torch's device number."""

    def load(self, image: bytes, device: int) -> Any:
        """A library from a cubin or from PTX text."""
        ...

    def kernel(self, library: Any, name: str) -> Any:
        """The handle of one kernel of a library."""
        ...

    def set_dynamic_shared(self, kernel: Any, device: int, size: int) -> None:
        """Allow a kernel that many bytes of dynamic shared memory."""
        ...

    def encode(
        self,
        parameter: TensorMapParameter,
        pointer: int,
        dims: tuple[int, ...],
        strides: tuple[int, ...],
        box: tuple[int, ...],
        element_strides: tuple[int, ...],
    ) -> bytes:
        """The 128 bytes of a tensor map."""
        ...

    def launch(
        self,
        kernel: Any,
        shape: LaunchShape,
        device: int,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        dynamic_shared: int,
        parameters: int,
    ) -> None:
        """Launch on the current stream of ``device``; ``parameters``: address of the array of parameter addresses."""
        ...


class CudaDevice:
    """Launches through a CUDA driver; a library is loaded once for each artifact and device, and stays."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._libraries: dict[tuple[str, int], Any] = {}

    def prepare(self, artifact: Artifact, signature: Signature, index: int) -> Launcher:
        """Load the artifact on a device and return its launcher.

        Raises:
            DriverError: the driver refuses the binary or a kernel is not in it.
        """
        key = (artifact.key, index)
        if key not in self._libraries:
            self._libraries[key] = self._driver.load(artifact.cubin or artifact.ptx.encode() + b"\0", index)
        library = self._libraries[key]
        kernels = [self._driver.kernel(library, launch.kernel) for launch in signature.plan.launches]

        def launch_one(number: int) -> Submit:
            launch = signature.plan.launches[number]
            shape = LaunchShape(launch.kernel, launch.cluster, launch.cooperative, launch.programmatic)
            return _Launch(self._driver, kernels[number], shape, index)

        return submitter(signature, self._driver.encode, launch_one)


class _Launch:
    """One kernel on one device; remembers how much dynamic shared memory it was allowed."""

    def __init__(self, driver: Driver, kernel: Any, shape: LaunchShape, device: int) -> None:
        self._driver = driver
        self._kernel = kernel
        self._shape = shape
        self._device = device
        self._allowed = 0

    def __call__(
        self, gx: int, gy: int, gz: int, bx: int, by: int, bz: int, dynamic_shared: int, parameters: int
    ) -> None:
        if gy > 65535 or gz > 65535 or gx > 2147483647:
            raise DriverError(
                f"{self._shape.kernel}: a grid of {(gx, gy, gz)} blocks is larger than CUDA takes",
                values={"limit": (2147483647, 65535, 65535)},
                remedy="use larger tiles, or let the first grid dimension run over the larger size",
            )
        if dynamic_shared > self._allowed:
            self._driver.set_dynamic_shared(self._kernel, self._device, dynamic_shared)
            self._allowed = dynamic_shared
        counters.add("launches")
        self._driver.launch(
            self._kernel, self._shape, self._device, (gx, gy, gz), (bx, by, bz), dynamic_shared, parameters
        )
