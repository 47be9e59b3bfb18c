"""Decoders of ``fence`` and ``membar``.

Memory is sequentially consistent in the engine; only fences that show writes to the async proxy have an effect. Race
detection sees the others (``fence`` in the traits).
"""

from __future__ import annotations

from .forms import Forms
from .plan import Opcode, Plan, decoder

_FENCE = Forms(
    "{.sc|.acq_rel|.acquire|.release}.(<scope>)",
    ".acquire.sync_restrict::shared::cluster.cluster",
    ".release.sync_restrict::shared::cta.cluster",
    ".mbarrier_init.release.cluster",
    ".proxy.(alias|async){<space>}",
    ".proxy.tensormap::generic.(release|acquire).(<scope>)",
    ".proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster",
    ".proxy.async::generic.release.sync_restrict::shared::cta.cluster",
    scope="cta|cluster|gpu|sys",
    space=".global|.shared::cta|.shared::cluster",
)
_MEMBAR = Forms(".(cta|gl|sys)", ".proxy.alias")
_MAP_BYTES = 128


@decoder("membar")
def decode_membar(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """Older names of fences."""
    _MEMBAR.take(op)
    return Plan("nop", ())


@decoder("fence")
def decode_fence(op: Opcode, _shape: tuple[str, ...]) -> Plan:
    """Fences of memory order, and between proxies."""
    words = _FENCE.take(op)
    if "alias" in words and len(words) > 2:
        raise op.refuse("has a state space")
    if "tensormap::generic" in words and "acquire" in words:
        return Plan("nop", ("addr", f"imm={_MAP_BYTES}"))
    shows = "async" in words and "global" not in words
    shows |= "async::generic" in words and "release" in words
    return Plan("fence.proxy.async" if shows else "nop", ())
