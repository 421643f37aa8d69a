package llama2c_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/export/language/llama2c"
	"qwb/export/language/weights"
	"qwb/graph/language/checkpoint"
	"qwb/internal/weightstest"
	"qwb/kernels/qmath"
)

func open(t *testing.T, name string) *checkpoint.Model {
	t.Helper()
	dir := os.Getenv("QWB_TESTDATA")
	if dir == "" {
		t.Skip("QWB_TESTDATA is not set: the folder with models/llm/")
	}
	m, err := checkpoint.Open(filepath.Join(dir, "models", "llm", name))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, m.Close()) })
	return m
}

// TestFilesOfTheReference: what llama2.c's own exporter made of trained checkpoints is made again, byte for byte.
func TestFilesOfTheReference(t *testing.T) {
	for _, c := range []struct {
		from, to string
		format   weights.Format
		group    int
	}{
		{"stories260K.bin", "stories260K-q8.bin", llama2c.Q80(), 8},
		{"stories260K.bin", "stories260K-v1.bin", llama2c.V1(), 0},
		{"stories260K.bin", "stories260K.bin", llama2c.V0(), 0},
		{"stories260K-v1.bin", "stories260K-v1.bin", llama2c.V1(), 0},
		{"stories260K-v1.bin", "stories260K-q8.bin", llama2c.Q80(), 8},
		{"stories260K-q8.bin", "stories260K-q8.bin", llama2c.Q80(), 8},
		{"stories15M.bin", "stories15M.bin", llama2c.V0(), 0},
	} {
		m := open(t, c.from)
		f, err := c.format.Layout(m, weights.Options{Group: c.group})
		require.NoError(t, err)
		want, err := os.ReadFile(open(t, c.to).Path)
		require.NoError(t, err)
		assert.True(t, bytes.Equal(want, weightstest.Bytes(t, f)), "%s of %s is not %s", c.format.Name, c.from, c.to)
	}
}

// TestRotaryTables: those that are computed differ from the exporter's in last bits at most.
func TestRotaryTables(t *testing.T) {
	m := open(t, "stories260K.bin")
	tables := m.RopeTables
	m.RopeTables = nil
	f, err := llama2c.V0().Layout(m, weights.Options{})
	require.NoError(t, err)
	b := weightstest.Bytes(t, f)
	got := b[len(b)-len(tables):]
	different := 0
	for i := 0; i < len(tables); i += 4 {
		x := math.Float32frombits(binary.LittleEndian.Uint32(tables[i:]))
		y := math.Float32frombits(binary.LittleEndian.Uint32(got[i:]))
		require.InDelta(t, x, y, 1e-6)
		if x != y {
			different++
		}
	}
	t.Logf("%d of %d entries differ", different, len(tables)/4)
	assert.Less(t, different, len(tables)/16)
}

// TestDefaultGroups: rows of 64 and 172 have no larger groups in common than 4; 64 divides the embedding and the queries, which is all
// that llama2.c's exporter looks at.
func TestDefaultGroups(t *testing.T) {
	m := open(t, "stories260K.bin")
	f, back, c := weightstest.RoundTrip(t, llama2c.Q80(), m, weights.Options{})
	assert.Equal(t, 4, back.Tensor(checkpoint.Gate, 0).GroupSize())
	require.Len(t, f.Warnings, 1)
	assert.Equal(t, "groups of 4 elements: groups of 8 do not divide the rows of 172 elements of down", f.Warnings[0].Text)
	assert.LessOrEqual(t, c.LargestError, 0.5001)
	assert.Greater(t, c.LargestError, 0.49)
}

func TestGroupsThatDoNotFit(t *testing.T) {
	m := open(t, "stories260K.bin")
	for _, c := range []struct {
		group int
		want  string
	}{
		{7, "groups of 7 elements do not divide the 32768 elements of embedding"},
		{-1, "groups of -1 elements"},
	} {
		_, err := llama2c.Q80().Layout(m, weights.Options{Group: c.group})
		assert.ErrorContains(t, err, c.want)
	}
}

// TestGroupsThatStraddleRows: no engine computes them. Those that llama2.c's exporter never writes are refused; those that it does write
// say that they are unlike what runq computes. (Before, all of them were written without a word about runq.)
func TestGroupsThatStraddleRows(t *testing.T) {
	for _, c := range []struct {
		model string
		group int
		err   string
	}{
		{"stories15M.bin", 64, "do not divide the rows of 288 elements of embedding.*sizes that fit: 96, 48, 32"},
		{"stories260K.bin", 43, "do not divide the 32768 elements of embedding; sizes that fit: 4, 2, 1"},
		{"stories260K.bin", 128, "do not divide the rows of 64 elements of embedding.*sizes that fit: 4, 2, 1"},
	} {
		_, err := llama2c.Q80().Layout(open(t, c.model), weights.Options{Group: c.group})
		require.Error(t, err, "%s, %d", c.model, c.group)
		assert.Regexp(t, c.err, err.Error())
	}
	f, err := llama2c.Q80().Layout(open(t, "stories260K.bin"), weights.Options{Group: 8})
	require.NoError(t, err)
	assert.Contains(t, f.Unlike, "runq of llama2.c leaves out the last 4 elements of each row")
	require.Len(t, f.Warnings, 1)
	assert.Equal(t, f.Unlike, f.Warnings[0].Text)
	for _, c := range []struct {
		model string
		group int
	}{{"stories260K.bin", 4}, {"stories15M.bin", 32}, {"stories15M.bin", 96}} {
		f, err := llama2c.Q80().Layout(open(t, c.model), weights.Options{Group: c.group})
		require.NoError(t, err)
		assert.Empty(t, f.Unlike, "%s, %d", c.model, c.group)
		assert.Empty(t, f.Warnings, "%s, %d", c.model, c.group)
	}
}

// TestRoundTrips: every version holds the model, also one that was permuted for Hugging Face's rotary embedding.
func TestRoundTrips(t *testing.T) {
	for _, pairing := range []checkpoint.Pairing{checkpoint.Interleaved, checkpoint.Halves} {
		for _, tied := range []bool{false, true} {
			c := weightstest.Llama()
			c.Pairing, c.Tied = pairing, tied
			m := weightstest.Model(t, c, 1)
			for _, format := range []weights.Format{llama2c.V0(), llama2c.V1(), llama2c.Q80()} {
				_, back, _ := weightstest.RoundTrip(t, format, m, weights.Options{Search: true})
				assert.Equal(t, checkpoint.Interleaved, back.Pairing)
				assert.Equal(t, tied, back.Tied)
				if !back.Tensor(checkpoint.Query, 1).Quantized() {
					samePairs(t, m, back)
				}
			}
		}
	}
}

// samePairs looks for the pairs that rotary embedding turns together: row for row they are the same two.
func samePairs(t *testing.T, a, b *checkpoint.Model) {
	t.Helper()
	for _, role := range []checkpoint.Role{checkpoint.Query, checkpoint.Key} {
		x, y := a.Tensor(role, 1), b.Tensor(role, 1)
		for head := range x.Rows / a.HeadDim {
			for pair := range a.HeadDim / 2 {
				for side := range 2 {
					one, other := make([]float32, x.Cols), make([]float32, y.Cols)
					x.Row(one, head*a.HeadDim+place(a.Pairing, a.HeadDim, pair, side))
					y.Row(other, head*b.HeadDim+place(b.Pairing, b.HeadDim, pair, side))
					require.Equal(t, one, other)
				}
			}
		}
	}
}

// place is where in a head one of the two elements of a pair stands.
func place(p checkpoint.Pairing, d, pair, side int) int {
	if p == checkpoint.Halves {
		return pair + side*d/2
	}
	return 2*pair + side
}

func TestFaultsAreFound(t *testing.T) {
	m := weightstest.Model(t, weightstest.Llama(), 2)
	for _, format := range []weights.Format{llama2c.V1(), llama2c.Q80()} {
		weightstest.Faults(t, format, m, weights.Options{}, func(at int) bool { return at >= 41 && at < 256 })
	}
}

func TestWhatLlama2cCannotHold(t *testing.T) {
	for _, c := range []struct {
		want   string
		change func(c *checkpoint.Config)
	}{
		{"biases", func(c *checkpoint.Config) { c.Family = checkpoint.Qwen2 }},
		{"base of rotary embedding of 500000, only 10000", func(c *checkpoint.Config) { c.RopeTheta = 500000 }},
		{"scaled rotary frequencies", func(c *checkpoint.Config) { c.Scaling = &checkpoint.RopeScaling{Factor: 2} }},
		{"heads of 32 elements", func(c *checkpoint.Config) { c.HeadDim = 32 }},
	} {
		shape := weightstest.Llama()
		c.change(&shape)
		m := weightstest.Model(t, shape, 3)
		for _, format := range []weights.Format{llama2c.V0(), llama2c.V1(), llama2c.Q80()} {
			_, err := format.Layout(m, weights.Options{})
			assert.ErrorContains(t, err, "cannot hold")
			assert.ErrorContains(t, err, c.want)
		}
	}
}

// TestSearchedScalesLowerTheError of every matrix of trained models, and of no group of them it rises.
func TestSearchedScalesLowerTheError(t *testing.T) {
	for _, c := range []struct {
		name  string
		sizes []int
	}{{"stories260K.bin", []int{4, 16}}, {"stories15M.bin", []int{32, 96}}} {
		m := open(t, c.name)
		for _, limit := range []int32{qmath.GroupMax, qmath.Int4Max} {
			for _, size := range c.sizes {
				for _, role := range []checkpoint.Role{checkpoint.Query, checkpoint.Output, checkpoint.Up} {
					x := m.Tensor(role, 1).All()
					x = x[:min(len(x), 96*64)]
					plain, searched := groupErrors(t, x, size, limit, false), groupErrors(t, x, size, limit, true)
					before, after := 0.0, 0.0
					for g := range plain {
						require.LessOrEqual(t, searched[g], plain[g]*(1+1e-9))
						before, after = before+plain[g], after+searched[g]
					}
					assert.Less(t, after, before*0.99, "%s, %s, groups of %d up to %d", c.name, role, size, limit)
				}
			}
		}
	}
}

func groupErrors(t *testing.T, x []float32, size int, limit int32, search bool) []float64 {
	t.Helper()
	codes, scales := make([]int8, len(x)), make([]float32, len(x)/size)
	require.True(t, qmath.GroupRule{Size: size, Max: limit, Search: search}.Quantize(codes, scales, x))
	out := make([]float64, len(scales))
	for g := range out {
		out[g] = qmath.SquaredError(x[g*size:][:size], codes[g*size:][:size], scales[g])
	}
	return out
}
