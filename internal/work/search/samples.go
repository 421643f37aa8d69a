package search

import (
	"context"

	"qwb/analysis"
	"qwb/analysis/task"
	"qwb/graph/exec"
	"qwb/internal/work/planning"
	"qwb/internal/work/samples"
)

// sampleSide are the samples that fit, or those that confirm.
type sampleSide struct {
	hashes [][32]byte
	places []*exec.Sample  // where they stand in their sequences, without their data
	blocks analysis.Blocks // of them
	ends   int             // how many are last steps
	again  func() exec.Iterator
	ev     *analysis.Evaluator
	float  []task.Record
	start  half // of the plan as it is
}

// read opens the data and splits the samples.
func (s *searcher) read(ctx context.Context) error {
	var err error
	if s.set, err = planning.PlanData(s.Job, s.Planned, s.o.Data, SearchSamples); err != nil {
		return err
	}
	if s.closing, err = s.openBudget(ctx); err != nil {
		return err
	}
	s.goal = s.budget.goal()
	s.fit, s.held = &sampleSide{}, &sampleSide{}
	room := s.o.Memory
	if room == 0 {
		room = 2 << 30
	}
	var places []*exec.Sample
	hashes, err := samples.ReadHashes(ctx, s.set.Iterator(), func(x *exec.Sample) {
		places = append(places, &exec.Sample{Sequence: x.Sequence, Step: x.Step})
		for _, t := range x.Feeds {
			room -= int64(t.DType.Bytes(t.Len()))
		}
		if s.samples = append(s.samples, x); room < 0 {
			s.samples = nil
		}
	})
	if err != nil {
		return err
	}
	s.halves = exec.NewHalves(hashes)
	for i, hash := range hashes {
		h := s.side(hash)
		h.hashes, h.places = append(h.hashes, hash), append(h.places, places[i])
	}
	s.fit.placed()
	s.held.placed()
	kept := room >= 0
	all := func() exec.Iterator {
		if kept {
			return &exec.InMemory{Samples: s.samples}
		}
		return s.set.Iterator()
	}
	for _, h := range []*sampleSide{s.fit, s.held} {
		h.again = func() exec.Iterator {
			return &samples.Part{Iterator: all(), N: len(h.hashes), Ours: func(x *exec.Sample) bool { return s.side(x.Hash) == h }}
		}
	}
	if s.o.Force && s.pieces(s.held) < analysis.MinHeldOut && !s.crossed() { // nothing can be confirmed: all samples may fit
		s.fit = &sampleSide{hashes: hashes, places: places, again: all}
		s.fit.placed()
		s.held = &sampleSide{}
	}
	return nil
}

// placed finds the blocks and ends of a side.
func (h *sampleSide) placed() {
	h.blocks, h.ends = analysis.BlocksOf(h.places), 0
	for _, x := range h.places {
		if x.Sequence != nil && x.Step == x.Sequence.Steps-1 {
			h.ends++
		}
	}
}

// pieces is how many pieces of evidence a side is: its samples, or where they are steps its sequences, or blocks of few of them.
func (s *searcher) pieces(h *sampleSide) int {
	if h.ends >= 2 && s.budget.Name != "drop" {
		return h.ends // see analysis.Evaluator.Measure
	}
	return h.blocks.Count(len(h.hashes))
}

// piece is what messages call a piece of evidence.
func (s *searcher) piece() string {
	if s.fit.blocks == nil && s.held.blocks == nil {
		return "sample"
	}
	return "step block"
}

func (s *searcher) side(hash [32]byte) *sampleSide {
	if s.halves[hash] {
		return s.held
	}
	return s.fit
}

// prepare runs a side in float.
func (s *searcher) prepare(ctx context.Context, h *sampleSide) (err error) {
	parts, err := samples.Slices(s.Job, s.o.Data.Slices, s.Planned.Reference)
	if err != nil {
		return err
	}
	if h.ev, err = analysis.NewEvaluator(ctx, s.Planned.Reference, h.again, s.o.Threads, s.o.Memory, parts...); err != nil ||
		s.budget.scorer == nil {
		return err
	}
	m, err := h.ev.Measure(ctx, nil, s.budget.scorer)
	if err == nil {
		h.float = m.Records
	}
	return err
}

// measure runs a derived plan on a side.
func (s *searcher) measure(ctx context.Context, h *sampleSide, out *planning.Derived) (half, error) {
	g, _ := s.Planned.TunedGraph(out.Set)
	q, err := s.Planned.SimulatorOf(g, out.Set, s.shared)
	if err != nil {
		return half{}, err
	}
	m, err := h.ev.Measure(ctx, q, s.budget.scorer)
	planning.Met(s.Job, s.Planned, q.Infinite())
	return half{h, m}, err
}

// seen says which samples the statistics have seen; nil without statistics.
func (s *searcher) seen() func([32]byte) bool {
	if s.Derivation.Stats == nil {
		return nil
	}
	known := planning.SeenBy(s.Derivation.Stats)
	return func(h [32]byte) bool { return known[h] }
}
