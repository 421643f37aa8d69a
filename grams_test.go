package qwb

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"qwb/calib"
	"qwb/calib/data/npy"
	"qwb/internal/graphtest"
	"qwb/observers"
	"qwb/quantizer/tqc"
)

// stopping cancels after so many ticks of progress; it keeps what it was told.
type stopping struct {
	cancel context.CancelFunc
	left   int
	notes  []string
}

func (s *stopping) Progress(string, int) (func(int), func()) {
	return func(int) {
		if s.left--; s.left == 0 {
			s.cancel()
		}
	}, func() {}
}
func (s *stopping) Note(text string)    { s.notes = append(s.notes, text) }
func (s *stopping) Detail(string)       {}
func (s *stopping) Warning(tqc.Warning) {}

// Gram statistics are the same bytes in one pass and in many, and however often the run is stopped and goes on.
func TestGramsInPassesAndPieces(t *testing.T) {
	store := new(Memory)
	p := place(t, store, "a", 1)
	for i := range 12 {
		var b bytes.Buffer
		require.NoError(t, npy.Write(&b, graphtest.Normal(uint64(1000+i), 1, 3, 8, 8)))
		store.Write(fmt.Sprintf("a/more%02d.npy", i), b.Bytes())
	}
	ctx := context.Background()
	_, _, err := p.Calibrate(ctx, CalibrateOptions{Platform: "onnxruntime", Data: DataOptions{Paths: []string{"a"}, Threads: 1}, Threads: 1})
	require.NoError(t, err)
	all := TuneOptions{Shard: Shard{Index: 1, Of: 1}, Out: "one", Memory: 2 << 30, Threads: 3}
	r, _, err := p.Grams(ctx, all)
	require.NoError(t, err)
	require.Equal(t, 1, r.Passes)
	require.Greater(t, r.Operators, 2)
	want, _ := store.Read("one")

	narrow := all
	narrow.Out, narrow.Memory, narrow.Threads = "many", observers.GramBytes(1, 2048, false)+200<<10, 1
	r, _, err = p.Grams(ctx, narrow)
	require.NoError(t, err)
	require.Greater(t, r.Passes, 1)
	many, _ := store.Read("many")
	require.Equal(t, want, many)

	// Stopped after every sample.
	narrow.Out = "pieces"
	for stops := 0; ; stops++ {
		require.Less(t, stops, 100)
		ctx, cancel := context.WithCancel(context.Background())
		e := &stopping{cancel: cancel, left: 3 + 4*stops}
		p.Events = e
		_, _, err := p.Grams(ctx, narrow)
		cancel()
		if err == nil {
			require.Greater(t, stops, 1)
			break
		}
		require.ErrorIs(t, err, context.Canceled)
	}
	pieces, _ := store.Read("pieces")
	require.Equal(t, want, pieces)

	// An operator that does not fit is left out, and named.
	p.Events = nil
	narrow.Out, narrow.Memory = "fewer", 90<<10
	_, warnings, err := p.Grams(context.Background(), narrow)
	require.NoError(t, err)
	require.Len(t, warnings, 2)
	require.Contains(t, warnings[1].Text, "gemm")
	_, err = calib.OpenGrams(bytes.NewReader(nil), 0)
	require.ErrorIs(t, err, calib.ErrGramDamaged)
}
