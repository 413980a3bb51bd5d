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
        adam_optimizer as adam_optimizer,
    )
    from anydml.functional.functions import (
        argmax as argmax,
    )
    from anydml.functional.functions import (
        argmin as argmin,
    )
    from anydml.functional.functions import (
        average_pooling as average_pooling,
    )
    from anydml.functional.functions import (
        average_pooling1 as average_pooling1,
    )
    from anydml.functional.functions import (
        average_pooling_grad as average_pooling_grad,
    )
    from anydml.functional.functions import (
        batch_normalization as batch_normalization,
    )
    from anydml.functional.functions import (
        batch_normalization_grad as batch_normalization_grad,
    )
    from anydml.functional.functions import (
        batch_normalization_training as batch_normalization_training,
    )
    from anydml.functional.functions import (
        batch_normalization_training_grad as batch_normalization_training_grad,
    )
    from anydml.functional.functions import (
        cast as cast,
    )
    from anydml.functional.functions import (
        convolution as convolution,
    )
    from anydml.functional.functions import (
        convolution_integer as convolution_integer,
    )
    from anydml.functional.functions import (
        cumulative_product as cumulative_product,
    )
    from anydml.functional.functions import (
        cumulative_summation as cumulative_summation,
    )
    from anydml.functional.functions import (
        depth_to_space as depth_to_space,
    )
    from anydml.functional.functions import (
        depth_to_space1 as depth_to_space1,
    )
    from anydml.functional.functions import (
        dequantize as dequantize,
    )
    from anydml.functional.functions import (
        diagonal_matrix as diagonal_matrix,
    )
    from anydml.functional.functions import (
        diagonal_matrix1 as diagonal_matrix1,
    )
    from anydml.functional.functions import (
        dynamic_quantize_linear as dynamic_quantize_linear,
    )
    from anydml.functional.functions import (
        element_wise_abs as element_wise_abs,
    )
    from anydml.functional.functions import (
        element_wise_acos as element_wise_acos,
    )
    from anydml.functional.functions import (
        element_wise_acosh as element_wise_acosh,
    )
    from anydml.functional.functions import (
        element_wise_add as element_wise_add,
    )
    from anydml.functional.functions import (
        element_wise_add1 as element_wise_add1,
    )
    from anydml.functional.functions import (
        element_wise_asin as element_wise_asin,
    )
    from anydml.functional.functions import (
        element_wise_asinh as element_wise_asinh,
    )
    from anydml.functional.functions import (
        element_wise_atan as element_wise_atan,
    )
    from anydml.functional.functions import (
        element_wise_atan_yx as element_wise_atan_yx,
    )
    from anydml.functional.functions import (
        element_wise_atanh as element_wise_atanh,
    )
    from anydml.functional.functions import (
        element_wise_bit_and as element_wise_bit_and,
    )
    from anydml.functional.functions import (
        element_wise_bit_count as element_wise_bit_count,
    )
    from anydml.functional.functions import (
        element_wise_bit_not as element_wise_bit_not,
    )
    from anydml.functional.functions import (
        element_wise_bit_or as element_wise_bit_or,
    )
    from anydml.functional.functions import (
        element_wise_bit_shift_left as element_wise_bit_shift_left,
    )
    from anydml.functional.functions import (
        element_wise_bit_shift_right as element_wise_bit_shift_right,
    )
    from anydml.functional.functions import (
        element_wise_bit_xor as element_wise_bit_xor,
    )
    from anydml.functional.functions import (
        element_wise_ceil as element_wise_ceil,
    )
    from anydml.functional.functions import (
        element_wise_clip as element_wise_clip,
    )
    from anydml.functional.functions import (
        element_wise_clip1 as element_wise_clip1,
    )
    from anydml.functional.functions import (
        element_wise_clip_grad as element_wise_clip_grad,
    )
    from anydml.functional.functions import (
        element_wise_clip_grad1 as element_wise_clip_grad1,
    )
    from anydml.functional.functions import (
        element_wise_constant_pow as element_wise_constant_pow,
    )
    from anydml.functional.functions import (
        element_wise_cos as element_wise_cos,
    )
    from anydml.functional.functions import (
        element_wise_cosh as element_wise_cosh,
    )
    from anydml.functional.functions import (
        element_wise_dequantize_linear as element_wise_dequantize_linear,
    )
    from anydml.functional.functions import (
        element_wise_difference_square as element_wise_difference_square,
    )
    from anydml.functional.functions import (
        element_wise_divide as element_wise_divide,
    )
    from anydml.functional.functions import (
        element_wise_erf as element_wise_erf,
    )
    from anydml.functional.functions import (
        element_wise_exp as element_wise_exp,
    )
    from anydml.functional.functions import (
        element_wise_floor as element_wise_floor,
    )
    from anydml.functional.functions import (
        element_wise_identity as element_wise_identity,
    )
    from anydml.functional.functions import (
        element_wise_if as element_wise_if,
    )
    from anydml.functional.functions import (
        element_wise_is_infinity as element_wise_is_infinity,
    )
    from anydml.functional.functions import (
        element_wise_is_nan as element_wise_is_nan,
    )
    from anydml.functional.functions import (
        element_wise_log as element_wise_log,
    )
    from anydml.functional.functions import (
        element_wise_logical_and as element_wise_logical_and,
    )
    from anydml.functional.functions import (
        element_wise_logical_equals as element_wise_logical_equals,
    )
    from anydml.functional.functions import (
        element_wise_logical_greater_than as element_wise_logical_greater_than,
    )
    from anydml.functional.functions import (
        element_wise_logical_greater_than_or_equal as element_wise_logical_greater_than_or_equal,
    )
    from anydml.functional.functions import (
        element_wise_logical_less_than as element_wise_logical_less_than,
    )
    from anydml.functional.functions import (
        element_wise_logical_less_than_or_equal as element_wise_logical_less_than_or_equal,
    )
    from anydml.functional.functions import (
        element_wise_logical_not as element_wise_logical_not,
    )
    from anydml.functional.functions import (
        element_wise_logical_or as element_wise_logical_or,
    )
    from anydml.functional.functions import (
        element_wise_logical_xor as element_wise_logical_xor,
    )
    from anydml.functional.functions import (
        element_wise_max as element_wise_max,
    )
    from anydml.functional.functions import (
        element_wise_mean as element_wise_mean,
    )
    from anydml.functional.functions import (
        element_wise_min as element_wise_min,
    )
    from anydml.functional.functions import (
        element_wise_modulus_floor as element_wise_modulus_floor,
    )
    from anydml.functional.functions import (
        element_wise_modulus_truncate as element_wise_modulus_truncate,
    )
    from anydml.functional.functions import (
        element_wise_multiply as element_wise_multiply,
    )
    from anydml.functional.functions import (
        element_wise_negate as element_wise_negate,
    )
    from anydml.functional.functions import (
        element_wise_pow as element_wise_pow,
    )
    from anydml.functional.functions import (
        element_wise_quantize_linear as element_wise_quantize_linear,
    )
    from anydml.functional.functions import (
        element_wise_quantized_linear_add as element_wise_quantized_linear_add,
    )
    from anydml.functional.functions import (
        element_wise_recip as element_wise_recip,
    )
    from anydml.functional.functions import (
        element_wise_round as element_wise_round,
    )
    from anydml.functional.functions import (
        element_wise_sign as element_wise_sign,
    )
    from anydml.functional.functions import (
        element_wise_sin as element_wise_sin,
    )
    from anydml.functional.functions import (
        element_wise_sinh as element_wise_sinh,
    )
    from anydml.functional.functions import (
        element_wise_sqrt as element_wise_sqrt,
    )
    from anydml.functional.functions import (
        element_wise_subtract as element_wise_subtract,
    )
    from anydml.functional.functions import (
        element_wise_tan as element_wise_tan,
    )
    from anydml.functional.functions import (
        element_wise_tanh as element_wise_tanh,
    )
    from anydml.functional.functions import (
        element_wise_threshold as element_wise_threshold,
    )
    from anydml.functional.functions import (
        fill_value_constant as fill_value_constant,
    )
    from anydml.functional.functions import (
        fill_value_sequence as fill_value_sequence,
    )
    from anydml.functional.functions import (
        fold as fold,
    )
    from anydml.functional.functions import (
        gather as gather,
    )
    from anydml.functional.functions import (
        gather_elements as gather_elements,
    )
    from anydml.functional.functions import (
        gather_nd as gather_nd,
    )
    from anydml.functional.functions import (
        gather_nd1 as gather_nd1,
    )
    from anydml.functional.functions import (
        gemm as gemm,
    )
    from anydml.functional.functions import (
        gru as gru,
    )
    from anydml.functional.functions import (
        join as join,
    )
    from anydml.functional.functions import (
        local_response_normalization as local_response_normalization,
    )
    from anydml.functional.functions import (
        local_response_normalization_grad as local_response_normalization_grad,
    )
    from anydml.functional.functions import (
        lp_normalization as lp_normalization,
    )
    from anydml.functional.functions import (
        lp_pooling as lp_pooling,
    )
    from anydml.functional.functions import (
        lp_pooling1 as lp_pooling1,
    )
    from anydml.functional.functions import (
        lstm as lstm,
    )
    from anydml.functional.functions import (
        matrix_multiply_integer as matrix_multiply_integer,
    )
    from anydml.functional.functions import (
        matrix_multiply_integer_to_float as matrix_multiply_integer_to_float,
    )
    from anydml.functional.functions import (
        max_pooling as max_pooling,
    )
    from anydml.functional.functions import (
        max_pooling1 as max_pooling1,
    )
    from anydml.functional.functions import (
        max_pooling2 as max_pooling2,
    )
    from anydml.functional.functions import (
        max_pooling_grad as max_pooling_grad,
    )
    from anydml.functional.functions import (
        max_unpooling as max_unpooling,
    )
    from anydml.functional.functions import (
        mean_variance_normalization as mean_variance_normalization,
    )
    from anydml.functional.functions import (
        mean_variance_normalization1 as mean_variance_normalization1,
    )
    from anydml.functional.functions import (
        mean_variance_normalization2 as mean_variance_normalization2,
    )
    from anydml.functional.functions import (
        multihead_attention as multihead_attention,
    )
    from anydml.functional.functions import (
        multihead_attention1 as multihead_attention1,
    )
    from anydml.functional.functions import (
        nonzero_coordinates as nonzero_coordinates,
    )
    from anydml.functional.functions import (
        one_hot as one_hot,
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
        quantized_linear_average_pooling as quantized_linear_average_pooling,
    )
    from anydml.functional.functions import (
        quantized_linear_convolution as quantized_linear_convolution,
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
        resample as resample,
    )
    from anydml.functional.functions import (
        resample1 as resample1,
    )
    from anydml.functional.functions import (
        resample2 as resample2,
    )
    from anydml.functional.functions import (
        resample3 as resample3,
    )
    from anydml.functional.functions import (
        resample_grad as resample_grad,
    )
    from anydml.functional.functions import (
        resample_grad1 as resample_grad1,
    )
    from anydml.functional.functions import (
        reverse_subsequences as reverse_subsequences,
    )
    from anydml.functional.functions import (
        rnn as rnn,
    )
    from anydml.functional.functions import (
        roi_align as roi_align,
    )
    from anydml.functional.functions import (
        roi_align1 as roi_align1,
    )
    from anydml.functional.functions import (
        roi_align_grad as roi_align_grad,
    )
    from anydml.functional.functions import (
        roi_pooling as roi_pooling,
    )
    from anydml.functional.functions import (
        scatter_elements as scatter_elements,
    )
    from anydml.functional.functions import (
        scatter_nd as scatter_nd,
    )
    from anydml.functional.functions import (
        slice as slice,
    )
    from anydml.functional.functions import (
        slice1 as slice1,
    )
    from anydml.functional.functions import (
        slice_grad as slice_grad,
    )
    from anydml.functional.functions import (
        space_to_depth as space_to_depth,
    )
    from anydml.functional.functions import (
        space_to_depth1 as space_to_depth1,
    )
    from anydml.functional.functions import (
        split as split,
    )
    from anydml.functional.functions import (
        tile as tile,
    )
    from anydml.functional.functions import (
        top_k as top_k,
    )
    from anydml.functional.functions import (
        top_k1 as top_k1,
    )
    from anydml.functional.functions import (
        unfold as unfold,
    )
    from anydml.functional.functions import (
        upsample_2d as upsample_2d,
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
    from anydml.operators.adam_optimizer import AdamOptimizer as AdamOptimizer
    from anydml.operators.argmax import Argmax as Argmax
    from anydml.operators.argmin import Argmin as Argmin
    from anydml.operators.average_pooling import AveragePooling as AveragePooling
    from anydml.operators.average_pooling import AveragePooling1 as AveragePooling1
    from anydml.operators.average_pooling_grad import AveragePoolingGrad as AveragePoolingGrad
    from anydml.operators.batch_normalization import BatchNormalization as BatchNormalization
    from anydml.operators.batch_normalization_grad import BatchNormalizationGrad as BatchNormalizationGrad
    from anydml.operators.batch_normalization_training import BatchNormalizationTraining as BatchNormalizationTraining
    from anydml.operators.batch_normalization_training_grad import (
        BatchNormalizationTrainingGrad as BatchNormalizationTrainingGrad,
    )
    from anydml.operators.cast import Cast as Cast
    from anydml.operators.convolution import Convolution as Convolution
    from anydml.operators.convolution_integer import ConvolutionInteger as ConvolutionInteger
    from anydml.operators.cumulative_product import CumulativeProduct as CumulativeProduct
    from anydml.operators.cumulative_summation import CumulativeSummation as CumulativeSummation
    from anydml.operators.depth_to_space import DepthToSpace as DepthToSpace
    from anydml.operators.depth_to_space import DepthToSpace1 as DepthToSpace1
    from anydml.operators.dequantize import Dequantize as Dequantize
    from anydml.operators.diagonal_matrix import DiagonalMatrix as DiagonalMatrix
    from anydml.operators.diagonal_matrix import DiagonalMatrix1 as DiagonalMatrix1
    from anydml.operators.dynamic_quantize_linear import DynamicQuantizeLinear as DynamicQuantizeLinear
    from anydml.operators.element_wise_abs import ElementWiseAbs as ElementWiseAbs
    from anydml.operators.element_wise_acos import ElementWiseAcos as ElementWiseAcos
    from anydml.operators.element_wise_acosh import ElementWiseAcosh as ElementWiseAcosh
    from anydml.operators.element_wise_add import ElementWiseAdd as ElementWiseAdd
    from anydml.operators.element_wise_add import ElementWiseAdd1 as ElementWiseAdd1
    from anydml.operators.element_wise_asin import ElementWiseAsin as ElementWiseAsin
    from anydml.operators.element_wise_asinh import ElementWiseAsinh as ElementWiseAsinh
    from anydml.operators.element_wise_atan import ElementWiseAtan as ElementWiseAtan
    from anydml.operators.element_wise_atan_yx import ElementWiseAtanYx as ElementWiseAtanYx
    from anydml.operators.element_wise_atanh import ElementWiseAtanh as ElementWiseAtanh
    from anydml.operators.element_wise_bit_and import ElementWiseBitAnd as ElementWiseBitAnd
    from anydml.operators.element_wise_bit_count import ElementWiseBitCount as ElementWiseBitCount
    from anydml.operators.element_wise_bit_not import ElementWiseBitNot as ElementWiseBitNot
    from anydml.operators.element_wise_bit_or import ElementWiseBitOr as ElementWiseBitOr
    from anydml.operators.element_wise_bit_shift_left import ElementWiseBitShiftLeft as ElementWiseBitShiftLeft
    from anydml.operators.element_wise_bit_shift_right import ElementWiseBitShiftRight as ElementWiseBitShiftRight
    from anydml.operators.element_wise_bit_xor import ElementWiseBitXor as ElementWiseBitXor
    from anydml.operators.element_wise_ceil import ElementWiseCeil as ElementWiseCeil
    from anydml.operators.element_wise_clip import ElementWiseClip as ElementWiseClip
    from anydml.operators.element_wise_clip import ElementWiseClip1 as ElementWiseClip1
    from anydml.operators.element_wise_clip_grad import ElementWiseClipGrad as ElementWiseClipGrad
    from anydml.operators.element_wise_clip_grad import ElementWiseClipGrad1 as ElementWiseClipGrad1
    from anydml.operators.element_wise_constant_pow import ElementWiseConstantPow as ElementWiseConstantPow
    from anydml.operators.element_wise_cos import ElementWiseCos as ElementWiseCos
    from anydml.operators.element_wise_cosh import ElementWiseCosh as ElementWiseCosh
    from anydml.operators.element_wise_dequantize_linear import ElementWiseDequantizeLinear as ElementWiseDequantizeLinear
    from anydml.operators.element_wise_difference_square import ElementWiseDifferenceSquare as ElementWiseDifferenceSquare
    from anydml.operators.element_wise_divide import ElementWiseDivide as ElementWiseDivide
    from anydml.operators.element_wise_erf import ElementWiseErf as ElementWiseErf
    from anydml.operators.element_wise_exp import ElementWiseExp as ElementWiseExp
    from anydml.operators.element_wise_floor import ElementWiseFloor as ElementWiseFloor
    from anydml.operators.element_wise_identity import ElementWiseIdentity as ElementWiseIdentity
    from anydml.operators.element_wise_if import ElementWiseIf as ElementWiseIf
    from anydml.operators.element_wise_is_infinity import ElementWiseIsInfinity as ElementWiseIsInfinity
    from anydml.operators.element_wise_is_nan import ElementWiseIsNan as ElementWiseIsNan
    from anydml.operators.element_wise_log import ElementWiseLog as ElementWiseLog
    from anydml.operators.element_wise_logical_and import ElementWiseLogicalAnd as ElementWiseLogicalAnd
    from anydml.operators.element_wise_logical_equals import ElementWiseLogicalEquals as ElementWiseLogicalEquals
    from anydml.operators.element_wise_logical_greater_than import (
        ElementWiseLogicalGreaterThan as ElementWiseLogicalGreaterThan,
    )
    from anydml.operators.element_wise_logical_greater_than_or_equal import (
        ElementWiseLogicalGreaterThanOrEqual as ElementWiseLogicalGreaterThanOrEqual,
    )
    from anydml.operators.element_wise_logical_less_than import ElementWiseLogicalLessThan as ElementWiseLogicalLessThan
    from anydml.operators.element_wise_logical_less_than_or_equal import (
        ElementWiseLogicalLessThanOrEqual as ElementWiseLogicalLessThanOrEqual,
    )
    from anydml.operators.element_wise_logical_not import ElementWiseLogicalNot as ElementWiseLogicalNot
    from anydml.operators.element_wise_logical_or import ElementWiseLogicalOr as ElementWiseLogicalOr
    from anydml.operators.element_wise_logical_xor import ElementWiseLogicalXor as ElementWiseLogicalXor
    from anydml.operators.element_wise_max import ElementWiseMax as ElementWiseMax
    from anydml.operators.element_wise_mean import ElementWiseMean as ElementWiseMean
    from anydml.operators.element_wise_min import ElementWiseMin as ElementWiseMin
    from anydml.operators.element_wise_modulus_floor import ElementWiseModulusFloor as ElementWiseModulusFloor
    from anydml.operators.element_wise_modulus_truncate import ElementWiseModulusTruncate as ElementWiseModulusTruncate
    from anydml.operators.element_wise_multiply import ElementWiseMultiply as ElementWiseMultiply
    from anydml.operators.element_wise_negate import ElementWiseNegate as ElementWiseNegate
    from anydml.operators.element_wise_pow import ElementWisePow as ElementWisePow
    from anydml.operators.element_wise_quantize_linear import ElementWiseQuantizeLinear as ElementWiseQuantizeLinear
    from anydml.operators.element_wise_quantized_linear_add import (
        ElementWiseQuantizedLinearAdd as ElementWiseQuantizedLinearAdd,
    )
    from anydml.operators.element_wise_recip import ElementWiseRecip as ElementWiseRecip
    from anydml.operators.element_wise_round import ElementWiseRound as ElementWiseRound
    from anydml.operators.element_wise_sign import ElementWiseSign as ElementWiseSign
    from anydml.operators.element_wise_sin import ElementWiseSin as ElementWiseSin
    from anydml.operators.element_wise_sinh import ElementWiseSinh as ElementWiseSinh
    from anydml.operators.element_wise_sqrt import ElementWiseSqrt as ElementWiseSqrt
    from anydml.operators.element_wise_subtract import ElementWiseSubtract as ElementWiseSubtract
    from anydml.operators.element_wise_tan import ElementWiseTan as ElementWiseTan
    from anydml.operators.element_wise_tanh import ElementWiseTanh as ElementWiseTanh
    from anydml.operators.element_wise_threshold import ElementWiseThreshold as ElementWiseThreshold
    from anydml.operators.fill_value_constant import FillValueConstant as FillValueConstant
    from anydml.operators.fill_value_sequence import FillValueSequence as FillValueSequence
    from anydml.operators.fold import Fold as Fold
    from anydml.operators.gather import Gather as Gather
    from anydml.operators.gather_elements import GatherElements as GatherElements
    from anydml.operators.gather_nd import GatherNd as GatherNd
    from anydml.operators.gather_nd import GatherNd1 as GatherNd1
    from anydml.operators.gemm import Gemm as Gemm
    from anydml.operators.gru import Gru as Gru
    from anydml.operators.join import Join as Join
    from anydml.operators.local_response_normalization import LocalResponseNormalization as LocalResponseNormalization
    from anydml.operators.local_response_normalization_grad import (
        LocalResponseNormalizationGrad as LocalResponseNormalizationGrad,
    )
    from anydml.operators.lp_normalization import LpNormalization as LpNormalization
    from anydml.operators.lp_pooling import LpPooling as LpPooling
    from anydml.operators.lp_pooling import LpPooling1 as LpPooling1
    from anydml.operators.lstm import Lstm as Lstm
    from anydml.operators.matrix_multiply_integer import MatrixMultiplyInteger as MatrixMultiplyInteger
    from anydml.operators.matrix_multiply_integer_to_float import MatrixMultiplyIntegerToFloat as MatrixMultiplyIntegerToFloat
    from anydml.operators.max_pooling import MaxPooling as MaxPooling
    from anydml.operators.max_pooling import MaxPooling1 as MaxPooling1
    from anydml.operators.max_pooling import MaxPooling2 as MaxPooling2
    from anydml.operators.max_pooling_grad import MaxPoolingGrad as MaxPoolingGrad
    from anydml.operators.max_unpooling import MaxUnpooling as MaxUnpooling
    from anydml.operators.mean_variance_normalization import MeanVarianceNormalization as MeanVarianceNormalization
    from anydml.operators.mean_variance_normalization import MeanVarianceNormalization1 as MeanVarianceNormalization1
    from anydml.operators.mean_variance_normalization import MeanVarianceNormalization2 as MeanVarianceNormalization2
    from anydml.operators.multihead_attention import MultiheadAttention as MultiheadAttention
    from anydml.operators.multihead_attention import MultiheadAttention1 as MultiheadAttention1
    from anydml.operators.nonzero_coordinates import NonzeroCoordinates as NonzeroCoordinates
    from anydml.operators.one_hot import OneHot as OneHot
    from anydml.operators.padding import Padding as Padding
    from anydml.operators.padding import Padding1 as Padding1
    from anydml.operators.quantize import Quantize as Quantize
    from anydml.operators.quantized_linear_average_pooling import QuantizedLinearAveragePooling as QuantizedLinearAveragePooling
    from anydml.operators.quantized_linear_convolution import QuantizedLinearConvolution as QuantizedLinearConvolution
    from anydml.operators.quantized_linear_matrix_multiply import QuantizedLinearMatrixMultiply as QuantizedLinearMatrixMultiply
    from anydml.operators.random_generator import RandomGenerator as RandomGenerator
    from anydml.operators.reduce import Reduce as Reduce
    from anydml.operators.resample import Resample as Resample
    from anydml.operators.resample import Resample1 as Resample1
    from anydml.operators.resample import Resample2 as Resample2
    from anydml.operators.resample import Resample3 as Resample3
    from anydml.operators.resample_grad import ResampleGrad as ResampleGrad
    from anydml.operators.resample_grad import ResampleGrad1 as ResampleGrad1
    from anydml.operators.reverse_subsequences import ReverseSubsequences as ReverseSubsequences
    from anydml.operators.rnn import Rnn as Rnn
    from anydml.operators.roi_align import RoiAlign as RoiAlign
    from anydml.operators.roi_align import RoiAlign1 as RoiAlign1
    from anydml.operators.roi_align_grad import RoiAlignGrad as RoiAlignGrad
    from anydml.operators.roi_pooling import RoiPooling as RoiPooling
    from anydml.operators.scatter_elements import ScatterElements as ScatterElements
    from anydml.operators.scatter_nd import ScatterNd as ScatterNd
    from anydml.operators.slice import Slice as Slice
    from anydml.operators.slice import Slice1 as Slice1
    from anydml.operators.slice_grad import SliceGrad as SliceGrad
    from anydml.operators.space_to_depth import SpaceToDepth as SpaceToDepth
    from anydml.operators.space_to_depth import SpaceToDepth1 as SpaceToDepth1
    from anydml.operators.split import Split as Split
    from anydml.operators.tile import Tile as Tile
    from anydml.operators.top_k import TopK as TopK
    from anydml.operators.top_k import TopK1 as TopK1
    from anydml.operators.unfold import Unfold as Unfold
    from anydml.operators.upsample_2d import Upsample2d as Upsample2d
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
    "AdamOptimizer": "adam_optimizer",
    "Argmax": "argmax",
    "Argmin": "argmin",
    "AveragePooling": "average_pooling",
    "AveragePooling1": "average_pooling",
    "AveragePoolingGrad": "average_pooling_grad",
    "BatchNormalization": "batch_normalization",
    "BatchNormalizationGrad": "batch_normalization_grad",
    "BatchNormalizationTraining": "batch_normalization_training",
    "BatchNormalizationTrainingGrad": "batch_normalization_training_grad",
    "Cast": "cast",
    "Convolution": "convolution",
    "ConvolutionInteger": "convolution_integer",
    "CumulativeProduct": "cumulative_product",
    "CumulativeSummation": "cumulative_summation",
    "DepthToSpace": "depth_to_space",
    "DepthToSpace1": "depth_to_space",
    "Dequantize": "dequantize",
    "DiagonalMatrix": "diagonal_matrix",
    "DiagonalMatrix1": "diagonal_matrix",
    "DynamicQuantizeLinear": "dynamic_quantize_linear",
    "ElementWiseAbs": "element_wise_abs",
    "ElementWiseAcos": "element_wise_acos",
    "ElementWiseAcosh": "element_wise_acosh",
    "ElementWiseAdd": "element_wise_add",
    "ElementWiseAdd1": "element_wise_add",
    "ElementWiseAsin": "element_wise_asin",
    "ElementWiseAsinh": "element_wise_asinh",
    "ElementWiseAtan": "element_wise_atan",
    "ElementWiseAtanh": "element_wise_atanh",
    "ElementWiseAtanYx": "element_wise_atan_yx",
    "ElementWiseBitAnd": "element_wise_bit_and",
    "ElementWiseBitCount": "element_wise_bit_count",
    "ElementWiseBitNot": "element_wise_bit_not",
    "ElementWiseBitOr": "element_wise_bit_or",
    "ElementWiseBitShiftLeft": "element_wise_bit_shift_left",
    "ElementWiseBitShiftRight": "element_wise_bit_shift_right",
    "ElementWiseBitXor": "element_wise_bit_xor",
    "ElementWiseCeil": "element_wise_ceil",
    "ElementWiseClip": "element_wise_clip",
    "ElementWiseClip1": "element_wise_clip",
    "ElementWiseClipGrad": "element_wise_clip_grad",
    "ElementWiseClipGrad1": "element_wise_clip_grad",
    "ElementWiseConstantPow": "element_wise_constant_pow",
    "ElementWiseCos": "element_wise_cos",
    "ElementWiseCosh": "element_wise_cosh",
    "ElementWiseDequantizeLinear": "element_wise_dequantize_linear",
    "ElementWiseDifferenceSquare": "element_wise_difference_square",
    "ElementWiseDivide": "element_wise_divide",
    "ElementWiseErf": "element_wise_erf",
    "ElementWiseExp": "element_wise_exp",
    "ElementWiseFloor": "element_wise_floor",
    "ElementWiseIdentity": "element_wise_identity",
    "ElementWiseIf": "element_wise_if",
    "ElementWiseIsInfinity": "element_wise_is_infinity",
    "ElementWiseIsNan": "element_wise_is_nan",
    "ElementWiseLog": "element_wise_log",
    "ElementWiseLogicalAnd": "element_wise_logical_and",
    "ElementWiseLogicalEquals": "element_wise_logical_equals",
    "ElementWiseLogicalGreaterThan": "element_wise_logical_greater_than",
    "ElementWiseLogicalGreaterThanOrEqual": "element_wise_logical_greater_than_or_equal",
    "ElementWiseLogicalLessThan": "element_wise_logical_less_than",
    "ElementWiseLogicalLessThanOrEqual": "element_wise_logical_less_than_or_equal",
    "ElementWiseLogicalNot": "element_wise_logical_not",
    "ElementWiseLogicalOr": "element_wise_logical_or",
    "ElementWiseLogicalXor": "element_wise_logical_xor",
    "ElementWiseMax": "element_wise_max",
    "ElementWiseMean": "element_wise_mean",
    "ElementWiseMin": "element_wise_min",
    "ElementWiseModulusFloor": "element_wise_modulus_floor",
    "ElementWiseModulusTruncate": "element_wise_modulus_truncate",
    "ElementWiseMultiply": "element_wise_multiply",
    "ElementWiseNegate": "element_wise_negate",
    "ElementWisePow": "element_wise_pow",
    "ElementWiseQuantizedLinearAdd": "element_wise_quantized_linear_add",
    "ElementWiseQuantizeLinear": "element_wise_quantize_linear",
    "ElementWiseRecip": "element_wise_recip",
    "ElementWiseRound": "element_wise_round",
    "ElementWiseSign": "element_wise_sign",
    "ElementWiseSin": "element_wise_sin",
    "ElementWiseSinh": "element_wise_sinh",
    "ElementWiseSqrt": "element_wise_sqrt",
    "ElementWiseSubtract": "element_wise_subtract",
    "ElementWiseTan": "element_wise_tan",
    "ElementWiseTanh": "element_wise_tanh",
    "ElementWiseThreshold": "element_wise_threshold",
    "FillValueConstant": "fill_value_constant",
    "FillValueSequence": "fill_value_sequence",
    "Fold": "fold",
    "Gather": "gather",
    "GatherElements": "gather_elements",
    "GatherNd": "gather_nd",
    "GatherNd1": "gather_nd",
    "Gemm": "gemm",
    "Gru": "gru",
    "Join": "join",
    "LocalResponseNormalization": "local_response_normalization",
    "LocalResponseNormalizationGrad": "local_response_normalization_grad",
    "LpNormalization": "lp_normalization",
    "LpPooling": "lp_pooling",
    "LpPooling1": "lp_pooling",
    "Lstm": "lstm",
    "MatrixMultiplyInteger": "matrix_multiply_integer",
    "MatrixMultiplyIntegerToFloat": "matrix_multiply_integer_to_float",
    "MaxPooling": "max_pooling",
    "MaxPooling1": "max_pooling",
    "MaxPooling2": "max_pooling",
    "MaxPoolingGrad": "max_pooling_grad",
    "MaxUnpooling": "max_unpooling",
    "MeanVarianceNormalization": "mean_variance_normalization",
    "MeanVarianceNormalization1": "mean_variance_normalization",
    "MeanVarianceNormalization2": "mean_variance_normalization",
    "MultiheadAttention": "multihead_attention",
    "MultiheadAttention1": "multihead_attention",
    "NonzeroCoordinates": "nonzero_coordinates",
    "OneHot": "one_hot",
    "Padding": "padding",
    "Padding1": "padding",
    "Quantize": "quantize",
    "QuantizedLinearAveragePooling": "quantized_linear_average_pooling",
    "QuantizedLinearConvolution": "quantized_linear_convolution",
    "QuantizedLinearMatrixMultiply": "quantized_linear_matrix_multiply",
    "RandomGenerator": "random_generator",
    "Reduce": "reduce",
    "Resample": "resample",
    "Resample1": "resample",
    "Resample2": "resample",
    "Resample3": "resample",
    "ResampleGrad": "resample_grad",
    "ResampleGrad1": "resample_grad",
    "ReverseSubsequences": "reverse_subsequences",
    "Rnn": "rnn",
    "RoiAlign": "roi_align",
    "RoiAlign1": "roi_align",
    "RoiAlignGrad": "roi_align_grad",
    "RoiPooling": "roi_pooling",
    "ScatterElements": "scatter_elements",
    "ScatterNd": "scatter_nd",
    "Slice": "slice",
    "Slice1": "slice",
    "SliceGrad": "slice_grad",
    "SpaceToDepth": "space_to_depth",
    "SpaceToDepth1": "space_to_depth",
    "Split": "split",
    "Tile": "tile",
    "TopK": "top_k",
    "TopK1": "top_k",
    "Unfold": "unfold",
    "Upsample2d": "upsample_2d",
    "ValueScale2d": "value_scale_2d",
}
__all__ = [  # written out, for editors that complete names and type checkers; `import *` leaves the builtin `slice` alone
    "ActivationCelu",
    "ActivationElu",
    "ActivationGelu",
    "ActivationHardSigmoid",
    "ActivationHardSwish",
    "ActivationHardmax",
    "ActivationHardmax1",
    "ActivationIdentity",
    "ActivationLeakyRelu",
    "ActivationLinear",
    "ActivationLogSoftmax",
    "ActivationLogSoftmax1",
    "ActivationParameterizedRelu",
    "ActivationParametricSoftplus",
    "ActivationRelu",
    "ActivationReluGrad",
    "ActivationScaledElu",
    "ActivationScaledTanh",
    "ActivationShrink",
    "ActivationSigmoid",
    "ActivationSoftmax",
    "ActivationSoftmax1",
    "ActivationSoftplus",
    "ActivationSoftsign",
    "ActivationSwish",
    "ActivationTanh",
    "ActivationThresholdedRelu",
    "AdamOptimizer",
    "Argmax",
    "Argmin",
    "AveragePooling",
    "AveragePooling1",
    "AveragePoolingGrad",
    "BatchNormalization",
    "BatchNormalizationGrad",
    "BatchNormalizationTraining",
    "BatchNormalizationTrainingGrad",
    "Cast",
    "Convolution",
    "ConvolutionInteger",
    "CumulativeProduct",
    "CumulativeSummation",
    "DepthToSpace",
    "DepthToSpace1",
    "Dequantize",
    "DiagonalMatrix",
    "DiagonalMatrix1",
    "DynamicQuantizeLinear",
    "ElementWiseAbs",
    "ElementWiseAcos",
    "ElementWiseAcosh",
    "ElementWiseAdd",
    "ElementWiseAdd1",
    "ElementWiseAsin",
    "ElementWiseAsinh",
    "ElementWiseAtan",
    "ElementWiseAtanYx",
    "ElementWiseAtanh",
    "ElementWiseBitAnd",
    "ElementWiseBitCount",
    "ElementWiseBitNot",
    "ElementWiseBitOr",
    "ElementWiseBitShiftLeft",
    "ElementWiseBitShiftRight",
    "ElementWiseBitXor",
    "ElementWiseCeil",
    "ElementWiseClip",
    "ElementWiseClip1",
    "ElementWiseClipGrad",
    "ElementWiseClipGrad1",
    "ElementWiseConstantPow",
    "ElementWiseCos",
    "ElementWiseCosh",
    "ElementWiseDequantizeLinear",
    "ElementWiseDifferenceSquare",
    "ElementWiseDivide",
    "ElementWiseErf",
    "ElementWiseExp",
    "ElementWiseFloor",
    "ElementWiseIdentity",
    "ElementWiseIf",
    "ElementWiseIsInfinity",
    "ElementWiseIsNan",
    "ElementWiseLog",
    "ElementWiseLogicalAnd",
    "ElementWiseLogicalEquals",
    "ElementWiseLogicalGreaterThan",
    "ElementWiseLogicalGreaterThanOrEqual",
    "ElementWiseLogicalLessThan",
    "ElementWiseLogicalLessThanOrEqual",
    "ElementWiseLogicalNot",
    "ElementWiseLogicalOr",
    "ElementWiseLogicalXor",
    "ElementWiseMax",
    "ElementWiseMean",
    "ElementWiseMin",
    "ElementWiseModulusFloor",
    "ElementWiseModulusTruncate",
    "ElementWiseMultiply",
    "ElementWiseNegate",
    "ElementWisePow",
    "ElementWiseQuantizeLinear",
    "ElementWiseQuantizedLinearAdd",
    "ElementWiseRecip",
    "ElementWiseRound",
    "ElementWiseSign",
    "ElementWiseSin",
    "ElementWiseSinh",
    "ElementWiseSqrt",
    "ElementWiseSubtract",
    "ElementWiseTan",
    "ElementWiseTanh",
    "ElementWiseThreshold",
    "FillValueConstant",
    "FillValueSequence",
    "Fold",
    "Gather",
    "GatherElements",
    "GatherNd",
    "GatherNd1",
    "Gemm",
    "Gru",
    "Join",
    "LocalResponseNormalization",
    "LocalResponseNormalizationGrad",
    "LpNormalization",
    "LpPooling",
    "LpPooling1",
    "Lstm",
    "MatrixMultiplyInteger",
    "MatrixMultiplyIntegerToFloat",
    "MaxPooling",
    "MaxPooling1",
    "MaxPooling2",
    "MaxPoolingGrad",
    "MaxUnpooling",
    "MeanVarianceNormalization",
    "MeanVarianceNormalization1",
    "MeanVarianceNormalization2",
    "MultiheadAttention",
    "MultiheadAttention1",
    "NonzeroCoordinates",
    "OneHot",
    "Padding",
    "Padding1",
    "Quantize",
    "QuantizedLinearAveragePooling",
    "QuantizedLinearConvolution",
    "QuantizedLinearMatrixMultiply",
    "RandomGenerator",
    "Reduce",
    "Resample",
    "Resample1",
    "Resample2",
    "Resample3",
    "ResampleGrad",
    "ResampleGrad1",
    "ReverseSubsequences",
    "Rnn",
    "RoiAlign",
    "RoiAlign1",
    "RoiAlignGrad",
    "RoiPooling",
    "ScatterElements",
    "ScatterNd",
    "Slice",
    "Slice1",
    "SliceGrad",
    "SpaceToDepth",
    "SpaceToDepth1",
    "Split",
    "Tile",
    "TopK",
    "TopK1",
    "Unfold",
    "Upsample2d",
    "ValueScale2d",
    "activation_celu",
    "activation_elu",
    "activation_gelu",
    "activation_hard_sigmoid",
    "activation_hard_swish",
    "activation_hardmax",
    "activation_hardmax1",
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
    "adam_optimizer",
    "argmax",
    "argmin",
    "average_pooling",
    "average_pooling1",
    "average_pooling_grad",
    "batch_normalization",
    "batch_normalization_grad",
    "batch_normalization_training",
    "batch_normalization_training_grad",
    "cast",
    "convolution",
    "convolution_integer",
    "cumulative_product",
    "cumulative_summation",
    "depth_to_space",
    "depth_to_space1",
    "dequantize",
    "diagonal_matrix",
    "diagonal_matrix1",
    "dynamic_quantize_linear",
    "element_wise_abs",
    "element_wise_acos",
    "element_wise_acosh",
    "element_wise_add",
    "element_wise_add1",
    "element_wise_asin",
    "element_wise_asinh",
    "element_wise_atan",
    "element_wise_atan_yx",
    "element_wise_atanh",
    "element_wise_bit_and",
    "element_wise_bit_count",
    "element_wise_bit_not",
    "element_wise_bit_or",
    "element_wise_bit_shift_left",
    "element_wise_bit_shift_right",
    "element_wise_bit_xor",
    "element_wise_ceil",
    "element_wise_clip",
    "element_wise_clip1",
    "element_wise_clip_grad",
    "element_wise_clip_grad1",
    "element_wise_constant_pow",
    "element_wise_cos",
    "element_wise_cosh",
    "element_wise_dequantize_linear",
    "element_wise_difference_square",
    "element_wise_divide",
    "element_wise_erf",
    "element_wise_exp",
    "element_wise_floor",
    "element_wise_identity",
    "element_wise_if",
    "element_wise_is_infinity",
    "element_wise_is_nan",
    "element_wise_log",
    "element_wise_logical_and",
    "element_wise_logical_equals",
    "element_wise_logical_greater_than",
    "element_wise_logical_greater_than_or_equal",
    "element_wise_logical_less_than",
    "element_wise_logical_less_than_or_equal",
    "element_wise_logical_not",
    "element_wise_logical_or",
    "element_wise_logical_xor",
    "element_wise_max",
    "element_wise_mean",
    "element_wise_min",
    "element_wise_modulus_floor",
    "element_wise_modulus_truncate",
    "element_wise_multiply",
    "element_wise_negate",
    "element_wise_pow",
    "element_wise_quantize_linear",
    "element_wise_quantized_linear_add",
    "element_wise_recip",
    "element_wise_round",
    "element_wise_sign",
    "element_wise_sin",
    "element_wise_sinh",
    "element_wise_sqrt",
    "element_wise_subtract",
    "element_wise_tan",
    "element_wise_tanh",
    "element_wise_threshold",
    "fill_value_constant",
    "fill_value_sequence",
    "fold",
    "gather",
    "gather_elements",
    "gather_nd",
    "gather_nd1",
    "gemm",
    "gru",
    "join",
    "local_response_normalization",
    "local_response_normalization_grad",
    "lp_normalization",
    "lp_pooling",
    "lp_pooling1",
    "lstm",
    "matrix_multiply_integer",
    "matrix_multiply_integer_to_float",
    "max_pooling",
    "max_pooling1",
    "max_pooling2",
    "max_pooling_grad",
    "max_unpooling",
    "mean_variance_normalization",
    "mean_variance_normalization1",
    "mean_variance_normalization2",
    "multihead_attention",
    "multihead_attention1",
    "nonzero_coordinates",
    "one_hot",
    "padding",
    "padding1",
    "quantize",
    "quantized_linear_average_pooling",
    "quantized_linear_convolution",
    "quantized_linear_matrix_multiply",
    "random_generator",
    "reduce",
    "resample",
    "resample1",
    "resample2",
    "resample3",
    "resample_grad",
    "resample_grad1",
    "reverse_subsequences",
    "rnn",
    "roi_align",
    "roi_align1",
    "roi_align_grad",
    "roi_pooling",
    "scatter_elements",
    "scatter_nd",
    "slice1",
    "slice_grad",
    "space_to_depth",
    "space_to_depth1",
    "split",
    "tile",
    "top_k",
    "top_k1",
    "unfold",
    "upsample_2d",
    "value_scale_2d",
]
FUNCTIONS = tuple(sorted([*(name for name in __all__ if name not in FILES), "slice"]))
NOT_COMPILED: dict[str, str] = {}  # operator -> what computes it; all others are compiled
