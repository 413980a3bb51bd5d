"""Which tests are run for a fault: by the folder of its file, the most specific first."""

from __future__ import annotations

from pathlib import Path

# The beginnings of paths below src/anydml, of which the longest counts, and below each the files and folders of tests.
TABLE = """
*
    test_public.py
cli/
    cli
devices/
    devices/test_binding.py devices/test_device.py graphs/test_graphs.py devices/test_dump.py
exact/
    exact kernels/numpy
explain/
    explain/test_describe.py explain/test_slack.py explain/test_bounds.py explain/test_causes_of_quantisation.py
    explain/test_forms.py explain/test_deviations.py explain/test_compare.py
functional/
    functional/test_eager.py functional/test_eager_faults.py functional/test_cached_calls.py
    functional/test_graph_tracing.py functional/test_functions.py
graphs/
    graphs/test_graphs.py graphs/test_fusion.py graphs/test_between.py graphs/test_graph_fusing.py
    graphs/test_graph_layouts.py graphs/test_graph_scratch.py graphs/test_quantised_graphs.py
kernels/
    devices/test_stages.py
kernels/attention/
    kernels/attention/test_attention_bounds.py kernels/attention/test_attention.py
kernels/call/
    kernels/call
kernels/code/
    kernels/code/test_cache.py kernels/code/test_detect.py kernels/code/test_processor.py kernels/call
    kernels/copy/test_copies.py
kernels/contract/
    kernels/contract/test_tile_rounding.py kernels/contract/test_matmul_cases.py kernels/contract/test_matmul_exact.py
    kernels/contract/panels kernels/contract/test_integer_convolutions.py
kernels/contract/channels/
    kernels/contract/channels
kernels/contract/floats/
    kernels/contract/floats/test_product_bounds.py kernels/contract/floats/test_undecided_contractions.py
    kernels/contract/floats/test_block_sums.py kernels/contract/floats/test_limited_sums.py
    kernels/contract/floats/test_float_contractions.py
kernels/contract/floats/few/
    kernels/contract/floats/test_product_bounds.py kernels/contract/floats/few
kernels/contract/floats/packed/
    kernels/contract/floats/test_product_bounds.py kernels/contract/floats/packed
    kernels/contract/floats/test_float_contractions.py
kernels/contract/floats/packed/flat_panels.py
    kernels/contract/floats/planes/test_small_planes.py
kernels/contract/floats/planes/
    kernels/contract/floats/test_product_bounds.py kernels/contract/floats/planes
kernels/contract/floats/winograd/
    kernels/contract/floats/winograd
kernels/contract/images/
    kernels/contract/test_window_norms.py kernels/contract/test_integer_convolutions.py kernels/contract/places
kernels/contract/places/
    kernels/contract/places
kernels/contract/quantised/
    kernels/contract/test_window_norms.py kernels/contract/test_quantised_bounds.py
    kernels/contract/test_dequantised_tiles.py graphs/test_quantised_graphs.py
kernels/contract/weights/
    kernels/contract/weights
kernels/contract/winograd/
    kernels/contract/winograd
kernels/copy/
    kernels/copy operators/test_operators.py
kernels/evaluate/
    devices/test_stages_of_families.py devices/test_stages.py
kernels/elementwise/
    kernels/elementwise/test_line_claims.py kernels/elementwise/test_map_bounds.py
    kernels/elementwise/test_elementwise_bounds.py kernels/elementwise/test_geometry.py kernels/elementwise/test_near_zero.py
    kernels/elementwise/test_settled.py kernels/elementwise/test_slow_elements.py kernels/elementwise/test_elementwise_scaled.py
    kernels/elementwise/test_elementwise_precise.py kernels/elementwise/test_elementwise_lists.py
    kernels/elementwise/test_elementwise_types.py kernels/elementwise/test_elementwise_layouts.py
    kernels/elementwise/test_quantised_sums.py kernels/elementwise/test_int4_maps.py
    kernels/elementwise/test_maps_of_maps.py kernels/reduce/test_normalization.py
kernels/irregular/
    kernels/irregular
kernels/match/
    kernels/match kernels/elementwise/test_elementwise_match.py operators/test_operators.py
kernels/match/attention.py
    kernels/attention/test_attention.py
kernels/match/bands.py
    kernels/copy/test_copies.py
kernels/match/contraction.py
    kernels/contract/floats/test_float_contractions.py
kernels/match/convolution.py
    kernels/contract/test_integer_convolutions.py
kernels/match/dilated.py
    kernels/copy/test_dilated_copies.py
kernels/match/displaced.py
    kernels/irregular/test_irregular.py
kernels/match/forms.py
    kernels/match kernels/nests/test_nests.py
kernels/match/nests.py
    kernels/match kernels/nests
kernels/match/nonzeros.py
    kernels/order/test_order.py
kernels/match/product.py
    kernels/contract/test_matmul_cases.py
kernels/match/ranked.py
    kernels/order/test_order.py
kernels/match/recurrences.py
    kernels/recurrence/test_recurrences.py
kernels/match/reversed.py
    kernels/irregular/test_irregular.py
kernels/match/rows.py
    kernels/match kernels/reduce/test_rows.py
kernels/match/scans.py
    kernels/scan/test_scans.py
kernels/match/summed.py
    kernels/test_integer_sums.py kernels/contract/test_matmul_exact.py
kernels/match/windows.py
    kernels/match kernels/windows/test_windows.py
kernels/nests/
    kernels/windows/test_window_bounds.py kernels/nests
kernels/numbers/
    kernels/numbers/test_known.py kernels/elementwise/test_map_bounds.py kernels/elementwise/test_elementwise_bounds.py
    kernels/reduce/test_reduce_bounds.py kernels/elementwise/test_elementwise_types.py
kernels/numbers/doubled/
    kernels/numbers/test_doubled.py kernels/numbers/test_limits.py
    kernels/elementwise/test_map_bounds.py kernels/reduce/test_reduce_bounds.py
    kernels/elementwise/test_elementwise_precise.py kernels/elementwise/test_elementwise_doubled.py
    kernels/elementwise/test_near_zero.py kernels/recurrence/test_recurrence_elements.py
kernels/numbers/floats/
    kernels/numbers/test_bounded.py kernels/numbers/test_limits.py kernels/numbers/test_places.py
    kernels/elementwise/test_map_bounds.py kernels/elementwise/test_elementwise_bounds.py
    kernels/reduce/test_reduce_bounds.py kernels/elementwise/test_elementwise_types.py
    kernels/recurrence/test_recurrence_elements.py kernels/elementwise/test_elementwise.py
kernels/numbers/functions/
    kernels/elementwise/test_pair_sizes.py kernels/elementwise/test_map_bounds.py
    kernels/elementwise/test_elementwise_functions.py kernels/elementwise/test_paired.py
    kernels/elementwise/test_paired_powers.py kernels/elementwise/test_far_angles.py kernels/numbers/test_bounded.py
    kernels/reduce/test_reduce_bounds.py kernels/elementwise/test_elementwise_doubled.py
kernels/numbers/measured/
    kernels/numbers/test_bounded.py kernels/windows/test_window_bounds.py kernels/nests
kernels/numbers/singles.py
    operators/test_eight_bit_floats.py kernels/elementwise/test_narrow_maps.py kernels/elementwise/test_elementwise_types.py
kernels/numpy/
    kernels/numpy
kernels/order/
    kernels/order/test_order.py kernels/order/test_reversed_lines.py
kernels/opencl/
    devices/test_opencl.py devices/test_opencl_order.py devices/test_opencl_attention.py devices/test_opencl_contractions.py
kernels/random/
    operators/test_operators.py operators/test_moves_and_maps.py
kernels/recurrence/
    kernels/recurrence/test_recurrence_bounds.py kernels/recurrence/test_recurrence_elements.py
    kernels/recurrence/test_recurrences.py kernels/recurrence/test_recurrences_data.py
kernels/reduce/
    kernels/reduce/test_reduce_bounds.py kernels/reduce/test_accumulator_bounds.py kernels/reduce/test_row_ends.py
    kernels/reduce/test_near_ties.py kernels/reduce/test_staged.py
    kernels/reduce/test_normalization.py kernels/reduce/test_rows.py kernels/reduce/test_added_pairs.py
kernels/scan/
    kernels/scan
kernels/third/
    kernels/third
kernels/undecided/
    kernels/test_undecided.py devices/test_stages.py kernels/third
kernels/windows/
    kernels/windows/test_window_bounds.py kernels/windows/test_estimate_bounds.py
    kernels/windows/test_windows_sums.py kernels/windows/test_windows.py
    kernels/windows/test_whole_images.py kernels/windows/test_huge_windows.py
onnx/
    onnx/test_onnx_single.py onnx/test_onnx_model.py onnx/test_onnx_contrib.py onnx/test_quantised_models.py
    onnx/test_onnx_compare.py onnx/test_onnx_suite.py
operators/
    schema/test_rules.py operators/test_operators.py
program/
    program
pydirectml/
    pydirectml
schema/
    schema/test_rules.py schema program/test_program.py operators/test_operators.py
"""


def covering() -> dict[str, list[str]]:
    """The table: tests below the beginnings of paths."""
    found: dict[str, list[str]] = {}
    prefix = ""
    for line in TABLE.strip().splitlines():
        if line.startswith(" "):
            found[prefix] += line.split()
        else:
            prefix = line.strip("*")
            found[prefix] = []
    return found


COVERING = covering()


def files(path: str, kind: str, root: Path) -> list[str]:
    """The files of tests for a fault of a kind in a file, given below src/anydml, the most specific first."""
    prefix = max((p for p in COVERING if path.startswith(p)), key=len)
    names = COVERING[prefix]
    if kind == "rule dropped" and "shared/" not in path:
        names = names[:1]
    found: dict[str, None] = {}
    for name in names:
        whole = root / "tests" / name
        found.update(dict.fromkeys(p.relative_to(root).as_posix() for p in (sorted(whole.rglob("test_*.py")) or [whole])))
    return list(found)
