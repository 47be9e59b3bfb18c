"""What single files of the checkout need: arguments, smaller sizes, and which are no matter of these targets."""

from __future__ import annotations

NO_EXAMPLE = ("*/test_*.py", "test_*.py", "conftest.py", "*/conftest.py", "*/__init__.py", "*regression*.py")

ELSEWHERE = {
    "amd/*": "AMD",
    "*/amd/*": "AMD",
    "*ascend*": "Ascend",
    "gemm_tcgen05/*": "sm_100",
    "aws/*": "sm_100",
    "*triton*": "Triton",
    "bitnet-1.58b/[!k]*": "a model",
    "bitnet-1.58b/vllm_workspace/*": "a model",
    "*cdna4*": "AMD",
    "*_amd*": "AMD",
    "iket/*": "the CUDA toolkit's IKET",
    "*deepseek_v32/inference/*": "a model",
    "kda/FLA_KDA/*": "Triton",
    "analyze/*": "a GPU's properties, and no kernel runs",
    "plot_layout/*": "no kernel",
    "*sm100*": "sm_100",
    "*sm120*": "sm_120",
    "*tcgen05*": "sm_100",
}

ARGUMENTS: dict[str, tuple[str, ...]] = {
    "deepseek_v32/sparse_mla_fwd_pipelined.py": ("--test_correctness",),
    "deepseek_v32/sparse_mla_fwd_seesaw.py": ("--test_correctness",),
}

_EXACT = ("assert_allclose(ref_program,", "assert_allclose(lambda *x: ref_program(*[t.double() for t in x]),")

EDITS: dict[str, tuple[tuple[str, str], ...]] = {
    # the block of 8192 columns has to be filled: the kernel pads with zeros
    "online_softmax/online_softmax.py": (("M = 1024\nN = 1024", "M = 16\nN = 8192"),),
    # torch divides by a number on a GPU as a product with its inverse, on the CPU it divides
    "deepseek_v4/act_quant.py": (("scale = amax / fp8_max", "scale = amax * (1 / fp8_max)"),),
    "cast/example_group_per_split_token_cast_to_fp8.py": (("[2048, 6144]", "[256, 768]"),),
    "block_causal_attention/block_causal_attention.py": (
        ("for dllm_block in _SUPPORTED_DLLM_BLOCKS", "for dllm_block in (32,)"),
    ),
    "block_causal_attention/block_causal_attention_varlen.py": (
        ("lengths = [128, 256, 384]", "lengths = [128]"),
        ("_run_varlen_case([512, 1024], heads=2, dim=128", "_run_varlen_case([128], heads=1, dim=64"),
        ("block_size, dllm_block = 128, 64", "block_size, dllm_block = 64, 64"),
        ("for dllm_block in _SUPPORTED_DLLM_BLOCKS", "for dllm_block in (32,)"),
    ),
    "deepseek_mhc/example_mhc_bwd.py": (("seqlen = 512", "seqlen = 64"), ("repeat = 512", "repeat = 1")),
    "deepseek_nsa/benchmark/benchmark_nsa_fwd.py": (
        ('"--seq_len", type=int, default=512', '"--seq_len", type=int, default=64'),
        ('"--iterations", type=int, default=100', '"--iterations", type=int, default=1'),
    ),
    "deepseek_deepgemm/example_deepgemm_fp8_2xAcc.py": (("[16, 32, 64, 128]", "[32, 128]"),),
    "dsa_hisa/block_sparse_mqa_fp8.py": (("    for cfg in [\n", "    for cfg in [(256, 64, 128, 64, 4, 1)] or [\n"),),
    "dsa_hisa/hisa.py": (
        (
            "    for cfg in [\n",
            "    for cfg in [dict(M=512, H=64, D=128, k_block_size=128, block_topk=2, topk_tokens=128)] or [\n",
        ),
    ),
    "dsa_hisa/pool_mqa_fp8.py": (("    for cfg in [\n", "    for cfg in [(32768, 2, 128, 128, 256, 1)] or [\n"),),
    "dsa_sparse_finetune/indexer_bwd.py": (("[0, 1023, S]", "[0, S // 2 - 1, S]"),),
    "dsa_sparse_finetune/sparse_mla_topk_reducesum.py": (("[0, 1023, S]", "[0, S // 2 - 1, S]"),),
    # on the CPU the references round to half between their products, further from float64 than the kernels are
    "linear_attention/example_mamba_chunk_scan.py": (_EXACT,),
    "linear_attention/example_mamba_chunk_state.py": (_EXACT,),
    "flash_decoding/example_gqa_decode.py": (
        ('"--kv_seqlen", type=int, default=512', '"--kv_seqlen", type=int, default=2048'),
    ),
    "dsa_hisa/clean_and_maintain_logits.py": (
        ("(4096, 4096, 1)", "(256, 4096, 1)"),
        ("(4096, 4096, 4)", "(256, 4096, 4)"),
        ("        (16384, 16384, 1),\n        (16384, 16384, 8),\n        (65536, 65536, 16),\n", "\n\n\n"),
    ),
}

for _file in ("chunk_bwd_dqkwg", "chunk_bwd_intra", "chunk_delta_bwd", "chunk_delta_h_fwd", "chunk_inter_solve_fused"):
    EDITS[f"kda/{_file}.py"] = (("        S=512,", "        S=128,"), ("        H=", "        H=2 or "))
for _file in ("paged", "varlen_indice", "varlen_mask"):
    EDITS[f"blocksparse_attention/example_tilelang_sparse_gqa_decode_{_file}.py"] = (
        ("in range(10):", "in range(1):"),
        ("in range(100):", "in range(1):"),
    )

# they read rows of the outputs of earlier kernels that nothing wrote, past the end of a sequence
ZEROED = ("attention_sink/example_gqa_sink_bwd_varlen.py",)

# kernels that read addresses from memory
POINTERS = ("grouped_gemm/example_grouped_gemm_fwd_ptr.py",)
