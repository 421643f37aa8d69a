package groupsums

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph/exec"
	"qwb/graph/language/checkpoint"
	"qwb/graph/language/decode"
	"qwb/kernels"
	"qwb/kernels/cpu"
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

func options() Options {
	return Options{Table: kernels.Select(cpu.Detect()), Parallel: exec.Parallel(2), Tokens: 16}
}

// TestSumsOfATrainedModel: groups of 8 that straddle rows of 172.
func TestSumsOfATrainedModel(t *testing.T) {
	o := options()
	last := int64(0)
	o.Progress = func(done int64) { assert.Greater(t, done, last); last = done }
	m := open(t, "stories260K-q8.bin")
	r, err := Run(context.Background(), m, o)
	require.NoError(t, err)
	assert.Zero(t, r.Different, r.First)
	assert.Equal(t, 16, r.Tokens)
	assert.Greater(t, r.Sums, int64(16*m.Parameters()/8*9/10))

	m, last = open(t, "stories260K.bin"), 0
	r, err = Run(context.Background(), m, o)
	require.NoError(t, err)
	assert.Zero(t, r.Sums, "floats have none")
}

// TestLogitsAreThoseOfTheDecoder: what is compared are the sums of the model itself, not of anything else.
func TestLogitsAreThoseOfTheDecoder(t *testing.T) {
	for _, name := range []string{"stories260K.bin", "stories260K-q8.bin"} {
		m := open(t, name)
		r := run{ctx: context.Background(), o: options(), m: m, n: 16}
		got := r.forward()
		require.NoError(t, r.err)
		e, err := decode.New(context.Background(), m, decode.Options{})
		require.NoError(t, err)
		tokens := make([]int, 16)
		for i := range tokens {
			tokens[i] = r.token(i)
		}
		want, err := e.Forward(context.Background(), []decode.Sequence{{Cache: decode.NewCache(&m.Config), Tokens: tokens, Want: 16}})
		require.NoError(t, err)
		worst := 0.0
		for i := range want {
			worst = max(worst, math.Abs(float64(want[i]-got[i])))
		}
		t.Logf("%s: logits differ by up to %g", name, worst)
		assert.Less(t, worst, map[string]float64{"stories260K.bin": 1e-3, "stories260K-q8.bin": 0.5}[name])
	}
}

func TestDifferencesAreCounted(t *testing.T) {
	r := run{n: 2}
	r.compare("query of layer 3, rows 0 to 1", []int32{1, 2, 3, 4}, []int32{1, 2, 4, 5})
	r.compare("up of layer 3, rows 0 to 1", []int32{1, 2}, []int32{0, 2})
	assert.Equal(t, Result{Sums: 6, Different: 3, First: "query of layer 3, rows 0 to 1, token 1, sum 0: 3 on the kernels, 4 on plain loops"},
		r.result)
}

func TestRunEndsWithItsContext(t *testing.T) {
	m := open(t, "stories260K-q8.bin")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := Run(ctx, m, options())
	assert.ErrorIs(t, err, context.Canceled)
}
