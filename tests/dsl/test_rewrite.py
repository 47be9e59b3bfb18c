import pytest

from tilewright.dsl import Program, place, rewrite, stmt_span, tirx, typed
from tilewright.dsl.annotations import BLOCK, CALL, LOOP
from tilewright.dsl.errors import AnnotationError


@pytest.fixture
def program(gemm):
    return gemm.bind(m=512, n=256, k=1024)


def test_loop_annotation_has_the_exact_type(program):
    loop = program.outline().find("ko")
    after = rewrite.annotate_loop(program, loop.node, {"num_stages": 5, "tl_pipeline_order": [0, 1, 2]})
    node = after.outline().find("ko").node
    assert isinstance(node.annotations["num_stages"], tirx.IntImm)
    assert int(node.annotations["num_stages"].value) == 5
    assert [int(entry.value) for entry in node.annotations["tl_pipeline_order"]] == [0, 1, 2]
    assert place(stmt_span(node)) == loop.span
    assert after.outline().find("ko").detail.stages == 5
    assert program.outline().find("ko").detail.stages == 3


def test_removing_an_annotation(program):
    after = rewrite.annotate_loop(program, program.outline().find("ko").node, {"num_stages": None})
    assert after.outline().find("ko").detail.kind == "serial"
    with pytest.raises(AnnotationError, match="unknown annotation 'num_stage'"):
        rewrite.annotate_loop(program, program.outline().find("ko").node, {"num_stage": None})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"num_stage": 3}, "unknown annotation 'num_stage'"),
        ({"num_stages": "3"}, "annotation 'num_stages' must be a whole number"),
        ({"num_stages": 2.0}, "annotation 'num_stages' must be a whole number"),
        ({"num_stages": True}, "annotation 'num_stages' must be a whole number"),
        ({"num_stages": 0}, "annotation 'num_stages' must be between 1 and 64"),
        ({"tl_pipeline_order": [0, 1]}, "annotation 'tl_pipeline_order' needs one entry per statement"),
        ({"tl_pipeline_order": "012"}, "annotation 'tl_pipeline_order' must be a list of whole numbers"),
        ({"tl_pipeline_stage": [0, "1", 2]}, "annotation 'tl_pipeline_stage' must be a whole number"),
        ({"parallel_prefer_async": 1}, "annotation 'parallel_prefer_async' must be True or False"),
        ({"tl.ws_op_id": 1}, "annotation 'tl.ws_op_id' must be a text"),
    ],
)
def test_wrong_loop_annotations_never_reach_the_backend(program, values, message):
    loop = program.outline().find("ko")
    with pytest.raises(AnnotationError, match=message) as caught:
        rewrite.annotate_loop(program, loop.node, values)
    assert caught.value.span == loop.span


def test_messages_help(program):
    loop = program.outline().find("ko").node
    with pytest.raises(AnnotationError) as caught:
        rewrite.annotate_loop(program, loop, {"num_stage": 3})
    assert "did you mean 'num_stages'" in str(caught.value)
    with pytest.raises(AnnotationError) as caught:
        rewrite.annotate_loop(program, loop, {"tl_pipeline_order": [0, 1]})
    assert "seen: statements = 3, entries = 2" in str(caught.value)


@pytest.mark.parametrize(
    ("keys", "key", "value", "message"),
    [
        (BLOCK, "tl.launch_threads", [128, 1], "must be 3 whole numbers"),
        (BLOCK, "tl.launch_threads", [0, 1, 1], "must be between 1 and"),
        (BLOCK, "cluster_dims", 2, "must be a list of whole numbers"),
        (BLOCK, "layout_map", 2, "must be a TIR object"),
        (CALL, "prefer_instruction", "tmas", "must be one of tma, cp_async, sync"),
        (CALL, "eviction_policy", 9, "must be between 0 and 2"),
        (CALL, "disable_tma", 1, "must be True or False"),
        (LOOP, "pragma_unroll_factor", 0, "must be between 1 and"),
    ],
)
def test_typed_refuses(keys, key, value, message):
    with pytest.raises(AnnotationError, match=message):
        typed(keys, key, value)


def test_typed_converts():
    assert typed(CALL, "disable_tma", True).dtype == "bool"
    assert typed(CALL, "prefer_instruction", "tma").value == "tma"
    assert [int(entry.value) for entry in typed(BLOCK, "cluster_dims", (2, 1, 1))] == [2, 1, 1]
    assert int(typed(LOOP, "num_stages", tirx.IntImm("int32", 4)).value) == 4


def test_threads(program):
    after = rewrite.annotate_block(program, program.outline().grids[0].node, {"tl.launch_threads": [256, 1, 1]})
    assert after.outline().grids[0].detail.thread_count == 256


def test_call_annotation(program):
    copy = program.outline().find("copy A->A_s")
    after = rewrite.annotate_call(program, copy.node, {"prefer_instruction": "cp_async", "eviction_policy": 1})
    found = after.outline().find("copy A->A_s")
    assert found.detail.annotations["prefer_instruction"].value == "cp_async"
    assert int(found.detail.annotations["eviction_policy"].value) == 1
    assert found.span == copy.span
    again = rewrite.annotate_call(after, found.node, {"eviction_policy": None})
    assert set(again.outline().find("copy A->A_s").detail.annotations) == {"prefer_instruction"}


def test_root_attributes_replace_each_other(program):
    once = rewrite.rasterize(program, program.outline().grids[0].node, "row", 8)
    twice = rewrite.rasterize(once, once.outline().grids[0].node, "column", 4)
    attributes = twice.outline().of_kind("attribute")
    assert [entry.label for entry in attributes] == ["threadblock_swizzle_pattern"]
    assert attributes[0].text == 'T.tvm_tuple("rasterization2DColumn", 4)'
    bounded = rewrite.min_blocks(twice, twice.outline().grids[0].node, 2)
    assert [entry.label for entry in bounded.outline().of_kind("attribute")] == [
        "tl.min_blocks_per_sm",
        "threadblock_swizzle_pattern",
    ]
    assert [entry.label for entry in bounded.outline().ops] == [entry.label for entry in program.outline().ops]


def test_root_attributes_are_checked(program):
    grid = program.outline().grids[0].node
    with pytest.raises(AnnotationError, match="order 'diagonal' is unknown"):
        rewrite.rasterize(program, grid, "diagonal", 8)
    with pytest.raises(AnnotationError, match="panel = 0 is no positive"):
        rewrite.rasterize(program, grid, "row", 0)
    with pytest.raises(AnnotationError, match="min_blocks = True must be"):
        rewrite.min_blocks(program, grid, True)
    with pytest.raises(AnnotationError, match="must be a TIR expression"):
        rewrite.wrap_root(program, grid, "tl.min_blocks_per_sm", "2")
    with pytest.raises(AnnotationError, match="launches no blocks"):
        rewrite.root_block(program.outline().find("ko").node)


def test_a_stale_node_is_refused(program):
    loop = program.outline().find("ko").node
    after = rewrite.annotate_loop(program, loop, {"num_stages": 2})
    with pytest.raises(AnnotationError, match="occurs 0 times in gemm") as caught:
        rewrite.annotate_loop(after, loop, {"num_stages": 4})
    assert "look it up again" in str(caught.value)


def raw_depth(program, value):
    loop = program.outline().find("ko").node

    def post(stmt):
        return rewrite.with_loop(stmt, annotations={"num_stages": value}) if stmt.same_as(loop) else None

    return program.func.with_body(tirx.stmt_functor.ir_transform(program.func.body, None, post, ["tirx.For"]))


def test_raw_numbers_in_user_made_functions_are_converted(program):
    func = raw_depth(program, 4)
    assert func.body is not None
    loop = Program.from_primfunc(func).outline().find("ko").node
    assert isinstance(loop.annotations["num_stages"], tirx.IntImm)
    assert int(loop.annotations["num_stages"].value) == 4


@pytest.mark.parametrize("value", ["4", 0, -1])
def test_wrong_values_in_user_made_functions_are_refused(program, value):
    with pytest.raises(AnnotationError, match="annotation 'num_stages' must be"):
        Program.from_primfunc(raw_depth(program, value))


def test_safe_functions_stay_the_same_object(program):
    assert rewrite.safe_annotations(program.func).same_as(program.func)


def test_threads_of_a_launch_that_names_none(make):
    program = make("O[0] = A[0]", threads=None).bind()
    after = rewrite.annotate_block(program, program.outline().grids[0].node, {"tl.launch_threads": [64, 1, 1]})
    assert [p.outline().grids[0].detail.thread_count for p in (program, after)] == [128, 64]
