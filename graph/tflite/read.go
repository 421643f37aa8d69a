package tflite

import (
	"errors"
	"fmt"
	"slices"
)

// Read decodes a file. Data of constant tensors are parts of b, which must not change while the Model is in use. It checks what would make a
// Model meaningless: offsets, positions of tensors, buffers and subgraphs, known types and operators, names of options, sizes of data. Errors
// begin with "read tflite".
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
	r := &reader{b: b, left: 16*len(b) + 1<<12}
	root := r.table(r.u32(0))
	m := &Model{Version: root.number(modelVersion, 4, false, 0), Description: root.text(modelDescription)}
	f := &file{reader: r}
	for _, v := range root.views(modelBuffers) {
		f.buffers = append(f.buffers, f.buffer(v))
	}
	for _, v := range root.views(modelCodes) {
		f.codes = append(f.codes, f.code(v))
	}
	for i, v := range root.views(modelSubgraphs) {
		g, err := f.subgraph(v)
		if err != nil {
			return nil, fmt.Errorf("subgraph %d: %w", i, err)
		}
		m.Subgraphs = append(m.Subgraphs, g)
	}
	for _, v := range root.views(modelMetadata) {
		data, err := f.data(v.i32(metadataBuffer, 0))
		if err != nil {
			return nil, fmt.Errorf("metadata: %w", err)
		}
		m.Metadata = append(m.Metadata, Metadata{Name: v.text(metadataName), Data: data})
	}
	for _, v := range root.views(modelSignatures) {
		s := Signature{Key: v.text(signatureKey), Subgraph: v.i32(signatureGraph, 0), Inputs: named(v.views(signatureInputs)), Outputs: named(v.views(signatureOutputs))}
		if r.err == nil {
			if err := s.check(m); err != nil {
				return nil, err
			}
		}
		m.Signatures = append(m.Signatures, s)
	}
	if r.err != nil {
		return nil, r.err
	}
	if len(m.Subgraphs) == 0 {
		return nil, errors.New("has no subgraph")
	}
	return m, nil
}

// file is what the subgraphs share.
type file struct {
	*reader
	buffers [][]byte
	codes   []Operator // operators without their call
}

// buffer is the data of a buffer: in its table, or in large files behind all tables.
func (f *file) buffer(v view) []byte {
	if off, n := v.number(bufferOffset, 8, false, 0), v.number(bufferSize, 8, false, 0); off > 1 {
		if !f.in(off, n) {
			return nil
		}
		return f.b[off : off+n : off+n]
	}
	if b := v.bytes(bufferData); len(b) > 0 {
		return b
	}
	return nil
}

func (f *file) data(i int) ([]byte, error) {
	if i < 0 || i >= len(f.buffers) {
		if f.err != nil {
			return nil, f.err
		}
		return nil, fmt.Errorf("buffer %d does not exist", i)
	}
	return f.buffers[i], nil
}

func (f *file) code(v view) Operator {
	// Codes that fit a byte stand in the old field too; whichever is larger is meant.
	n := max(v.number(codeOld, 1, true, 0), v.i32(codeNew, 0))
	if n < 0 || n >= len(opNames) {
		f.fail(fmt.Errorf("operator code %d is newer than this reader, which knows %d", n, len(opNames)))
		return Operator{}
	}
	return Operator{Op: opNames[n], Custom: v.text(codeCustom), Version: v.i32(codeVersion, 1)}
}

func (f *file) subgraph(v view) (Subgraph, error) {
	g := Subgraph{Name: v.text(graphName), Inputs: v.ints(graphInputs, 4, true), Outputs: v.ints(graphOutputs, 4, true)}
	for i, v := range v.views(graphTensors) {
		t, err := f.tensor(v)
		if err != nil {
			return g, fmt.Errorf("tensor %d %q: %w", i, t.Name, err)
		}
		g.Tensors = append(g.Tensors, t)
	}
	for i, v := range v.views(graphOperators) {
		op, err := f.operator(v)
		if err == nil {
			err = op.check(len(g.Tensors))
		}
		if err != nil {
			return g, fmt.Errorf("operator %d %s: %w", i, op.Op, err)
		}
		g.Operators = append(g.Operators, op)
	}
	if f.err != nil {
		return g, f.err
	}
	return g, checkTensors(slices.Concat(g.Inputs, g.Outputs), len(g.Tensors), 0)
}

func (f *file) tensor(v view) (Tensor, error) {
	t := Tensor{Name: v.text(tensorName), Type: Type(v.byte(tensorType)), Shape: v.ints(tensorShape, 4, true), Signature: v.ints(tensorSignature, 4, true),
		HasRank: v.byte(tensorRank) != 0, Variable: v.byte(tensorVariable) != 0}
	var err error
	if t.Data, err = f.data(v.number(tensorBuffer, 4, false, 0)); err != nil {
		return t, err
	}
	if _, sparse := v.child(tensorSparsity); sparse {
		t.Unread = "sparsity"
	}
	if at, _ := v.list(tensorVariants, 4); at >= 0 {
		t.Unread = "variants"
	}
	if v.number(tensorExternal, 4, false, 0) != 0 {
		t.Unread = "data outside the file"
	}
	if q, ok := v.child(tensorQuantization); ok {
		t.Quantization = &Quantization{Scale: q.floats(quantScale), ZeroPoint: q.ints(quantZero, 8, true), Axis: q.i32(quantAxis, 0), Min: q.floats(quantMin), Max: q.floats(quantMax)}
		if q.byte(quantDetails) != 0 {
			t.Unread = "quantization in blocks or of its own"
		}
	}
	if f.err != nil {
		return t, f.err
	}
	return t, t.check()
}

func (f *file) operator(v view) (Operator, error) {
	code := v.number(opCode, 4, false, 0)
	if code >= len(f.codes) {
		return Operator{}, fmt.Errorf("operator code %d does not exist", code)
	}
	op := f.codes[code]
	op.Inputs, op.Outputs, op.Intermediates = v.ints(opInputs, 4, true), v.ints(opOutputs, 4, true), v.ints(opIntermediates, 4, true)
	for _, b := range v.ints(opMutates, 1, false) {
		op.Mutates = append(op.Mutates, b != 0)
	}
	op.CustomOptions = v.bytes(opCustom)
	if n := v.byte(opOptions2); n != 0 {
		op.Unread = fmt.Sprintf("options of kind %d of the second union", n)
	}
	if v.number(opLarge, 8, false, 0) > 1 {
		op.Unread = "options behind the tables"
	}
	if n := v.byte(opOptionsType); n > len(optionTables()) {
		op.Unread = fmt.Sprintf("options of kind %d", n)
	} else if o, ok := v.child(opOptions); ok && n > 0 {
		table := optionTables()[n-1]
		if !f.spend(8 * (1 + len(table.fields))) { // a map is much larger than the table, which may be shared
			return op, f.err
		}
		op.OptionsType = table.name
		op.Options = make(Options, len(table.fields))
		for _, field := range table.fields {
			op.Options[field.Name] = o.option(field)
		}
	}
	return op, f.err
}

// option is a field of a table of options.
func (v view) option(f Field) any {
	switch f.Kind {
	case "b":
		return v.number(f.slot, 1, true, f.Default)
	case "i":
		return v.i32(f.slot, f.Default)
	case "u":
		return v.number(f.slot, 4, false, f.Default)
	case "l":
		return v.number(f.slot, 8, true, f.Default)
	case "z":
		return v.number(f.slot, 1, false, f.Default) != 0
	case "f":
		return v.float(f.slot)
	case "s":
		return v.text(f.slot)
	case "*i":
		return v.ints(f.slot, 4, true)
	case "*B":
		return v.ints(f.slot, 1, false)
	case "*f":
		return v.floats(f.slot)
	}
	panic("tflite: a field of kind " + f.Kind)
}

func named(views []view) []Named {
	var s []Named
	for _, v := range views {
		s = append(s, Named{Name: v.text(namedName), Tensor: v.number(namedTensor, 4, false, 0)})
	}
	return s
}
