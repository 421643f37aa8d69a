package qmath

import (
	"compress/gzip"
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// oracleCase is one operator that a runtime has run, see testdata/oracle.py.
type oracleCase struct {
	Op      string
	Signed  bool  // codes of the input, and of the output
	SignedW bool  `json:"signed_w"` // codes of the weights
	Seed    int   // of the generator of the first input; the others follow
	Shape   []int // as the operator reads it
	Scales  []float32
	Zeros   []int32
	Alpha   float32
	Bits    int // of the codes, 0 for 8
	Y       []byte
}

func (c oracleCase) grid(i int) Grid {
	g := Grid{Scale: c.Scales[i], ZeroPoint: c.Zeros[i], QMin: 0, QMax: 255}
	switch {
	case c.Bits == 16:
		g.QMin, g.QMax = -1<<15, 1<<15-1
	case c.Signed:
		g.QMin, g.QMax = -128, 127
	}
	return g
}

// codes are n codes of the generator with the given number after the case's seed. Codes of 16 bits are pairs of bytes.
func (c oracleCase) codes(after, n int) []int32 {
	if c.Bits != 16 {
		return generated(c.Seed+after, n, c.Signed)
	}
	bytes, out := generated(c.Seed+after, 2*n, false), make([]int32, n)
	for i := range out {
		out[i] = int32(int16(bytes[2*i] | bytes[2*i+1]<<8))
	}
	return out
}

func generated(seed, n int, signed bool) []int32 {
	state, out := uint32(seed), make([]int32, n)
	for i := range out {
		state = (state*1103515245 + 12345) & (1<<31 - 1)
		out[i] = fromByte(byte(state>>16), signed)
	}
	return out
}

// want returns element i of the runtime's output.
func (c oracleCase) want(i int) int32 {
	if c.Bits == 16 {
		return int32(int16(uint16(c.Y[2*i]) | uint16(c.Y[2*i+1])<<8))
	}
	return fromByte(c.Y[i], c.Signed)
}

func oracle(t *testing.T, name string) (cases []oracleCase) {
	t.Helper()
	f, err := os.Open("testdata/" + name)
	require.NoError(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	var file struct {
		Runtime string
		Cases   []oracleCase
	}
	require.NoError(t, json.NewDecoder(z).Decode(&file))
	require.NotEmpty(t, file.Cases)
	t.Logf("%d cases of %s", len(file.Cases), file.Runtime)
	return file.Cases
}

// compare counts where got differs from the runtime.
type tally struct{ compared, different map[string]int }

func (n tally) add(t *testing.T, c oracleCase, i int, got int32) {
	n.compared[c.Op]++
	if want := c.want(i); got != want {
		if n.different[c.Op]++; n.different[c.Op] <= 3 {
			t.Errorf("%s %v %v signed=%v: element %d is %d, the runtime has %d", c.Op, c.Scales, c.Zeros, c.Signed, i, got, want)
		}
	}
}
