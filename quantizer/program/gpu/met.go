package gpu

import (
	"encoding/binary"

	"qwb/kernels/cuda"
	"qwb/quantizer/lower"
	"qwb/quantizer/sim"
	"qwb/quantizer/tqc"
)

// met is what steps have met that is not finite where they make integers of numbers: two words on the device for each step, for NaN and for
// infinite numbers, which are copied to the host behind a run.
type met struct {
	words cuda.Buffer
	host  []byte
	odd   sim.Odd
}

func (m *met) begin(memory *memory, steps int) (err error) {
	if steps > 0 {
		m.host = make([]byte, 8*steps)
		m.words, err = memory.constant(m.host)
	}
	return err
}

// of are the words of a step.
func (m *met) of(s *lower.Step) cuda.Buffer { return m.words.Slice(8*int(s.ID), 8) }

// fetch puts the words on their way to the host. They are there when the stream has done its work.
func (e *engine) fetch() error {
	if len(e.met.host) == 0 {
		return nil
	}
	return e.memory.stream.Download(e.met.host, e.met.words)
}

// failed is the first step that met NaN in the run that has been fetched, and its error; what is infinite is remembered.
func (e *engine) failed() (at *step, first error) {
	for i, s := range e.steps {
		if binary.LittleEndian.Uint64(e.met.host[8*i:]) == 0 {
			continue
		}
		id := s.Inputs[0]
		if _, ok := s.Op.(*lower.Linear); ok { // it quantizes what its function gives
			id = s.Outputs[0]
		}
		name := e.program.Tensors[id].Name
		if nan := binary.LittleEndian.Uint32(e.met.host[8*i:]) != 0; !nan {
			e.met.odd.Add(name)
		} else if first == nil {
			at, first = s, &tqc.NaN{Tensor: name}
		}
	}
	if first != nil {
		if err := e.memory.stream.Fill(e.met.words, 0); err != nil {
			return at, err
		}
	}
	return at, first
}

// Infinite names what was met that is infinite: see program.Executor.
func (e *engine) Infinite() []string { return e.met.odd.Names() }
