package gpu

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	"qwb/graph"
	"qwb/graph/tensor"
	"qwb/kernels/cuda"
	"qwb/quantizer/lower"
	"qwb/quantizer/program"
)

// layout is how a kernel wants the elements of an operand to lie.
type layout uint8

const (
	noLayout   layout = iota // the device does not read it
	anyLayout                // as they are
	rowLayout                // row-major
	lastLayout               // channels-last
)

// output is an output of a prepared step.
type output struct {
	dtype tensor.DType
	shape []int
	last  bool
	alias int            // the input whose memory it is, -1 for its own
	known *tensor.Tensor // what it is for these shapes, whatever the elements of the inputs
}

// prepared is a step for inputs of certain shapes and layouts: what it reads, what it writes, and the launches, which do nothing
// but put work on the stream, so that they can be captured in a graph.
type prepared struct {
	in     []layout
	out    []*output // by output, nil for those that nobody reads
	temp   []int     // bytes of memory for the time of the step
	launch func(s *cuda.Stream, in, out, temp []cuda.Buffer) error
	owned  []cuda.Buffer // constants of these shapes
	close  func()        // what else to give back, may be nil
	// fault reports what went wrong in the run that the stream has done last, where launches cannot; may be nil.
	fault func(s *cuda.Stream) error
	refs  int
}

// kernel prepares a step. An error of type onlyHost leaves the step to the reference.
type kernel interface {
	prepare(ctx context.Context, s *step, in []*value) (*prepared, error)
}

// onlyHost says why the reference computes a step.
type onlyHost string

func (o onlyHost) Error() string { return string(o) }

// step is a step with its kernel.
type step struct {
	*lower.Step
	e        *engine
	kernel   kernel
	why      string         // where kernel is nil: why the reference computes it
	slow     program.Kernel // of the reference, made when it is first needed
	covered  bool           // a function behind it computes it too
	function *function
	// shapeOnly says of which inputs nothing but the shape is read.
	shapeOnly []bool
	cache     []cachedPrepared // latest first
	placed    placement
	reason    string
}

// cachedPrepared is a prepared step with what it was prepared for. It is there as long as somebody holds it: a plan, or the step
// itself.
type cachedPrepared struct {
	key  string
	what *prepared
	own  bool // the step holds it
}

// placement is where a step runs.
type placement uint8

const (
	notPlaced placement = iota
	onDevice
	onHost
	onShapes // on the host, once for a set of shapes
)

func (s *step) place(p placement, why string) { s.placed, s.reason = p, why }

// keptPrepared is for how many sets of input shapes a step stays prepared outside of plans.
const keptPrepared = 2

// prepare returns the step prepared for inputs; nil with the reason where the reference has to do it.
func (s *step) prepare(ctx context.Context, k kernel, in []*value) (*prepared, string, error) {
	if k == nil {
		return nil, s.why, nil
	}
	for i, v := range in {
		if v.len() == 0 {
			return nil, fmt.Sprintf("input %d has no elements", i), nil
		}
	}
	key := s.key(k, in)
	for i, c := range s.cache {
		if c.key == key && c.what.refs > 0 {
			s.cache = slices.Delete(s.cache, i, i+1)
			if !c.own {
				c.what.refs++
			}
			s.hold(key, c.what)
			return c.what, "", nil
		}
	}
	what, err := k.prepare(ctx, s, in)
	if err != nil && what != nil {
		what.refs = 1
		s.e.memory.release(what)
	}
	if why := onlyHost(""); errors.As(err, &why) {
		return nil, string(why), nil
	}
	if err != nil {
		return nil, "", err
	}
	what.refs = 1
	s.hold(key, what)
	return what, "", nil
}

// hold makes a prepared step, of which the caller has one reference, the latest of those that the step holds.
func (s *step) hold(key string, what *prepared) {
	s.cache = slices.Insert(s.cache, 0, cachedPrepared{key, what, true})
	own := 0
	for i := range s.cache {
		if c := &s.cache[i]; c.own {
			if own++; own > keptPrepared {
				c.own = false
				s.e.memory.release(c.what)
			}
		}
	}
	s.cache = slices.DeleteFunc(s.cache, func(c cachedPrepared) bool { return c.what.refs == 0 })
}

// key describes everything that preparing depends on: types, shapes and layouts, and the elements of what is known.
func (s *step) key(k kernel, in []*value) string {
	var b strings.Builder
	if k != s.kernel {
		b.WriteString("function ")
	}
	for i, v := range in {
		fmt.Fprintf(&b, "%s%v %t", v.dtype, v.shape, v.last)
		if v.host != nil && !v.constant && (v.fixed || k == s.kernel && s.reads(i)) {
			fmt.Fprintf(&b, "%x", sha256.Sum256(bytesOf(v.host)))
		}
	}
	return b.String()
}

// reads reports whether preparing steps.Looks at the elements of input i: not those of numbers.
func (s *step) reads(i int) bool {
	t := &s.e.program.Tensors[s.Inputs[i]]
	return !t.Quantized() && t.DType != tensor.Float32 && t.DType != tensor.Bool
}

// shapesOnly reports whether the step's results depend on shapes alone.
func (s *step) shapesOnly(in []*value) bool {
	for k, v := range in {
		if !v.fixed && !s.shapeOnly[k] {
			return false
		}
	}
	return true
}

// readsShapes finds the inputs of which an island reads only the shape.
func readsShapes(s *lower.Step) []bool {
	only := make([]bool, len(s.Inputs))
	island, ok := s.Op.(*lower.Island)
	if !ok {
		return only
	}
	g := island.Graph
	for k, v := range g.Inputs {
		only[k] = !g.IsOutput(v) && !g.Captured(v)
		for _, u := range g.Uses(v) {
			if op := g.Node(u.Node).Op; op != "Shape" && op != "Size" {
				only[k] = false
			}
		}
	}
	return only
}

// reference computes the step on the host.
func (s *step) reference(ctx context.Context, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	if s.slow == nil {
		k, err := program.NewKernel(s.e.program, s.Step, s.e.threads)
		if err != nil {
			return nil, err
		}
		s.slow = k
	}
	out, err := s.slow(ctx, in)
	if err != nil {
		return nil, err
	}
	for k, id := range s.Outputs {
		if id != lower.NoTensor && (k >= len(out) || out[k].DType != s.e.program.Tensors[id].DType) {
			return nil, fmt.Errorf("output %d is %s", k, out[k].Type())
		}
	}
	return out, nil
}

// fail says in which step something failed, and on what.
func (s *step) fail(in []*value, err error) error {
	if err == nil {
		return nil
	}
	var shapes []string
	for _, v := range in {
		if v != nil {
			shapes = append(shapes, tensor.TypeString(v.dtype, v.shape))
		}
	}
	if s.Node != graph.NoNode {
		return program.StepError(s.e.program, s.Step, fmt.Errorf("step %d: %s of %s: %w", s.ID, s.Op.Name(), strings.Join(shapes, ", "), err))
	}
	return program.StepError(s.e.program, s.Step, fmt.Errorf("step %d of %s: %w", s.ID, strings.Join(shapes, ", "), err))
}
