package cmd

import (
	"context"
	"math"

	"qwb/calib"
	"qwb/graph"
	"qwb/graph/exec"
)

// gramPass takes the Gram statistics of all operators over samples, none of which is held out, and ops is what the sums of one sample are
// in operations: two for each product of two elements of a row, of a half of the matrix.
func gramPass(ctx context.Context, g *graph.Graph, samples []*exec.Sample, threads int) (p pass, ops float64, err error) {
	stats, err := calib.Run(ctx, g, &inMemory{samples: samples[:1]}, calib.Config{Threads: 1, MinMaxOnly: true})
	if err != nil {
		return pass{}, 0, err
	}
	var fitting []*exec.Sample
	for _, s := range samples {
		one := *s
		for exec.HeldOut(one.Hash) {
			one.Hash[len(one.Hash)-1]++
		}
		fitting = append(fitting, &one)
	}
	var products float64
	run := func(ctx context.Context, some []*exec.Sample) error {
		passes, _, err := calib.GramPasses(g, stats, math.MaxInt64, threads, func(string) bool { return false })
		if err != nil || len(passes) == 0 {
			return err // there may be no operator that sums products
		}
		_, err = calib.RunGrams(ctx, g, passes[0], &inMemory{samples: fitting[:len(some)]}, calib.GramSamples{}, nil, threads, nil)
		products = 0
		for _, op := range passes[0] {
			for _, rows := range op.Gram.Count {
				products += float64(rows) * float64(op.Gram.K) * float64(op.Gram.K+1) / 2
			}
		}
		return err
	}
	if err := run(ctx, samples[:1]); err != nil {
		return pass{}, 0, err
	}
	return pass{name: "gram", run: run}, 2 * products, nil
}
