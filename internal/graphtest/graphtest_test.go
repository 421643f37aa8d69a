package graphtest

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// recorder is a testing.TB that keeps the failure instead of failing.
type recorder struct {
	testing.TB
	failure string
}

func (r *recorder) Helper() {}

func (r *recorder) Fatalf(format string, args ...any) {
	r.failure = fmt.Sprintf(format, args...)
	panic(r)
}

func failure(f func(t testing.TB)) string {
	r := &recorder{}
	func() {
		defer func() { _ = recover() }()
		f(r)
	}()
	return r.failure
}

func TestEqualShowsTheDifference(t *testing.T) {
	g := Parse(t, "input x; y = Relu(x); output y")
	Equal(t, "output y\ninput x\ny = Relu(x)", g)
	said := failure(func(t testing.TB) { Equal(t, "input x; y = Neg(x); output y", g) })
	require.Contains(t, said, "  input x\n- y = Neg(x)\n+ y = Relu(x)\n  output y\n")
}

func TestParseFailsTheTest(t *testing.T) {
	require.Contains(t, failure(func(t testing.TB) { Parse(t, "y = Relu(") }), "line 1, column 10")
	cycle := "input x; a = Add(x, b); b = Relu(a); output b"
	require.Contains(t, failure(func(t testing.TB) { Parse(t, cycle) }), "cycle")
}

func TestRandomTensorsRepeat(t *testing.T) {
	require.Equal(t, Normal(1, 2, 3), Normal(1, 2, 3))
	require.NotEqual(t, Normal(1, 2, 3), Normal(2, 2, 3))
	for _, v := range Uniform(3, -1, 2, 1000).F32() {
		require.True(t, v >= -1 && v < 2)
	}
	require.Equal(t, []float32{0, 1, 2, 3}, Iota(2, 2).F32())
}
