"""The functions of ATen that an exported program may call: their arguments by name, as PyTorch declares them.

PyTorch binds the arguments of a node to these names. `bind` puts them in the order of the declaration, and refuses a
node that torch.export would not write: names that are unknown, missing, given twice or in another order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from fairmend.base.errors import FairmendError

# Function and overload, then its arguments: "=" marks a default, and those after "*" are passed by name alone.
_DECLARED = """
_assert_scalar.default self assert_msg
_assert_tensor_metadata.default a size= stride= dtype= * device= layout=
_native_batch_norm_legit_no_training.default input weight bias running_mean running_var momentum eps
_to_copy.default self * dtype= layout= device= pin_memory= non_blocking= memory_format=
arange.default end * dtype= layout= device= pin_memory=
arange.start_step start end step= * dtype= layout= device= pin_memory=
arange.start start end * dtype= layout= device= pin_memory=
amax.default self dim= keepdim=
amin.default self dim= keepdim=
addcdiv.default self tensor1 tensor2 * value=
addcmul.default self tensor1 tensor2 * value=
addcmul_.default self tensor1 tensor2 * value=
addmm.default self mat1 mat2 * beta= alpha=
baddbmm.default self batch1 batch2 * beta= alpha=
batch_norm.default input weight bias running_mean running_var training momentum eps cudnn_enabled
bilinear.default input1 input2 weight bias=
bitwise_not.default self
bmm.default self mat2
clone.default self * memory_format=
contiguous.default self * memory_format=
detach_.default self
einsum.default equation tensors * path=
embedding.default weight indices padding_idx= scale_grad_by_freq= sparse=
expand.default self size * implicit=
expand_as.default self other
flatten.using_ints self start_dim= end_dim=
full.default size fill_value * dtype= layout= device= pin_memory=
glu.default self dim=
group_norm.default input num_groups weight= bias= eps= cudnn_enabled=
index.Tensor self indices
index_select.default self dim index
instance_norm.default input weight bias running_mean running_var use_input_stats momentum eps cudnn_enabled
layer_norm.default input normalized_shape weight= bias= eps= cudnn_enable=
lerp.Scalar self end weight
lerp.Tensor self end weight
linalg_vector_norm.default self ord= dim= keepdim= * dtype=
linear.default input weight bias=
logical_not.default self
logsumexp.default self dim keepdim=
masked_fill.Scalar self mask value
masked_fill.Tensor self mask value
matmul.default self other
mm.default self mat2
max.dim self dim keepdim=
min.dim self dim keepdim=
movedim.int self source destination
narrow.default self dim start length
native_layer_norm.default input normalized_shape weight bias eps
one_hot.default self num_classes=
prelu.default self weight
prod.dim_int self dim keepdim= * dtype=
repeat.default self repeats
repeat_interleave.self_int self repeats dim= * output_size=
rms_norm.default input normalized_shape weight= eps=
roll.default self shifts dims=
scaled_dot_product_attention.default query key value attn_mask= dropout_p= is_causal= * scale= enable_gqa=
select.int self dim index
slice.Tensor self dim= start= end= step=
split.Tensor self split_size dim=
split.sizes self split_size dim=
split_with_sizes.default self split_sizes dim=
sym_size.int self dim
tensordot.default self other dims_self dims_other
to.device self device dtype non_blocking= copy= memory_format=
to.dtype self dtype non_blocking= copy= memory_format=
to.dtype_layout self * dtype= layout= device= pin_memory= non_blocking= copy= memory_format=
to.other self other non_blocking= copy= memory_format=
type_as.default self other
unflatten.int self dim sizes
where.self condition self other
where.ScalarOther condition self other
where.ScalarSelf condition self other
where.Scalar condition self other
"""
_DECLARED_TOGETHER = {
    "self": (
        *(
            "abs_",
            "absolute",
            "absolute_",
            "cos",
            "cos_",
            "exp_",
            "log",
            "log1p",
            "log_",
            "reciprocal_",
            "rsqrt_",
            "sin",
        ),
        *("sin_", "sqrt_", "square", "square_"),
        *("abs", "alias", "cpu", "cuda", "detach", "detach_copy", "exp", "hardsigmoid", "hardsigmoid_", "hardswish"),
        *("hardswish_", "lift_fresh", "lift_fresh_copy", "mish", "mish_", "neg", "neg_", "negative", "positive"),
        *("ravel", "reciprocal", "relu", "relu_", "relu6", "relu6_", "rsqrt", "selu", "selu_", "sigmoid", "sigmoid_"),
        *("silu", "silu_", "sqrt", "squeeze", "squeeze_", "mT", "numpy_T", "t", "t_", "tanh", "tanh_"),
    ),
    "self * dtype=": ("mean", "sum"),
    "weight indices offsets scale_grad_by_freq mode sparse per_sample_weights include_last_offset padding_idx": (
        "embedding_bag.padding_idx",
    ),
    "self dim": ("squeeze.dim", "squeeze.dims", "squeeze_.dim", "squeeze_.dims", "unsqueeze", "unsqueeze_"),
    "self dim keepdim= * dtype=": ("mean.dim", "sum.dim_IntList"),
    "self dim0 dim1": ("transpose.int", "transpose_"),
    "self axis0 axis1": ("swapaxes", "swapaxes_"),
    "self dim unbiased= keepdim=": ("std.dim", "var.dim"),
    "self dim= * correction= keepdim=": ("std.correction", "var.correction"),
    "self dims": ("flip", "permute"),
    "self size": ("_unsafe_view", "view", "view_copy"),
    "self shape": ("reshape",),
    "self diagonal=": ("tril", "triu"),
    "size * dtype= layout= device= pin_memory=": ("ones", "zeros"),
    "self chunks dim=": ("chunk",),
    "self dim=": ("unbind.int",),
    "tensors": ("column_stack", "hstack"),
    "tensors dim=": ("cat", "concat", "concatenate", "stack"),
    "self dim half_to_float": ("_log_softmax", "_softmax"),
    "self dim dtype=": ("log_softmax.int", "softmax.int"),
    "input p train": ("alpha_dropout", "dropout", "feature_alpha_dropout", "feature_dropout"),
    "self p train": ("alpha_dropout_", "dropout_", "feature_alpha_dropout_", "feature_dropout_"),
    "self nan= posinf= neginf=": ("nan_to_num", "nan_to_num_"),
    "self exponent": ("pow.Tensor_Scalar", "pow_.Scalar"),
    "self alpha=": ("celu", "celu_"),
    "self alpha= scale= input_scale=": ("elu", "elu_"),
    "self * approximate=": ("gelu", "gelu_"),
    "self min_val= max_val=": ("hardtanh", "hardtanh_"),
    "self negative_slope=": ("leaky_relu", "leaky_relu_"),
    "self lower= upper= training= generator=": ("rrelu", "rrelu_"),
    "self beta= threshold=": ("softplus",),
    "self min= max=": tuple(f"{name}{end}" for name in ("clamp", "clamp_", "clip", "clip_") for end in ("", ".Tensor")),
    "self min": ("clamp_min", "clamp_min.Tensor", "clamp_min_", "clamp_min_.Tensor"),
    "self max": ("clamp_max", "clamp_max.Tensor", "clamp_max_", "clamp_max_.Tensor"),
    "self other * alpha=": tuple(f"{name}.Tensor" for name in ("add", "add_", "rsub", "sub", "sub_", "subtract")),
    "self other alpha=": tuple(f"{name}.Scalar" for name in ("add", "add_", "rsub", "sub", "sub_", "subtract")),
    "self other": (
        *("maximum", "minimum", "max.other", "min.other"),
        *(
            f"{name}.{kind}"
            for name in ("div", "div_", "divide", "true_divide", "ge", "gt", "mul", "mul_", "multiply")
            for kind in ("Tensor", "Scalar")
        ),
    ),
    "self other * rounding_mode": tuple(
        f"{name}.{kind}_mode" for name in ("div", "divide") for kind in ("Tensor", "Scalar")
    ),
}


def _declarations() -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for line in _DECLARED.strip().splitlines():
        name, *arguments = line.split()
        found[name] = tuple(arguments)
    for declared, names in _DECLARED_TOGETHER.items():
        found |= {name if "." in name else f"{name}.default": tuple(declared.split()) for name in names}
    return found


ATEN = _declarations()
"""The arguments of each function, by its name and overload: {"linear.default": ("input", "weight", "bias=")}."""

# What changes none of its arguments, by the names that ATen gives such functions.
_RESULT_ONLY = frozenset(
    """
    default Tensor Scalar Tensor_Scalar Tensor_Tensor Tensor_mode Scalar_mode ScalarOther ScalarSelf self other int dim
    dims dim_int dim_IntList using_ints sizes correction self_int dtype dtype_layout device start start_step sections
    indices
    """.split()
)
_WRITES = re.compile(
    ".*_|.*_helper|.*batch_norm.*|.*instance_norm.*|.*moving_avg.*|.*inplace.*|set_data|rrelu_with_noise|record_stream"
    "|retain_grad|seed|_set_item|append|clear|extend|insert|pop|popitem|remove|reverse|setdefault|sort|update|Delete"
)
_SYMBOLIC = {
    *(f"_operator.{name}" for name in ("eq", "ne", "le", "ge", "lt", "gt", "neg", "pos", "mul", "add", "sub", "mod")),
    *(f"_operator.{name}" for name in ("floordiv", "pow", "truediv", "and_", "or_", "lshift", "rshift")),
    *(f"torch.sym_{name}" for name in ("not", "int", "float", "ite", "max", "min", "sqrt")),
    *("math.trunc", "torch.ops.aten._assert_scalar.default", "torch.ops.aten._assert_tensor_metadata.default"),
    *("torch.ops.aten.sym_constrain_range_for_size.default", "torch.ops.aten.sym_constrain_range.default"),
}
_WITHOUT_GRADIENTS = "torch.ops.higher_order.wrap_with_set_grad_enabled"


def only_computes(node: Mapping[str, Any]) -> bool:
    """Return whether a node of an exported program has no effect but its results: it changes no tensor in place."""
    target = str(node["target"])
    if target in _SYMBOLIC:
        return True
    if target == _WITHOUT_GRADIENTS:
        graphs = [each["arg"]["as_graph"]["graph"] for each in node["inputs"] if "as_graph" in each["arg"]]
        return all(only_computes(inner) for graph in graphs for inner in graph["nodes"])
    name, _, overload = target.removeprefix("torch.ops.aten.").partition(".")
    if not target.startswith("torch.ops.aten.") or overload not in _RESULT_ONLY:
        return False
    trains = any(each["name"] == "training" and each["arg"].get("as_bool") is not False for each in node["inputs"])
    return not trains if name == "batch_norm" else not _WRITES.fullmatch(name)


def bind(overload: str, inputs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the arguments of a node by name, in the order in which ATen declares them."""
    declared = [each.removesuffix("=") for each in ATEN[overload] if each != "*"]
    required = {each for each in ATEN[overload] if each != "*" and not each.endswith("=")}
    by_place = declared[: ATEN[overload].index("*")] if "*" in ATEN[overload] else declared
    names = [str(each["name"]) for each in inputs]
    placed = [str(each["name"]) for each in inputs if each["kind"] == 1]
    in_order = names == [name for name in declared if name in names] and len(set(names)) == len(names)
    kinds = all(type(each["kind"]) is int and each["kind"] in (1, 2) for each in inputs)
    if not in_order or not kinds or not required <= set(names) or placed != by_place[: len(placed)]:
        raise FairmendError(
            f"has the arguments {', '.join(names)}, which is not how torch.export writes them: {', '.join(declared)}"
        )
    return {str(each["name"]): each["arg"] for each in inputs}
