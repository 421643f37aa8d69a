package calib

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph"
	"qwb/graph/exec"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/observers"
)

// summedNet has convolutions of several geometries behind Relu, Clip and nothing, a product of rows and a Gemm.
const summedNet = `opset 13
input x: f32[1,4,9,11]
const w1: f32[6,4,3,3] = normal(seed=1, std=0.2)
const w2: f32[6,1,3,5] = normal(seed=2, std=0.2)
const w3: f32[8,6,1,1] = normal(seed=3, std=0.2)
const w4: f32[4,8,2,3] = normal(seed=4, std=0.2)
const w5: f32[72,7] = normal(seed=5, std=0.2)
const w6: f32[3,7] = normal(seed=6, std=0.2)
const lo: f32[] = [0]
const hi: f32[] = [0.5]
c1 = Conv(x, w1) {pads=[1,1,1,1]} "c1"
r1 = Relu(c1)
c2 = Conv(r1, w2) {pads=[2,1,0,3], strides=[2,1], group=6} "c2"
r2 = Clip(c2, lo, hi)
c3 = Conv(r2, w3) {strides=[2,2]} "c3"
c4 = Conv(c3, w4) {dilations=[1,2], pads=[0,2,1,2]} "c4"
f = Flatten(c4)
m = MatMul(f, w5) "m"
g = Gemm(m, w6) {transB=1} "g"
output g
`

// readers are the operators of summedNet that sum products.
var readers = []string{"c1", "c2", "c3", "c4", "m", "g"}

func summedSamples(n int, height, width int) *dataSet {
	s := &dataSet{}
	for i := range n {
		x := graphtest.Normal(uint64(300+i), 1, 4, height, width)
		s.list = append(s.list, &exec.Sample{Name: fmt.Sprint(i), Hash: sha256.Sum256([]byte{byte(i)}), Feeds: map[string]*tensor.Tensor{"x": x}})
	}
	return s
}

type dataSet struct {
	list []*exec.Sample
	at   int
}

func (d *dataSet) Len() int { return len(d.list) }

func (d *dataSet) Next(context.Context) (*exec.Sample, error) {
	if d.at == len(d.list) {
		return nil, io.EOF
	}
	d.at++
	return d.list[d.at-1], nil
}

// naiveSums adds up, value by value, what every tap of every operator reads.
func naiveSums(t *testing.T, g *graph.Graph, data *dataSet) map[string]*observers.InputSums {
	t.Helper()
	session, err := exec.New(g, exec.Options{})
	require.NoError(t, err)
	out := map[string]*observers.InputSums{}
	for _, s := range data.list {
		if exec.HeldOut(s.Hash) {
			continue
		}
		values, err := session.NewRunner().RunAll(context.Background(), s.Feeds, nil, nil)
		require.NoError(t, err)
		for _, name := range readers {
			id, _ := g.LookupNode(name)
			n := g.Node(id)
			x, w := values[n.Inputs[0]], g.Const(n.Inputs[1])
			if n.Inputs[0] == g.Inputs[0] {
				x = s.Feeds["x"]
			}
			x = x.ToRowMajor()
			if n.Op != "Conv" {
				k := x.Shape[len(x.Shape)-1]
				if out[name] == nil {
					out[name] = observers.NewInputSums(nil, 1, k)
				}
				for i, v := range x.F32() {
					out[name].Sums[i%k].Add(v)
				}
				out[name].Count += uint64(x.Len() / k)
				continue
			}
			geo, err := graph.ConvGeometry(n, graph.Static(x.Shape...), graph.Static(w.Shape...))
			require.NoError(t, err)
			c, kh, kw := x.Shape[1], geo.Kernel[0], geo.Kernel[1]
			if out[name] == nil {
				out[name] = observers.NewInputSums(nil, kh*kw, c)
			}
			for oy := range geo.Out[0] {
				for ox := range geo.Out[1] {
					out[name].Count++
					for r := range kh {
						for q := range kw {
							y, z := oy*geo.Stride[0]-geo.PadBegin[0]+r*geo.Dilation[0], ox*geo.Stride[1]-geo.PadBegin[1]+q*geo.Dilation[1]
							if y < 0 || z < 0 || y >= geo.In[0] || z >= geo.In[1] {
								continue
							}
							for ch := range c {
								out[name].Sums[(r*kw+q)*c+ch].Add(x.F32()[(ch*geo.In[0]+y)*geo.In[1]+z])
							}
						}
					}
				}
			}
		}
	}
	return out
}

func TestSumsAreThoseOfEveryTap(t *testing.T) {
	g := graphtest.Parse(t, summedNet)
	data := summedSamples(9, 9, 11)
	want := naiveSums(t, g, data)
	for _, cfg := range []Config{{}, {Threads: 3}, {Batch: 4}, {Batch: 2, Threads: 2}} {
		data.at = 0
		s, err := Run(context.Background(), g, data, cfg)
		require.NoError(t, err)
		require.True(t, s.HasSums())
		require.Empty(t, s.Lacks())
		for _, name := range readers {
			require.NotZero(t, want[name].Count)
			require.Equal(t, want[name], s.Sums(name), "%s, %+v", name, cfg)
		}
		require.Nil(t, s.Sums("no such node"))
	}
}

func encoded(t *testing.T, s *Stats) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, s.Write(&b))
	return b.Bytes()
}

func TestSumsMergeAndResume(t *testing.T) {
	g := graphtest.Parse(t, summedNet)
	all := summedSamples(12, 9, 11)
	whole, err := Run(context.Background(), g, all, Config{})
	require.NoError(t, err)
	var parts []*Stats
	for i := range 3 {
		part, err := Run(context.Background(), g, &dataSet{list: all.list[4*i : 4*i+4]}, Config{})
		require.NoError(t, err)
		parts = append(parts, part)
	}
	m, _, err := Merge(parts[2], parts[0])
	require.NoError(t, err)
	m, _, err = Merge(m, parts[1])
	require.NoError(t, err)
	require.Equal(t, encoded(t, whole), encoded(t, m))

	all.at = 0
	resumed, err := Run(context.Background(), g, all, Config{Resume: parts[1]})
	require.NoError(t, err)
	require.Equal(t, encoded(t, whole), encoded(t, resumed))

	back, err := Read(bytes.NewReader(encoded(t, whole)), int64(len(encoded(t, whole))))
	require.NoError(t, err)
	require.Equal(t, whole.sums, back.sums)
}

// version1 is a file as qwb wrote it before it kept sums.
func version1(t *testing.T, s *Stats) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, s.writeRanges(&b, append([]byte(fileMagic), 1)))
	sum := sha256.Sum256(b.Bytes())
	return append(b.Bytes(), sum[:]...)
}

func TestVersion1IsReadAndSaysWhatItLacks(t *testing.T) {
	g := graphtest.Parse(t, summedNet)
	all := summedSamples(6, 9, 11)
	s, err := Run(context.Background(), g, all, Config{})
	require.NoError(t, err)
	old := version1(t, s)
	back, err := Read(bytes.NewReader(old), int64(len(old)))
	require.NoError(t, err)
	require.False(t, back.HasSums())
	require.Contains(t, fmt.Sprint(back.Lacks()), "sums of what operators read")

	a, err := s.RangeHash()
	require.NoError(t, err)
	b, err := back.RangeHash()
	require.NoError(t, err)
	require.Equal(t, a, b, "sections are not in the hash of what scales are made of")

	m, _, err := Merge(s, back)
	require.NoError(t, err)
	require.False(t, m.HasSums(), "half of the sums is worse than none")
	all.at = 0
	m, err = Run(context.Background(), g, summedSamples(8, 9, 11), Config{Resume: back})
	require.NoError(t, err)
	require.False(t, m.HasSums())
	require.Equal(t, old, version1(t, back))

	all.at = 0
	extremes, err := Run(context.Background(), g, all, Config{MinMaxOnly: true})
	require.NoError(t, err)
	require.Len(t, extremes.Lacks(), 2)

	for i := range 40 {
		file := encoded(t, s)
		file[len(file)-33-i*7] ^= 1
		_, err = Read(bytes.NewReader(file), int64(len(file)))
		require.ErrorIs(t, err, ErrDamaged)
	}
}

// Statistics of some tensors alone are those that a whole run has of them, sums included, and take their place.
func TestOnlySomeTensors(t *testing.T) {
	g := graphtest.Parse(t, summedNet)
	require.Empty(t, graph.InferShapes(g))
	run := func(only func(string) bool, samples int) *Stats {
		s, err := Run(context.Background(), g, summedSamples(samples, 9, 11), Config{Model: "m", Preprocess: "p", Only: only})
		require.NoError(t, err)
		return s
	}
	whole := run(nil, 3)
	for _, names := range [][]string{{"c2", "r1"}, {"c1"}, {"r2"}, {"c1", "m", "r1"}} {
		some := run(func(name string) bool { return slices.Contains(names, name) }, 3)
		require.Equal(t, names, some.Names())
		together, err := whole.With(some)
		require.NoError(t, err)
		require.Equal(t, written(t, whole), written(t, together))
	}
	some := run(func(name string) bool { return name == "r1" }, 3)
	require.NotNil(t, some.Sums("c2"))
	require.Nil(t, some.Sums("c3"))
	_, err := whole.With(run(func(name string) bool { return name == "r1" }, 2))
	require.ErrorContains(t, err, "of other samples")
}

func written(t *testing.T, s *Stats) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, s.Write(&b))
	return b.Bytes()
}

// The sums of a transposed convolution are what its output is made of: weights times means give the mean of each output channel.
func TestSumsOfTransposedConvolutions(t *testing.T) {
	g := graphtest.Parse(t, `opset 13
input x: f32[1,4,5,6]
const w1: f32[4,6,3,3] = normal(seed=1, std=0.2)
const w2: f32[6,2,4,2] = normal(seed=2, std=0.2)
const w3: f32[4,1,3,3] = normal(seed=3, std=0.2)
t1 = ConvTranspose(x, w1) {pads=[1,1,1,1], strides=[2,2], output_padding=[1,0]} "t1"
t2 = ConvTranspose(t1, w2) {pads=[0,1,2,1], strides=[1,3], dilations=[2,1], group=2} "t2"
t3 = ConvTranspose(t2, w3) {strides=[1,1], group=4} "t3"
output t3
`)
	require.Empty(t, graph.InferShapes(g))
	data := summedSamples(12, 5, 6)
	stats, err := Run(context.Background(), g, data, Config{Threads: 2})
	require.NoError(t, err)
	session, err := exec.New(g, exec.Options{})
	require.NoError(t, err)
	for _, name := range []string{"t1", "t2", "t3"} {
		id, _ := g.LookupNode(name)
		n := g.Node(id)
		w := g.Const(n.Inputs[1])
		group := int(n.AttrInt("group", 1))
		inputs, outputs, taps := w.Shape[0], w.Shape[1], tensor.Count(w.Shape[2:])
		sums := stats.Sums(name)
		require.NotNil(t, sums)
		mean, count := make([]float64, outputs*group), 0
		for _, s := range data.list {
			if exec.HeldOut(s.Hash) {
				continue
			}
			values, err := session.NewRunner().RunAll(context.Background(), s.Feeds, nil, nil)
			require.NoError(t, err)
			y := values[n.Outputs[0]].ToRowMajor()
			plane := tensor.Count(y.Shape[2:])
			count += plane
			for i, v := range y.F32() {
				mean[i/plane] += float64(v)
			}
		}
		require.Equal(t, uint64(count), sums.Count)
		for o := range mean {
			want := mean[o] / float64(count)
			got := 0.0
			first := o / outputs * (inputs / group)
			for c := first; c < first+inputs/group; c++ {
				for k := range taps {
					got += float64(w.F32()[(c*outputs+o%outputs)*taps+k]) * sums.Mean(k, c)
				}
			}
			require.InDelta(t, want, got, 1e-5, "%s, channel %d", name, o)
		}
	}
}
