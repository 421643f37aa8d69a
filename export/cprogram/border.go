package cprogram

import (
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/quantizer/lower"
)

// integerBorders makes the integers of inputs and outputs those of the program, where they are asked for: the program's own steps that
// quantize and dequantize are not needed then.
func integerBorders(p *lower.Program, o Options) error {
	real := func(id lower.TensorID) bool { return p.Tensors[id].DType == tensor.Float32 }
	if o.Inputs {
		p.Inputs = slices.Clone(p.Inputs)
		for i, id := range p.Inputs {
			if !real(id) {
				continue
			}
			codes, name := lower.NoTensor, p.Tensors[id].Name
			for _, s := range p.Steps {
				if !slices.Contains(s.Inputs, id) {
					continue
				}
				if _, ok := s.Op.(*lower.Quantize); !ok || codes != lower.NoTensor {
					return fmt.Errorf("input %q has no one type of integers: %s %q reads it, too; use float32", name, s.Op.Name(), p.Name(s.ID))
				}
				codes = s.Outputs[0]
			}
			if codes == lower.NoTensor || slices.Contains(p.Outputs, id) {
				return fmt.Errorf("input %q has no integers: use float32", name)
			}
			p.Inputs[i] = codes
		}
	}
	if o.Outputs {
		p.Outputs = slices.Clone(p.Outputs)
		for i, id := range p.Outputs {
			if !real(id) {
				continue
			}
			name := p.Tensors[id].Name
			k := slices.IndexFunc(p.Steps, func(s lower.Step) bool { return slices.Contains(s.Outputs, id) })
			if k < 0 {
				return fmt.Errorf("output %q is an input or a constant: use float32", name)
			}
			s := &p.Steps[k]
			if _, ok := s.Op.(*lower.Dequantize); !ok {
				return noIntegers(p, id, s)
			}
			p.Outputs[i] = s.Inputs[0]
		}
	}
	return nil
}

// noIntegers says what computes output id in step s as float, and what to do.
func noIntegers(p *lower.Program, id lower.TensorID, s *lower.Step) error {
	op, name, ways := s.Op.Name(), p.Name(s.ID), ""
	if _, ok := s.Op.(*lower.Island); ok {
		if v := p.Tensors[id].Value; v != graph.NoValue && p.Graph.Producer(v) != graph.NoNode {
			n := p.Graph.Node(p.Graph.Producer(v))
			op, name = n.Op, n.Name
		}
		ways = fmt.Sprintf(", qwb set %s domain=int where the platform has it on integers,", name)
	}
	return fmt.Errorf("output %q has no integers, %s %q computes it in float: use float32%s or a platform that writes integers, "+
		"such as tflite_int8", p.Tensors[id].Name, op, name, ways)
}
