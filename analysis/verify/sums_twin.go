package verify

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/internal/arrange"
	"qwb/quantizer/lower"
)

// Sums are hashes of all integers that a program computed, for each sample in the order of the data.
type Sums struct{ samples []ran }

// ran is what a program computed of a sample.
type ran struct {
	sums map[computed]*sum
	outs []*tensor.Tensor // of the first sample alone, where there are several
}

// computed is a tensor of a program as another program of the same network has it too: the node that computes it, or the value that is
// converted, which of its outputs, and the grid; nth counts tensors of which all this is the same.
type computed struct {
	by          string
	output, nth int
	grid        string
}

func (c computed) String() string { return fmt.Sprintf("output %d of %q", c.output, c.by) }

type sum struct {
	n, at  int    // integers, and where in the order of execution
	tensor string // its name in the program
	shape  string // in the order of the first program
	behind bool   // something in float was computed before
	hash   [sha256.Size]byte
	turned [][sha256.Size]byte // of the same integers with channels last made first and the other way round, where the shape stays the same
}

// same reports whether two tensors of one shape have the same integers. A reader may have brought one of them into another order of axes.
func (s *sum) same(o *sum) bool { return s.hash == o.hash || slices.Contains(o.turned, s.hash) }

// both is a tensor of a program, and that of the other one; nil where it has none of the same shape.
type both struct {
	computed
	own, other *sum
}

// paired lists the tensors of a program in the order of execution. Those of the other are found by the node that computes them, or, in
// files whose operators have no names, by their own name.
func paired(own, other map[computed]*sum) []both {
	byName := make(map[computed]*sum, 2*len(other))
	for c, s := range other {
		for _, name := range []string{s.tensor, valueOf(s.tensor)} {
			byName[computed{by: name, grid: c.grid}] = s
		}
	}
	list := make([]both, 0, len(own))
	for c, s := range own {
		o := other[c]
		if o == nil {
			o = byName[computed{by: s.tensor, grid: c.grid}]
		}
		if o != nil && o.shape != s.shape {
			o = nil
		}
		list = append(list, both{c, s, o})
	}
	arrange.Stable(list, func(a, b both) int { return a.own.at - b.own.at })
	return list
}

// integersSuffix ends what a program calls the integers of a value.
const integersSuffix = "_QuantizeLinear"

// valueOf is the name of the value whose integers have that name, numbered where the name was taken; the name itself of others.
func valueOf(integers string) string {
	if at := strings.LastIndex(integers, integersSuffix); at >= 0 {
		return integers[:at]
	}
	return integers
}

// summer makes the sums of one sample.
type summer struct {
	*side
	behind []bool
	exact  map[lower.StepID]bool // steps in float whose outputs are the same in both programs
	sums   map[computed]*sum
	seen   map[computed]int
	buf    []byte
}

func newSummer(of *side) *summer {
	return &summer{side: of, behind: make([]bool, len(of.program.Tensors)), exact: map[lower.StepID]bool{}, sums: map[computed]*sum{},
		seen: map[computed]int{}}
}

func inFloat(s *lower.Step) bool {
	_, island := s.Op.(*lower.Island)
	return island || isSimulated(s)
}

// namesOf are those by which a step is known: its node's, or that of the value that it converts; and those of what it computes.
func namesOf(p *lower.Program, s *lower.Step) (list []string) {
	if s.Node != graph.NoNode {
		list = append(list, p.Graph.Node(s.Node).Name)
	}
	for _, id := range s.Outputs {
		if id != lower.NoTensor {
			list = append(list, p.Graph.Value(p.Tensors[id].Value).Name)
		}
	}
	return append(list, "")
}

// mark notes whether the outputs of a step are behind something in float.
func (s *summer) mark(step *lower.Step) {
	behind := inFloat(step)
	for _, id := range step.Inputs {
		behind = behind || id != lower.NoTensor && s.behind[id]
	}
	for _, id := range step.Outputs {
		if id != lower.NoTensor {
			s.behind[id] = behind && !s.exact[step.ID]
		}
	}
}

func (s *summer) see(step *lower.Step, out []*tensor.Tensor) {
	s.mark(step)
	for k, id := range step.Outputs {
		if id == lower.NoTensor || !s.program.Tensors[id].Counts() || k >= len(out) || out[k] == nil {
			continue
		}
		c := computed{by: namesOf(s.program, step)[0], output: k, grid: "at run time"}
		if e := s.program.Tensors[id].Encoding; e != nil {
			c.grid = fmt.Sprintf("%g(q-%d)", e.Scale, e.ZeroPoint)
		}
		if s.seen[c]++; s.seen[c] > 1 {
			c.nth = s.seen[c] - 1
		}
		t := out[k].ToRowMajor()
		if perm := s.order(s.program.Tensors[id].Name); len(perm) == len(t.Shape) && perm != nil {
			t = transposed(t, inverse(perm))
		}
		x := &sum{n: t.Len(), at: len(s.sums), tensor: s.program.Tensors[id].Name, shape: fmt.Sprint(t.Shape),
			behind: s.behind[id], hash: s.hash(t)}
		if cube(t.Shape) {
			x.turned = append(x.turned, s.hash(movedFirst(t)), s.hash(movedLast(t)))
		}
		s.sums[c] = x
	}
}

func (s *summer) hash(t *tensor.Tensor) [sha256.Size]byte {
	if b, err := binary.Append(s.buf[:0], binary.LittleEndian, t.Data); err == nil { // integers are slices of numbers
		s.buf = b
	}
	return sha256.Sum256(s.buf)
}

// add keeps what the reference computed of a sample.
func (s *Sums) add(p *lower.Program, kept [][]*tensor.Tensor, outs []*tensor.Tensor) {
	if s == nil {
		return
	}
	one := newSummer(&side{program: p})
	for i := range p.Steps {
		one.see(&p.Steps[i], kept[i])
	}
	if len(s.samples) > 0 {
		outs = nil
	}
	s.samples = append(s.samples, ran{one.sums, outs})
}
