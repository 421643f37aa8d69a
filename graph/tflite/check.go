package tflite

import (
	"fmt"
	"math"
)

// maxElements bounds the elements of a tensor, so that products of sizes stay numbers.
const maxElements = 1 << 40

// Elements is the number of elements of a tensor; an error for sizes below 0 or a product beyond 2^40.
func (t *Tensor) Elements() (int, error) {
	n := 1
	for _, d := range t.Shape {
		if d < 0 {
			return 0, fmt.Errorf("shape %v has a size below 0", t.Shape)
		}
		if d > 0 && n > maxElements/d {
			return 0, fmt.Errorf("shape %v is too large", t.Shape)
		}
		n *= d
	}
	return n, nil
}

func (t *Tensor) check() error {
	if t.Type < 0 || t.Type >= numTypes {
		return fmt.Errorf("unknown %v", t.Type)
	}
	n, err := t.Elements()
	if err != nil {
		return err
	}
	if bits := t.Type.Bits(); t.Data != nil && bits > 0 && t.Unread == "" && (n*bits+7)/8 != len(t.Data) {
		return fmt.Errorf("%v%v needs %d bytes, its buffer has %d", t.Type, t.Shape, (n*bits+7)/8, len(t.Data))
	}
	for _, d := range append(t.Shape, t.Signature...) {
		if d > math.MaxInt32 || d < -1 {
			return fmt.Errorf("size %d is none of 32 bits", d)
		}
	}
	return t.checkQuantization()
}

func (t *Tensor) checkQuantization() error {
	q := t.Quantization
	if !q.Quantized() || t.Unread != "" {
		return nil
	}
	if len(q.ZeroPoint) != len(q.Scale) && len(q.ZeroPoint) > 1 {
		return fmt.Errorf("%d scales, %d zero points", len(q.Scale), len(q.ZeroPoint))
	}
	if len(q.Scale) > 1 && (q.Axis < 0 || q.Axis >= len(t.Shape) || t.Shape[q.Axis] != len(q.Scale)) {
		return fmt.Errorf("%d scales along axis %d of %v", len(q.Scale), q.Axis, t.Shape)
	}
	return nil
}

// checkTensors requires positions of n tensors, lowest and up.
func checkTensors(ids []int, n, lowest int) error {
	for _, id := range ids {
		if id < lowest || id >= n {
			return fmt.Errorf("tensor %d does not exist", id)
		}
	}
	return nil
}

func (op *Operator) check(tensors int) error {
	if err := checkTensors(op.Inputs, tensors, -1); err != nil {
		return err
	}
	if err := checkTensors(op.Intermediates, tensors, -1); err != nil {
		return err
	}
	return checkTensors(op.Outputs, tensors, 0)
}

func (s *Signature) check(m *Model) error {
	if s.Subgraph < 0 || s.Subgraph >= len(m.Subgraphs) {
		return fmt.Errorf("signature %q: subgraph %d does not exist", s.Key, s.Subgraph)
	}
	n := len(m.Subgraphs[s.Subgraph].Tensors)
	for _, list := range [][]Named{s.Inputs, s.Outputs} {
		for _, t := range list {
			if t.Tensor < 0 || t.Tensor >= n {
				return fmt.Errorf("signature %q: tensor %d does not exist", s.Key, t.Tensor)
			}
		}
	}
	return nil
}
