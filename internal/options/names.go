package options

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"qwb"
	"qwb/analysis/task"
	"qwb/calib/tune"
	"qwb/export"
	"qwb/export/language/weights"
	"qwb/internal/file"
	"qwb/kernels/qmath"
	"qwb/observers"
	"qwb/quantizer/decision"
	"qwb/quantizer/dispatch"
	"qwb/quantizer/plan"
	"qwb/quantizer/program"
	"qwb/quantizer/target"
	"qwb/quantizer/tqc"
)

// names lists what each element of a list is called.
func names[T any, S ~string](list []T, name func(T) S) []string {
	out := make([]string, len(list))
	for i := range list {
		out[i] = string(name(list[i]))
	}
	return out
}

// words joins names for a sentence.
func words(list []string) string { return strings.Join(list, ", ") }

// fixed are choices that are always the same.
func fixed(list ...string) func() []string { return func() []string { return list } }

var floatBackends = []string{qwb.FloatCPU, qwb.FloatCUDA, qwb.FloatPTX}

// floatWords say what runs a language model, or a model that is calibrated.
const floatWords = "cpu, cuda (a GPU), or ptx (GPU kernels interpreted on the CPU: slow)"

// Platforms are the names of the targets that models can be quantized for.
func Platforms(c *qwb.Catalog) []string { return c.Targets().Names() }

// Observers are the names of the calibration methods, without auto and without those of other tools.
func Observers() []string { return methodNames(observers.All) }

// Peers are the ranges that other tools choose.
func Peers() []string { return methodNames(observers.Peers()) }

func methodNames(list []*observers.Method) []string {
	return names(list, func(m *observers.Method) tqc.Observer { return m.Name })
}

// Dispatchers are strategies that select operators to quantize, the usual one first.
func Dispatchers() []string {
	return names(dispatch.Strategies, func(s dispatch.Strategy) string { return s.Name })
}

// Profiles are the arithmetics of integers.
func Profiles() []string {
	return names(qmath.Profiles(), func(p qmath.Profile) string { return p.Name })
}

// Backends are what runs integers.
func Backends(c *qwb.Catalog) []string {
	return names(c.Backends, func(b program.Backend) string { return b.Name })
}

// UsualBackend is the one behind the reference; empty where there is none.
func UsualBackend(c *qwb.Catalog) string { return append(Backends(c), "", "")[min(1, len(c.Backends))] }

func sweepObservers() []string {
	return names(qwb.SweepObservers(), func(o tqc.Observer) tqc.Observer { return o })
}

func presets() []string {
	return names(decision.Presets, func(p decision.Preset) string { return p.Name })
}

// recipes are what --recipe takes beside files.
func recipes() []string {
	return append(names(decision.Presets, func(p decision.Preset) string { return "preset:" + p.Name }), "nncf:", "ort:", "trt:",
		"modelopt:", "quark:")
}

func EveryObserver() []string  { return slices.Concat([]string{"auto"}, Observers(), Peers()) }
func preprocessings() []string { return append([]string{"none"}, plan.Presets()...) }
func metrics() []string        { return task.Names() }
func scaleMethods() []string   { return weights.Methods }

func tuneMethods() []string {
	return append([]string{"auto"}, names(tune.Methods, func(m *tune.Method) string { return m.Name })...)
}

func formats(c *qwb.Catalog) []string {
	return names(c.Formats, func(f export.Format) string { return f.Name })
}

// mostTarget is how large a file may be that is looked at for a platform.
const mostTarget = 1 << 20

// PlatformsHere are the names of the platforms, and the files of this folder that are one.
func PlatformsHere(c *qwb.Catalog) []string {
	list := Platforms(c)
	entries, _ := os.ReadDir(".") // what cannot be read is not offered
	for _, e := range entries {
		if ext := strings.ToLower(filepath.Ext(e.Name())); ext != ".yaml" && ext != ".yml" {
			continue
		}
		if info, err := os.Stat(e.Name()); err != nil || info.Size() > mostTarget {
			continue
		}
		if b, err := file.ReadFile(e.Name()); err == nil {
			if _, err := target.Parse(b); err == nil {
				list = append(list, e.Name())
			}
		}
	}
	return list
}
