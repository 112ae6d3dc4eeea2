"""Operators of ONNX that compute the same outputs whenever they get the same inputs, by domain.

A graph of these has no state and no randomness. Left out are those that draw random numbers (Bernoulli, Multinomial,
RandomNormal, RandomNormalLike, RandomUniform, RandomUniformLike), those for training, Col2Im and RotaryEmbedding, of
which ONNX Runtime leaves parts unset if sizes do not fit together, and all that is not known here. Dropout is among
them for a caller that looks at its inputs: it is random in training mode. So are If, Loop and Scan, for one that
looks at their subgraphs, and what `onnx_memory` looks at.
"""

from __future__ import annotations

ML = "ai.onnx.ml"
MICROSOFT = "com.microsoft"

# All of ONNX, up to version 28 of its operators and version 5 of those for classical machine learning; of ONNX Runtime,
# those that its optimiser and its quantisation write.
_STANDARD = """
    Abs Acos Acosh Add AffineGrid And ArgMax ArgMin Asin Asinh Atan Atanh Attention AveragePool BatchNormalization
    BitCast BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor BlackmanWindow Cast CastLike CausalConvWithState
    Ceil Celu CenterCropPad Clip Compress Concat ConcatFromSequence Constant ConstantOfShape Conv ConvInteger
    ConvTranspose Cos Cosh CumProd CumSum DFT DeformConv DepthToSpace DequantizeLinear Det Div Dropout
    DynamicQuantizeLinear Einsum Elu Equal Erf Exp Expand EyeLike Flatten Floor GRU Gather GatherElements GatherND
    Gelu Gemm GlobalAveragePool GlobalLpPool GlobalMaxPool Greater GreaterOrEqual GridSample GroupNormalization
    HammingWindow HannWindow HardSigmoid HardSwish Hardmax Identity If ImageDecoder InstanceNormalization IsInf
    IsNaN LRN LSTM LayerNormalization LeakyRelu Less LessOrEqual LinearAttention Log LogSoftmax Loop LpNormalization
    LpPool MatMul MatMulInteger Max MaxPool MaxRoiPool MaxUnpool Mean MeanVarianceNormalization MelWeightMatrix Min
    Mish Mod Mul Neg NegativeLogLikelihoodLoss NonMaxSuppression NonZero Not OneHot Optional OptionalGetElement
    OptionalHasElement Or PRelu Pad Pow QLinearConv QLinearMatMul QuantizeLinear RMSNormalization RNN Range
    Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum
    ReduceSumSquare RegexFullMatch Relu Reshape Resize ReverseSequence RoiAlign Round STFT Scan
    Scatter ScatterElements ScatterND Selu SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert
    SequenceLength SequenceMap Shape Shrink Sigmoid Sign Sin Sinh Size Slice Softmax SoftmaxCrossEntropyLoss
    Softplus Softsign SpaceToDepth Split SplitToSequence Sqrt Squeeze StringConcat StringNormalizer StringSplit Sub
    Sum SwiGLU Swish Tan Tanh TensorScatter TfIdfVectorizer ThresholdedRelu Tile TopK Transpose Trilu Unique
    Unsqueeze Upsample Where Xor
"""
_MACHINE_LEARNING = """
    ArrayFeatureExtractor Binarizer CastMap CategoryMapper DictVectorizer FeatureVectorizer Imputer LabelEncoder
    LinearClassifier LinearRegressor Normalizer OneHotEncoder SVMClassifier SVMRegressor Scaler TreeEnsemble
    TreeEnsembleClassifier TreeEnsembleRegressor ZipMap
"""
_RUNTIME = """
    BiasAdd BiasGelu BiasSoftmax BiasSplitGelu DequantizeLinear DynamicQuantizeMatMul FastGelu FusedConv FusedGemm
    FusedMatMul FusedMatMulActivation Gelu MatMulInteger16 MatMulIntegerToFloat MatMulNBits QGemm QLinearAdd
    QLinearAveragePool QLinearConcat QLinearGlobalAveragePool QLinearLeakyRelu QLinearMul QLinearReduceMean
    QLinearSigmoid QLinearSoftmax QLinearWhere QuantizeLinear QuickGelu SkipLayerNormalization
    SkipSimplifiedLayerNormalization
"""
DETERMINISTIC = {
    "": frozenset(_STANDARD.split()),
    ML: frozenset(_MACHINE_LEARNING.split()),
    MICROSOFT: frozenset(_RUNTIME.split()),
}

# What may leave memory unset if an input is empty, in ONNX Runtime 1.31, or was not run with empty inputs. All others
# were, by benchmarks/soundness/unset_memory.py, but products, Concat and QLinearConcat, of which `onnx_memory` knows.
NEED_ENTRIES = {
    "": frozenset(
        """
        AffineGrid Attention CausalConvWithState Det GRU GroupNormalization ImageDecoder LSTM LinearAttention MaxRoiPool
        NonMaxSuppression RNN RoiAlign Scan StringNormalizer SwiGLU
        """.split()
    ),
    ML: frozenset(("LinearClassifier",)),
    MICROSOFT: frozenset(
        ["BiasAdd", "BiasSoftmax", "BiasSplitGelu", "FusedMatMulActivation", "MatMulNBits", "QLinearReduceMean"]
    ),
}
