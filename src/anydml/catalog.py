"""Every operator's desc class and eager function, by name; the modules are imported when a name is asked for.

Made from the operator files by tools/functions.py (`make functions`): change those, not this file.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anydml.functional.functions import (
        activation_celu as activation_celu,
    )
    from anydml.functional.functions import (
        activation_elu as activation_elu,
    )
    from anydml.functional.functions import (
        activation_gelu as activation_gelu,
    )
    from anydml.functional.functions import (
        activation_hard_sigmoid as activation_hard_sigmoid,
    )
    from anydml.functional.functions import (
        activation_hard_swish as activation_hard_swish,
    )
    from anydml.functional.functions import (
        activation_hardmax as activation_hardmax,
    )
    from anydml.functional.functions import (
        activation_hardmax1 as activation_hardmax1,
    )
    from anydml.functional.functions import (
        activation_identity as activation_identity,
    )
    from anydml.functional.functions import (
        activation_leaky_relu as activation_leaky_relu,
    )
    from anydml.functional.functions import (
        activation_linear as activation_linear,
    )
    from anydml.functional.functions import (
        activation_log_softmax as activation_log_softmax,
    )
    from anydml.functional.functions import (
        activation_log_softmax1 as activation_log_softmax1,
    )
    from anydml.functional.functions import (
        activation_parameterized_relu as activation_parameterized_relu,
    )
    from anydml.functional.functions import (
        activation_parametric_softplus as activation_parametric_softplus,
    )
    from anydml.functional.functions import (
        activation_relu as activation_relu,
    )
    from anydml.functional.functions import (
        activation_relu_grad as activation_relu_grad,
    )
    from anydml.functional.functions import (
        activation_scaled_elu as activation_scaled_elu,
    )
    from anydml.functional.functions import (
        activation_scaled_tanh as activation_scaled_tanh,
    )
    from anydml.functional.functions import (
        activation_shrink as activation_shrink,
    )
    from anydml.functional.functions import (
        activation_sigmoid as activation_sigmoid,
    )
    from anydml.functional.functions import (
        activation_softmax as activation_softmax,
    )
    from anydml.functional.functions import (
        activation_softmax1 as activation_softmax1,
    )
    from anydml.functional.functions import (
        activation_softplus as activation_softplus,
    )
    from anydml.functional.functions import (
        activation_softsign as activation_softsign,
    )
    from anydml.functional.functions import (
        activation_swish as activation_swish,
    )
    from anydml.functional.functions import (
        activation_tanh as activation_tanh,
    )
    from anydml.functional.functions import (
        activation_thresholded_relu as activation_thresholded_relu,
    )
    from anydml.functional.functions import (
        cast as cast,
    )
    from anydml.functional.functions import (
        convolution as convolution,
    )
    from anydml.functional.functions import (
        dequantize as dequantize,
    )
    from anydml.functional.functions import (
        dynamic_quantize_linear as dynamic_quantize_linear,
    )
    from anydml.functional.functions import (
        element_wise_add as element_wise_add,
    )
    from anydml.functional.functions import (
        element_wise_add1 as element_wise_add1,
    )
    from anydml.functional.functions import (
        element_wise_atan_yx as element_wise_atan_yx,
    )
    from anydml.functional.functions import (
        element_wise_dequantize_linear as element_wise_dequantize_linear,
    )
    from anydml.functional.functions import (
        element_wise_exp as element_wise_exp,
    )
    from anydml.functional.functions import (
        element_wise_quantize_linear as element_wise_quantize_linear,
    )
    from anydml.functional.functions import (
        element_wise_quantized_linear_add as element_wise_quantized_linear_add,
    )
    from anydml.functional.functions import (
        fill_value_constant as fill_value_constant,
    )
    from anydml.functional.functions import (
        fill_value_sequence as fill_value_sequence,
    )
    from anydml.functional.functions import (
        gather as gather,
    )
    from anydml.functional.functions import (
        join as join,
    )
    from anydml.functional.functions import (
        lstm as lstm,
    )
    from anydml.functional.functions import (
        matrix_multiply_integer as matrix_multiply_integer,
    )
    from anydml.functional.functions import (
        padding as padding,
    )
    from anydml.functional.functions import (
        padding1 as padding1,
    )
    from anydml.functional.functions import (
        quantize as quantize,
    )
    from anydml.functional.functions import (
        quantized_linear_matrix_multiply as quantized_linear_matrix_multiply,
    )
    from anydml.functional.functions import (
        random_generator as random_generator,
    )
    from anydml.functional.functions import (
        reduce as reduce,
    )
    from anydml.functional.functions import (
        slice as slice,
    )
    from anydml.functional.functions import (
        slice1 as slice1,
    )
    from anydml.functional.functions import (
        split as split,
    )
    from anydml.functional.functions import (
        top_k as top_k,
    )
    from anydml.functional.functions import (
        top_k1 as top_k1,
    )
    from anydml.functional.functions import (
        value_scale_2d as value_scale_2d,
    )
    from anydml.operators.activation_celu import ActivationCelu as ActivationCelu
    from anydml.operators.activation_elu import ActivationElu as ActivationElu
    from anydml.operators.activation_gelu import ActivationGelu as ActivationGelu
    from anydml.operators.activation_hard_sigmoid import ActivationHardSigmoid as ActivationHardSigmoid
    from anydml.operators.activation_hard_swish import ActivationHardSwish as ActivationHardSwish
    from anydml.operators.activation_hardmax import ActivationHardmax as ActivationHardmax
    from anydml.operators.activation_hardmax import ActivationHardmax1 as ActivationHardmax1
    from anydml.operators.activation_identity import ActivationIdentity as ActivationIdentity
    from anydml.operators.activation_leaky_relu import ActivationLeakyRelu as ActivationLeakyRelu
    from anydml.operators.activation_linear import ActivationLinear as ActivationLinear
    from anydml.operators.activation_log_softmax import ActivationLogSoftmax as ActivationLogSoftmax
    from anydml.operators.activation_log_softmax import ActivationLogSoftmax1 as ActivationLogSoftmax1
    from anydml.operators.activation_parameterized_relu import ActivationParameterizedRelu as ActivationParameterizedRelu
    from anydml.operators.activation_parametric_softplus import ActivationParametricSoftplus as ActivationParametricSoftplus
    from anydml.operators.activation_relu import ActivationRelu as ActivationRelu
    from anydml.operators.activation_relu_grad import ActivationReluGrad as ActivationReluGrad
    from anydml.operators.activation_scaled_elu import ActivationScaledElu as ActivationScaledElu
    from anydml.operators.activation_scaled_tanh import ActivationScaledTanh as ActivationScaledTanh
    from anydml.operators.activation_shrink import ActivationShrink as ActivationShrink
    from anydml.operators.activation_sigmoid import ActivationSigmoid as ActivationSigmoid
    from anydml.operators.activation_softmax import ActivationSoftmax as ActivationSoftmax
    from anydml.operators.activation_softmax import ActivationSoftmax1 as ActivationSoftmax1
    from anydml.operators.activation_softplus import ActivationSoftplus as ActivationSoftplus
    from anydml.operators.activation_softsign import ActivationSoftsign as ActivationSoftsign
    from anydml.operators.activation_swish import ActivationSwish as ActivationSwish
    from anydml.operators.activation_tanh import ActivationTanh as ActivationTanh
    from anydml.operators.activation_thresholded_relu import ActivationThresholdedRelu as ActivationThresholdedRelu
    from anydml.operators.cast import Cast as Cast
    from anydml.operators.convolution import Convolution as Convolution
    from anydml.operators.dequantize import Dequantize as Dequantize
    from anydml.operators.dynamic_quantize_linear import DynamicQuantizeLinear as DynamicQuantizeLinear
    from anydml.operators.element_wise_add import ElementWiseAdd as ElementWiseAdd
    from anydml.operators.element_wise_add import ElementWiseAdd1 as ElementWiseAdd1
    from anydml.operators.element_wise_atan_yx import ElementWiseAtanYx as ElementWiseAtanYx
    from anydml.operators.element_wise_dequantize_linear import ElementWiseDequantizeLinear as ElementWiseDequantizeLinear
    from anydml.operators.element_wise_exp import ElementWiseExp as ElementWiseExp
    from anydml.operators.element_wise_quantize_linear import ElementWiseQuantizeLinear as ElementWiseQuantizeLinear
    from anydml.operators.element_wise_quantized_linear_add import (
        ElementWiseQuantizedLinearAdd as ElementWiseQuantizedLinearAdd,
    )
    from anydml.operators.fill_value_constant import FillValueConstant as FillValueConstant
    from anydml.operators.fill_value_sequence import FillValueSequence as FillValueSequence
    from anydml.operators.gather import Gather as Gather
    from anydml.operators.join import Join as Join
    from anydml.operators.lstm import Lstm as Lstm
    from anydml.operators.matrix_multiply_integer import MatrixMultiplyInteger as MatrixMultiplyInteger
    from anydml.operators.padding import Padding as Padding
    from anydml.operators.padding import Padding1 as Padding1
    from anydml.operators.quantize import Quantize as Quantize
    from anydml.operators.quantized_linear_matrix_multiply import QuantizedLinearMatrixMultiply as QuantizedLinearMatrixMultiply
    from anydml.operators.random_generator import RandomGenerator as RandomGenerator
    from anydml.operators.reduce import Reduce as Reduce
    from anydml.operators.slice import Slice as Slice
    from anydml.operators.slice import Slice1 as Slice1
    from anydml.operators.split import Split as Split
    from anydml.operators.top_k import TopK as TopK
    from anydml.operators.top_k import TopK1 as TopK1
    from anydml.operators.value_scale_2d import ValueScale2d as ValueScale2d

FILES = {  # desc class -> its file in anydml.operators
    "ActivationCelu": "activation_celu",
    "ActivationElu": "activation_elu",
    "ActivationGelu": "activation_gelu",
    "ActivationHardmax": "activation_hardmax",
    "ActivationHardmax1": "activation_hardmax",
    "ActivationHardSigmoid": "activation_hard_sigmoid",
    "ActivationHardSwish": "activation_hard_swish",
    "ActivationIdentity": "activation_identity",
    "ActivationLeakyRelu": "activation_leaky_relu",
    "ActivationLinear": "activation_linear",
    "ActivationLogSoftmax": "activation_log_softmax",
    "ActivationLogSoftmax1": "activation_log_softmax",
    "ActivationParameterizedRelu": "activation_parameterized_relu",
    "ActivationParametricSoftplus": "activation_parametric_softplus",
    "ActivationRelu": "activation_relu",
    "ActivationReluGrad": "activation_relu_grad",
    "ActivationScaledElu": "activation_scaled_elu",
    "ActivationScaledTanh": "activation_scaled_tanh",
    "ActivationShrink": "activation_shrink",
    "ActivationSigmoid": "activation_sigmoid",
    "ActivationSoftmax": "activation_softmax",
    "ActivationSoftmax1": "activation_softmax",
    "ActivationSoftplus": "activation_softplus",
    "ActivationSoftsign": "activation_softsign",
    "ActivationSwish": "activation_swish",
    "ActivationTanh": "activation_tanh",
    "ActivationThresholdedRelu": "activation_thresholded_relu",
    "Cast": "cast",
    "Convolution": "convolution",
    "Dequantize": "dequantize",
    "DynamicQuantizeLinear": "dynamic_quantize_linear",
    "ElementWiseAdd": "element_wise_add",
    "ElementWiseAdd1": "element_wise_add",
    "ElementWiseAtanYx": "element_wise_atan_yx",
    "ElementWiseDequantizeLinear": "element_wise_dequantize_linear",
    "ElementWiseExp": "element_wise_exp",
    "ElementWiseQuantizedLinearAdd": "element_wise_quantized_linear_add",
    "ElementWiseQuantizeLinear": "element_wise_quantize_linear",
    "FillValueConstant": "fill_value_constant",
    "FillValueSequence": "fill_value_sequence",
    "Gather": "gather",
    "Join": "join",
    "Lstm": "lstm",
    "MatrixMultiplyInteger": "matrix_multiply_integer",
    "Padding": "padding",
    "Padding1": "padding",
    "Quantize": "quantize",
    "QuantizedLinearMatrixMultiply": "quantized_linear_matrix_multiply",
    "RandomGenerator": "random_generator",
    "Reduce": "reduce",
    "Slice": "slice",
    "Slice1": "slice",
    "Split": "split",
    "TopK": "top_k",
    "TopK1": "top_k",
    "ValueScale2d": "value_scale_2d",
}
FUNCTIONS = (
    "activation_celu",
    "activation_elu",
    "activation_gelu",
    "activation_hardmax",
    "activation_hardmax1",
    "activation_hard_sigmoid",
    "activation_hard_swish",
    "activation_identity",
    "activation_leaky_relu",
    "activation_linear",
    "activation_log_softmax",
    "activation_log_softmax1",
    "activation_parameterized_relu",
    "activation_parametric_softplus",
    "activation_relu",
    "activation_relu_grad",
    "activation_scaled_elu",
    "activation_scaled_tanh",
    "activation_shrink",
    "activation_sigmoid",
    "activation_softmax",
    "activation_softmax1",
    "activation_softplus",
    "activation_softsign",
    "activation_swish",
    "activation_tanh",
    "activation_thresholded_relu",
    "cast",
    "convolution",
    "dequantize",
    "dynamic_quantize_linear",
    "element_wise_add",
    "element_wise_add1",
    "element_wise_atan_yx",
    "element_wise_dequantize_linear",
    "element_wise_exp",
    "element_wise_quantized_linear_add",
    "element_wise_quantize_linear",
    "fill_value_constant",
    "fill_value_sequence",
    "gather",
    "join",
    "lstm",
    "matrix_multiply_integer",
    "padding",
    "padding1",
    "quantize",
    "quantized_linear_matrix_multiply",
    "random_generator",
    "reduce",
    "slice",
    "slice1",
    "split",
    "top_k",
    "top_k1",
    "value_scale_2d",
)
