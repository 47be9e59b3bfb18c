"""What every test shares: caches under ``build/`` and one host thread a worker, unless variables say otherwise."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# before torch, tilelang or tilewright is imported: each reads its variables once
os.environ.setdefault("TILEWRIGHT_CACHE_DIR", str(ROOT / "build" / "cache" / "tilewright"))
os.environ.setdefault("TILELANG_CACHE_DIR", str(ROOT / "build" / "cache" / "tilelang"))
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("TILEWRIGHT_VGPU_THREADS", "1")
