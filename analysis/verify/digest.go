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

// digester hashes the integers that the reference computes, those of a sample in the order of steps, and the hashes of samples in their
// order: those that follow from the inputs by integers alone, which are the same on every machine, and those behind a step that computed in
// float, which hang on the last bits of floats.
type digester struct {
	program      *lower.Program
	behind       []bool // by tensor: a step before it computes in float
	exact, float hash.Hash
	n, m         int64 // how many integers of either
	buf          []byte
}

// sampleDigest is that of one sample.
type sampleDigest struct {
	Exact, Float []byte // nil: there are no integers of this sort
	N, M         int64
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

// of is the digest of a sample, by what its steps computed.
func (d *digester) of(kept [][]*tensor.Tensor) sampleDigest {
	one := &digester{program: d.program, behind: d.behind, exact: sha256.New(), float: sha256.New(), buf: d.buf}
	for i := range d.program.Steps {
		one.see(&d.program.Steps[i], kept[i])
	}
	d.buf = one.buf
	s := sampleDigest{N: one.n, M: one.m}
	if s.N > 0 {
		s.Exact = one.exact.Sum(nil)
	}
	if s.M > 0 {
		s.Float = one.float.Sum(nil)
	}
	return s
}

// add adds a sample.
func (d *digester) add(s *sampleDigest) {
	d.exact.Write(s.Exact)
	d.float.Write(s.Float)
	d.n, d.m = d.n+s.N, d.m+s.M
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
