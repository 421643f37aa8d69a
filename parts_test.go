package qwb

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/analysis"
	"qwb/internal/shard"
)

// Parts of runs on sequences have whole ones, and give together what one run gives: of every command that runs samples.
func TestPartsOfSequences(t *testing.T) {
	p := sequences(t)
	p.calibrated(t, "rolled", 1, "h=h_out")
	data := DataOptions{Paths: []string{"rolled"}}
	for name, run := range map[string]func(context.Context, *Project) (any, error){
		"eval": func(ctx context.Context, p *Project) (any, error) {
			r, _, err := p.Eval(ctx, EvalOptions{Mode: "int8", Data: data, Threads: 2})
			if r != nil {
				r.Seconds = 0
			}
			return r, err
		},
		"analyze": func(ctx context.Context, p *Project) (any, error) {
			r, _, err := p.Analyze(ctx, AnalyzeOptions{Data: data, Config: analysis.Config{Graphwise: true, Layerwise: true, Statistical: true,
				Outputs: true, Threads: 2}})
			return r, err
		},
		"verify": func(ctx context.Context, p *Project) (any, error) {
			r, _, err := p.Verify(ctx, VerifyOptions{Data: DataOptions{Paths: data.Paths, Samples: 60}, Threads: 2})
			return r, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			folder := func() *Project {
				own, store := *p, new(Memory)
				for _, file := range p.Store.(*Memory).Names() {
					store.Write(file, get(t, p, file))
				}
				own.Store = store
				return &own
			}
			one := folder()
			want, err := run(context.Background(), one)
			require.NoError(t, err)
			var names []string
			var list []*shard.Run
			for i := range 3 {
				r := shard.New(name, nil, i+1, 3)
				_, err := run(shard.With(context.Background(), r), folder())
				require.ErrorIs(t, err, shard.ErrDone)
				var b bytes.Buffer
				require.NoError(t, r.Write(&b))
				back, err := shard.Read(b.Bytes())
				require.NoError(t, err)
				names, list = append(names, fmt.Sprint(i)), append(list, back)
			}
			all, err := shard.Join(names, list)
			require.NoError(t, err)
			merged := folder()
			got, err := run(shard.With(context.Background(), all), merged)
			require.NoError(t, err)
			a, err := json.Marshal(want)
			require.NoError(t, err)
			b, err := json.Marshal(got)
			require.NoError(t, err)
			require.JSONEq(t, string(a), string(b))
			require.Equal(t, get(t, one, one.Plan), get(t, merged, merged.Plan))
		})
	}
}
