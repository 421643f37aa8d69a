package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb/internal/advisetest"
	"qwb/internal/longtest"
)

// Every command that is advised runs as it stands, and what it does to the plan is what was predicted: the error of the outputs falls.
func TestAdviceRunsAsItStands(t *testing.T) {
	for i, p := range advisetest.Patients {
		if i%4 != 0 && !longtest.Wanted(t) {
			continue
		}
		t.Run(p.Name, func(t *testing.T) {
			inFolder(t)
			for name, b := range p.Files(t) {
				require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
				write(t, name, b)
			}
			args := []string{"calibrate", "m.onnx", "--data", "m", "--border-cost", "0", "--platform", "onnxruntime", "--samples",
				fmt.Sprint(p.Only)}
			if p.Platform != "" {
				args = append(args, "--platform", p.Platform)
			}
			if p.PerTensor {
				args = append(args, "--per-tensor")
			}
			done(t, args...)
			if len(p.Set) > 0 {
				done(t, append([]string{"set"}, p.Set...)...)
			}
			analyze := []string{"analyze", "--layerwise", "--samples", "24", "--html", "r.html", "--json"}
			before := done(t, analyze...).object(t)
			page := string(read(t, "r.html"))
			text := done(t, "analyze", "--layerwise", "--samples", "24", "--html", "r.html").stdout
			plan, stats := read(t, "m.plan.json"), read(t, "m.stats")
			found := false
			for _, x := range parts(t, before, "advice[]") {
				commands, _ := x["others"].([]any)
				command := x["command"].(string)
				if x["cause"] == p.Name {
					found = true
					require.Contains(t, text, p.Name)
					require.Contains(t, text, "       "+command+"\n")
					require.True(t, strings.Contains(page, `"cause":"`+p.Name+`"`))
				}
				if command == "" {
					continue
				}
				for i, c := range append([]any{command}, commands...) {
					write(t, "m.plan.json", plan)
					write(t, "m.stats", stats)
					words := shellWords(t, c.(string))
					require.Equal(t, "qwb", words[0])
					done(t, words[1:]...)
					if predicted, ok := x["predicted"]; ok && i == 0 && x["cause"] == p.Name && p.Platform != "avx2.yaml" { // whose simulation is not ill
						require.Less(t, predicted, x["before"])
						after := done(t, analyze...).object(t)
						require.Less(t, outputError(t, after), outputError(t, before))
					}
				}
			}
			require.True(t, found)
		})
	}
}

func outputError(t *testing.T, report map[string]any) float64 {
	t.Helper()
	return parts(t, report, "outputs[]")[0]["nsr"].(float64)
}

// shellWords takes a command line apart as a shell does: blanks, and single quotes.
func shellWords(t *testing.T, line string) (words []string) {
	t.Helper()
	require.NotContains(t, line, `\'`)
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			words = append(words, part)
		} else {
			words = append(words, strings.Fields(part)...)
		}
	}
	return words
}
