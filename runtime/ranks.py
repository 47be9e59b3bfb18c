"""Ranks: one kernel on several devices of the virtual GPU at once, over tensors that all of them may reach."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from .context import gathering
from .devices.vgpu import run_grids
from .errors import ArgumentError, OptionError
from .kernel import Kernel

RANK = "rank"


def run_ranks(kernel: Kernel, arguments: Sequence[Sequence[Any]], *, memory: Sequence[torch.Tensor] = ()) -> list[Any]:
    """Run a kernel once for each rank, all at once: rank r on device r of the virtual GPU, in one address space.

    Grids may wait for each other through flags of system scope. A pointer that a rank finds in memory may lead to any
    tensor of any rank.

    Args:
        kernel: it launches one grid.
        arguments: for each rank what the kernel is called with; tensors on the CPU, shared ones given to several ranks.
        memory: further tensors that every rank may reach.

    Returns:
        What the call of each rank returns.

    Raises:
        OptionError: no rank, or a kernel of several launches.
        ArgumentError: arguments that the kernel does not take, or tensors that are not on the CPU.
        VirtualGpuFault: the virtual GPU found a fault, such as a deadlock or a race between ranks.
    """
    if not arguments:
        raise OptionError("run_ranks: there is no rank", remedy="give the arguments of at least one rank")
    if len(kernel.plan.launches) != 1:
        raise OptionError(
            f"run_ranks: {kernel.plan.name} launches {len(kernel.plan.launches)} grids one after another",
            remedy="make it one kernel: ranks run grids that wait for each other",
        )
    tensors = [*memory, *(a for args in arguments for a in args if isinstance(a, torch.Tensor))]
    for tensor in tensors:
        if tensor.device.type != "cpu":
            raise ArgumentError(f"run_ranks: a tensor is on {tensor.device}", remedy="pass CPU tensors")
    reach = tuple({tensor.data_ptr(): tensor.detach() for tensor in tensors if tensor.numel()}.values())
    results, grids = [], []
    for rank, args in enumerate(arguments):
        with gathering(rank, reach) as launches:
            results.append(kernel(*args))
        grids.extend(launches)
    if grids:
        run_grids(kernel.artifact, grids)
    return results


def spread(kernel: Kernel, args: Sequence[Any], keywords: Mapping[str, Any], ranks: int) -> list[list[Any]]:
    """The arguments of every rank when all share them but for the scalar ``rank``, which is theirs to number.

    Raises:
        OptionError: the kernel has no parameter ``rank``, or ``ranks`` is not positive.
    """
    names = kernel.signature.names
    if RANK not in names:
        raise OptionError(
            f"{kernel.plan.name} has no parameter {RANK}, so all ranks would do the same",
            values={"parameters": ", ".join(names)},
            remedy=f"add {RANK}: T.int32 to the kernel, or leave ranks away",
        )
    if isinstance(ranks, bool) or not isinstance(ranks, int) or ranks < 1:
        raise OptionError(f"ranks is {ranks!r}", remedy="give a number of devices")
    given = dict(zip(names, args, strict=False)) | dict(keywords)
    return [[rank if name == RANK else given[name] for name in names if name in given] for rank in range(ranks)]
