package tqc_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/graphtest"
	"qwb/kernels/qmath"
	"qwb/quantizer/tqc"
)

const chain = `
input x: f32[1,4]
a: f32[1,4] = Relu(x) "a"
b: f32[1,4] = Relu(a) "b"
c: f32[1,4] = Relu(b) "c"
output c
`

var (
	u8 = tqc.Config{Policy: tqc.Asymmetric | tqc.PerTensor | tqc.Linear, Format: qmath.Format{Bits: 8, QMax: 255},
		Observer: tqc.ObserverMinMax}
	s8 = tqc.Config{Policy: tqc.Symmetric | tqc.PerTensor | tqc.Linear, Format: qmath.Format{Bits: 8, QMin: -127, QMax: 127},
		Observer: tqc.ObserverMinMax}
)

func scale(s float32) tqc.Params { return tqc.Params{Scale: []float32{s}, ZeroPoint: []int32{0}} }

// waiting returns a set of six INITIAL slots.
func waiting(t testing.TB) *tqc.Set {
	set := tqc.NewSet(graphtest.Parse(t, chain))
	require.Equal(t, 6, set.NumSlots())
	for id := range tqc.SlotID(6) {
		require.Equal(t, tqc.FP32, set.Slot(id).State(), "a new slot is FP32")
		require.NoError(t, set.Configure(id, u8))
	}
	return set
}

// All moves that PPQ's life cycle knows (QuantizationStates in ppq/core/quant.py), and that no other is possible.
func TestAdvanceKnowsExactlyTheLegalMoves(t *testing.T) {
	states := []tqc.State{tqc.Initial, tqc.Activated, tqc.Baked, tqc.Overlapped, tqc.PassiveInit, tqc.Passive, tqc.PassiveBaked, tqc.FP32}
	legal := map[tqc.State][]tqc.State{
		tqc.Initial:      {tqc.Activated, tqc.Overlapped, tqc.PassiveInit, tqc.Passive, tqc.FP32},
		tqc.Activated:    {tqc.Baked, tqc.Overlapped, tqc.PassiveInit, tqc.Passive, tqc.FP32, tqc.Initial},
		tqc.Baked:        {tqc.Activated},
		tqc.Overlapped:   {tqc.FP32, tqc.Initial},
		tqc.PassiveInit:  {tqc.Passive, tqc.Overlapped, tqc.FP32, tqc.Initial},
		tqc.Passive:      {tqc.PassiveBaked, tqc.Overlapped, tqc.FP32, tqc.PassiveInit, tqc.Initial},
		tqc.PassiveBaked: {tqc.Passive},
		tqc.FP32:         {tqc.Initial},
	}
	path := map[tqc.State][]tqc.State{ // how a slot with a scale gets there
		tqc.Initial: {tqc.Initial}, tqc.Activated: {}, tqc.Baked: {tqc.Baked}, tqc.Overlapped: {tqc.Overlapped},
		tqc.PassiveInit: {tqc.PassiveInit}, tqc.Passive: {tqc.Passive}, tqc.PassiveBaked: {tqc.Passive, tqc.PassiveBaked}, tqc.FP32: {tqc.FP32},
	}
	for _, from := range states {
		for _, to := range states {
			set := waiting(t)
			require.NoError(t, set.Render(0, scale(1)))
			for _, s := range path[from] {
				require.NoError(t, set.Advance(0, s))
			}
			require.Equal(t, from, set.Slot(0).State())
			err := set.Advance(0, to)
			allowed := from == to
			for _, s := range legal[from] {
				allowed = allowed || s == to
			}
			require.Equal(t, allowed, err == nil, "%s -> %s: %v", from, to, err)
			if !allowed {
				require.Equal(t, from, set.Slot(0).State())
			}
		}
	}
}

func TestQuantizingNeedsAScale(t *testing.T) {
	set := waiting(t)
	require.ErrorContains(t, set.Advance(0, tqc.Activated), "it has no scale")
	require.ErrorContains(t, set.Advance(0, tqc.Passive), "it has no scale")
}

func TestDominateTakesTheWholeGroup(t *testing.T) {
	set := waiting(t)
	require.NoError(t, set.Borrow(1, 0))
	require.NoError(t, set.Dominate(0, 5))
	require.Equal(t, tqc.Overlapped, set.Slot(0).State())
	require.Equal(t, tqc.PassiveInit, set.Slot(1).State(), "who borrowed follows to the new root")
	require.Equal(t, tqc.SlotID(5), set.Root(1))
	require.Equal(t, []tqc.SlotID{0, 1, 5}, set.Group(0))
	require.ErrorContains(t, set.Dominate(5, 1), "share a scale already", "no cycles")

	// A slot that is governed takes its root along.
	require.NoError(t, set.Dominate(1, 4))
	for _, id := range []tqc.SlotID{1, 5} {
		require.Equal(t, tqc.Overlapped, set.Slot(id).State())
	}
	require.Equal(t, []tqc.SlotID{0, 1, 4, 5}, set.Group(4))
	require.NoError(t, set.Render(4, scale(2)))
	require.Equal(t, float32(2), set.Params(0).Scale[0])
}

func TestFailedDominanceChangesNothing(t *testing.T) {
	set := waiting(t)
	require.NoError(t, set.Advance(0, tqc.FP32))
	require.Error(t, set.Dominate(0, 1))
	require.Equal(t, tqc.FP32, set.Slot(0).State())
	require.Equal(t, tqc.SlotID(0), set.Root(0))
	require.Error(t, set.Borrow(0, 1))
	require.Equal(t, tqc.SlotID(0), set.Root(0))
}

func TestBorrow(t *testing.T) {
	set := waiting(t)
	require.NoError(t, set.Borrow(1, 0))
	require.Equal(t, tqc.PassiveInit, set.Slot(1).State())
	require.NoError(t, set.Render(0, scale(3)))
	require.Equal(t, tqc.Activated, set.Slot(0).State())
	require.Equal(t, tqc.Passive, set.Slot(1).State(), "who waits is served with the root")
	require.Equal(t, float32(3), set.Grid(1, 0).Scale)

	require.NoError(t, set.Borrow(2, 1), "from a slot that has a scale")
	require.Equal(t, tqc.Passive, set.Slot(2).State())
	require.Equal(t, tqc.SlotID(0), set.Root(2))
	require.ErrorContains(t, set.Borrow(2, 3), "is governed by slot 0")
	require.ErrorContains(t, set.Borrow(0, 2), "share a scale already")
	require.ErrorContains(t, set.Render(1, scale(1)), "is governed by slot 0")
	require.NoError(t, set.Borrow(0, 5), "a root with borrowers borrows itself")
	for _, id := range []tqc.SlotID{0, 1, 2} {
		require.Equal(t, tqc.PassiveInit, set.Slot(id).State(), "and all of them wait again")
	}
}

func TestRenderRefusesBadScales(t *testing.T) {
	set := waiting(t)
	for _, p := range []tqc.Params{
		{}, scale(0), scale(-1), scale(float32(math.NaN())), scale(float32(math.Inf(1))),
		{Scale: []float32{1}}, {Scale: []float32{1, 2}, ZeroPoint: []int32{0, 0}},
		{Scale: []float32{1}, ZeroPoint: []int32{256}}, {Scale: []float32{1}, ZeroPoint: []int32{-1}},
	} {
		require.Error(t, set.Render(0, p), "%v", p)
		require.Equal(t, tqc.Initial, set.Slot(0).State())
		require.False(t, set.Params(0).Ready())
	}
	require.NoError(t, set.Advance(0, tqc.FP32))
	require.ErrorContains(t, set.Render(0, scale(1)), "FP32")
}

func TestCloneIsIndependent(t *testing.T) {
	set := waiting(t)
	c := set.Clone()
	require.NoError(t, c.Dominate(0, 1))
	require.NoError(t, c.Render(1, scale(1)))
	c.Domains[0], c.Why[0], c.Fused[0] = tqc.DomainInt, "x", 1
	require.Equal(t, tqc.Initial, set.Slot(0).State())
	require.Equal(t, tqc.SlotID(0), set.Root(0))
	require.False(t, set.Params(1).Ready())
	require.Equal(t, waiting(t), set)
}

// Whatever sequence of calls made a set, its stored form restores it.
func TestRestoreAfterRandomCalls(t *testing.T) {
	g := graphtest.Parse(t, chain)
	r := rand.New(rand.NewPCG(7, 7))
	for range 2000 {
		set := waiting(t)
		for range r.IntN(12) {
			a, b := tqc.SlotID(r.IntN(6)), tqc.SlotID(r.IntN(6))
			switch r.IntN(4) {
			case 0:
				_ = set.Dominate(a, b)
			case 1:
				_ = set.Borrow(a, b)
			case 2:
				_ = set.Render(a, scale(1+r.Float32()))
			case 3:
				if set.Slot(a).State() == tqc.Initial && len(set.Group(a)) == 1 {
					_ = set.Advance(a, tqc.PassiveInit)
				}
			}
		}
		saved := make([]tqc.Saved, set.NumSlots())
		for id := range saved {
			saved[id] = set.Save(tqc.SlotID(id))
		}
		back := tqc.NewSet(g)
		require.NoError(t, back.Restore(saved))
		require.Equal(t, set, back)
	}
}

func TestAlikeSetsDifferInWhatFoundTheNumbers(t *testing.T) {
	a := waiting(t)
	require.NoError(t, a.Render(0, scale(1)))
	require.True(t, a.Alike(a.Clone()))
	for want, edit := range map[string]func(s *tqc.Set){
		"observer": func(s *tqc.Set) { s.Slot(0).Config.Observer, s.Slot(1).Observer = "kl", "kl" },
		"scale":    func(s *tqc.Set) { require.NoError(t, s.Render(0, scale(2))) },
		"rounding": func(s *tqc.Set) { s.Slot(0).Config.Rounding++ },
		"group":    func(s *tqc.Set) { require.NoError(t, s.Borrow(2, 1)) },
		"state":    func(s *tqc.Set) { require.NoError(t, s.Advance(1, tqc.PassiveInit)) },
		"domain":   func(s *tqc.Set) { s.Domains[0]++ },
	} {
		b := a.Clone()
		edit(b)
		require.Equal(t, want == "observer", a.Alike(b), want)
		require.Equal(t, want == "observer", b.Alike(a), want)
	}
}

func TestRestoreRefusesWhatCannotBe(t *testing.T) {
	g := graphtest.Parse(t, chain)
	good := func() []tqc.Saved {
		saved := make([]tqc.Saved, 6)
		for i := range saved {
			saved[i] = tqc.Saved{Config: u8, State: tqc.Initial, Root: tqc.SlotID(i)}
		}
		saved[0] = tqc.Saved{Config: u8, State: tqc.Activated, Root: 0, Params: scale(1)}
		saved[1] = tqc.Saved{Config: u8, State: tqc.Passive, Root: 0}
		saved[2] = tqc.Saved{State: tqc.FP32, Root: 2}
		return saved
	}
	require.NoError(t, tqc.NewSet(g).Restore(good()))
	for want, edit := range map[string]func(s []tqc.Saved){
		"unknown STATE(9)":                   func(s []tqc.Saved) { s[3].State = 9 },
		"governed by slot 6":                 func(s []tqc.Saved) { s[3].Root = 6 },
		"governed by slot -1":                func(s []tqc.Saved) { s[3].Root = -1 },
		"which is itself governed":           func(s []tqc.Saved) { s[3].State, s[3].Root = tqc.Overlapped, 1 },
		"has a scale of its own":             func(s []tqc.Saved) { s[1].Params = scale(2) },
		"FP32 with a scale":                  func(s []tqc.Saved) { s[2].Params = scale(1) },
		"INITIAL, but governed by":           func(s []tqc.Saved) { s[3].Root = 0 },
		"OVERLAPPED, but no other slot":      func(s []tqc.Saved) { s[3].State = tqc.Overlapped },
		"governed by slot 2, which is FP32":  func(s []tqc.Saved) { s[3].State, s[3].Root = tqc.Overlapped, 2 },
		"ACTIVATED without a scale":          func(s []tqc.Saved) { s[3].State = tqc.Activated },
		"PASSIVE without a scale":            func(s []tqc.Saved) { s[1].Root = 3 },
		"scale 0":                            func(s []tqc.Saved) { s[0].Params = scale(0) },
		"zero point 200 outside [-127, 127]": func(s []tqc.Saved) { s[1].Config = s8; s[0].Params.ZeroPoint = []int32{200} },
		`unknown observer "eyes"`:            func(s []tqc.Saved) { s[3].Observer = "eyes" },
		"0 bits":                             func(s []tqc.Saved) { s[3].Config.Bits = 0 },
		"5 slots stored":                     nil,
	} {
		saved := good()
		if edit == nil {
			saved = saved[:5]
		} else {
			edit(saved)
		}
		set := tqc.NewSet(g)
		require.ErrorContains(t, set.Restore(saved), want)
		require.Equal(t, tqc.NewSet(g), set, "a failed restore changes nothing")
	}
}
