// Package image writes the memory of a program that runs: where package cprogram lets the C program keep its constants, inputs, outputs
// and arena, and what stands there before and after each step. Makers of hardware and firmware load it into a simulator's memory and
// compare step by step.
//
// Unstable: it may change without notice.
package image

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"

	"qwb/export"
	"qwb/export/cprogram"
	"qwb/graph/tensor"
	"qwb/internal/plain"
	"qwb/quantizer/lower"
	"qwb/quantizer/program"
	"qwb/quantizer/tqc"
)

// Format is the memory of the first sample's run, for all platforms. Options and addresses are those of the C program.
func Format() export.Format {
	c := cprogram.Format()
	options := c.Options[:0:0]
	for _, o := range c.Options {
		if o.Name != "prefix" {
			options = append(options, o)
		}
	}
	return export.Format{Name: "image", From: export.Program, Own: c.Own, Options: options, Check: c.Check, Back: back,
		Doc: "a folder with the memory of the first sample's run: addresses as in the C program, and bytes as hex before and after each step; " +
			"see docs/c.md",
		Write: func(ctx context.Context, in *export.Input, out *export.Output) ([]tqc.Warning, error) {
			feeds, err := in.Sample()
			if err != nil {
				return nil, err
			}
			o, err := cprogram.OptionsOf(in)
			if err != nil {
				return nil, err
			}
			rec := &export.Recording{Kind: recorded}
			in.State = rec
			m, err := write(ctx, in.Program, o, feeds, in.Threads, out.Create, rec.See(in.Program))
			if err == nil {
				out.Figure("memory_bytes", int64(m.Bytes))
				out.Figure("steps", int64(len(m.Steps)))
			}
			return nil, err
		}}
}

// Memory is memory.json. Addresses count bytes from 0.
type Memory struct {
	Format    int      `json:"format"` // of this file: 1
	Target    string   `json:"target"`
	Profile   string   `json:"profile"`
	ByteOrder string   `json:"byte_order"`
	Bytes     int      `json:"bytes"` // of all memory
	Regions   []Region `json:"regions"`
	Inputs    []Array  `json:"inputs"`
	Outputs   []Array  `json:"outputs"`
	Image     string   `json:"image"` // a file: constants and inputs before the first step; all else is 0
	Steps     []Step   `json:"steps"`
}

// Region is a part of the memory.
type Region struct {
	Name    string `json:"name"` // constants, inputs, outputs, arena
	Address int    `json:"address"`
	Bytes   int    `json:"bytes"`
}

// Array is a tensor or a constant.
type Array struct {
	Name    string `json:"name"`
	Address int    `json:"address"`
	Bytes   int    `json:"bytes"`
	// Type is that of an element: u8, i8, ... of a tensor, and as C names it of a constant, whose shape is its length.
	Type      string   `json:"type"`
	Shape     []int    `json:"shape"`
	Scale     *float32 `json:"scale,omitempty"` // of integers that stand for real numbers
	ZeroPoint *int32   `json:"zero_point,omitempty"`
}

// Step is one step. Before and After are files: what it reads as it stands before it, and what it writes as it stands after it.
type Step struct {
	ID        lower.StepID `json:"id"`
	Op        string       `json:"op"`
	Nodes     []string     `json:"nodes"`
	Constants []Array      `json:"constants"` // in Image
	Reads     []Array      `json:"reads"`
	Writes    []Array      `json:"writes"`
	Before    string       `json:"before"`
	After     string       `json:"after"`
}

// alignment of everything in the memory.
const alignment = 16

// writer lays the memory out and keeps what stands in it.
type writer struct {
	m         *cprogram.Memory
	constants []int // addresses
	inputs    []int
	outputs   []int
	arena     int
	bytes     []byte
}

// Write runs p on feeds by the reference and writes memory.json, image.hex, and steps/N.before.hex and steps/N.after.hex for each step. It
// checks the placement on the way: what a step reads must stand where it was written.
func Write(ctx context.Context, p *lower.Program, o cprogram.Options, feeds map[string]*tensor.Tensor, threads int,
	create func(name string) (io.WriteCloser, error)) (*Memory, error) {
	return write(ctx, p, o, feeds, threads, create, nil)
}

// write is Write, whose run shows its tensors to see where that is not nil.
func write(ctx context.Context, p *lower.Program, o cprogram.Options, feeds map[string]*tensor.Tensor, threads int,
	create func(name string) (io.WriteCloser, error), see func(lower.TensorID, *tensor.Tensor) error) (*Memory, error) {
	m, err := cprogram.MemoryOf(p, o)
	if err != nil {
		return nil, err
	}
	w := &writer{m: m}
	d := w.layout()
	for _, id := range m.Steps {
		d.Steps = append(d.Steps, w.describe(p, &p.Steps[id]))
	}
	at := map[lower.StepID]int{}
	for i, id := range m.Steps {
		at[id] = i
	}
	e, err := program.New(p, program.Reference, threads)
	if err != nil {
		return nil, err
	}
	e.Show(see)
	begun := false
	begin := func() error {
		begun = true
		return file(create, d.Image, func(b *bufio.Writer) { w.hex(b, 0, w.arena) })
	}
	hook := func(s *lower.Step, in, out []*tensor.Tensor) ([]*tensor.Tensor, error) {
		i, ok := at[s.ID]
		if !ok {
			return nil, w.given(s, out)
		}
		if !begun {
			if err := begin(); err != nil {
				return nil, err
			}
		}
		return nil, w.step(&d.Steps[i], s, in, out, create)
	}
	for k, id := range m.Program.Inputs { // that are not quantized on the way in
		if x := feeds[p.Tensors[id].Name]; x != nil && p.Inputs[k] == id {
			if err := w.put(id, x); err != nil {
				return nil, err
			}
		}
	}
	if _, err := e.Run(ctx, feeds, hook); err != nil {
		return nil, err
	}
	if !begun {
		if err := begin(); err != nil {
			return nil, err
		}
	}
	f, err := create("memory.json")
	if err != nil {
		return nil, err
	}
	j := json.NewEncoder(f)
	j.SetIndent("", " ")
	if err := j.Encode(d); err != nil {
		_ = f.Close() // the file will be discarded
		return nil, err
	}
	return d, f.Close()
}

// layout gives everything its address.
func (w *writer) layout() *Memory {
	p := w.m.Program
	d := &Memory{Format: 1, Target: p.Target, Profile: p.Profile.Name, ByteOrder: "little", Image: "image.hex", Steps: []Step{}}
	next := 0
	region := func(name string, f func()) {
		from := next
		f()
		d.Regions = append(d.Regions, Region{Name: name, Address: from, Bytes: next - from})
	}
	take := func(n int) int {
		at := next
		next += (n + alignment - 1) / alignment * alignment
		return at
	}
	list := func(ids []lower.TensorID, at *[]int) func() {
		return func() {
			for _, id := range ids {
				*at = append(*at, take(w.size(id)))
			}
		}
	}
	region("constants", func() {
		for _, c := range w.m.Constants {
			w.constants = append(w.constants, take(len(c.Data)))
		}
	})
	region("inputs", list(p.Inputs, &w.inputs))
	region("outputs", list(p.Outputs, &w.outputs))
	region("arena", func() { w.arena = take(w.m.Arena) })
	d.Bytes = next
	w.bytes = make([]byte, next)
	for i, c := range w.m.Constants {
		copy(w.bytes[w.constants[i]:], c.Data)
	}
	for k, id := range p.Inputs {
		d.Inputs = append(d.Inputs, w.array(id, w.inputs[k]))
	}
	for _, id := range p.Outputs { // where the last step has left them
		at := 0
		if place, ok := w.m.Places[id]; ok {
			at = w.address(place)
		}
		d.Outputs = append(d.Outputs, w.array(id, at))
	}
	return d
}

func (w *writer) address(p cprogram.Place) int {
	switch p.Region {
	case cprogram.InConstant:
		return w.constants[p.Number]
	case cprogram.InInput:
		return w.inputs[p.Number]
	case cprogram.InOutput:
		return w.outputs[p.Number]
	}
	return w.arena + p.Offset
}

// size is how many bytes a tensor has.
func (w *writer) size(id lower.TensorID) int {
	t := &w.m.Program.Tensors[id]
	shape, _ := t.Shape.Ints()
	return t.DType.Bytes(tensor.Count(shape))
}

func (w *writer) array(id lower.TensorID, at int) Array {
	t := &w.m.Program.Tensors[id]
	shape, _ := t.Shape.Ints()
	a := Array{Name: t.Name, Address: at, Bytes: w.size(id), Type: t.DType.String(), Shape: append([]int{}, shape...)}
	if e := t.Encoding; e != nil {
		a.Scale, a.ZeroPoint = &e.Scale, &e.ZeroPoint
	}
	return a
}

// describe is a step without its files' content.
func (w *writer) describe(p *lower.Program, s *lower.Step) Step {
	d := Step{ID: s.ID, Op: s.Op.Name(), Nodes: []string{}, Constants: []Array{}, Reads: []Array{}, Writes: []Array{},
		Before: fmt.Sprintf("steps/%04d.before.hex", s.ID), After: fmt.Sprintf("steps/%04d.after.hex", s.ID)}
	for _, n := range s.Nodes {
		d.Nodes = append(d.Nodes, p.Graph.Node(n).Name)
	}
	for i, c := range w.m.Constants {
		if c.Step == s.ID {
			d.Constants = append(d.Constants, Array{Name: c.Name + ": " + c.What, Address: w.constants[i], Bytes: len(c.Data), Type: c.Type,
				Shape: []int{}})
		}
	}
	for _, id := range s.Inputs {
		if place, ok := w.m.Places[id]; ok {
			d.Reads = append(d.Reads, w.array(id, w.address(place)))
		}
	}
	for _, id := range s.Outputs {
		if place, ok := w.m.Places[id]; ok {
			d.Writes = append(d.Writes, w.array(id, w.address(place)))
		}
	}
	return d
}

// raw is a tensor's elements as they lie in memory.
func (w *writer) raw(id lower.TensorID, x *tensor.Tensor) ([]byte, error) {
	b, err := binary.Append(nil, binary.LittleEndian, x.ToRowMajor().Data)
	if err == nil && len(b) != w.size(id) {
		t := &w.m.Program.Tensors[id]
		shape, _ := t.Shape.Ints()
		err = fmt.Errorf("export image: %q of the sample is %s, not %s: choose --batch and --size as the sample has them", t.Name, x.Type(),
			tensor.TypeString(t.DType, shape))
	}
	return b, err
}

// put writes a tensor to its place, if it has one.
func (w *writer) put(id lower.TensorID, x *tensor.Tensor) error {
	place, ok := w.m.Places[id]
	if !ok || place.Region == cprogram.InConstant {
		return nil
	}
	b, err := w.raw(id, x)
	if err == nil {
		copy(w.bytes[w.address(place):], b)
	}
	return err
}

// given puts what a step makes that is not in the C program, for the caller does its work: integers of an input.
func (w *writer) given(s *lower.Step, out []*tensor.Tensor) error {
	for k, id := range s.Outputs {
		for _, input := range w.m.Program.Inputs {
			if id == input {
				if err := w.put(id, out[k]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// step checks that a step finds what it reads, lets it write, and writes its two files.
func (w *writer) step(d *Step, s *lower.Step, in, out []*tensor.Tensor, create func(string) (io.WriteCloser, error)) error {
	for k, id := range s.Inputs {
		place, ok := w.m.Places[id]
		if !ok {
			continue
		}
		b, err := w.raw(id, in[k])
		if err != nil {
			return err
		}
		if at := w.address(place); !bytes.Equal(w.bytes[at:at+len(b)], b) {
			return fmt.Errorf("export image: step %d (%s) does not find %q at %#x: a bug of the placement", s.ID, d.Op,
				w.m.Program.Tensors[id].Name, at)
		}
	}
	if err := w.arrays(create, d.Before, d.Reads); err != nil {
		return err
	}
	for k, id := range s.Outputs {
		if id != lower.NoTensor && out[k] != nil {
			if err := w.put(id, out[k]); err != nil {
				return err
			}
		}
	}
	return w.arrays(create, d.After, d.Writes)
}

// arrays writes a file with what stands in arrays.
func (w *writer) arrays(create func(string) (io.WriteCloser, error), name string, list []Array) error {
	return file(create, name, func(b *bufio.Writer) {
		for _, a := range list {
			fmt.Fprintf(b, "// %s %s\n", a.Type, plain.Text(a.Name))
			w.hex(b, a.Address, a.Address+a.Bytes)
		}
	})
}

// hex writes the bytes of [from, to) as $readmemh of Verilog reads them: an address, then bytes.
func (w *writer) hex(b *bufio.Writer, from, to int) {
	for at := from; at < to; at += 32 {
		if at == from {
			fmt.Fprintf(b, "@%x\n", at)
		}
		fmt.Fprintf(b, "% x\n", w.bytes[at:min(at+32, to)])
	}
}

func file(create func(string) (io.WriteCloser, error), name string, write func(b *bufio.Writer)) error {
	f, err := create(name)
	if err != nil {
		return err
	}
	b := bufio.NewWriter(f)
	write(b)
	err = b.Flush()
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}
