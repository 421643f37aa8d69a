package device

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/kernels/cuda"
)

// maxPlans is how many sets of input shapes a session keeps plans for.
const maxPlans = 4

// Options say how a graph is executed. The zero value is usable.
type Options struct {
	// Host are the options of operators that run on the host.
	Host exec.Options
	// Unfused keeps every operator a step of its own: sums, additions and bounds are not computed together. Results are the same.
	Unfused bool
	// KeepLayout leaves outputs as they were computed, channels-last or row-major: Plan.Outputs says how. It is for Plan.Launch alone.
	KeepLayout bool
}

// Session is a graph made ready for a device: order, constants that were uploaded, plans by input shapes. It is used by one goroutine
// at a time.
type Session struct {
	g         *graph.Graph
	dev       *cuda.Device
	opt       Options
	order     []graph.NodeID
	stream    *cuda.Stream
	plans     []*Plan // the one used last at the end
	constants map[constKey]cuda.Buffer
	folds     map[graph.NodeID]*fold
	stable    map[*tensor.Tensor]bool // what does not depend on shapes: it is uploaded once for all plans
}

// New prepares g for a device. It refuses a graph with operators that package exec cannot execute, as exec.New does. The graph must
// not be changed while the session is in use.
func New(g *graph.Graph, d *cuda.Device, o Options) (*Session, error) {
	if _, err := exec.New(g, o.Host); err != nil {
		return nil, err
	}
	order, err := g.Order()
	if err != nil {
		return nil, err
	}
	s := &Session{g: g, dev: d, opt: o, order: order, constants: map[constKey]cuda.Buffer{}, folds: map[graph.NodeID]*fold{},
		stable: map[*tensor.Tensor]bool{}}
	if s.stream, err = d.NewStream(); err != nil {
		return nil, err
	}
	return s, nil
}

// Graph returns the graph given to New.
func (s *Session) Graph() *graph.Graph { return s.g }

// Device returns the device given to New.
func (s *Session) Device() *cuda.Device { return s.dev }

// Close gives the memory on the device back. Plans of the session cannot be used afterwards.
func (s *Session) Close() error {
	err := s.stream.Synchronize()
	for _, p := range s.plans {
		p.free()
	}
	for _, b := range s.constants {
		s.dev.Free(b)
	}
	s.plans, s.constants = nil, nil
	return errors.Join(err, s.stream.Close())
}

// Type is the element type and shape of a graph input, and how its elements lie where the caller launches the plan on buffers of its
// own.
type Type struct {
	DType  tensor.DType
	Shape  []int
	Layout tensor.Layout
}

// Prepare returns the plan for inputs of the given types, by name; inputs that are constants as well may be left out. wants says which
// values are to be there as a whole because taps look at them, nil for none. The session keeps a few plans: one is valid until Close,
// or until plans for several other sets of shapes have been made.
func (s *Session) Prepare(ctx context.Context, in map[string]Type, wants func(graph.ValueID) bool) (*Plan, error) {
	types := make([]Type, len(s.g.Inputs))
	for i, v := range s.g.Inputs {
		val := s.g.Value(v)
		t, ok := in[val.Name]
		if !ok && val.Const == nil {
			return nil, fmt.Errorf("input %q is missing", val.Name)
		}
		types[i] = t
	}
	for name := range in {
		if v, ok := s.g.Lookup(name); !ok || !s.g.IsInput(v) {
			return nil, fmt.Errorf("the graph has no input %q", name)
		}
	}
	watched := make([]bool, s.g.NumValues())
	if wants != nil {
		for _, v := range s.g.Values() {
			watched[v] = wants(v)
		}
	}
	for i, p := range s.plans {
		if slices.Equal(p.watched, watched) && slices.EqualFunc(p.types, types, sameType) {
			s.plans = append(slices.Delete(s.plans, i, i+1), p)
			return p, nil
		}
	}
	p, err := s.plan(ctx, types, watched)
	if err != nil {
		return nil, err
	}
	if len(s.plans) == maxPlans {
		s.plans[0].free()
		s.plans = slices.Delete(s.plans, 0, 1)
	}
	s.plans = append(s.plans, p)
	return p, nil
}

func sameType(a, b Type) bool {
	return a.DType == b.DType && a.Layout == b.Layout && slices.Equal(a.Shape, b.Shape)
}

// Run executes the graph. feeds are the graph inputs by name, row-major; inputs that are constants as well may be left out. The outputs
// are row-major, belong to the caller, and are in the order of g.Outputs. taps may be nil. Errors are *graph.NodeError where a node
// failed; a cancelled ctx stops between steps.
func (s *Session) Run(ctx context.Context, feeds map[string]*tensor.Tensor, taps *Taps) ([]*tensor.Tensor, error) {
	types := map[string]Type{}
	for name, t := range feeds {
		if t == nil {
			return nil, fmt.Errorf("input %q is missing", name)
		}
		if v, ok := s.g.Lookup(name); ok {
			if d := s.g.Value(v).DType; d != tensor.Undefined && d != t.DType {
				return nil, fmt.Errorf("input %q is %s, not of type %s", name, t.Type(), d)
			}
		}
		types[name] = Type{DType: t.DType, Shape: t.Shape}
	}
	var wants func(graph.ValueID) bool
	if taps != nil && taps.Tap != nil {
		wants = taps.wants
	}
	p, err := s.Prepare(ctx, types, wants)
	if err != nil {
		return nil, err
	}
	return p.run(ctx, feeds, taps)
}
