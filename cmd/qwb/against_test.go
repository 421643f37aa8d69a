package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"qwb"
	"qwb/graph/tensor"
	"qwb/quantizer/lower"
)

// dumpOf runs a plan's program and writes its integers as an engine would.
func dumpOf(t *testing.T, dir string) {
	t.Helper()
	project := (&env{stdout: &strings.Builder{}, stderr: &strings.Builder{}}).project("", "m.plan.json")
	p, _, err := project.OpenPlan()
	require.NoError(t, err)
	defer p.Close()
	profile, err := p.ProfileNamed("")
	require.NoError(t, err)
	x, err := p.Executor("reference", profile, 1, 1)
	require.NoError(t, err)
	set, _, err := project.OpenData(p.Graph, p.Data(qwb.DataOptions{}))
	require.NoError(t, err)
	s, err := set.Sample(0)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(dir, 0o755))
	names := []string{}
	_, err = x.Run(context.Background(), s.Feeds, func(s *lower.Step, _, out []*tensor.Tensor) ([]*tensor.Tensor, error) {
		for k, id := range s.Outputs {
			if v := x.Program().Tensors[id]; v.Quantized() {
				saveArray(t, filepath.Join(dir, fmt.Sprint(len(names), ".npy")), out[k])
				names = append(names, fmt.Sprintf("%q: %q", fmt.Sprint(len(names)), v.Name))
			}
		}
		return nil, nil
	})
	require.NoError(t, err)
	write(t, filepath.Join(dir, "names.json"), []byte("{"+strings.Join(names, ", ")+"}"))
}

func TestVerifyAgainstRecordedTensors(t *testing.T) {
	workplace(t)
	done(t, "calibrate", "m.onnx", "--data", "data", "--platform", "onnxruntime", "--observer", "percentile")
	dumpOf(t, "dump")
	before := read(t, "m.plan.json")
	o := done(t, "verify", "--against", "dump", "--json").object(t)
	require.Contains(t, []string{"equal", "ties"}, o["verdict"])
	require.Zero(t, o["fits"].([]any)[0].(map[string]any)["different"])
	require.Equal(t, before, read(t, "m.plan.json"), "what another engine computed is no verification of the plan")

	// Real arithmetic explains the integers, another profile does not: the engine is not that.
	r := invoke("verify", "--against", "dump", "--profile", "tflite2", "--json")
	require.Equal(t, exitCheck, r.code, r.stderr)
	o = r.object(t)
	require.Equal(t, "other-profile", o["verdict"])
	require.Zero(t, o["integers_different"])
	require.Regexp(t, `the engine is not profile tflite2: \d+ of \d+ integers are others.*explains all but 0`, r.lastLine())

	b := read(t, filepath.Join("dump", "2.npy"))
	b[len(b)-1] ^= 4
	write(t, filepath.Join("dump", "2.npy"), b)
	r = invoke("verify", "--against", "dump", "--json")
	require.Equal(t, exitCheck, r.code, r.stderr)
	first := r.object(t)["first"].(map[string]any)
	for _, key := range []string{"node", "tensor", "index", "expected", "got", "expected_by"} {
		require.Contains(t, first, key)
	}

	require.NoError(t, os.Mkdir("empty", 0o755))
	fails(t, exitFailed, "empty: no recorded tensors: neither names.json", "verify", "--against", "empty")
	write(t, filepath.Join("dump", "names.json"), []byte(`{"0": "x_QuantizeLinear", "77": "r1_QuantizeLinear"}`))
	fails(t, exitFailed, `77.npy is missing.*"r1_QuantizeLinear"`, "verify", "--against", "dump")
	write(t, filepath.Join("dump", "names.json"), []byte(`{"a": "x_QuantizeLinear"}`))
	fails(t, exitFailed, `"a" is not the number`, "verify", "--against", "dump")
	write(t, filepath.Join("dump", "names.json"), []byte(`[`))
	fails(t, exitFailed, "names.json", "verify", "--against", "dump")
}
