"""The operators: torch functions made of tile programs and their schedules, one record each."""

from __future__ import annotations

from .attention import attention as attention
from .attention_varlen import attention_varlen as attention_varlen
from .cross_entropy import cross_entropy as cross_entropy
from .cross_entropy import linear_cross_entropy as linear_cross_entropy
from .errors import OperatorError as OperatorError
from .gemm import gemm as gemm
from .glu import geglu as geglu
from .glu import swiglu as swiglu
from .linear import linear as linear
from .norm import layer_norm as layer_norm
from .norm import rms_norm as rms_norm
from .operator import Comparison as Comparison
from .operator import Lowering as Lowering
from .operator import Operator as Operator
from .operator import Tolerance as Tolerance
from .operator import tensors as tensors
from .registry import OPERATORS as OPERATORS
from .registry import find_operator as find_operator
from .rope import rope as rope
from .softmax import softmax as softmax
from .token_logprobs import linear_token_logprobs as linear_token_logprobs
from .token_logprobs import token_logprobs as token_logprobs
from .warmup import Warmup as Warmup
from .warmup import warmup as warmup

__all__ = [
    "OPERATORS",
    "Comparison",
    "Lowering",
    "Operator",
    "OperatorError",
    "Tolerance",
    "Warmup",
    "attention",
    "attention_varlen",
    "cross_entropy",
    "find_operator",
    "geglu",
    "gemm",
    "layer_norm",
    "linear",
    "linear_cross_entropy",
    "linear_token_logprobs",
    "rms_norm",
    "rope",
    "softmax",
    "swiglu",
    "tensors",
    "token_logprobs",
    "warmup",
]
