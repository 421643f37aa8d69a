package vectors

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"qwb/graph/tensor"
	"qwb/quantizer/lower"
	"qwb/quantizer/program"
)

// Files is where vectors are written.
type Files struct {
	// Create makes a file; name is a path with slashes below the folder of the vectors.
	Create func(name string) (io.WriteCloser, error)
	// Array writes a tensor as .npy.
	Array func(w io.Writer, t *tensor.Tensor) error
}

// Write runs a program on feeds and writes what every step reads and makes:
//
//	program.json          the program, see Program
//	tensors/ID.npy .hex   every tensor, constant operands too
//	steps/ID/NAME.npy .hex   weights, biases, multipliers, shifts and tables of a step
//
// A .hex file has one element per line, row-major, in two's complement (float32: its bits), behind a line that states the width; it
// is what $readmemh of Verilog reads.
func Write(ctx context.Context, e *program.Executor, feeds map[string]*tensor.Tensor, to Files) error {
	w := newWriter(e.Program(), to)
	hook := func(s *lower.Step, in, out []*tensor.Tensor) ([]*tensor.Tensor, error) {
		return nil, w.step(s, in, out)
	}
	if _, err := e.Run(ctx, feeds, hook); err != nil {
		return err
	}
	return w.finish(e.Program().Inputs, e.Program().Outputs)
}

// writer collects the description of a program, or of a part of one, while it runs.
type writer struct {
	p       *lower.Program
	to      Files
	out     Program
	written map[lower.TensorID]bool
	// first is the step that has id 0 in the description, and ids are the tensors of a part by their ids in the program; nil where the
	// whole program is described.
	first lower.StepID
	ids   map[lower.TensorID]lower.TensorID
}

func newWriter(p *lower.Program, to Files) *writer {
	return &writer{p: p, to: to, written: map[lower.TensorID]bool{}, out: Program{Format: 1, Target: p.Target, Profile: profileOf(p.Profile)}}
}

// id is what the description calls a tensor.
func (w *writer) id(id lower.TensorID) lower.TensorID {
	if w.ids == nil || id == lower.NoTensor {
		return id
	}
	if _, ok := w.ids[id]; !ok {
		w.ids[id] = lower.TensorID(len(w.ids))
	}
	return w.ids[id]
}

func (w *writer) renumbered(list []lower.TensorID) []lower.TensorID {
	out := make([]lower.TensorID, len(list))
	for i, id := range list {
		out[i] = w.id(id)
	}
	return out
}

// finish writes program.json.
func (w *writer) finish(inputs, outputs []lower.TensorID) error {
	w.out.Inputs, w.out.Outputs = w.renumbered(inputs), w.renumbered(outputs)
	return w.json("program.json", w.out)
}

func (w *writer) json(name string, v any) error {
	return w.file(name, func(f io.Writer) error {
		j := json.NewEncoder(f)
		j.SetIndent("", " ")
		return j.Encode(v)
	})
}

// step writes one step and the tensors that it touches.
func (w *writer) step(s *lower.Step, in, out []*tensor.Tensor) error {
	d := Step{ID: s.ID - w.first, Op: s.Op.Name(), Inputs: w.renumbered(s.Inputs), Outputs: w.renumbered(s.Outputs), Nodes: []string{},
		Arrays: map[string]Array{}}
	for _, n := range s.Nodes {
		d.Nodes = append(d.Nodes, w.p.Graph.Node(n).Name)
	}
	for k, id := range s.Inputs {
		if err := w.tensor(id, in[k]); err != nil {
			return err
		}
	}
	for k, id := range s.Outputs {
		if id != lower.NoTensor {
			if err := w.tensor(id, out[k]); err != nil {
				return err
			}
		}
	}
	says, err := describe(w.p, s, in)
	if err != nil {
		return fmt.Errorf("vectors: step %d (%s): %w", s.ID, d.Op, err)
	}
	d.Kind, d.Parameters = says.kind, says.parameters
	for _, a := range says.arrays {
		if d.Arrays[a.name], err = w.array(fmt.Sprintf("steps/%d/%s", d.ID, a.name), a.tensor, a.bits); err != nil {
			return err
		}
	}
	w.out.Steps = append(w.out.Steps, d)
	return nil
}

// tensor writes a tensor once.
func (w *writer) tensor(id lower.TensorID, x *tensor.Tensor) error {
	if w.written[id] {
		return nil
	}
	w.written[id] = true
	t := &w.p.Tensors[id]
	a, err := w.array(fmt.Sprintf("tensors/%d", w.id(id)), x, 0)
	if err != nil {
		return err
	}
	d := Tensor{ID: w.id(id), Name: t.Name, Array: a, Constant: t.Const != nil}
	if e := t.Encoding; e != nil {
		d.Encoding = &Encoding{Scale: e.Scale, ZeroPoint: e.ZeroPoint, QMin: e.QMin, QMax: e.QMax}
	}
	w.out.Tensors = append(w.out.Tensors, d)
	return nil
}

// array writes name.npy and name.hex, of integers of fewer than 8 bits with as many digits as they need; 0 is all bits of their type.
func (w *writer) array(name string, t *tensor.Tensor, few int) (Array, error) {
	t = t.ToRowMajor()
	a := Array{Bits: few, File: name + ".npy", Type: t.DType.String(), Shape: append([]int{}, t.Shape...)}
	err := w.file(a.File, func(f io.Writer) error { return w.to.Array(f, t) })
	if err != nil {
		return a, err
	}
	digits, bits := elements(t)
	if bits == nil {
		return a, nil // of a type that has no bits to show
	}
	if few > 0 {
		digits = (few + 3) / 4
	}
	mask := uint64(1)<<(4*digits) - 1
	a.Hex, a.HexDigits = name+".hex", digits
	return a, w.file(a.Hex, func(f io.Writer) error {
		b := bufio.NewWriter(f)
		fmt.Fprintf(b, "// %d bits per line: %s\n", 4*digits, t.Type())
		for i := range t.Len() {
			fmt.Fprintf(b, "%0*x\n", digits, bits(i)&mask)
		}
		return b.Flush()
	})
}

func (w *writer) file(name string, write func(io.Writer) error) error {
	f, err := w.to.Create(name)
	if err != nil {
		return err
	}
	err = write(f)
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}
