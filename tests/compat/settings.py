"""What single files of the checkout need: arguments, smaller sizes, and which are no matter of these targets."""

from __future__ import annotations

NO_EXAMPLE = ("*/test_*.py", "test_*.py", "conftest.py", "*/conftest.py", "*/__init__.py", "*regression*.py")

ELSEWHERE = {
    "amd/*": "AMD",
    "*/amd/*": "AMD",
    "*ascend*": "Ascend",
    "gemm_tcgen05/*": "sm_100",
    "*sm100*": "sm_100",
    "*sm120*": "sm_120",
    "*tcgen05*": "sm_100",
}

ARGUMENTS: dict[str, tuple[str, ...]] = {
    "flash_attention/example_gqa_fwd_bshd.py": ("--batch", "1", "--seq_len", "256"),
}

EDITS: dict[str, tuple[tuple[str, str], ...]] = {
    # the block of 8192 columns has to be filled: the kernel pads with zeros
    "online_softmax/online_softmax.py": (("M = 1024\nN = 1024", "M = 16\nN = 8192"),),
    # an on-chip buffer of `heads` elements is written by rows
    "attention_sink/example_mha_sink_bwd_bhsd.py": (('"--h", type=int, default=32', '"--h", type=int, default=64'),),
    "attention_sink/example_gqa_sink_bwd_bhsd.py": (('"--h", type=int, default=32', '"--h", type=int, default=64'),),
}
