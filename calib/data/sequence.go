package data

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"path"
	"slices"
	"sort"
	"sync"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
)

// rolled is what a set needs whose samples are steps of sequences: the network that says what state each step leaves to the next.
type rolled struct {
	states  InputSpec // the inputs that are states
	session *exec.Session
	graph   *graph.Graph

	mu sync.Mutex // guards one, for those that ask for samples by number
	// one has one step in memory
	one *roller
}

// sequence is a run of items: its steps.
type sequence struct {
	exec.Sequence
	first int                      // its first item, once all are in their places
	hash  func() ([32]byte, error) // of its initial state and all its steps
	items []item
}

// sequenced is a source that knows where its sequences begin, and may have states that they begin with. Of any other source the samples of
// one folder are one sequence.
type sequenced interface {
	sequence(i int) int
	initial(i int, states InputSpec) (map[string]*tensor.Tensor, error)
}

// roll prepares the network g for states.
func roll(g *graph.Graph, states []graph.State) (*rolled, error) {
	if err := g.CheckStates(states); err != nil {
		return nil, err
	}
	r, all := &rolled{graph: g.Clone()}, SpecOf(g)
	r.graph.Outputs = slices.DeleteFunc(r.graph.Outputs, func(v graph.ValueID) bool {
		return !slices.ContainsFunc(states, func(s graph.State) bool { return s.Output == g.Value(v).Name })
	})
	for _, s := range states {
		in, _ := all.Lookup(s.Input)
		r.states = append(r.states, in)
	}
	var err error
	if r.session, err = exec.New(r.graph, exec.Options{Threads: 1}); err != nil {
		return nil, err
	}
	r.one = r.roller()
	return r, nil
}

// Steps reports whether samples are steps of sequences.
func (s *Set) Steps() bool { return s.rolled != nil }

// without are the inputs that are fed step by step.
func (s InputSpec) without(states InputSpec) InputSpec {
	return slices.DeleteFunc(slices.Clone(s), func(in Input) bool { _, state := states.Lookup(in.Name); return state })
}

// group makes sequences of the items, in the order of their names, and takes whole ones, chosen by seed, until they have as many steps as
// are asked for (0: all).
func (s *Set) group(states []graph.State, steps int, seed uint64) error {
	type key struct {
		src source
		of  string
	}
	var list []*sequence
	at := map[key]*sequence{}
	for _, it := range s.items { // in the order of their sources
		k := key{it.src, path.Dir(it.name)}
		if q, ok := it.src.(sequenced); ok {
			k.of = fmt.Sprint(q.sequence(it.index))
		}
		q := at[k]
		if q == nil {
			q = &sequence{Sequence: exec.Sequence{Name: it.name, States: states}}
			at[k] = q
			list = append(list, q)
		}
		it.of, it.step = q, len(q.items)
		q.items = append(q.items, it)
		q.Steps = len(q.items)
	}
	sort.SliceStable(list, func(a, b int) bool {
		x, y := list[a].items[0], list[b].items[0]
		return x.name < y.name || x.name == y.name && x.origin < y.origin
	})
	if s.mask != "" && s.rolled.graph.MarksSteps(s.mask) {
		for _, q := range list {
			if err := q.endsBeforePadding(s.mask); err != nil {
				return err
			}
		}
	}
	total := func(chosen []int) (n int) {
		for _, i := range chosen {
			n += list[i].Steps
		}
		return n
	}
	if steps > 0 {
		k := 1 + sort.Search(len(list)-1, func(k int) bool { return total(choose(len(list), k+1, seed)) >= steps })
		if chosen := choose(len(list), k, seed); chosen != nil {
			for i, at := range chosen {
				list[i] = list[at]
			}
			list = list[:len(chosen)]
		}
	}
	s.items = nil
	for _, q := range list {
		q.first = len(s.items)
		q.hash = sync.OnceValues(func() ([32]byte, error) { return s.hashOf(q) })
		s.items, q.items = append(s.items, q.items...), nil
	}
	return nil
}

// endsBeforePadding takes off the last steps that the mask says are none; the first step stays.
func (q *sequence) endsBeforePadding(mask string) error {
	for ; q.Steps > 1; q.Steps-- {
		it := &q.items[q.Steps-1]
		feeds, err := it.load()
		if err != nil {
			return it.fault(err)
		}
		if !graph.StandsForNothing(feeds[mask]) {
			break
		}
	}
	q.items = q.items[:q.Steps]
	return nil
}

// hashOf is the identity of a sequence: SHA-256 over the hashes of what it begins with and of its steps.
func (s *Set) hashOf(q *sequence) ([32]byte, error) {
	h := sha256.New()
	for i := range q.Steps {
		feeds, err := s.items[q.first+i].load()
		if err == nil && i == 0 {
			err = s.rolled.begin(&s.items[q.first], feeds)
		}
		if err != nil {
			return [32]byte{}, err
		}
		part := Hash(feeds)
		h.Write(part[:])
	}
	return [32]byte(h.Sum(nil)), nil
}

// hashOfStep is the sequence's but for four bytes in front of the last, which say which step: on whichever side of a split by hash one step
// stands all do, in their order.
func hashOfStep(sequence [32]byte, step int) [32]byte {
	binary.BigEndian.PutUint32(sequence[27:], uint32(step))
	return sequence
}

// begin adds the states that a sequence begins with: those in the data, else zeros.
func (r *rolled) begin(it *item, feeds map[string]*tensor.Tensor) error {
	given := map[string]*tensor.Tensor{}
	if q, ok := it.src.(sequenced); ok {
		var err error
		if given, err = q.initial(it.index, r.states); err != nil {
			return err
		}
	}
	sizes := map[string]int64{}
	for _, v := range r.graph.Inputs {
		in := r.graph.Value(v)
		if t := feeds[in.Name]; t != nil && len(t.Shape) == len(in.Shape) {
			for i, d := range in.Shape {
				if d.Symbol != "" {
					sizes[d.Symbol] = int64(t.Shape[i])
				}
			}
		}
	}
	for _, in := range r.states {
		if feeds[in.Name] = given[in.Name]; feeds[in.Name] == nil {
			shape, err := in.nothing(sizes)
			if err != nil {
				return err
			}
			feeds[in.Name] = tensor.New(in.DType, shape...)
		}
	}
	return nil
}

// nothing is the shape of a state before the first step: open sizes are those of the step's inputs with the same name, else 1 for the batch
// in front, and 0 for what grows from step to step, as a cache does.
func (in Input) nothing(sizes map[string]int64) ([]int, error) {
	if in.Shape == nil {
		return nil, fmt.Errorf("state %s has no shape: give what it begins with, as an array of this name in the npz file", in)
	}
	shape := make([]int, len(in.Shape))
	for i, d := range in.Shape {
		n, known := sizes[d.Symbol]
		switch {
		case d.Known():
			n = d.N
		case known && d.Symbol != "":
		case i == 0:
			n = 1
		default:
			n = 0
		}
		shape[i] = int(n)
	}
	return shape, nil
}

func (r *rolled) roller() *roller { return &roller{rolled: r, runner: r.session.NewRunner()} }

// roller gives the steps of sequences with the states that the float network leaves. It has one step in memory: the next one follows from
// it, any other is reached from the beginning of its sequence.
type roller struct {
	*rolled
	runner  *exec.Runner
	rolling exec.Rolling
	current *exec.Sample
}

func (r *roller) sample(s *Set, i int) (*exec.Sample, error) {
	it := &s.items[i]
	step := 0
	if c := r.current; c != nil && c.Sequence == &it.of.Sequence && c.Step < it.step {
		step = c.Step + 1
	}
	for ; step <= it.step; step++ {
		if err := r.advance(s, it.of, step); err != nil {
			r.current = nil
			return nil, err
		}
	}
	return r.current, nil
}

// advance makes a step the current one; the one before it is, unless it is the first.
func (r *roller) advance(s *Set, q *sequence, step int) error {
	it := &s.items[q.first+step]
	if step > 0 {
		out, err := r.runner.Run(context.Background(), r.current.Feeds, nil)
		if err == nil {
			err = r.rolling.Keep(r.graph, r.current, out)
		}
		if err != nil {
			return it.fault(fmt.Errorf("step %d: %w", step, err))
		}
	}
	feeds, err := it.load()
	if err == nil && step == 0 {
		err = r.begin(it, feeds)
	}
	if err != nil {
		return it.fault(err)
	}
	hash, err := q.hash()
	if err != nil {
		return it.fault(err)
	}
	c := &exec.Sample{Name: it.name, Hash: hashOfStep(hash, step), Label: it.label, Feeds: feeds, Mask: s.mask, Sequence: &q.Sequence,
		Step: step}
	c.Feeds = r.rolling.Feeds(c)
	if err := refuseNaN(c.Feeds); err != nil {
		return it.fault(err)
	}
	r.current = c
	return nil
}

// shard takes every n-th sequence, from the i-th on.
func (s *Set) shard(items []item, i, n int) {
	k := 0
	moved := map[*sequence]*sequence{}
	for _, it := range items {
		if it.step == 0 {
			k++
		}
		if (k-i)%n != 0 {
			continue
		}
		if it.step == 0 {
			q := *it.of
			q.first = len(s.items)
			moved[it.of] = &q
		}
		it.of = moved[it.of]
		s.items = append(s.items, it)
	}
}
