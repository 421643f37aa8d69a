package decode_test

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"qwb/graph/language/checkpoint"
	"qwb/graph/language/decode"
	"qwb/internal/longtest"
)

func engine(t testing.TB, name string, o decode.Options) *decode.Engine {
	t.Helper()
	m, err := checkpoint.Open(llm(t) + "/" + name)
	require.NoError(t, err)
	t.Cleanup(func() { _ = m.Close() })
	e, err := decode.New(context.Background(), m, o)
	require.NoError(t, err)
	return e
}

// expected is an independent evaluation of the trained models.
type expected map[string]struct {
	Mean      float64 `json:"mean_nll"`
	Sequences []struct {
		IDs []int   `json:"ids"`
		NLL float64 `json:"nll"`
	} `json:"sequences"`
}

func TestLikelihoodOfTrainedModels(t *testing.T) {
	b, err := os.ReadFile(llm(t) + "/expected-perplexity.json")
	require.NoError(t, err)
	var want expected
	require.NoError(t, json.Unmarshal(b, &want))
	for name, w := range want {
		e := engine(t, name+".bin", decode.Options{})
		nll, n := 0.0, 0
		for i, s := range w.Sequences {
			logs, err := e.LogLikelihood(context.Background(), s.IDs)
			require.NoError(t, err)
			require.Len(t, logs, len(s.IDs)-1)
			sum := 0.0
			for _, l := range logs {
				sum -= l
			}
			assert.InDelta(t, s.NLL/float64(len(logs)), sum/float64(len(logs)), 1e-4, "%s sequence %d", name, i)
			nll, n = nll+sum, n+len(logs)
			if !longtest.Wanted(t) && i > 1 {
				break
			}
		}
		t.Logf("%s: mean %.7f, perplexity %.4f", name, nll/float64(n), math.Exp(nll/float64(n)))
		if longtest.Wanted(t) {
			assert.InDelta(t, w.Mean, nll/float64(n), 1e-4)
		}
	}
}
