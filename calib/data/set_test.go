package data

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/quantizer/plan"
)

func TestImageFolder(t *testing.T) {
	f := tree{"d/b.png": pngFile(4, 3, 1), "d/a.PNG": pngFile(4, 3, 2), "d/sub/c": pngFile(4, 3, 3), "d/notes.txt": []byte("x"),
		"d/labels.tsv": []byte("y"), "d/.git/e.png": pngFile(4, 3, 9)}
	set, w := open(t, f, input("x", 1, 3, 3, 4), Options{Ahead: 3}, "d")
	list := all(t, set)
	require.Equal(t, []string{"a.PNG", "b.png", "sub/c"}, names(list), "sorted; folders within; told by content or extension")
	require.Equal(t, []Warning{{Node: "data", Text: "2 files are not samples and were skipped (first: labels.tsv)", Value: 2}}, w)
	x := list[1].Feeds["x"]
	require.Equal(t, []int{1, 3, 3, 4}, x.Shape)
	require.Equal(t, []float32{0, 10, 20, 30, 0, 10, 20, 30, 0, 10, 20, 30}, x.F32()[:12], "red")
	require.Equal(t, []float32{0, 0, 0, 0, 10, 10, 10, 10, 20, 20, 20, 20}, x.F32()[12:24], "green")
	require.Equal(t, -1, list[0].Label)
	require.Equal(t, names(list), names(all(t, set)), "a set can be iterated again")
}

func TestFolderErrors(t *testing.T) {
	spec := input("x", 1, 3, 3, 4)
	good := pngFile(4, 3, 1)
	for name, c := range map[string]struct {
		f    tree
		path string
		want string
	}{
		"missing":    {tree{}, "d", "data: d: file does not exist"},
		"no samples": {tree{"d/a.txt": nil, "d/b.md": nil}, "d", "data: d: no image or other sample among the files in the folder (2)"},
		"fake":       {tree{"d/a.png": good, "d/b.jpg": []byte("GIF89a")}, "d", "data: d: b.jpg: named as an image, but"},
		"empty file": {tree{"d/b.jpg": nil}, "d", "data: d: b.jpg: named as an image, but"},
		"cut":        {tree{"d/a.png": good, "d/b.png": good[:len(good)-20]}, "d", "data: d: b.png: PNG: png: invalid format: unexpected EOF"},
		"wrong size": {tree{"d/a.png": pngFile(5, 3, 0)}, "d", "a.png: the picture of 3x5 (height x width) is 3x5 after preprocessing, " +
			"input x f32[1,3,3,4] takes 3x4"},
		"other file":  {tree{"a.txt": []byte("hi")}, "a.txt", "neither image, npy"},
		"cut single":  {tree{"b.png": good[:50]}, "b.png", "b.png"},
		"no synth":    {tree{}, "synthetic", "synthetic:N"},
		"synth count": {tree{}, "synthetic:0", "needs a number of samples"},
	} {
		require.ErrorContains(t, openError(c.f, spec, Options{}, c.path), c.want, name)
	}
	dir := t.TempDir()
	_, _, err := Open([]string{dir}, spec, Options{})
	require.ErrorContains(t, err, "the folder is empty")
	_, _, err = Open(nil, spec, Options{})
	require.ErrorContains(t, err, "no data given")
	two := InputSpec{spec[0], {Name: "y", DType: tensor.Float32, Shape: spec[0].Shape}}
	require.ErrorContains(t, openError(tree{"a.png": good}, two, Options{}, "a.png"), "this one has 2 (x f32[1,3,3,4], y f32[1,3,3,4])")
}

func TestTheOrderOfPathsDoesNotMatter(t *testing.T) {
	f := tree{}
	for i := range 12 {
		f[fmt.Sprintf("p/%02d.png", i)] = pngFile(4, 3, uint8(i))
		f[fmt.Sprintf("q/%02d.png", i)] = pngFile(4, 3, uint8(100+i))
	}
	for _, n := range []int{0, 5} {
		one, _ := open(t, f, input("x", 1, 3, 3, 4), Options{Samples: n, Seed: 3}, "p", "q")
		two, _ := open(t, f, input("x", 1, 3, 3, 4), Options{Samples: n, Seed: 3, Ahead: 7}, "q", "p")
		a, b := all(t, one), all(t, two)
		require.Equal(t, a, b)
	}
}

// The choice is a contract: a plan that stores count and seed has to mean the same samples for ever. The numbers come from
// another implementation of the generator.
func TestChoice(t *testing.T) {
	require.Nil(t, choose(5, 0, 1), "all")
	require.Nil(t, choose(5, 5, 1), "all")
	require.Equal(t, []int{1, 2, 4, 5}, choose(10, 4, 0))
	require.Equal(t, []int{209, 213, 315, 581, 886}, choose(1000, 5, 42))
	require.NotEqual(t, choose(100, 10, 1), choose(100, 10, 2))
	counts := make([]int, 10)
	for seed := range uint64(3000) {
		l := choose(10, 3, seed)
		require.True(t, slices.IsSorted(l))
		for _, i := range l {
			counts[i]++
		}
	}
	for _, c := range counts {
		require.InDelta(t, 900, c, 120, "every sample is as likely (expected deviation 25)")
	}
}

func TestFewerSamplesThanAskedFor(t *testing.T) {
	set, w := open(t, tree{"a.png": pngFile(4, 3, 1)}, input("x", 1, 3, 3, 4), Options{Samples: 3}, "a.png")
	require.Equal(t, 1, set.Len())
	require.Equal(t, "--samples 3: the data have only 1; all are used", w[0].Text)
}

func TestNaNIsAnError(t *testing.T) {
	x := ramp(0, 1, 4)
	x.F32()[2] = float32(math.NaN())
	err := openError(tree{"d/a.npy": npyFile(ramp(0, 1, 4)), "d/b.npy": npyFile(x)}, input("x", 1, 4), Options{}, "d")
	require.EqualError(t, err, `data: d: b.npy: input "x" (f32[1,4]) holds NaN, first at element 2`)
	half := &tensor.Tensor{DType: tensor.Float16, Shape: []int{2}, Data: []uint16{0x7c00, 0xfe00}}
	require.Equal(t, 1, firstNaN(half), "infinity is none")
	require.Equal(t, -1, firstNaN(&tensor.Tensor{DType: tensor.Uint16, Shape: []int{1}, Data: []uint16{0xffff}}))
}

func TestHashIsCanonical(t *testing.T) {
	a := map[string]*tensor.Tensor{"a": ramp(0, 1, 2, 2), "b": ramp(0, 2)}
	same := map[string]*tensor.Tensor{"b": ramp(0, 2), "a": ramp(0, 1, 2, 2).ToChannelsLast()}
	require.Equal(t, Hash(a), Hash(same))
	for name, other := range map[string]map[string]*tensor.Tensor{
		"a name":    {"a": ramp(0, 1, 2, 2), "c": ramp(0, 2)},
		"a shape":   {"a": ramp(0, 2, 2, 1), "b": ramp(0, 2)},
		"a value":   {"a": ramp(1, 1, 2, 2), "b": ramp(0, 2)},
		"swapped":   {"b": ramp(0, 1, 2, 2), "a": ramp(0, 2)},
		"one fewer": {"a": ramp(0, 1, 2, 2)},
	} {
		require.NotEqual(t, Hash(a), Hash(other), name)
	}
	// By hand: 1, "x", 3, "f32", rank 1, dimension 1, 1.0f.
	require.Equal(t, "fe0598858191", fmt.Sprintf("%x", Hash(map[string]*tensor.Tensor{"x": tensor.FromF32([]float32{1}, 1)}))[:12])
}

// source that fails and blocks on demand.
type fakeSource struct {
	n, bad int
	wait   chan struct{}
	load_  func(i int)
}

func (s *fakeSource) len() int          { return s.n }
func (s *fakeSource) name(i int) string { return fmt.Sprint(i) }
func (s *fakeSource) label(int) int     { return -1 }
func (s *fakeSource) load(i int) (map[string]*tensor.Tensor, error) {
	if s.load_ != nil {
		s.load_(i)
	}
	if s.wait != nil {
		<-s.wait
	}
	if i == s.bad {
		return nil, errors.New("broken")
	}
	return map[string]*tensor.Tensor{"x": ramp(i, 1)}, nil
}

func fakeSet(s *fakeSource, ahead int) *Set {
	set := &Set{ahead: ahead}
	for i := range s.n {
		set.items = append(set.items, item{src: s, index: i, name: s.name(i), origin: "fake", label: -1})
	}
	return set
}

func TestIteratorKeepsOrderAndBounds(t *testing.T) {
	for _, ahead := range []int{1, 2, 7} {
		var list []*exec.Sample
		loading := make(chan int, 100)
		set := fakeSet(&fakeSource{n: 20, bad: -1, load_: func(i int) { loading <- i }}, ahead)
		it := set.Iterator()
		for {
			s, err := it.Next(context.Background())
			if err == io.EOF {
				break
			}
			require.NoError(t, err)
			list = append(list, s)
			require.Equal(t, min(20, len(list)+ahead), it.(*iterator).started, "loaded while the consumer works")
		}
		for i, s := range list {
			require.Equal(t, fmt.Sprint(i), s.Name)
			require.Equal(t, float32(i), s.Feeds["x"].F32()[0])
		}
		require.Len(t, loading, 20, "each sample is loaded once")
	}
}

// Samples of four bytes: memory bounds how many are ahead, from the first one on.
func TestIteratorMemory(t *testing.T) {
	for memory, ahead := range map[int64]int{1: 1, 8: 1, 12: 2, 100: 7, 0: 7} {
		set := fakeSet(&fakeSource{n: 20, bad: -1}, 7)
		set.memory = memory
		it := set.Iterator().(*iterator)
		for i := range 20 {
			s, err := it.Next(context.Background())
			require.NoError(t, err)
			require.Equal(t, fmt.Sprint(i), s.Name)
			require.Equal(t, min(20, i+1+ahead), it.started, "memory %d", memory)
		}
	}
}

func TestIteratorStops(t *testing.T) {
	it := fakeSet(&fakeSource{n: 5, bad: 2}, 4).Iterator()
	var err error
	n := 0
	for ; err == nil; n++ {
		_, err = it.Next(context.Background())
	}
	require.EqualError(t, err, "data: fake: 2: broken")
	require.Equal(t, 3, n, "after the samples before it")
	_, err = it.Next(context.Background())
	require.Equal(t, io.EOF, err)

	ctx, cancel := context.WithCancel(context.Background())
	block := make(chan struct{})
	defer close(block)
	it = fakeSet(&fakeSource{n: 5, bad: -1, wait: block}, 2).Iterator()
	go cancel()
	_, err = it.Next(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

func TestPreprocessingIsForImages(t *testing.T) {
	pre := plan.Preprocess{Mean: plan.Channels{1}}
	_, w := open(t, tree{"a.npy": npyFile(ramp(0, 1, 4))}, input("x", 1, 4), Options{Preprocess: &pre}, "a.npy")
	require.Equal(t, "preprocessing applies to images only: a.npy is used unchanged", w[0].Text)
	_, w = open(t, tree{"a.npy": npyFile(ramp(0, 1, 4))}, input("x", 1, 4), Options{Preprocess: &plan.Preprocess{Scale: 1}}, "a.npy")
	require.Empty(t, w)
}
