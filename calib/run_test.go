package calib_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/calib"
	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
)

func encoded(t testing.TB, s *calib.Stats) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, s.Write(&b))
	return b.Bytes()
}

// What Run saw is what a plain forward computes: every float tensor, once per sample.
func TestRunObservesEveryTensor(t *testing.T) {
	g := parse(t, network)
	samples := images(1, 5)
	var calls []int
	stats := run(t, g, samples, calib.Config{Progress: func(done, total int) {
		require.Equal(t, 5, total)
		calls = append(calls, done)
	}})
	require.Equal(t, []int{1, 2, 3, 4, 5}, calls)
	require.Equal(t, 5, stats.Samples())

	session, err := exec.New(g, exec.Options{})
	require.NoError(t, err)
	want := map[string][]float32{}
	for _, s := range samples {
		values, err := session.NewRunner().RunAll(context.Background(), s.Feeds, nil, nil)
		require.NoError(t, err)
		for v, x := range values {
			if x != nil {
				name := g.Value(graph.ValueID(v)).Name
				want[name] = append(want[name], x.F32()...)
			}
		}
	}
	require.Equal(t, []string{"a", "c1", "c2", "cat", "f", "gap", "p", "p2", "r1", "r2", "s", "x", "y"}, stats.Names())
	for _, name := range stats.Names() {
		x := stats.Tensor(name)
		require.EqualValues(t, len(want[name]), x.State.Count(), name)
		require.Equal(t, slices.Min(want[name]), x.State.Extent().Min, name)
		require.Equal(t, slices.Max(want[name]), x.State.Extent().Max, name)
		require.Equal(t, x.State.Extent(), x.Halves[0].Union(x.Halves[1]), name)
	}
	require.Len(t, stats.Tensor("c1").State.Channels(), 4)
	rows, _ := stats.Tensor("s").State.Rows()
	require.EqualValues(t, 5, rows)
	rows, _ = stats.Tensor("y").State.Rows()
	require.Zero(t, rows)
}

// Threads, order of samples, storage order of nodes, shards and interruptions leave no trace in a byte of the file.
func TestStatsDoNotDependOnHowTheyWereMade(t *testing.T) {
	g := parse(t, network)
	samples := images(2, 20)
	samples = append(samples, samples[3], samples[3]) // the same image under several names
	want := encoded(t, run(t, g, samples, calib.Config{Model: "m", Preprocess: "p"}))
	cfg := calib.Config{Model: "m", Preprocess: "p"}
	r := rand.New(rand.NewPCG(3, 4))

	for _, threads := range []int{2, 7} {
		cfg.Threads = threads
		shuffled := slices.Clone(samples)
		r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		require.Equal(t, want, encoded(t, run(t, g, shuffled, cfg)), "%d threads", threads)
	}
	other := g.Clone()
	other.Shuffle(r.Perm(other.NumNodes()))
	require.Equal(t, want, encoded(t, run(t, other, samples, cfg)), "nodes shuffled")

	for _, cut := range []int{0, 1, 11, 22} {
		a, b := run(t, g, samples[:cut], cfg), run(t, g, samples[cut:], cfg)
		ab, overlap, err := calib.Merge(a, b)
		require.NoError(t, err)
		require.Equal(t, want, encoded(t, ab))
		require.Equal(t, cut == 11, overlap > 0, "cut at %d: the repeated image is on both sides of 11 only", cut)
		ba, _, err := calib.Merge(b, a)
		require.NoError(t, err)
		require.Equal(t, want, encoded(t, ba))
	}

	for _, at := range []int{0, 5, 20, 21} {
		ctx, cancel := context.WithCancel(context.Background())
		data := &list{samples: samples, stop: func(i int) {
			if i == at {
				cancel()
			}
		}}
		part, err := calib.Run(ctx, g, data, cfg)
		cancel()
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, at, part.Samples(), "samples that have begun are finished")
		// Through a file, as an interrupted command would.
		path := filepath.Join(t.TempDir(), "part.stats")
		require.NoError(t, part.Save(path))
		loaded, err := calib.Load(path)
		require.NoError(t, err)
		before := encoded(t, loaded)
		resumed := cfg
		resumed.Resume = loaded
		done := 0
		resumed.Progress = func(n, _ int) { done = n }
		require.Equal(t, want, encoded(t, run(t, g, samples, resumed)), "interrupted at %d", at)
		require.Equal(t, before, encoded(t, loaded), "what is resumed from is not changed")
		require.Equal(t, len(samples), done)
	}
}

func TestKeptSamples(t *testing.T) {
	g := parse(t, network)
	samples := images(5, 20)
	stats := run(t, g, append(samples, samples...), calib.Config{Threads: 3})
	sorted := slices.Clone(samples)
	slices.SortFunc(sorted, func(a, b *exec.Sample) int { return bytes.Compare(a.Hash[:], b.Hash[:]) })
	require.Len(t, stats.Kept(), calib.MaxKept)
	for i, k := range stats.Kept() {
		require.Equal(t, calib.Hash(sorted[i].Hash), k.Hash, "the smallest hashes, each once")
		require.True(t, tensor.Equal(sorted[i].Feeds["x"], k.Feeds["x"]))
	}
	require.Len(t, run(t, g, samples[:3], calib.Config{}).Kept(), 3)
}

func TestNaN(t *testing.T) {
	g := parse(t, `
input x: f32[1,4]
r = Sqrt(x) "root"
output r: f32[1,4]`)
	bad := []*exec.Sample{sampleOf("fine.png", []float32{1, 2, 3, 4}, 1, 4)}
	for i := range 20 {
		bad = append(bad, sampleOf(fmt.Sprintf("bad%d.png", i), []float32{1, -2, -3, float32(i)}, 1, 4))
	}
	for _, threads := range []int{1, 4} { // the first bad sample is named, whoever met one first
		stats, err := calib.Run(context.Background(), g, &list{samples: bad}, calib.Config{Threads: threads})
		require.Nil(t, stats)
		require.EqualError(t, err, `calibrate: sample "bad0.png": node "root" (Sqrt, f32[1,4]): output "r": 2 of 4 values are NaN`)
	}
	_, err := calib.Run(context.Background(), g, &list{samples: []*exec.Sample{sampleOf("in.npy", []float32{1, nan, 0, 0}, 1, 4)}},
		calib.Config{})
	require.EqualError(t, err, `calibrate: sample "in.npy": graph input "x": 1 of 4 values are NaN`)

	// An infinite number becomes NaN behind it: the sample is to blame, not the operator.
	less := parse(t, `
input x: f32[1,4]
d = Sub(x, x) "difference"
output d: f32[1,4]`)
	_, err = calib.Run(context.Background(), less,
		&list{samples: []*exec.Sample{sampleOf("in.npy", []float32{1, 2, float32(math.Inf(-1)), 0}, 1, 4)}}, calib.Config{})
	require.EqualError(t, err, `calibrate: sample "in.npy": element [0 2] of input "x" is infinite; behind it: node "difference" (Sub, `+
		`f32[1,4], f32[1,4]): output "d": 1 of 4 values are NaN`)

	stats := run(t, g, []*exec.Sample{sampleOf("inf", []float32{1, float32(math.Inf(1)), 0, 0}, 1, 4)}, calib.Config{})
	_, pos := stats.Tensor("r").State.Inf()
	require.EqualValues(t, 1, pos)

	_, err = calib.Run(context.Background(), g, &list{samples: []*exec.Sample{{Name: "none"}}}, calib.Config{})
	require.ErrorContains(t, err, `sample "none"`)
}

func TestOriginsAreNotMixed(t *testing.T) {
	g := parse(t, network)
	a, b := run(t, g, images(6, 1), calib.Config{Model: "m1"}), run(t, g, images(7, 1), calib.Config{Model: "m2"})
	_, _, err := calib.Merge(a, b)
	require.EqualError(t, err, "merge statistics: they are of another model (m2, not m1)")
	_, err = calib.Run(context.Background(), g, &list{}, calib.Config{Model: "m1", Preprocess: "other", Resume: a})
	require.ErrorContains(t, err, "preprocessed differently")
	small := parse(t, "input x: f32[1,4]\nr = Relu(x)\noutput r: f32[1,4]")
	_, err = calib.Run(context.Background(), small, &list{}, calib.Config{Model: "m1", Resume: a})
	require.ErrorIs(t, err, calib.ErrOtherForm)
}

// Sources and seed follow the samples, whichever way the statistics came together.
func TestSourcesAndSeed(t *testing.T) {
	g := parse(t, network)
	data := images(9, 3)
	a := run(t, g, data[:1], calib.Config{Sources: []string{"b", "a", "b"}, Seed: 5})
	b := run(t, g, data[1:2], calib.Config{Sources: []string{"c", "a"}, Seed: 5})
	c := run(t, g, data[2:], calib.Config{Sources: []string{"d"}, Seed: 6})
	require.Equal(t, []string{"a", "b"}, a.Sources)
	ab, _, err := calib.Merge(a, b)
	require.NoError(t, err)
	require.EqualValues(t, 5, ab.Seed)
	abc, _, err := calib.Merge(ab, c)
	require.NoError(t, err)
	bc, _, err := calib.Merge(c, b)
	require.NoError(t, err)
	bca, _, err := calib.Merge(bc, a)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b", "c", "d"}, abc.Sources)
	require.Zero(t, abc.Seed)
	require.Equal(t, encoded(t, abc), encoded(t, bca))
	resumed := run(t, g, data[1:2], calib.Config{Sources: []string{"c", "a"}, Seed: 5, Resume: a})
	require.Equal(t, encoded(t, ab), encoded(t, resumed))
	want := encoded(t, ab)
	slices.Reverse(ab.Sources)
	require.Equal(t, want, encoded(t, ab))
}

// Every byte that is changed, cut off or added is found.
func TestDamagedFile(t *testing.T) {
	g := parse(t, "input x: f32[1,2,3]\nr = Relu(x)\noutput r: f32[1,2,3]")
	good := encoded(t, run(t, g, []*exec.Sample{sampleOf("a", []float32{1, 2, 3, -4, 5, 6}, 1, 2, 3)}, calib.Config{Model: "m"}))
	read := func(b []byte) error {
		_, err := calib.Read(bytes.NewReader(b), int64(len(b)))
		return err
	}
	require.NoError(t, read(good))
	for i := range good {
		bad := slices.Clone(good)
		bad[i] ^= 0x10
		require.Error(t, read(bad), "byte %d", i)
		require.ErrorIs(t, read(good[:i]), calib.ErrDamaged, "cut at %d", i)
	}
	require.ErrorIs(t, read(append(slices.Clone(good), 0)), calib.ErrDamaged)
	later := slices.Clone(good)
	later[7] = 99
	require.ErrorContains(t, read(later), "version 99")
	// With a checksum that fits, the parser itself must refuse what is cut off, and accept or refuse any change in order.
	body := good[:len(good)-32]
	for i := 8; i < len(body); i++ {
		require.ErrorIs(t, read(seal(body[:i])), calib.ErrDamaged, "cut at %d", i)
		bad := slices.Clone(body)
		bad[i] ^= 0xff
		if err := read(seal(bad)); err != nil {
			require.ErrorIs(t, err, calib.ErrDamaged, "byte %d", i)
		}
	}
	_, err := calib.Load(filepath.Join(t.TempDir(), "none.stats"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// FuzzRead gives the parser what no checksum protects it from: the body is mutated, the checksum made to fit.
func FuzzRead(f *testing.F) {
	g := parse(f, "input x: f32[1,2,3]\nr = Softmax(x)\noutput r: f32[1,2,3]")
	good := encoded(f, run(f, g, []*exec.Sample{sampleOf("a", []float32{1, 2, 3, -4, 5, 6}, 1, 2, 3)}, calib.Config{Model: "m"}))
	f.Add(good[:len(good)-32])
	f.Fuzz(func(t *testing.T, body []byte) {
		b := seal(body)
		s, err := calib.Read(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		again := encoded(t, s)
		s2, err := calib.Read(bytes.NewReader(again), int64(len(again)))
		require.NoError(t, err)
		require.Equal(t, again, encoded(t, s2))
		_, _, err = calib.Merge(s, s2)
		require.NoError(t, err)
		s.Settled(0)
	})
}

func TestSaveLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	s := run(t, parse(t, network), images(8, 1), calib.Config{})
	path := filepath.Join(dir, "m.stats")
	require.NoError(t, s.Save(path))
	require.NoError(t, s.Save(path))
	names, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, names, 1)
	require.Error(t, s.Save(filepath.Join(dir, "no such folder", "m.stats")))
}

func TestSettled(t *testing.T) {
	g := parse(t, "input x: f32[1,4]\nr = Relu(x)\noutput r: f32[1,4]")
	at := func(half byte, v ...float32) *exec.Sample {
		s := sampleOf("s", v, 1, 4)
		s.Hash[31] = half
		return s
	}
	w := run(t, g, []*exec.Sample{at(0, -1, 2, 3, 4)}, calib.Config{}).Settled(0)
	require.Len(t, w, 1)
	require.Contains(t, w[0].Text, "too few")
	require.Empty(t, run(t, g, []*exec.Sample{at(0, -1, 2, 3, 4), at(1, -1, 2, 3, 3.9)}, calib.Config{}).Settled(0))
	stats := run(t, g, []*exec.Sample{at(2, -1, 2, 3, 4), at(1, -1, 2, 3, 1)}, calib.Config{})
	w = stats.Settled(0)
	require.Len(t, w, 1)
	require.Contains(t, w[0].Text, "1 of 2 tensors")
	drifts, enough := stats.Drifts(0.1)
	require.True(t, enough)
	require.Equal(t, calib.Drift{Tensor: "r", Lo: [2]float64{0, 0}, Hi: [2]float64{4, 3}, Share: 0.25}, drifts[0])
}
