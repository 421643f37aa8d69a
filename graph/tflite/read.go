package tflite

import (
	"errors"
	"fmt"
	"slices"

	"qwb/internal/flatbuffer"
)

// Read decodes a file. Data of constant tensors are parts of b, which must not change while the Model is in use. It checks what would make
// a Model meaningless: offsets, positions of tensors, buffers and subgraphs, known types and operators, names of options, sizes of data.
// Errors begin with "read tflite".
func Read(b []byte) (*Model, error) {
	m, err := read(b)
	if err != nil {
		return nil, fmt.Errorf("read tflite: %w", err)
	}
	return m, nil
}

func read(b []byte) (*Model, error) {
	if len(b) < 8 || string(b[4:8]) != identifier {
		return nil, fmt.Errorf("no %s file: its identifier is missing", identifier)
	}
	r := flatbuffer.New(b, 16*len(b)+1<<12)
	root := r.Root()
	m := &Model{Version: root.Number(modelVersion, 4, false, 0), Description: root.Text(modelDescription)}
	f := &file{Reader: r}
	for _, v := range root.Views(modelBuffers) {
		f.buffers = append(f.buffers, f.buffer(v))
	}
	for _, v := range root.Views(modelCodes) {
		f.codes = append(f.codes, f.code(v))
	}
	for i, v := range root.Views(modelSubgraphs) {
		g, err := f.subgraph(v)
		if err != nil {
			return nil, fmt.Errorf("subgraph %d: %w", i, err)
		}
		m.Subgraphs = append(m.Subgraphs, g)
	}
	for _, v := range root.Views(modelMetadata) {
		data, err := f.data(v.I32(metadataBuffer, 0))
		if err != nil {
			return nil, fmt.Errorf("metadata: %w", err)
		}
		m.Metadata = append(m.Metadata, Metadata{Name: v.Text(metadataName), Data: data})
	}
	for _, v := range root.Views(modelSignatures) {
		s := Signature{Key: v.Text(signatureKey), Subgraph: v.I32(signatureGraph, 0), Inputs: named(v.Views(signatureInputs)),
			Outputs: named(v.Views(signatureOutputs))}
		if r.Err() == nil {
			if err := s.check(m); err != nil {
				return nil, err
			}
		}
		m.Signatures = append(m.Signatures, s)
	}
	if r.Err() != nil {
		return nil, r.Err()
	}
	m.Loose = r.Loose()
	if len(m.Subgraphs) == 0 {
		return nil, errors.New("has no subgraph")
	}
	return m, nil
}

// file is what the subgraphs share.
type file struct {
	*flatbuffer.Reader
	buffers [][]byte
	codes   []Operator // operators without their call
}

// buffer is the data of a buffer: in its table, or in large files behind all tables.
func (f *file) buffer(v flatbuffer.View) []byte {
	if off, n := v.Number(bufferOffset, 8, false, 0), v.Number(bufferSize, 8, false, 0); off > 1 {
		return f.Slice(off, n)
	}
	if b := v.Bytes(bufferData, 1); len(b) > 0 {
		return b
	}
	return nil
}

func (f *file) data(i int) ([]byte, error) {
	if i < 0 || i >= len(f.buffers) {
		if f.Err() != nil {
			return nil, f.Err()
		}
		return nil, fmt.Errorf("buffer %d does not exist", i)
	}
	return f.buffers[i], nil
}

func (f *file) code(v flatbuffer.View) Operator {
	// Codes that fit a byte stand in the old field too; whichever is larger is meant.
	n := max(v.Number(codeOld, 1, true, 0), v.I32(codeNew, 0))
	if n < 0 || n >= len(opNames) {
		f.Fail(fmt.Errorf("operator code %d is newer than this reader, which knows %d", n, len(opNames)))
		return Operator{}
	}
	return Operator{Op: opNames[n], Custom: v.Text(codeCustom), Version: v.I32(codeVersion, 1)}
}

func (f *file) subgraph(v flatbuffer.View) (Subgraph, error) {
	g := Subgraph{Name: v.Text(graphName), Inputs: v.Ints(graphInputs, 4, true), Outputs: v.Ints(graphOutputs, 4, true)}
	for i, v := range v.Views(graphTensors) {
		t, err := f.tensor(v)
		if err != nil {
			return g, fmt.Errorf("tensor %d %q: %w", i, t.Name, err)
		}
		g.Tensors = append(g.Tensors, t)
	}
	for i, v := range v.Views(graphOperators) {
		op, err := f.operator(v)
		if err == nil {
			err = op.check(len(g.Tensors))
		}
		if err != nil {
			return g, fmt.Errorf("operator %d %s: %w", i, op.Op, err)
		}
		g.Operators = append(g.Operators, op)
	}
	if f.Err() != nil {
		return g, f.Err()
	}
	return g, checkTensors(slices.Concat(g.Inputs, g.Outputs), len(g.Tensors), 0)
}

func (f *file) tensor(v flatbuffer.View) (Tensor, error) {
	t := Tensor{Name: v.Text(tensorName), Type: Type(v.Byte(tensorType)), Shape: v.Ints(tensorShape, 4, true),
		Signature: v.Ints(tensorSignature, 4, true), HasRank: v.Byte(tensorRank) != 0, Variable: v.Byte(tensorVariable) != 0}
	var err error
	if t.Data, err = f.data(v.Number(tensorBuffer, 4, false, 0)); err != nil {
		return t, err
	}
	if v.Has(tensorSparsity) {
		if err := f.dense(&t, v.Child(tensorSparsity)); err != nil {
			return t, err
		}
	}
	if v.Has(tensorVariants) {
		t.Unread = "variants"
	}
	if v.Number(tensorExternal, 4, false, 0) != 0 {
		t.Unread = Outside
	}
	if v.Has(tensorQuantization) {
		q := v.Child(tensorQuantization)
		t.Quantization = &Quantization{Scale: q.Floats(quantScale), ZeroPoint: q.Ints(quantZero, 8, true), Axis: q.I32(quantAxis, 0),
			Min: q.Floats(quantMin), Max: q.Floats(quantMax)}
		if q.Byte(quantDetails) != 0 {
			t.Unread = "quantization in blocks or of its own"
			if !q.Has(quantDetails + 1) {
				t.Unread = Undetailed
			}
		}
	}
	if f.Err() != nil {
		return t, f.Err()
	}
	if n, err := t.Elements(); err == nil && t.Type.Bits() > 0 && t.Unread == "" { // buffers may be padded
		t.Data = t.Data[:min((n*t.Type.Bits()+7)/8, len(t.Data))]
	}
	return t, t.check()
}

// dense gives a sparse constant its zeros. One of parts of bytes keeps its data as they are.
func (f *file) dense(t *Tensor, v flatbuffer.View) error {
	s := sparseOf(v)
	n, err := t.Elements()
	size := t.Type.Bits() / 8
	if f.Err() != nil || err != nil {
		return errors.Join(f.Err(), err)
	}
	if t.Type.Bits()%8 != 0 || size == 0 || t.Data == nil {
		t.Unread = "sparsity"
		return nil
	}
	if !f.Spend(n * size) {
		return f.Err()
	}
	t.Data, err = s.dense(t.Shape, t.Data, size)
	return err
}

func (f *file) operator(v flatbuffer.View) (Operator, error) {
	code := v.Number(opCode, 4, false, 0)
	if code >= len(f.codes) {
		return Operator{}, fmt.Errorf("operator code %d does not exist", code)
	}
	op := f.codes[code]
	op.Inputs, op.Outputs, op.Intermediates = v.Ints(opInputs, 4, true), v.Ints(opOutputs, 4, true), v.Ints(opIntermediates, 4, true)
	for _, b := range v.Ints(opMutates, 1, false) {
		op.Mutates = append(op.Mutates, b != 0)
	}
	op.CustomOptions = v.Bytes(opCustom, 1)
	if n := v.Byte(opOptions2); n != 0 {
		op.Unread = fmt.Sprintf("options of kind %d of the second union", n)
	}
	if v.Number(opLarge, 8, false, 0) > 1 {
		op.Unread = "options behind the tables"
	}
	if n := v.Byte(opOptionsType); n > len(optionTables()) {
		op.Unread = fmt.Sprintf("options of kind %d", n)
	} else if n > 0 && v.Has(opOptions) {
		o := v.Child(opOptions)
		table := optionTables()[n-1]
		if !f.Spend(8 * (1 + len(table.fields))) { // a map is much larger than the table, which may be shared
			return op, f.Err()
		}
		op.OptionsType = table.name
		op.Options = make(Options, len(table.fields))
		for _, field := range table.fields {
			op.Options[field.Name] = option(o, field)
		}
	}
	return op, f.Err()
}

// option is a field of a table of options.
func option(v flatbuffer.View, f Field) any {
	switch f.Kind {
	case "b":
		return v.Number(f.slot, 1, true, f.Default)
	case "i":
		return v.I32(f.slot, f.Default)
	case "u":
		return v.Number(f.slot, 4, false, f.Default)
	case "l":
		return v.Number(f.slot, 8, true, f.Default)
	case "z":
		return v.Number(f.slot, 1, false, f.Default) != 0
	case "f":
		return v.Float(f.slot)
	case "s":
		return v.Text(f.slot)
	case "*i":
		return v.Ints(f.slot, 4, true)
	case "*B":
		return v.Ints(f.slot, 1, false)
	case "*f":
		return v.Floats(f.slot)
	}
	panic("tflite: a field of kind " + f.Kind)
}

func named(views []flatbuffer.View) []Named {
	var s []Named
	for _, v := range views {
		s = append(s, Named{Name: v.Text(namedName), Tensor: v.Number(namedTensor, 4, false, 0)})
	}
	return s
}
