package onnx

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/graph/tensor"
	"qwb/internal/longtest"
)

// FuzzRead checks that no file makes reading panic, that what loads is written as it was read, and that it can be changed,
// written and read again.
func FuzzRead(f *testing.F) {
	f.Add([]byte(sample()))
	f.Add([]byte(around(floats("w", []int64{2}, string(little(1, 2))))))
	f.Add([]byte(around(external("w", "w.bin", "0", "8", 2))))
	f.Fuzz(checkRead)
}

// FuzzTensor checks that no bytes make ReadTensor panic and that what loads survives writing.
func FuzzTensor(f *testing.F) {
	f.Add([]byte(floats("w", []int64{2}, string(little(1, 2)))))
	f.Add([]byte(msg{}.int(1, 3).int(2, 22).str(5, "\xf1\x01\x03")))
	f.Add([]byte(msg{}.int(1, 1).int(2, 8).str(6, "text")))
	f.Fuzz(func(t *testing.T, b []byte) {
		name, x, err := ReadTensor(b)
		if err != nil {
			return
		}
		again, err := WriteTensor(name, x)
		require.NoError(t, err)
		_, back, err := ReadTensor(again)
		require.NoError(t, err)
		require.True(t, tensor.Equal(x, back))
	})
}

func checkRead(t *testing.T, b []byte) {
	m, _, err := read(b)
	if err != nil {
		return
	}
	var out bytes.Buffer
	require.NoError(t, m.Write(&out))
	require.True(t, bytes.Equal(b, out.Bytes()), "a file that was not changed is written with other bytes")
	m.Graph.Doc += "changed"
	out.Reset()
	require.NoError(t, m.Write(&out))
	back, _, err := read(out.Bytes())
	require.NoError(t, err)
	require.Len(t, back.Graph.Nodes(), len(m.Graph.Nodes()))
}

// TestMutations damages small models at random, always in the same way.
func TestMutations(t *testing.T) {
	seeds := [][]byte{sample()}
	conformance(t, ".onnx", func(name string, b []byte) {
		if len(b) < 2000 && len(seeds) < 400 {
			seeds = append(seeds, b)
		}
	})
	rounds := 24_000
	if !longtest.Wanted(t) {
		rounds = 2_000
	}
	r := rand.New(rand.NewPCG(1, 2))
	loaded := 0
	for i := range rounds {
		b := mutate(r, bytes.Clone(seeds[i%len(seeds)]), seeds)
		if m, _, err := read(b); err == nil {
			loaded++
			_ = m
		}
		checkRead(t, b)
	}
	require.Greater(t, loaded, rounds/25, "mutations that leave nothing to load test little")
}

// mutate makes one to four changes: a bit, a byte, a length, a piece removed, doubled or taken from another file.
func mutate(r *rand.Rand, b []byte, seeds [][]byte) []byte {
	for range 1 + r.IntN(4) {
		if len(b) < 8 {
			return b
		}
		at := r.IntN(len(b))
		n := 1 + r.IntN(min(16, len(b)-at))
		switch r.IntN(7) {
		case 0:
			b[at] ^= 1 << r.IntN(8)
		case 1:
			b[at] = byte(r.Uint32())
		case 2:
			b[at] = []byte{0, 1, 0x7f, 0x80, 0xff}[r.IntN(5)]
		case 3:
			b = append(b[:at:at], b[at+n:]...)
		case 4:
			b = append(b[:at+n:at+n], b[at:]...)
		case 5:
			other := seeds[r.IntN(len(seeds))]
			from := r.IntN(len(other))
			b = append(append(b[:at:at], other[from:min(len(other), from+n)]...), b[at:]...)
		case 6:
			b = b[:at]
		}
	}
	return b
}
