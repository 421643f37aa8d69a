package onnx

import "google.golang.org/protobuf/encoding/protowire"

// Field numbers of the messages of onnx.proto (https://github.com/onnx/onnx/blob/main/onnx/onnx.proto), as far as this
// package reads or writes them. Any other field is carried as bytes.
const (
	modelIRVersion       protowire.Number = 1
	modelProducerName    protowire.Number = 2
	modelProducerVersion protowire.Number = 3
	modelDomain          protowire.Number = 4
	modelVersion         protowire.Number = 5
	modelDoc             protowire.Number = 6
	modelGraph           protowire.Number = 7
	modelOpsets          protowire.Number = 8
	modelMetadata        protowire.Number = 14
	modelFunctions       protowire.Number = 25

	opsetDomain  protowire.Number = 1
	opsetVersion protowire.Number = 2

	entryKey   protowire.Number = 1
	entryValue protowire.Number = 2

	graphNodes   protowire.Number = 1
	graphName    protowire.Number = 2
	graphTensors protowire.Number = 5
	graphDoc     protowire.Number = 10
	graphInputs  protowire.Number = 11
	graphOutputs protowire.Number = 12
	graphInfos   protowire.Number = 13
	graphSparse  protowire.Number = 15

	nodeInputs   protowire.Number = 1
	nodeOutputs  protowire.Number = 2
	nodeName     protowire.Number = 3
	nodeOp       protowire.Number = 4
	nodeAttrs    protowire.Number = 5
	nodeDoc      protowire.Number = 6
	nodeDomain   protowire.Number = 7
	nodeOverload protowire.Number = 8

	attrName    protowire.Number = 1
	attrF       protowire.Number = 2
	attrI       protowire.Number = 3
	attrS       protowire.Number = 4
	attrT       protowire.Number = 5
	attrG       protowire.Number = 6
	attrFloats  protowire.Number = 7
	attrInts    protowire.Number = 8
	attrStrings protowire.Number = 9
	attrTensors protowire.Number = 10
	attrGraphs  protowire.Number = 11
	attrDoc     protowire.Number = 13
	attrType    protowire.Number = 20
	attrRef     protowire.Number = 21

	tensorDims     protowire.Number = 1
	tensorType     protowire.Number = 2
	tensorSegment  protowire.Number = 3
	tensorFloats   protowire.Number = 4
	tensorInt32s   protowire.Number = 5
	tensorStrings  protowire.Number = 6
	tensorInt64s   protowire.Number = 7
	tensorName     protowire.Number = 8
	tensorRaw      protowire.Number = 9
	tensorDoubles  protowire.Number = 10
	tensorUint64s  protowire.Number = 11
	tensorExternal protowire.Number = 13
	tensorLocation protowire.Number = 14

	sparseValues  protowire.Number = 1
	sparseIndices protowire.Number = 2
	sparseDims    protowire.Number = 3

	valueName protowire.Number = 1
	valueType protowire.Number = 2
	valueDoc  protowire.Number = 3

	typeTensor  protowire.Number = 1
	typeElem    protowire.Number = 1 // of TypeProto.Tensor
	typeShape   protowire.Number = 2 // of TypeProto.Tensor
	shapeDim    protowire.Number = 1
	dimValue    protowire.Number = 1
	dimParam    protowire.Number = 2
	functionIn  protowire.Number = 4
	functionOut protowire.Number = 5

	functionName     protowire.Number = 1
	functionAttrs    protowire.Number = 6
	functionNodes    protowire.Number = 7
	functionDoc      protowire.Number = 8
	functionOpsets   protowire.Number = 9
	functionDomain   protowire.Number = 10
	functionDefaults protowire.Number = 11
	functionInfos    protowire.Number = 12
	functionOverload protowire.Number = 13
)
