package tflite

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"

	fb "github.com/google/flatbuffers/go"
)

// maxFile is how many bytes offsets can reach.
const maxFile = math.MaxInt32 - 1<<16

// Write encodes a model. The first buffer is the empty one of tensors without data; tensors and metadata with equal data share a buffer,
// codes of operators stand in the order of their first use. It refuses what [Read] would refuse, and what Read could not hold (Unread).
// Errors begin with "write tflite".
func (m *Model) Write() ([]byte, error) {
	b, err := m.write()
	if err != nil {
		return nil, fmt.Errorf("write tflite: %w", err)
	}
	return b, nil
}

func (m *Model) write() ([]byte, error) {
	if len(m.Subgraphs) == 0 {
		return nil, errors.New("has no subgraph")
	}
	w := &writer{Builder: fb.NewBuilder(1 << 16), buffers: map[[32]byte]int{}}
	w.data = [][]byte{nil}
	if err := w.collect(m); err != nil {
		return nil, err
	}
	graphs := make([]fb.UOffsetT, len(m.Subgraphs))
	for i := range m.Subgraphs {
		var err error
		if graphs[i], err = w.subgraph(&m.Subgraphs[i]); err != nil {
			return nil, fmt.Errorf("subgraph %d: %w", i, err)
		}
	}
	var metadata, signatures, codes, buffers []fb.UOffsetT
	for _, d := range m.Metadata {
		name := w.CreateString(d.Name)
		w.StartObject(metadataSlots)
		w.PrependUOffsetTSlot(metadataName, name, 0)
		w.PrependUint32Slot(metadataBuffer, uint32(w.buffer(d.Data)), 0)
		metadata = append(metadata, w.EndObject())
	}
	for i := range m.Signatures {
		if err := m.Signatures[i].check(m); err != nil {
			return nil, err
		}
		signatures = append(signatures, w.signature(&m.Signatures[i]))
	}
	for _, c := range w.codes {
		codes = append(codes, w.code(c))
	}
	for _, d := range w.data {
		buffers = append(buffers, w.constant(d))
	}
	description := w.CreateString(m.Description)
	lists := [][]fb.UOffsetT{codes, graphs, buffers, metadata, signatures}
	at := make([]fb.UOffsetT, len(lists))
	for i, l := range lists {
		if i < 3 || len(l) > 0 {
			at[i] = w.tables(l)
		}
	}
	w.StartObject(modelSlots)
	w.PrependUint32Slot(modelVersion, uint32(m.Version), 0)
	w.PrependUOffsetTSlot(modelCodes, at[0], 0)
	w.PrependUOffsetTSlot(modelSubgraphs, at[1], 0)
	w.PrependUOffsetTSlot(modelDescription, description, 0)
	w.PrependUOffsetTSlot(modelBuffers, at[2], 0)
	w.PrependUOffsetTSlot(modelMetadata, at[3], 0)
	w.PrependUOffsetTSlot(modelSignatures, at[4], 0)
	w.FinishWithFileIdentifier(w.EndObject(), []byte(identifier))
	return w.FinishedBytes(), nil
}

type writer struct {
	*fb.Builder
	data    [][]byte // by number of the buffer
	buffers map[[32]byte]int
	codes   []code
}

// code is what a file says once of all calls of an operator.
type code struct {
	op, custom string
	version    int
}

// collect numbers buffers and codes and checks that offsets can reach all of them.
func (w *writer) collect(m *Model) error {
	total := 0
	add := func(d []byte) {
		if w.buffer(d) == len(w.data)-1 {
			total += len(d)
		}
	}
	for _, g := range m.Subgraphs {
		for i := range g.Tensors {
			add(g.Tensors[i].Data)
		}
		for i := range g.Operators {
			if c := codeOf(&g.Operators[i]); !slices.Contains(w.codes, c) {
				w.codes = append(w.codes, c)
			}
		}
	}
	for _, d := range m.Metadata {
		add(d.Data)
	}
	if total > maxFile {
		return fmt.Errorf("%d bytes of constants: such a file holds %d", total, maxFile)
	}
	return nil
}

func codeOf(op *Operator) code { return code{op.Op, op.Custom, op.Version} }

// buffer is the number of the buffer with these data; the data are added if they are new.
func (w *writer) buffer(d []byte) int {
	if len(d) == 0 {
		return 0
	}
	key := sha256.Sum256(d)
	i, ok := w.buffers[key]
	if !ok {
		i = len(w.data)
		w.data, w.buffers[key] = append(w.data, d), i
	}
	return i
}

// constant writes a buffer. Data begin at multiples of 16: kernels read them where they stand in the file.
func (w *writer) constant(d []byte) fb.UOffsetT {
	var at fb.UOffsetT
	if len(d) > 0 {
		w.StartVector(1, len(d), 16)
		w.raw(d)
		at = w.EndVector(len(d))
	}
	w.StartObject(bufferSlots)
	w.PrependUOffsetTSlot(bufferData, at, 0)
	return w.EndObject()
}

// raw puts bytes into a vector that was started with room for them.
func (w *writer) raw(d []byte) {
	for _, b := range slices.Backward(d) {
		w.PlaceByte(b)
	}
}

func (w *writer) code(c code) fb.UOffsetT {
	n := slices.Index(opNames, c.op)
	var custom fb.UOffsetT
	if c.custom != "" {
		custom = w.CreateString(c.custom)
	}
	w.StartObject(codeSlots)
	w.PrependInt8Slot(codeOld, int8(min(n, oldCodes)), 0)
	w.PrependUOffsetTSlot(codeCustom, custom, 0)
	w.PrependInt32Slot(codeVersion, int32(c.version), 1)
	w.PrependInt32Slot(codeNew, int32(n), 0)
	return w.EndObject()
}

func (w *writer) subgraph(g *Subgraph) (fb.UOffsetT, error) {
	var tensors, ops []fb.UOffsetT
	for i := range g.Tensors {
		t := &g.Tensors[i]
		if t.Unread != "" {
			return 0, fmt.Errorf("tensor %d %q: its %s cannot be written", i, t.Name, t.Unread)
		}
		if err := t.check(); err != nil {
			return 0, fmt.Errorf("tensor %d %q: %w", i, t.Name, err)
		}
		tensors = append(tensors, w.tensor(t))
	}
	for i := range g.Operators {
		op, err := w.operator(&g.Operators[i], len(tensors))
		if err != nil {
			return 0, fmt.Errorf("operator %d %s: %w", i, g.Operators[i].Op, err)
		}
		ops = append(ops, op)
	}
	if err := checkTensors(slices.Concat(g.Inputs, g.Outputs), len(tensors), 0); err != nil {
		return 0, err
	}
	name := w.CreateString(g.Name)
	at := []fb.UOffsetT{w.tables(tensors), w.ints(g.Inputs), w.ints(g.Outputs), w.tables(ops)}
	w.StartObject(graphSlots)
	for slot, p := range at {
		w.PrependUOffsetTSlot(slot, p, 0)
	}
	w.PrependUOffsetTSlot(graphName, name, 0)
	return w.EndObject(), nil
}

func (w *writer) tensor(t *Tensor) fb.UOffsetT {
	name, shape := w.CreateString(t.Name), w.ints(t.Shape)
	var signature, quant fb.UOffsetT
	if t.Signature != nil {
		signature = w.ints(t.Signature)
	}
	if t.Quantization != nil {
		quant = w.quantization(t.Quantization)
	}
	w.StartObject(tensorSlots)
	w.PrependUOffsetTSlot(tensorShape, shape, 0)
	w.PrependByteSlot(tensorType, byte(t.Type), 0)
	w.PrependUint32Slot(tensorBuffer, uint32(w.buffer(t.Data)), 0)
	w.PrependUOffsetTSlot(tensorName, name, 0)
	w.PrependUOffsetTSlot(tensorQuantization, quant, 0)
	w.PrependBoolSlot(tensorVariable, t.Variable, false)
	w.PrependUOffsetTSlot(tensorSignature, signature, 0)
	w.PrependBoolSlot(tensorRank, t.HasRank, false)
	return w.EndObject()
}

func (w *writer) quantization(q *Quantization) fb.UOffsetT {
	at := make([]fb.UOffsetT, quantZero+1)
	for _, f := range []struct {
		slot int
		s    []float32
	}{{quantMin, q.Min}, {quantMax, q.Max}, {quantScale, q.Scale}} {
		if f.s != nil {
			at[f.slot] = w.floats(f.s)
		}
	}
	if q.ZeroPoint != nil {
		w.StartVector(8, len(q.ZeroPoint), 8)
		for _, z := range slices.Backward(q.ZeroPoint) {
			w.PrependInt64(int64(z))
		}
		at[quantZero] = w.EndVector(len(q.ZeroPoint))
	}
	w.StartObject(quantSlots)
	for slot, p := range at {
		w.PrependUOffsetTSlot(slot, p, 0)
	}
	w.PrependInt32Slot(quantAxis, int32(q.Axis), 0)
	return w.EndObject()
}

func (w *writer) operator(op *Operator, tensors int) (fb.UOffsetT, error) {
	if op.Unread != "" {
		return 0, fmt.Errorf("its %s cannot be written", op.Unread)
	}
	if !slices.Contains(opNames, op.Op) {
		return 0, errors.New("no such operator")
	}
	if err := op.check(tensors); err != nil {
		return 0, err
	}
	options, kind, err := w.options(op)
	if err != nil {
		return 0, err
	}
	in, out := w.ints(op.Inputs), w.ints(op.Outputs)
	var custom, mutates, between fb.UOffsetT
	if op.CustomOptions != nil {
		custom = w.CreateByteVector(op.CustomOptions)
	}
	if op.Mutates != nil {
		flags := make([]byte, len(op.Mutates))
		for i, b := range op.Mutates {
			if b {
				flags[i] = 1
			}
		}
		mutates = w.CreateByteVector(flags)
	}
	if op.Intermediates != nil {
		between = w.ints(op.Intermediates)
	}
	w.StartObject(opSlots)
	w.PrependUint32Slot(opCode, uint32(slices.Index(w.codes, codeOf(op))), 0)
	w.PrependUOffsetTSlot(opInputs, in, 0)
	w.PrependUOffsetTSlot(opOutputs, out, 0)
	w.PrependByteSlot(opOptionsType, byte(kind), 0)
	w.PrependUOffsetTSlot(opOptions, options, 0)
	w.PrependUOffsetTSlot(opCustom, custom, 0)
	w.PrependUOffsetTSlot(opMutates, mutates, 0)
	w.PrependUOffsetTSlot(opIntermediates, between, 0)
	return w.EndObject(), nil
}

// options writes the table of options and gives its number in the union.
func (w *writer) options(op *Operator) (fb.UOffsetT, int, error) {
	if op.OptionsType == "" {
		if len(op.Options) > 0 {
			return 0, 0, errors.New("options without their type")
		}
		return 0, 0, nil
	}
	n := optionsNumber(op.OptionsType)
	if n < 0 {
		return 0, 0, fmt.Errorf("no table %sOptions", op.OptionsType)
	}
	fields := optionTables()[n].fields
	slots, known := 0, 0
	var at []fb.UOffsetT
	for _, f := range fields {
		slots = f.slot + 1
		v, ok := op.Options[f.Name]
		p, fits := fb.UOffsetT(0), true
		if ok {
			known++
			p, fits = w.option(f, v)
		}
		if !fits {
			return 0, 0, fmt.Errorf("option %s of %sOptions does not hold %T %v", f.Name, op.OptionsType, v, v)
		}
		at = append(at, p)
	}
	if known != len(op.Options) {
		return 0, 0, fmt.Errorf("options that %sOptions does not have", op.OptionsType)
	}
	w.StartObject(slots)
	for i, f := range fields {
		if v, ok := op.Options[f.Name]; ok {
			w.inline(f, v, at[i])
		}
	}
	return w.EndObject(), n + 1, nil
}

// option checks a value and writes what stands outside the table.
func (w *writer) option(f Field, v any) (fb.UOffsetT, bool) {
	switch v := v.(type) {
	case int:
		low, high, ok := 0, 0, true
		switch f.Kind {
		case "b":
			low, high = math.MinInt8, math.MaxInt8
		case "i":
			low, high = math.MinInt32, math.MaxInt32
		case "u":
			low, high = 0, math.MaxUint32
		case "l":
			low, high = math.MinInt64, math.MaxInt64
		default:
			ok = false
		}
		return 0, ok && low <= v && v <= high
	case bool:
		return 0, f.Kind == "z"
	case float32:
		return 0, f.Kind == "f"
	case string:
		return w.CreateString(v), f.Kind == "s"
	case []float32:
		if v == nil {
			return 0, f.Kind == "*f"
		}
		return w.floats(v), f.Kind == "*f"
	case []int:
		if v == nil {
			return 0, f.Kind[0] == '*' && f.Kind != "*f"
		}
		if f.Kind == "*B" {
			b := make([]byte, len(v))
			for i, x := range v {
				if b[i] = byte(x); int(b[i]) != x {
					return 0, false
				}
			}
			return w.CreateByteVector(b), true
		}
		return w.ints(v), f.Kind == "*i" && !slices.ContainsFunc(v, func(x int) bool { return x != int(int32(x)) })
	}
	return 0, false
}

func (w *writer) inline(f Field, v any, at fb.UOffsetT) {
	switch v := v.(type) {
	case int:
		switch f.Kind {
		case "b":
			w.PrependInt8Slot(f.slot, int8(v), int8(f.Default))
		case "i", "u":
			w.PrependInt32Slot(f.slot, int32(v), int32(f.Default))
		case "l":
			w.PrependInt64Slot(f.slot, int64(v), int64(f.Default))
		}
	case bool:
		w.PrependBoolSlot(f.slot, v, f.Default != 0)
	case float32:
		w.PrependFloat32Slot(f.slot, v, 0)
	default:
		w.PrependUOffsetTSlot(f.slot, at, 0)
	}
}

func (w *writer) signature(s *Signature) fb.UOffsetT {
	key, in, out := w.CreateString(s.Key), w.named(s.Inputs), w.named(s.Outputs)
	w.StartObject(signatureSlots)
	w.PrependUOffsetTSlot(signatureInputs, in, 0)
	w.PrependUOffsetTSlot(signatureOutputs, out, 0)
	w.PrependUOffsetTSlot(signatureKey, key, 0)
	w.PrependUint32Slot(signatureGraph, uint32(s.Subgraph), 0)
	return w.EndObject()
}

func (w *writer) named(list []Named) fb.UOffsetT {
	var at []fb.UOffsetT
	for _, t := range list {
		name := w.CreateString(t.Name)
		w.StartObject(namedSlots)
		w.PrependUOffsetTSlot(namedName, name, 0)
		w.PrependUint32Slot(namedTensor, uint32(t.Tensor), 0)
		at = append(at, w.EndObject())
	}
	return w.tables(at)
}

func (w *writer) tables(at []fb.UOffsetT) fb.UOffsetT {
	w.StartVector(4, len(at), 4)
	for _, p := range slices.Backward(at) {
		w.PrependUOffsetT(p)
	}
	return w.EndVector(len(at))
}

func (w *writer) ints(s []int) fb.UOffsetT {
	w.StartVector(4, len(s), 4)
	for _, x := range slices.Backward(s) {
		w.PrependInt32(int32(x))
	}
	return w.EndVector(len(s))
}

func (w *writer) floats(s []float32) fb.UOffsetT {
	w.StartVector(4, len(s), 4)
	for _, x := range slices.Backward(s) {
		w.PrependFloat32(x)
	}
	return w.EndVector(len(s))
}
