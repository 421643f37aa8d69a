package tflite

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Slots of the tables that every file has.
const (
	modelVersion, modelCodes, modelSubgraphs, modelDescription, modelBuffers, modelMetadata, modelSignatures = 0, 1, 2, 3, 4, 6, 7
	modelSlots                                                                                               = 8

	codeOld, codeCustom, codeVersion, codeNew = 0, 1, 2, 3
	codeSlots                                 = 4

	graphTensors, graphInputs, graphOutputs, graphOperators, graphName = 0, 1, 2, 3, 4
	graphSlots                                                         = 5

	bufferData, bufferOffset, bufferSize = 0, 1, 2
	bufferSlots                          = 1

	metadataName, metadataBuffer = 0, 1
	metadataSlots                = 2

	signatureInputs, signatureOutputs, signatureKey, signatureGraph = 0, 1, 2, 4
	signatureSlots                                                  = 5

	namedName, namedTensor = 0, 1
	namedSlots             = 2

	tensorShape, tensorType, tensorBuffer, tensorName, tensorQuantization, tensorVariable, tensorSparsity, tensorSignature, tensorRank = 0, 1,
		2, 3, 4, 5, 6, 7, 8

	tensorVariants, tensorExternal = 9, 10
	tensorSlots                    = 9

	quantMin, quantMax, quantScale, quantZero, quantDetails, quantAxis = 0, 1, 2, 3, 4, 6
	quantSlots                                                         = 7

	opCode, opInputs, opOutputs, opOptionsType, opOptions, opCustom, opMutates, opIntermediates, opLarge, opOptions2 = 0, 1, 2, 3, 4,
		5, 7, 8, 9, 11
	opSlots = 9
)

// identifier stands at byte 4 of every file.
const identifier = "TFL3"

// oldCodes is the number from which on an operator's code does not fit the byte of older files, which then holds this number.
const oldCodes = 127

// Field is a field of a table of options.
type Field struct {
	Name string
	// Kind is b, B (integers of 8 bits), i, u (32), l (64): int in Options; z: bool; f: float32; s: string; *i, *B: []int; *f: []float32.
	Kind    string
	Default int
	slot    int
}

// Fields are the fields of a table of options by the table's name without "Options", in the order of their slots.
func Fields(table string) ([]Field, bool) {
	i := optionsNumber(table)
	if i < 0 {
		return nil, false
	}
	return optionTables()[i].fields, true
}

type optionTable struct {
	name   string
	fields []Field
}

var optionTables = sync.OnceValue(parseTables)

// optionsNumber is the number of the table in the file's union, less one; -1: there is none.
func optionsNumber(name string) int {
	return slices.IndexFunc(optionTables(), func(t optionTable) bool { return t.name == name })
}

// parseTables reads the rows below. They are constants, so that an error is one of this file and shows in every test.
func parseTables() []optionTable {
	var tables []optionTable
	for row := range strings.Lines(optionRows) {
		words := strings.Fields(row)
		t := optionTable{name: words[0]}
		for slot, w := range words[1:] {
			if w == "-" {
				continue // not in use any more
			}
			name, kind, _ := strings.Cut(w, ":")
			kind, def, given := strings.Cut(kind, "=")
			f := Field{Name: name, Kind: kind, slot: slot}
			if given {
				var err error
				if f.Default, err = strconv.Atoi(def); err != nil {
					panic(fmt.Sprintf("tflite: %s: %v", t.name, err))
				}
			}
			t.fields = append(t.fields, f)
		}
		tables = append(tables, t)
	}
	return tables
}

// optionRows are the tables of the union BuiltinOptions in the order of their numbers, from 1: name:kind=default of every slot.
const optionRows = `Conv2D padding:b stride_w:i stride_h:i fused_activation_function:b dilation_w_factor:i=1 dilation_h_factor:i=1 quantized_bias_type:b
DepthwiseConv2D padding:b stride_w:i stride_h:i depth_multiplier:i fused_activation_function:b dilation_w_factor:i=1 dilation_h_factor:i=1
ConcatEmbeddings num_channels:i num_columns_per_channel:*i embedding_dim_per_channel:*i
LSHProjection type:b
Pool2D padding:b stride_w:i stride_h:i filter_width:i filter_height:i fused_activation_function:b
SVDF rank:i fused_activation_function:b asymmetric_quantize_inputs:z
RNN fused_activation_function:b asymmetric_quantize_inputs:z
FullyConnected fused_activation_function:b weights_format:b keep_num_dims:z asymmetric_quantize_inputs:z quantized_bias_type:b quant_spec:*B
Softmax beta:f
Concatenation axis:i fused_activation_function:b
Add fused_activation_function:b pot_scale_int16:z=1
L2Norm fused_activation_function:b
LocalResponseNormalization radius:i bias:f alpha:f beta:f
LSTM fused_activation_function:b cell_clip:f proj_clip:f kernel_type:b asymmetric_quantize_inputs:z
ResizeBilinear - - align_corners:z half_pixel_centers:z
Call subgraph:u
Reshape new_shape:*i
SkipGram ngram_size:i max_skip_size:i include_all_ngrams:z
SpaceToDepth block_size:i
EmbeddingLookupSparse combiner:b
Mul fused_activation_function:b
Pad
Gather axis:i batch_dims:i
BatchToSpaceND
SpaceToBatchND
Transpose
Reducer keep_dims:z
Sub fused_activation_function:b pot_scale_int16:z=1
Div fused_activation_function:b
Squeeze squeeze_dims:*i
SequenceRNN time_major:z fused_activation_function:b asymmetric_quantize_inputs:z
StridedSlice begin_mask:i end_mask:i ellipsis_mask:i new_axis_mask:i shrink_axis_mask:i offset:z
Exp
TopKV2
Split num_splits:i
LogSoftmax
Cast in_data_type:b out_data_type:b
Dequantize
MaximumMinimum
ArgMax output_type:b
Less
Neg
PadV2
Greater
GreaterEqual
LessEqual
Select
Slice
TransposeConv padding:b stride_w:i stride_h:i fused_activation_function:b quantized_bias_type:b
SparseToDense validate_indices:z
Tile
ExpandDims
Equal
NotEqual
Shape out_type:b
Pow
ArgMin output_type:b
FakeQuant min:f max:f num_bits:i narrow_range:z
Pack values_count:i axis:i
LogicalOr
OneHot axis:i
LogicalAnd
LogicalNot
Unpack num:i axis:i
FloorDiv
Square
ZerosLike
Fill
BidirectionalSequenceLSTM fused_activation_function:b cell_clip:f proj_clip:f merge_outputs:z time_major:z=1 asymmetric_quantize_inputs:z
BidirectionalSequenceRNN time_major:z fused_activation_function:b merge_outputs:z asymmetric_quantize_inputs:z
UnidirectionalSequenceLSTM fused_activation_function:b cell_clip:f proj_clip:f time_major:z asymmetric_quantize_inputs:z diagonal_recurrent_tensors:z
FloorMod
Range
ResizeNearestNeighbor align_corners:z half_pixel_centers:z
LeakyRelu alpha:f
SquaredDifference
MirrorPad mode:b
Abs
SplitV num_splits:i
Unique idx_out_type:b=2
ReverseV2
AddN
GatherNd
Cos
Where
Rank
ReverseSequence seq_dim:i batch_dim:i
MatrixDiag
Quantize
MatrixSetDiag
HardSwish
If then_subgraph_index:i else_subgraph_index:i
While cond_subgraph_index:i body_subgraph_index:i
DepthToSpace block_size:i
NonMaxSuppressionV4
NonMaxSuppressionV5
ScatterNd
SelectV2
Densify
SegmentSum
BatchMatMul adj_x:z adj_y:z asymmetric_quantize_inputs:z
Cumsum exclusive:z reverse:z
CallOnce init_subgraph_index:i
BroadcastTo
Rfft2d
Conv3D padding:b stride_d:i stride_w:i stride_h:i fused_activation_function:b dilation_d_factor:i=1 dilation_w_factor:i=1 dilation_h_factor:i=1
Hashtable table_id:i key_dtype:b value_dtype:b
HashtableFind
HashtableImport
HashtableSize
VarHandle container:s shared_name:s
ReadVariable
AssignVariable
Random seed:l seed2:l
Bucketize boundaries:*f
Gelu approximate:z
DynamicUpdateSlice
UnsortedSegmentProd
UnsortedSegmentMax
UnsortedSegmentMin
UnsortedSegmentSum
ATan2
Sign
Bitcast
BitwiseXor
RightShift`

// opNames are the builtin operators in the order of their codes, from 0.
var opNames = strings.Fields(`
ADD AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE EMBEDDING_LOOKUP FLOOR FULLY_CONNECTED
HASHTABLE_LOOKUP L2_NORMALIZATION L2_POOL_2D LOCAL_RESPONSE_NORMALIZATION LOGISTIC LSH_PROJECTION LSTM MAX_POOL_2D MUL RELU RELU_N1_TO_1
RELU6 RESHAPE RESIZE_BILINEAR RNN SOFTMAX SPACE_TO_DEPTH SVDF TANH CONCAT_EMBEDDINGS SKIP_GRAM CALL CUSTOM EMBEDDING_LOOKUP_SPARSE PAD
UNIDIRECTIONAL_SEQUENCE_RNN GATHER BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND TRANSPOSE MEAN SUB DIV SQUEEZE UNIDIRECTIONAL_SEQUENCE_LSTM
STRIDED_SLICE BIDIRECTIONAL_SEQUENCE_RNN EXP TOPK_V2 SPLIT LOG_SOFTMAX DELEGATE BIDIRECTIONAL_SEQUENCE_LSTM CAST PRELU MAXIMUM ARG_MAX
MINIMUM LESS NEG PADV2 GREATER GREATER_EQUAL LESS_EQUAL SELECT SLICE SIN TRANSPOSE_CONV SPARSE_TO_DENSE TILE EXPAND_DIMS EQUAL NOT_EQUAL
LOG SUM SQRT RSQRT SHAPE POW ARG_MIN FAKE_QUANT REDUCE_PROD REDUCE_MAX PACK LOGICAL_OR ONE_HOT LOGICAL_AND LOGICAL_NOT UNPACK REDUCE_MIN
FLOOR_DIV REDUCE_ANY SQUARE ZEROS_LIKE FILL FLOOR_MOD RANGE RESIZE_NEAREST_NEIGHBOR LEAKY_RELU SQUARED_DIFFERENCE MIRROR_PAD ABS SPLIT_V
UNIQUE CEIL REVERSE_V2 ADD_N GATHER_ND COS WHERE RANK ELU REVERSE_SEQUENCE MATRIX_DIAG QUANTIZE MATRIX_SET_DIAG ROUND HARD_SWISH IF WHILE
NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 SCATTER_ND SELECT_V2 DENSIFY SEGMENT_SUM BATCH_MATMUL PLACEHOLDER_FOR_GREATER_OP_CODES
CUMSUM CALL_ONCE BROADCAST_TO RFFT2D CONV_3D IMAG REAL COMPLEX_ABS HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE REDUCE_ALL
CONV_3D_TRANSPOSE VAR_HANDLE READ_VARIABLE ASSIGN_VARIABLE BROADCAST_ARGS RANDOM_STANDARD_NORMAL BUCKETIZE RANDOM_UNIFORM MULTINOMIAL GELU
DYNAMIC_UPDATE_SLICE RELU_0_TO_1 UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_SUM ATAN2 UNSORTED_SEGMENT_MIN SIGN BITCAST
BITWISE_XOR RIGHT_SHIFT STABLEHLO_LOGISTIC STABLEHLO_ADD STABLEHLO_DIVIDE STABLEHLO_MULTIPLY STABLEHLO_MAXIMUM STABLEHLO_RESHAPE
STABLEHLO_CLAMP STABLEHLO_CONCATENATE STABLEHLO_BROADCAST_IN_DIM STABLEHLO_CONVOLUTION STABLEHLO_SLICE STABLEHLO_CUSTOM_CALL
STABLEHLO_REDUCE STABLEHLO_ABS STABLEHLO_AND STABLEHLO_COSINE STABLEHLO_EXPONENTIAL STABLEHLO_FLOOR STABLEHLO_LOG STABLEHLO_MINIMUM
STABLEHLO_NEGATE STABLEHLO_OR STABLEHLO_POWER STABLEHLO_REMAINDER STABLEHLO_RSQRT STABLEHLO_SELECT STABLEHLO_SUBTRACT STABLEHLO_TANH
STABLEHLO_SCATTER STABLEHLO_COMPARE STABLEHLO_CONVERT STABLEHLO_DYNAMIC_SLICE STABLEHLO_DYNAMIC_UPDATE_SLICE STABLEHLO_PAD STABLEHLO_IOTA
STABLEHLO_DOT_GENERAL STABLEHLO_REDUCE_WINDOW STABLEHLO_SORT STABLEHLO_WHILE STABLEHLO_GATHER STABLEHLO_TRANSPOSE DILATE
STABLEHLO_RNG_BIT_GENERATOR REDUCE_WINDOW STABLEHLO_COMPOSITE STABLEHLO_SHIFT_LEFT STABLEHLO_CBRT STABLEHLO_CASE
`)
