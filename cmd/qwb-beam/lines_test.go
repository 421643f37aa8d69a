package main

import (
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/gcpopts"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"
	"github.com/stretchr/testify/require"
)

// parseLine reads a command line as main does, into the flags that Beam has put on the program's; they have their defaults again later.
func parseLine(t *testing.T, line string) (flags, *spec) {
	t.Helper()
	f := flag.NewFlagSet("qwb-beam", flag.ContinueOnError)
	var own flags
	own.bind(f)
	flag.VisitAll(func(x *flag.Flag) {
		if !strings.HasPrefix(x.Name, "test.") {
			f.Var(x.Value, x.Name, x.Usage)
		}
	})
	t.Cleanup(func() { f.Visit(func(x *flag.Flag) { require.NoError(t, x.Value.Set(x.DefValue)) }) })
	require.NoError(t, f.Parse(strings.Fields(line)), line)
	s, err := newSpec(t.Context(), own.shards, own.out, f.Args())
	require.NoError(t, err, line)
	return own, s
}

// Every command of the document is one that this program takes, with the flags of the Beam that it is built with.
func TestDocumentedLines(t *testing.T) {
	doc, err := os.ReadFile("../../docs/shards.md")
	require.NoError(t, err)
	folder(t)
	here := strings.NewReplacer("/mnt/model.plan.json", "m.plan.json", "/mnt/images", "data", "'images/*.png'", "data/*.npy",
		"model.plan.json", "m.plan.json", "model.onnx", "m.onnx", "--data images", "--data data")
	runners := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^    qwb-beam (.*)$`).FindAllSubmatch(doc, -1) {
		line := here.Replace(string(m[1]))
		t.Run(line, func(t *testing.T) {
			own, s := parseLine(t, line)
			require.Contains(t, []int{16, 64}, own.shards)
			require.Contains(t, []string{"eval", "calibrate"}, s.Command)
			runner := flag.Lookup("runner").Value.String()
			runners[runner]++
			switch runner {
			case "flink":
				endpoint, err := jobopts.GetEndpoint()
				require.NoError(t, err)
				require.Equal(t, "HOST:8099", endpoint)
				require.Equal(t, "beam:env:docker:v1", jobopts.GetEnvironmentUrn(t.Context()))
				require.Equal(t, "IMAGE", jobopts.GetEnvironmentConfig(t.Context()))
				require.Equal(t, "./qwb-beam", *jobopts.WorkerBinary)
				require.Equal(t, 16, *jobopts.Parallelism)
			case "dataflow":
				require.Equal(t, "R", gcpopts.GetRegion(t.Context()))
				require.Equal(t, "P", gcpopts.GetProject(t.Context()))
				require.NoError(t, flag.Set("dry_run", "true"))
				defer func() { require.NoError(t, flag.Set("dry_run", "false")) }()
				_, err := beam.Run(t.Context(), runner, s.pipeline(own.workers))
				require.NoError(t, err)
			}
		})
	}
	require.Equal(t, map[string]int{"": 2, "flink": 1, "dataflow": 1}, runners)
}
