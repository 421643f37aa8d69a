package verify

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"

	"qwb/analysis"
	"qwb/graph/tensor"
	"qwb/quantizer/lower"
)

// digester hashes the integers that the reference computes, in the order of samples and steps: those that follow from the inputs by
// integers alone, which are the same on every machine, and those behind a step that computed in float,
// which hang on the last bits of floats.
type digester struct {
	program *lower.Program
	behind  []bool // by tensor: a step before it computes in float
	exact   hash.Hash
	float   hash.Hash
	n, m    int64 // how many integers of either
	buf     []byte
}

func newDigester(p *lower.Program) *digester {
	d := &digester{program: p, behind: make([]bool, len(p.Tensors)), exact: sha256.New(), float: sha256.New()}
	for i := range p.Steps {
		s := &p.Steps[i]
		_, island := s.Op.(*lower.Island)
		behind := island || isSimulated(s)
		for _, id := range s.Inputs {
			behind = behind || id != lower.NoTensor && d.behind[id]
		}
		for _, id := range s.Outputs {
			if id != lower.NoTensor {
				d.behind[id] = behind
			}
		}
	}
	return d
}

// see adds what one step computed.
func (d *digester) see(s *lower.Step, out []*tensor.Tensor) {
	for k, id := range s.Outputs {
		if id == lower.NoTensor || out[k] == nil || !d.program.Tensors[id].Counts() {
			continue
		}
		t := out[k].ToRowMajor()
		to, n := d.exact, &d.n
		if d.behind[id] {
			to, n = d.float, &d.m
		}
		*n += int64(t.Len())
		fmt.Fprintf(to, "%q %s\n", d.program.Tensors[id].Name, t.Type())
		if b, err := binary.Append(d.buf[:0], binary.LittleEndian, t.Data); err == nil { // integers are slices of numbers
			d.buf = b
			to.Write(b)
		}
	}
}

func (d *digester) result() *analysis.Digest {
	r := &analysis.Digest{Integers: d.n, BehindFloat: d.m}
	if d.n > 0 {
		r.SHA256 = hex.EncodeToString(d.exact.Sum(nil))
	}
	if d.m > 0 {
		r.BehindFloatSHA256 = hex.EncodeToString(d.float.Sum(nil))
	}
	return r
}
