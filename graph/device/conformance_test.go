package device_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"qwb/graph"
	"qwb/graph/device"
	"qwb/graph/exec"
	"qwb/graph/onnx"
	"qwb/graph/tensor"
	"qwb/internal/graphtest"
	"qwb/internal/longtest"
	"qwb/kernels/cuda"
)

// vectors is a case of the ONNX backend tests: a model and the inputs of its first data set.
type vectors struct {
	name   string
	model  []byte
	inputs map[int][]byte
}

// readVectors returns the cases of single operators.
func readVectors(t *testing.T) []*vectors {
	t.Helper()
	byName := map[string]*vectors{}
	graphtest.EachVectorFile(t, func(file string, b []byte) {
		parts := strings.Split(file, "/")
		if len(parts) < 3 {
			return
		}
		name := parts[0] + "/" + parts[1]
		if byName[name] == nil {
			byName[name] = &vectors{name: name, inputs: map[int][]byte{}}
		}
		var i int
		if parts[2] == "model.onnx" {
			byName[name].model = b
		} else if _, err := fmt.Sscanf(strings.Join(parts[2:], "/"), "test_data_set_0/input_%d.pb", &i); err == nil {
			byName[name].inputs[i] = b
		}
	})
	var list []*vectors
	for _, c := range byName {
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b *vectors) int { return strings.Compare(a.name, b.name) })
	return list
}

// open returns the graph and its inputs. Integers that come after the first input are made constants: on the device shapes have to be
// known.
func (c *vectors) open() (*graph.Graph, map[string]*tensor.Tensor, error) {
	m, _, err := onnx.Read(bytes.NewReader(c.model), int64(len(c.model)), nil)
	if err != nil {
		return nil, nil, err
	}
	g, feeds := m.Graph, map[string]*tensor.Tensor{}
	inputs := slices.Clone(g.Inputs)
	for i, v := range inputs {
		if c.inputs[i] == nil {
			continue
		}
		_, t, err := onnx.ReadTensor(c.inputs[i])
		if err != nil {
			return nil, nil, err
		}
		if i > 0 && t.DType.IsInteger() {
			g.Inputs = slices.DeleteFunc(g.Inputs, func(w graph.ValueID) bool { return w == v })
			g.SetConst(v, t)
			continue
		}
		feeds[g.Value(v).Name] = t
	}
	return g, feeds, nil
}

// judge compares a case on the device with the CPU's executor: whole, unfused, and every value that a tap sees. It returns the operators
// that ran on the host; skipped says that the CPU refuses the case, or that the device does with a shape that depends on data.
func (c *vectors) judge(t *testing.T, d *cuda.Device) (p []device.HostOp, skipped bool, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	g, feeds, err := c.open()
	if err != nil {
		return nil, true, nil
	}
	s, err := exec.New(g, exec.Options{})
	if err != nil {
		return nil, true, nil
	}
	want, err := s.NewRunner().Run(context.Background(), feeds, nil)
	if err != nil {
		return nil, true, nil
	}
	for _, unfused := range []bool{false, true} {
		on, err := device.New(g, d, device.Options{Unfused: unfused})
		if err != nil {
			return nil, false, err
		}
		defer on.Close()
		got, err := on.Run(context.Background(), feeds, nil)
		if err != nil {
			if errors.Is(err, device.ErrShape) || strings.Contains(err.Error(), "roi values") {
				return nil, true, nil
			}
			return nil, false, err
		}
		for i := range want {
			if why := different(want[i], got[i]); why != "" {
				return nil, false, fmt.Errorf("output %d: %s", i, why)
			}
		}
		types := map[string]device.Type{}
		for name, f := range feeds {
			types[name] = device.Type{DType: f.DType, Shape: f.Shape}
		}
		plan, err := on.Prepare(context.Background(), types, nil)
		if err != nil {
			return nil, false, err
		}
		p = plan.OnHost()
	}
	return p, false, nil
}

// TestConformance runs the ONNX backend tests of single operators on the device and on the CPU. With -v it lists what runs on the host.
func TestConformance(t *testing.T) {
	longtest.Need(t, "takes a minute")
	needFMA(t)
	cases := readVectors(t)
	d := oneDevice(t)
	done, wholly, skipped := 0, 0, 0
	hosts := map[string]int{}
	for _, c := range cases {
		hostOps, skip, err := c.judge(t, d)
		switch {
		case skip:
			skipped++
			continue
		case err != nil && !strings.Contains(c.name, "bernoulli") && !strings.Contains(c.name, "random"):
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		done++
		if len(hostOps) == 0 {
			wholly++
		}
		for _, h := range hostOps {
			hosts[h.Op+": "+h.Why]++
		}
	}
	var names []string
	for name := range hosts {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		t.Logf("%4d on the host: %s", hosts[name], name)
	}
	t.Logf("%d cases, %d of them wholly on the device, %d skipped", done, wholly, skipped)
	assert.Greater(t, wholly, 300)
}
